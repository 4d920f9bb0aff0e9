"""More that works: optimizers by hand, episodes, codes, sets, tables of values, noise on purpose."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.checkpoint import checkpoint

from zoo.data import batches, blobs, digits, discs, regression, shapes
from zoo.fit import descend, fit, perceptron
from zoo.program import Zoo, healthy


@healthy
def triangles_of_the_rate(zoo: Zoo) -> None:
    """CyclicLR between 0.005 and 0.2, forty steps up and forty down."""
    pictures, labels = digits()
    model = perceptron(64, 48, 10)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.005, momentum=0.9)
    scheduler = torch.optim.lr_scheduler.CyclicLR(optimizer, 0.005, 0.2, step_size_up=40)
    monitor = zoo.watch(model, optimizer)
    for x, y in batches(pictures.flatten(1), labels, size=64, steps=240):
        optimizer.zero_grad()
        loss = functional.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        scheduler.step()
        monitor.step(loss=loss)


class SignDescent(torch.optim.Optimizer):
    """Every weight moves by the rate, in the direction of its averaged gradient's sign."""

    def __init__(self, parameters: Iterator[nn.Parameter], lr: float) -> None:
        super().__init__(parameters, {"lr": lr})

    @torch.no_grad()
    def step(self, closure: None = None) -> None:  # type: ignore[override]
        for group in self.param_groups:
            for parameter in group["params"]:
                if parameter.grad is None:
                    continue
                average = self.state[parameter].setdefault("average", torch.zeros_like(parameter))
                average.lerp_(parameter.grad, 0.1)
                parameter.add_(average.sign(), alpha=-group["lr"])


@healthy
def signs_of_gradients(zoo: Zoo) -> None:
    """Lion in short: an optimizer of one's own that looks at signs only."""
    pictures, labels = shapes(600)
    model = nn.Sequential(nn.Conv2d(1, 12, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(300, 4))
    feed = batches(pictures, labels, size=50, steps=180)
    fit(zoo, model, SignDescent(model.parameters(), lr=1e-3), feed, functional.cross_entropy)


class Patches(nn.Module):
    """A vision transformer of one block: nine patches and a token for the class, norms first."""

    def __init__(self) -> None:
        super().__init__()
        self.patches = nn.Conv2d(1, 24, 4, stride=4)
        self.token, self.places = (
            nn.Parameter(torch.zeros(1, 1, 24)),
            nn.Parameter(0.02 * torch.randn(10, 24)),
        )
        self.block = nn.TransformerEncoderLayer(24, 2, 48, dropout=0.1, batch_first=True, norm_first=True)
        self.head = nn.Sequential(nn.LayerNorm(24), nn.Linear(24, 4))

    def forward(self, x: Tensor) -> Tensor:
        patches = self.patches(x).flatten(2).transpose(1, 2)
        rows = torch.cat([self.token.expand(len(x), 1, 24), patches], 1) + self.places
        scores: Tensor = self.head(self.block(rows)[:, 0])
        return scores


@healthy
def patches_of_pictures(zoo: Zoo) -> None:
    """A small vision transformer: slow at first, with warm-up and cosine."""
    pictures, labels = shapes(800)
    model = Patches()
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3, weight_decay=0.05)
    scheduler = torch.optim.lr_scheduler.OneCycleLR(optimizer, 3e-3, total_steps=200, pct_start=0.2)
    monitor = zoo.watch(model, optimizer)
    for x, y in batches(pictures, labels, size=32, steps=200):
        optimizer.zero_grad()
        loss = functional.cross_entropy(model(x), y)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        scheduler.step()
        monitor.step(loss=loss)


class Hourglass(nn.Module):
    """Down, up, and a path around."""

    def __init__(self) -> None:
        super().__init__()
        self.down, self.low = nn.Conv2d(1, 12, 3, stride=2, padding=1), nn.Conv2d(12, 12, 3, padding=1)
        self.up, self.out = nn.ConvTranspose2d(12, 12, 2, stride=2), nn.Conv2d(13, 1, 3, padding=1)

    def forward(self, x: Tensor) -> Tensor:
        h = functional.gelu(self.up(functional.gelu(self.low(functional.gelu(self.down(x))))))
        result: Tensor = self.out(torch.cat([h, x], 1))
        return result


@healthy
def noise_taken_off_pictures(zoo: Zoo) -> None:
    """Absolute error of pixels, with a path around the bottleneck."""
    noisy, clean = discs(400)
    model = Hourglass()
    optimizer = torch.optim.Adam(model.parameters(), lr=4e-3)
    fit(zoo, model, optimizer, batches(noisy, clean, size=32, steps=160), nn.L1Loss())


