"""Loops and layers out of the ordinary: accumulation, mixed precision, several optimizers, experts."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.data import DataLoader, TensorDataset

from zoo.data import batches, blobs, digits, regression, shapes
from zoo.program import Zoo, healthy


def perceptron(inputs: int, outputs: int, hidden: int = 48) -> nn.Sequential:
    return nn.Sequential(
        nn.Linear(inputs, hidden), nn.ReLU(), nn.Linear(hidden, hidden), nn.ReLU(), nn.Linear(hidden, outputs)
    )


@healthy
def gradients_accumulated_over_four(zoo: Zoo) -> None:
    """The optimizer steps on every fourth batch; the monitor's step is a batch."""
    inputs, labels = digits()
    model = perceptron(64, 10)
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    monitor = zoo.watch(model, optimizer)
    optimizer.zero_grad()
    for step, (x, y) in enumerate(batches(inputs.flatten(1), labels, size=16, steps=320)):
        loss = functional.cross_entropy(model(x), y)
        (loss / 4).backward()
        if step % 4 == 3:
            optimizer.step()
            optimizer.zero_grad()
        monitor.step(loss=loss)


@healthy
def accumulated_within_a_step(zoo: Zoo) -> None:
    """Four backward passes, one optimizer step, one monitor step."""
    inputs, targets = regression(800, features=8)
    model = perceptron(8, 1)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    monitor = zoo.watch(model, optimizer)
    feed = batches(inputs, targets, size=16, steps=480)
    for _ in range(120):
        total = 0.0
        for _ in range(4):
            x, y = next(feed)
            loss = functional.mse_loss(model(x), y) / 4
            loss.backward()
            total += loss.item()
        optimizer.step()
        optimizer.zero_grad()
        monitor.step(loss=total)


@healthy
def weights_in_bfloat16(zoo: Zoo) -> None:
    """All parameters in bfloat16: an update below 1/256 of a weight is lost in rounding."""
    inputs, labels = blobs(800, features=16, classes=5)
    model = perceptron(16, 5).to(torch.bfloat16)
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    monitor = zoo.watch(model, optimizer)
    for x, y in batches(inputs.to(torch.bfloat16), labels, size=64, steps=150):
        loss = functional.cross_entropy(model(x).float(), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        monitor.step(loss=loss)


@healthy
def autocast_to_bfloat16(zoo: Zoo) -> None:
    """Weights in float32, activations in bfloat16."""
    pictures, labels = shapes(600)
    model = nn.Sequential(
        nn.Conv2d(1, 16, 3, 2, padding=1), nn.ReLU(), nn.Conv2d(16, 16, 3, 2, padding=1), nn.ReLU(),
        nn.Flatten(), nn.Linear(144, 4),
    )  # fmt: skip
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    monitor = zoo.watch(model, optimizer)
    for x, y in batches(pictures, labels, size=32, steps=120):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            loss = functional.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        monitor.step(loss=loss)


@healthy
def scaled_loss_in_mixed_precision(zoo: Zoo) -> None:
    """float16 with a GradScaler: the first scales are too large, and their steps are skipped, as designed."""
    inputs, labels = digits()
    model = perceptron(64, 10)
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**20)
    monitor = zoo.watch(model, optimizer)
    for x, y in batches(inputs.flatten(1), labels, size=64, steps=150):
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.float16):
            loss = functional.cross_entropy(model(x), y)
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()
        monitor.step(loss=loss)


@healthy
def gradients_clipped_hard(zoo: Zoo) -> None:
    """Long tails in the targets, and every gradient is clipped to a norm of 0.1."""
    inputs, targets = regression(800, features=8)
    targets = targets + 5 * (torch.rand(800, 1) < 0.02)
    model = perceptron(8, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.3)
    monitor = zoo.watch(model, optimizer)
    for x, y in batches(inputs, targets, size=32, steps=200):
        loss = functional.mse_loss(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 0.1)
        optimizer.step()
        monitor.step(loss=loss)


class TwoTasks(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Linear(64, 64), nn.ReLU())
        self.digit, self.ink = nn.Linear(64, 10), nn.Linear(64, 1)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        hidden = self.body(x)
        return self.digit(hidden), self.ink(hidden)