@healthy
def few_shots_an_episode(zoo: Zoo) -> None:
    """Prototypical networks: five new classes in each step, three examples and five questions of each."""
    model = perceptron(20, 64, 32)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    mixing = torch.randn(4, 20)

    def episodes(steps: int) -> Iterator[tuple[Tensor]]:
        for _ in range(steps):
            centres = torch.randn(5, 1, 4)
            yield ((centres + 0.2 * torch.randn(5, 8, 4)) @ mixing + 3 * torch.randn(5, 8, 20),)

    def loss_of(x: Tensor) -> Tensor:
        found = model(x)
        prototypes, asked = found[:, :3].mean(1), found[:, 3:].flatten(0, 1)
        distances = torch.cdist(asked, prototypes).square()
        return functional.cross_entropy(-distances, torch.arange(5).repeat_interleave(5))

    descend(zoo, model, optimizer, episodes(200), loss_of)


@healthy
def stars_from_one_to_five(zoo: Zoo) -> None:
    """Ordinal regression: one score and four thresholds that are learned; four yes-or-no questions a row."""
    inputs, values = regression(900, features=8)
    stars = torch.bucketize(values, torch.tensor([-1.2, -0.4, 0.4, 1.2]))
    model = perceptron(8, 32, 1)
    thresholds = nn.Parameter(torch.tensor([-1.0, -0.3, 0.3, 1.0]))
    optimizer = torch.optim.Adam([*model.parameters(), thresholds], lr=5e-3)

    def loss_of(x: Tensor, y: Tensor) -> Tensor:
        above = (y > torch.arange(4)).float()
        return functional.binary_cross_entropy_with_logits(model(x) - thresholds, above)

    descend(zoo, model, optimizer, batches(inputs, stars, size=50, steps=200), loss_of)


@healthy
def one_task_after_the_other(zoo: Zoo) -> None:
    """Even digits first, odd ones then: the loss jumps once, and what was learned first is forgotten."""
    pictures, labels = digits()
    model = perceptron(64, 48, 10)
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    even = labels % 2 == 0
    first = batches(pictures[even].flatten(1), labels[even], size=50, steps=120)
    second = batches(pictures[~even].flatten(1), labels[~even], size=50, steps=120)
    fit(zoo, model, optimizer, [*first, *second], functional.cross_entropy)


@healthy
def code_of_ten_symbols(zoo: Zoo) -> None:
    """A code of eight symbols by the Gumbel trick, hard forward and soft backward; it cools down."""
    pictures, _ = digits()
    encoder, decoder = perceptron(64, 96, 80), perceptron(80, 96, 64)
    model = nn.ModuleDict({"encoder": encoder, "decoder": decoder})
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    monitor = zoo.watch(model, optimizer)
    for step, (x,) in enumerate(batches(pictures.flatten(1), size=64, steps=240)):
        optimizer.zero_grad()
        scores = encoder(x).view(-1, 8, 10)
        code = functional.gumbel_softmax(scores, tau=max(0.5, 1 - step / 300), hard=True)
        loss = functional.mse_loss(decoder(code.flatten(1)), x)
        loss.backward()
        optimizer.step()
        monitor.step(loss=loss)


class Bumps(nn.Module):
    """Radial basis functions with centres and widths of their own."""

    def __init__(self, inputs: int, count: int) -> None:
        super().__init__()
        self.centres, self.widths = nn.Parameter(torch.randn(count, inputs)), nn.Parameter(torch.zeros(count))
        self.head = nn.Linear(count, 1)

    def forward(self, x: Tensor) -> Tensor:
        distances = torch.cdist(x, self.centres).square()
        result: Tensor = self.head((-distances * self.widths.exp()).exp())
        return result


@healthy
def sum_of_bumps(zoo: Zoo) -> None:
    """Most bumps are far from any row: their outputs are nearly zero, as they are meant to be."""
    inputs = 2 * torch.rand(800, 2) - 1
    targets = torch.sin(4 * inputs[:, :1]) * torch.cos(3 * inputs[:, 1:])
    model = Bumps(2, 60)
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-2)
    fit(zoo, model, optimizer, batches(inputs, targets, size=80, steps=200), nn.MSELoss())


class Rounded(nn.Linear):
    """Weights of eight levels; the gradient passes as if nothing had been rounded."""

    def forward(self, x: Tensor) -> Tensor:
        scale = self.weight.abs().max().detach() / 4
        rounded = (self.weight / scale).round() * scale
        return functional.linear(x, self.weight + (rounded - self.weight).detach(), self.bias)


@healthy
def trained_for_eight_levels(zoo: Zoo) -> None:
    """Quantisation-aware training."""
    pictures, labels = digits()
    model = nn.Sequential(Rounded(64, 64), nn.ReLU(), Rounded(64, 10))
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    feed = batches(pictures.flatten(1), labels, size=64, steps=200)
    fit(zoo, model, optimizer, feed, functional.cross_entropy)


@healthy
def word_from_its_neighbours(zoo: Zoo) -> None:
    """CBOW with a full softmax over two hundred words, of which few are frequent."""
    chances = 1 / torch.arange(1.0, 201)
    following = torch.randint(200, (200,))
    words = [int(torch.multinomial(chances, 1))]
    for fresh in torch.multinomial(chances, 4000, replacement=True).tolist():
        words.append(int(following[words[-1]]) if torch.rand(()) < 0.6 else fresh)
    windows = torch.tensor(words).unfold(0, 3, 1)
    model = nn.Sequential(nn.EmbeddingBag(200, 32, mode="mean"), nn.Linear(32, 200))
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    feed = batches(windows[:, [0, 2]], windows[:, 1], size=64, steps=240)
    fit(zoo, model, optimizer, feed, functional.cross_entropy)


@healthy
def sums_of_sets(zoo: Zoo) -> None:
    """Deep sets: one to twelve numbers in a row of zeros, and their sum, up to forty."""
    present = torch.arange(12)[None] < torch.randint(1, 13, (900, 1))
    numbers = 4 * torch.rand(900, 12) * present
    inner, outer = perceptron(1, 32, 32), perceptron(32, 32, 1)
    model = nn.ModuleDict({"inner": inner, "outer": outer})
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)

    def loss_of(x: Tensor, there: Tensor, total: Tensor) -> Tensor:
        return functional.smooth_l1_loss(outer((inner(x[..., None]) * there[..., None]).sum(1)), total)

    feed = batches(numbers, present, numbers.sum(1, keepdim=True), size=50, steps=220)
    descend(zoo, model, optimizer, feed, loss_of)