@healthy
def two_tasks_at_once(zoo: Zoo) -> None:
    """Which digit, and how much ink: two losses of different sizes in one sum."""
    pictures, labels = digits()
    inputs = pictures.flatten(1)
    ink = inputs.sum(1, keepdim=True)
    ink = (ink - ink.mean()) / ink.std()
    model = TwoTasks()
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    monitor = zoo.watch(model, optimizer)
    for x, y, amount in batches(inputs, labels, ink, size=64, steps=180):
        digit, guess = model(x)
        digit_loss = functional.cross_entropy(digit, y)
        ink_loss = functional.mse_loss(guess, amount)
        loss = digit_loss + 0.3 * ink_loss
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        monitor.step(loss=loss, digit_loss=digit_loss, ink_loss=ink_loss)


@healthy
def tasks_in_turn(zoo: Zoo) -> None:
    """Each batch trains one of two heads: the other gets no gradient in that step."""
    pictures, labels = digits()
    inputs = pictures.flatten(1)
    model = TwoTasks()
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    monitor = zoo.watch(model, optimizer)
    for step, (x, y) in enumerate(batches(inputs, labels, size=64, steps=200)):
        digit, guess = model(x)
        if step % 2:
            loss = functional.mse_loss(guess, x.mean(1, keepdim=True))
        else:
            loss = functional.cross_entropy(digit, y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        monitor.step(loss=loss)


@healthy
def two_optimizers_for_one_model(zoo: Zoo) -> None:
    """Adagrad for the embedding, Adam for the rest."""
    embedding = nn.Embedding(200, 16)
    body = nn.Sequential(nn.Flatten(), nn.Linear(48, 32), nn.ReLU(), nn.Linear(32, 1))
    model = nn.Sequential(embedding, body)
    slow = torch.optim.Adagrad(embedding.parameters(), lr=0.1)
    fast = torch.optim.Adam(body.parameters(), lr=5e-3)
    values = torch.randn(200)
    monitor = zoo.watch(model, [slow, fast])
    for _ in range(200):
        tokens = torch.randint(200, (64, 3))
        loss = functional.mse_loss(model(tokens)[:, 0], values[tokens].sum(1))
        slow.zero_grad()
        fast.zero_grad()
        loss.backward()
        slow.step()
        fast.step()
        monitor.step(loss=loss)


class Experts(nn.Module):
    """The best of six experts for each row; some get few rows or none in a batch."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.gate = nn.Linear(width, 6)
        self.experts = nn.ModuleList(
            nn.Sequential(nn.Linear(width, 32), nn.ReLU(), nn.Linear(32, width)) for _ in range(6)
        )

    def forward(self, x: Tensor) -> Tensor:
        chances = self.gate(x).softmax(1)
        weight, choice = chances.max(1)
        output = torch.zeros_like(x)
        for number, expert in enumerate(self.experts):
            rows = (choice == number).nonzero()[:, 0]
            if len(rows):
                output[rows] = weight[rows, None] * expert(x[rows])
        return x + output


@healthy
def mixture_of_experts(zoo: Zoo) -> None:
    """Experts that no row was sent to get no gradient in that step."""
    inputs, labels = blobs(900, features=16, classes=12, spread=1.0)
    model = nn.Sequential(Experts(16), nn.LayerNorm(16), nn.Linear(16, 12))
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    monitor = zoo.watch(model, optimizer)
    for x, y in batches(inputs, labels, size=32, steps=180):
        loss = functional.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        monitor.step(loss=loss)


class Skipping(nn.Module):
    """Stochastic depth: each block is left out in a third of all steps."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Linear(64, 32)
        self.blocks = nn.ModuleList(
            nn.Sequential(nn.LayerNorm(32), nn.Linear(32, 32), nn.ReLU()) for _ in range(8)
        )
        self.head = nn.Linear(32, 10)

    def forward(self, x: Tensor) -> Tensor:
        x = self.stem(x)
        for block in self.blocks:
            if not self.training or torch.rand(()) > 0.33:
                x = x + block(x)
        result: Tensor = self.head(x)
        return result


@healthy
def stochastic_depth(zoo: Zoo) -> None:
    """Blocks that were left out have no gradient."""
    pictures, labels = digits()
    model = Skipping()
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    monitor = zoo.watch(model, optimizer)
    for x, y in batches(pictures.flatten(1), labels, size=64, steps=150):
        loss = functional.cross_entropy(model(x), y)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        monitor.step(loss=loss)


@healthy
def spectral_and_weight_norm(zoo: Zoo) -> None:
    """Parametrised weights: the tensors trained are not the ones that are used."""
    inputs, targets = regression(600, features=8)
    model = nn.Sequential(
        nn.utils.parametrizations.spectral_norm(nn.Linear(8, 48)), nn.ReLU(),
        nn.utils.parametrizations.weight_norm(nn.Linear(48, 48)), nn.ReLU(), nn.Linear(48, 1),
    )  # fmt: skip
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    monitor = zoo.watch(model, optimizer)
    for x, y in batches(inputs, targets, size=50, steps=180):
        loss = functional.mse_loss(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        monitor.step(loss=loss)


@healthy
def validated_every_few_steps(zoo: Zoo) -> None:
    """Trained past its best, but validation stays level: dropout and decay hold it."""
    inputs, labels = blobs(700, features=20, classes=4, spread=0.6)
    model = nn.Sequential(nn.Linear(20, 32), nn.ReLU(), nn.Dropout(0.3), nn.Linear(32, 4))
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3, weight_decay=0.05)
    loader = DataLoader(TensorDataset(inputs[:500], labels[:500]), batch_size=50, shuffle=True)
    monitor = zoo.watch(model, optimizer)
    for step in range(200):
        if step % 10 == 0:
            model.eval()
            with torch.no_grad():
                monitor.log(val_loss=functional.cross_entropy(model(inputs[500:]), labels[500:]))
            model.train()
            source = iter(loader)
        x, y = next(source)
        loss = functional.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        monitor.step(loss=loss)


@healthy
def focal_loss_on_rare_points(zoo: Zoo) -> None:
    """Three of a hundred pixels are marked: focal loss by hand, a bias that starts at the prior."""
    pictures = 0.3 * torch.randn(300, 1, 12, 12)
    masks = (torch.rand(300, 1, 12, 12) < 0.03).float()
    pictures = pictures + 1.5 * functional.max_pool2d(masks, 3, stride=1, padding=1)
    last = nn.Conv2d(12, 1, 3, padding=1)
    nn.init.constant_(last.get_parameter("bias"), -3.5)
    model = nn.Sequential(nn.Conv2d(1, 12, 5, padding=2), nn.ReLU(), last)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    monitor = zoo.watch(model, optimizer)
    for x, y in batches(pictures, masks, size=20, steps=150):
        logits = model(x)
        raw = functional.binary_cross_entropy_with_logits(logits, y, reduction="none")
        certainty = torch.exp(-raw)
        loss = ((1 - certainty) ** 2 * raw).sum() / y.sum()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        monitor.step(loss=loss)


@healthy
def evaluated_before_training(zoo: Zoo) -> None:
    """A sanity check of the validation first, then epochs with both loops, as frameworks do."""
    pictures, labels = digits()
    inputs = pictures.flatten(1)
    model = nn.Sequential(
        nn.Linear(64, 48), nn.BatchNorm1d(48), nn.ReLU(), nn.Dropout(0.1), nn.Linear(48, 10)
    )
    optimizer = torch.optim.NAdam(model.parameters(), lr=2e-3)
    monitor = zoo.watch(model, optimizer)

    @torch.no_grad()
    def evaluate() -> float:
        model.eval()
        rows = [
            functional.cross_entropy(model(inputs[i : i + 100]), labels[i : i + 100]) for i in (1500, 1600)
        ]
        model.train()
        return float(torch.stack(rows).mean())

    monitor.log(valid_loss=evaluate())
    for _ in range(4):
        for x, y in batches(inputs[:1500], labels[:1500], size=32, steps=46):
            loss = functional.cross_entropy(model(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            monitor.step(loss=loss)
        monitor.log(valid_loss=evaluate())