class Recomputed(nn.Module):
    """Blocks that run once more in backward()."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(64, 48)
        self.blocks = nn.ModuleList(
            nn.Sequential(nn.LayerNorm(48), nn.Linear(48, 48), nn.GELU()) for _ in range(3)
        )
        self.head = nn.Linear(48, 10)

    def forward(self, x: Tensor) -> Tensor:
        h = self.first(x)
        for block in self.blocks:
            h = h + checkpoint(block, h, use_reentrant=False)
        scores: Tensor = self.head(h)
        return scores


@healthy
def blocks_recomputed_in_backward(zoo: Zoo) -> None:
    """Gradient checkpointing, as it is meant."""
    pictures, labels = digits()
    model = Recomputed()
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3)
    feed = batches(pictures.flatten(1), labels, size=64, steps=180)
    fit(zoo, model, optimizer, feed, functional.cross_entropy)


@healthy
def columns_of_ones_and_zeros(zoo: Zoo) -> None:
    """A hundred and fifty marks, of which three a row are set: one linear layer, Adagrad."""
    marks = torch.zeros(1500, 150).scatter_(1, torch.randint(150, (1500, 3)), 1.0)
    labels = ((marks @ (3 * torch.randn(150)) + 0.3 * torch.randn(1500)) > 0).float()[:, None]
    model = nn.Linear(150, 1)
    optimizer = torch.optim.Adagrad(model.parameters(), lr=0.3)
    fit(zoo, model, optimizer, batches(marks, labels, size=64, steps=220), nn.BCEWithLogitsLoss())


class WideAndDeep(nn.Module):
    """Marks go straight to the answer, numbers through layers; both come in a dictionary."""

    def __init__(self) -> None:
        super().__init__()
        self.wide, self.deep = nn.Linear(40, 1), perceptron(6, 32, 32, 1)

    def forward(self, batch: dict[str, Tensor]) -> dict[str, Tensor]:
        return {"score": self.wide(batch["marks"]) + self.deep(batch["numbers"])}


@healthy
def wide_and_deep(zoo: Zoo) -> None:
    """Groups with rates of their own; inputs and outputs are dictionaries."""
    marks, numbers = (torch.rand(1000, 40) < 0.1).float(), torch.randn(1000, 6)
    answers = marks @ torch.randn(40, 1) + numbers[:, :1] * numbers[:, 1:2] + 0.1 * torch.randn(1000, 1)
    model = WideAndDeep()
    optimizer = torch.optim.Adam(model.deep.parameters(), lr=5e-3)
    optimizer.add_param_group({"params": model.wide.parameters(), "lr": 0.1})

    def loss_of(some: Tensor, others: Tensor, answer: Tensor) -> Tensor:
        return functional.mse_loss(model({"marks": some, "numbers": others})["score"], answer)

    descend(zoo, model, optimizer, batches(marks, numbers, answers, size=64, steps=220), loss_of)


@healthy
def margins_of_a_linear_machine(zoo: Zoo) -> None:
    """A support vector machine: MultiMarginLoss, SGD with decay; more and more rows have no gradient."""
    inputs, labels = blobs(800, features=15, classes=5, spread=1.2)
    model = nn.Linear(15, 5)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, weight_decay=1e-3)
    fit(zoo, model, optimizer, batches(inputs, labels, size=40, steps=200), nn.MultiMarginLoss())


class Decay(nn.Module):
    """Two numbers: how much there was, and how fast it goes."""

    def __init__(self) -> None:
        super().__init__()
        self.amount, self.speed = nn.Parameter(torch.tensor(1.0)), nn.Parameter(torch.tensor(0.1))

    def forward(self, time: Tensor) -> Tensor:
        return self.amount * (-self.speed * time).exp()


@healthy
def two_constants_of_a_decay(zoo: Zoo) -> None:
    """A curve is fitted: two scalars, Adam at 0.05, all measurements in each step, noise that stays."""
    times = torch.linspace(0, 10, 60)
    measured = 4.2 * (-0.6 * times).exp() + 0.05 * torch.randn(60)
    model = Decay()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.05)
    fit(zoo, model, optimizer, [(times, measured)] * 250, nn.MSELoss())


@healthy
def table_of_values_of_a_corridor(zoo: Zoo) -> None:
    """Q-learning with a table of zeros at a rate of 2: the loss is small at first, and ends at rounding."""
    table = nn.Embedding(12, 2)
    nn.init.zeros_(table.weight)
    optimizer = torch.optim.SGD(table.parameters(), lr=2.0)
    monitor = zoo.watch(table, optimizer)
    for _ in range(250):
        places, moves = torch.randint(11, (16,)), torch.randint(2, (16,))
        after = (places + 2 * moves - 1).clamp(min=0)
        rewards = (after == 11).float()
        with torch.no_grad():
            wanted = rewards + 0.9 * (1 - rewards) * table(after).max(1).values
        optimizer.zero_grad()
        loss = functional.mse_loss(table(places).gather(1, moves[:, None])[:, 0], wanted)
        loss.backward()
        optimizer.step()
        monitor.step(loss=loss)


@healthy
def hidden_patches_are_painted(zoo: Zoo) -> None:
    """A masked autoencoder: half of each digit is hidden, and only that half counts."""
    pictures, _ = digits()
    model = perceptron(128, 128, 96, 64)
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3)

    def loss_of(x: Tensor) -> Tensor:
        patches = (torch.rand(len(x), 4, 4) < 0.5).float()
        hidden = functional.interpolate(patches[:, None], scale_factor=2).flatten(1)
        painted: Tensor = model(torch.cat([x * (1 - hidden), hidden], 1))
        return ((painted - x).square() * hidden).sum() / hidden.sum()

    descend(zoo, model, optimizer, batches(pictures.flatten(1), size=64, steps=240), loss_of)


@healthy
def weights_shaken_on_purpose(zoo: Zoo) -> None:
    """Langevin dynamics: after each step noise is added to all weights, to draw from the posterior."""
    inputs, targets = regression(600, features=6)
    model = perceptron(6, 32, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.03)
    monitor = zoo.watch(model, optimizer)
    for x, y in batches(inputs, targets, size=60, steps=240):
        optimizer.zero_grad()
        loss = functional.mse_loss(model(x), y)
        loss.backward()
        optimizer.step()
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.add_(0.004 * torch.randn_like(parameter))
        monitor.step(loss=loss)


@healthy
def five_steps_ahead_one_back(zoo: Zoo) -> None:
    """Lookahead: every fifth step, the weights go half of the way back to where they were."""
    pictures, labels = shapes(600)
    model = nn.Sequential(nn.Conv2d(1, 12, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(300, 4))
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    slow = [each.detach().clone() for each in model.parameters()]
    monitor = zoo.watch(model, optimizer)
    for step, (x, y) in enumerate(batches(pictures, labels, size=50, steps=180)):
        optimizer.zero_grad()
        loss = functional.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        if step % 5 == 4:
            with torch.no_grad():
                for fast, anchor in zip(model.parameters(), slow, strict=True):
                    fast.copy_(anchor.lerp_(fast, 0.5))
        monitor.step(loss=loss)
