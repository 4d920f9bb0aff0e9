"""What people ask about on forums: graphs that end early, scales, decay, data in the wrong order."""

from __future__ import annotations

from collections import deque

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from zoo.data import batches, blobs, digits, discs, regression, sequences, shapes
from zoo.fit import BLOWS_UP, NOT_FINITE, STANDS_STILL, UNTRAINED, descend, fit, perceptron
from zoo.program import Zoo, sick


@sick("no-gradient", also=UNTRAINED)
def words_chosen_by_argmax(zoo: Zoo) -> None:
    """The first network says which word it saw, by argmax, and the second one classifies words."""
    inputs, labels = blobs(800, features=10, classes=4)
    first, second = perceptron(10, 32, 16), nn.Sequential(nn.Embedding(16, 24), nn.ReLU(), nn.Linear(24, 4))
    parameters = [*first.parameters(), *second.parameters()]

    def loss_of(x: Tensor, y: Tensor) -> Tensor:
        return functional.cross_entropy(second(first(x).argmax(1)), y)

    optimizer = torch.optim.Adam(parameters, lr=5e-3)
    descend(
        zoo, nn.ModuleList([first, second]), optimizer, batches(inputs, labels, size=50, steps=150), loss_of
    )


class Spectral(nn.Module):
    """Filters, and then numpy's Fourier transform of what they give."""

    def __init__(self) -> None:
        super().__init__()
        self.filters = nn.Conv1d(1, 8, 5, padding=2)
        self.head = perceptron(8 * 17, 32, 3)

    def forward(self, x: Tensor) -> Tensor:
        h = torch.relu(self.filters(x.transpose(1, 2)))
        strengths = np.abs(np.fft.rfft(h.detach().numpy(), axis=2)).astype("float32")
        scores: Tensor = self.head(torch.from_numpy(strengths).flatten(1) / 5)
        return scores


@sick("no-gradient", also=UNTRAINED)
def transformed_in_numpy(zoo: Zoo) -> None:
    """forward() calls numpy, which has no gradient: .detach() made the error go away."""
    rows = torch.randn(600, 1) * torch.sin(torch.arange(32.0))[None] + 0.2 * torch.randn(600, 32)
    labels = (rows.abs().mean(1) * 3).long().clamp(max=2)
    model = Spectral()
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    feed = batches(rows[:, :, None], labels, size=40, steps=120)
    fit(zoo, model, optimizer, feed, functional.cross_entropy)


class Transfer(nn.Module):
    """A body that was once used as it was, and a head."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Conv2d(1, 8, 3), nn.ReLU(), nn.Conv2d(8, 8, 3), nn.ReLU(), nn.Flatten())
        self.head = nn.Linear(128, 10)

    def forward(self, x: Tensor) -> Tensor:
        with torch.no_grad():
            features = self.body(x)
        scores: Tensor = self.head(features)
        return scores


@sick("no-gradient", also=UNTRAINED)
def body_to_be_tuned_under_no_grad(zoo: Zoo) -> None:
    """Everything is given to the optimizer for fine-tuning, but forward() still says no_grad()."""
    pictures, labels = digits()
    model = Transfer()
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3)
    feed = batches(pictures, labels, size=64, steps=120)
    fit(zoo, model, optimizer, feed, functional.cross_entropy)


class Adapted(nn.Module):
    """A frozen layer and a low-rank change of it, both of whose factors are zero."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.base = nn.Linear(inputs, outputs).requires_grad_(False)
        self.down = nn.Parameter(torch.zeros(4, inputs))
        self.up = nn.Parameter(torch.zeros(outputs, 4))

    def forward(self, x: Tensor) -> Tensor:
        result: Tensor = self.base(x) + x @ self.down.T @ self.up.T
        return result


@sick("zero-gradients", also=("init-constant", *UNTRAINED, *STANDS_STILL))
def both_factors_of_the_adapters_zero(zoo: Zoo) -> None:
    """LoRA with both matrices zero: each one's gradient is a multiple of the other."""
    pictures, labels = digits()
    model = nn.Sequential(nn.Flatten(), Adapted(64, 48), nn.ReLU(), Adapted(48, 10))
    wanted = [each for each in model.parameters() if each.requires_grad]
    optimizer = torch.optim.AdamW(wanted, lr=1e-2, weight_decay=0.0)
    feed = batches(pictures, labels, size=64, steps=120)
    fit(zoo, model, optimizer, feed, functional.cross_entropy)


@sick("nonfinite-gradient", also=NOT_FINITE)
def where_hides_the_root_of_zero(zoo: Zoo) -> None:
    """Distances are to be kept; torch.where keeps the root of zero out of the loss, not its gradient."""
    inputs = torch.randn(400, 6) * torch.tensor([2.0, 2.0, 0.3, 0.3, 0.3, 0.3])
    model = perceptron(6, 32, 2)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)

    def distances(rows: Tensor) -> Tensor:
        squares = (rows[:, None] - rows[None]).square().sum(2)
        return torch.where(squares > 0, squares.sqrt(), squares)

    def loss_of(x: Tensor) -> Tensor:
        return functional.mse_loss(distances(model(x)), distances(x))

    descend(zoo, model, optimizer, batches(inputs, size=40, steps=100), loss_of)


@sick("nonfinite-loss", also=NOT_FINITE)
def power_of_a_negative_number(zoo: Zoo) -> None:
    """error ** 1.5 as something between absolute and squared, without abs()."""
    inputs, targets = regression(400, features=6)
    model = perceptron(6, 32, 1)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)

    def loss_of(x: Tensor, y: Tensor) -> Tensor:
        errors: Tensor = model(x) - y
        return (errors**1.5).mean()

    descend(zoo, model, optimizer, batches(inputs, targets, size=40, steps=100), loss_of)


@sick("nonfinite-weight", also=NOT_FINITE)
def all_in_half_under_adam(zoo: Zoo) -> None:
    """model.half(): Adam's epsilon and the squares of small gradients are zero there."""
    inputs, labels = blobs(600, features=12, classes=3)
    model = perceptron(12, 32, 3).half()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    feed = batches(inputs.half(), labels, size=64, steps=100)
    fit(zoo, model, optimizer, feed, functional.cross_entropy)


@sick("diverging-loss", also=("learning-rate-high", "not-learning", "loss-plateau", "dead-layer", *BLOWS_UP))
def summed_over_pixels_at_the_rate_of_a_mean(zoo: Zoo) -> None:
    """reduction="sum" over all pixels of a batch, with the learning rate of a mean."""
    pictures, masks = discs(300)
    model = nn.Sequential(nn.Conv2d(1, 12, 3, padding=1), nn.ReLU(), nn.Conv2d(12, 1, 3, padding=1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    feed = batches(pictures, masks, size=32, steps=120)
    fit(zoo, model, optimizer, feed, nn.BCEWithLogitsLoss(reduction="sum"))


@sick("input-constant", also=("input-repeated-batch", "input-scale", "labels-imbalanced", *STANDS_STILL))
def buffer_of_references_to_one_state(zoo: Zoo) -> None:
    """The environment changes its state in place, and the replay buffer holds the same array many times."""
    model = perceptron(3, 32, 2)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    monitor = zoo.watch(model, optimizer)
    state, buffer = np.zeros(3, dtype="float32"), deque[tuple[np.ndarray, int, float]](maxlen=500)
    for _ in range(150):
        for _ in range(4):
            action = int(np.random.randint(2))
            state += 0.1 * np.random.randn(3).astype("float32") + (0.05 if action else -0.05)
            state *= 0.98
            buffer.append((state, action, float(state.sum())))
        chosen = [buffer[place] for place in np.random.randint(len(buffer), size=32)]
        states = torch.from_numpy(np.stack([each[0] for each in chosen]))
        actions = torch.tensor([each[1] for each in chosen])
        rewards = torch.tensor([each[2] for each in chosen])
        optimizer.zero_grad()
        loss = functional.mse_loss(model(states).gather(1, actions[:, None])[:, 0], rewards)
        loss.backward()
        optimizer.step()
        monitor.step(loss=loss)


@sick("loss-input-range", also=("loss-negative", "diverging-loss"))
def counts_as_binary_targets(zoo: Zoo) -> None:
    """Several labels a row, counted instead of marked: a target of 3 for "yes or no"."""
    inputs = torch.randn(600, 10)
    counts = torch.poisson((inputs[:, :5] - 0.5).exp())
    model = perceptron(10, 32, 5)
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    fit(zoo, model, optimizer, batches(inputs, counts, size=50, steps=150), nn.BCEWithLogitsLoss())


@sick("input-scale", also=("activation-scale", "loss-at-chance-start", *BLOWS_UP, *STANDS_STILL))
def seconds_since_1970(zoo: Zoo) -> None:
    """A timestamp in seconds beside five columns of unit size."""
    inputs, targets = regression(600, features=5)
    seconds = 1.6e9 + 3e7 * torch.rand(600, 1)
    model = perceptron(6, 32, 32, 1)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    feed = batches(torch.cat([inputs, seconds], 1), targets, size=50, steps=150)
    fit(zoo, model, optimizer, feed, nn.MSELoss())


@sick(
    "input-scale",
    also=("saturated-units", "vanishing-gradients", "zero-gradients", "constant-output", *STANDS_STILL),
)
def lstm_on_prices_in_full(zoo: Zoo) -> None:
    """Will it rise? Prices of tens of thousands go into an LSTM as they are."""
    walks = 30_000 + 300 * torch.randn(600, 20).cumsum(1)
    labels = (walks[:, -1] > walks.mean(1)).long()
    lstm, head = nn.LSTM(1, 24, batch_first=True), nn.Linear(24, 2)
    model = nn.ModuleDict({"lstm": lstm, "head": head})
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)

    def loss_of(x: Tensor, y: Tensor) -> Tensor:
        return functional.cross_entropy(head(lstm(x)[0][:, -1]), y)

    descend(zoo, model, optimizer, batches(walks[:, :, None], labels, size=50, steps=120), loss_of)


@sick("learning-rate-zero", also=("unchanged-weights", "update-ratio-low", *STANDS_STILL))
def warm_up_counted_in_epochs(zoo: Zoo) -> None:
    """LambdaLR(epoch / 10): zero in the whole first epoch, and there are few epochs."""
    inputs, labels = sequences(600, length=10)
    model = nn.Sequential(nn.EmbeddingBag(12, 24), nn.Linear(24, 24), nn.ReLU(), nn.Linear(24, 2))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda epoch: min(epoch / 10, 1.0))
    monitor = zoo.watch(model, optimizer)
    for _ in range(2):
        for x, y in batches(inputs, labels, size=8, steps=75):
            optimizer.zero_grad()
            loss = functional.cross_entropy(model(x), y)
            loss.backward()
            optimizer.step()
            monitor.step(loss=loss)
        scheduler.step()


@sick(
    "weight-decay-high",
    also=("weight-collapse", "constant-output", "zero-gradients", "vanishing-gradients", *STANDS_STILL),
)
def decay_of_a_half_under_sgd(zoo: Zoo) -> None:
    """weight_decay=0.5, as a dropout would be: the gradient of the loss cannot hold against it."""
    pictures, labels = shapes(500)
    model = nn.Sequential(
        nn.Conv2d(1, 8, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), perceptron(200, 32, 4)
    )
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9, weight_decay=0.5)
    feed = batches(pictures, labels, size=50, steps=160)
    fit(zoo, model, optimizer, feed, functional.cross_entropy)


class Reader(nn.Module):
    """Words, places, one layer of a transformer, a mean."""

    def __init__(self, *, words: int, length: int, dropout: float = 0.0) -> None:
        super().__init__()
        self.words, self.places = nn.Embedding(words, 24), nn.Parameter(0.1 * torch.randn(length, 24))
        self.layer = nn.TransformerEncoderLayer(24, 2, 48, dropout=dropout, batch_first=True)
        self.head = nn.Linear(24, 2)

    def forward(self, tokens: Tensor) -> Tensor:
        scores: Tensor = self.head(self.layer(self.words(tokens) + self.places).mean(1))
        return scores


@sick("grad-not-cleared", also=(*BLOWS_UP, *STANDS_STILL))
def transformer_without_zero_grad(zoo: Zoo) -> None:
    """No zero_grad() under AdamW, which hides that gradients grow from step to step."""
    tokens, labels = sequences(600, length=10)
    model = Reader(words=12, length=10)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    monitor = zoo.watch(model, optimizer)
    for x, y in batches(tokens, labels, size=32, steps=150):
        loss = functional.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        monitor.step(loss=loss)


@sick("init-constant", also=("exploding-gradients", "activation-scale", "init-scale", *STANDS_STILL))
def convolutions_of_one_hundredth(zoo: Zoo) -> None:
    """All kernels are filled with 0.01, "small numbers", as a course said: all filters stay alike."""
    pictures, labels = shapes(500)
    model = nn.Sequential(
        nn.Conv2d(1, 8, 3), nn.ReLU(), nn.Conv2d(8, 8, 3), nn.ReLU(), nn.Flatten(), nn.Linear(512, 4)
    )
    for parameter in model.parameters():
        nn.init.constant_(parameter, 0.01)
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    feed = batches(pictures, labels, size=50, steps=120)
    fit(zoo, model, optimizer, feed, functional.cross_entropy)


@sick("labels-imbalanced", also=("labels-single-class", *STANDS_STILL))
def frauds_one_in_two_hundred(zoo: Zoo) -> None:
    """Payments, of which one in two hundred is a fraud; the network learns to say no."""
    inputs = torch.randn(6000, 12)
    strange = inputs[:, :4].sum(1) + torch.randn(6000)
    labels = (strange > strange.quantile(0.995)).float()[:, None]
    model = perceptron(12, 24, 1)
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    fit(zoo, model, optimizer, batches(inputs, labels, size=64, steps=240), nn.BCEWithLogitsLoss())


@sick("labels-sorted", also=("labels-single-class", "loss-oscillating", "loss-spike", *STANDS_STILL))
def reviews_in_the_order_of_their_folders(zoo: Zoo) -> None:
    """Two folders, neg and pos, read one after the other in each epoch, without shuffling."""
    tokens, labels = sequences(640, length=10)
    order = labels.argsort()
    model = Reader(words=12, length=10)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    feed = [(tokens[some], labels[some]) for some in order.split(32)] * 8
    fit(zoo, model, optimizer, feed, functional.cross_entropy)


@sick("constant-output", also=("weight-collapse", "zero-gradients", "vanishing-gradients", "loss-plateau"))
def two_views_that_only_attract(zoo: Zoo) -> None:
    """Two views of a picture are to be the same, and nothing pushes others apart: all become one point."""
    pictures, _ = digits()
    model = perceptron(64, 48, 16)
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)

    def loss_of(x: Tensor) -> Tensor:
        first, second = (model(x + 0.2 * torch.randn_like(x)) for _ in range(2))
        return functional.mse_loss(first, second)

    descend(zoo, model, optimizer, batches(pictures.flatten(1), size=64, steps=240), loss_of)


@sick("diverging-loss", also=("learning-rate-high", *BLOWS_UP, *STANDS_STILL))
def momentum_of_999(zoo: Zoo) -> None:
    """momentum=0.999 instead of 0.9: the weights swing through the valley, wider each time."""
    inputs, targets = regression(500, features=8)
    model = perceptron(8, 32, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.999)
    fit(zoo, model, optimizer, batches(inputs, targets, size=50, steps=240), nn.MSELoss())


@sick("update-ratio-low", also=STANDS_STILL)
def epsilon_of_a_thousand(zoo: Zoo) -> None:
    """Adam(eps=1e3), where 1e-3 was meant: every step is divided by a thousand."""
    pictures, labels = digits()
    model = perceptron(64, 48, 10)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3, eps=1e3)
    feed = batches(pictures.flatten(1), labels, size=64, steps=150)
    fit(zoo, model, optimizer, feed, functional.cross_entropy)


@sick("learning-rate-high", also=(*BLOWS_UP, *STANDS_STILL, "dead-layer", "dead-units", "saturated-units"))
def fine_tuned_at_three_tenths(zoo: Zoo) -> None:
    """What was learned at 2e-3 is trained on at 0.3 under Adam: it is gone after a few steps."""
    tokens, labels = sequences(600, length=10)
    model = Reader(words=12, length=10)
    gentle = torch.optim.Adam(model.parameters(), lr=2e-3)
    for x, y in batches(tokens, labels, size=32, steps=80):
        gentle.zero_grad()
        functional.cross_entropy(model(x), y).backward()
        gentle.step()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.3)
    feed = batches(tokens, labels, size=32, steps=150)
    fit(zoo, model, optimizer, feed, functional.cross_entropy)


@sick("overfitting", also=("input-repeated-batch",))
def thirty_reviews_and_a_transformer(zoo: Zoo) -> None:
    """Thirty labelled sentences are learned by heart; those of the validation get worse and worse."""
    tokens, labels = sequences(330, length=16, words=40)
    model = Reader(words=40, length=16)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    monitor = zoo.watch(model, optimizer)
    for step, (x, y) in enumerate(batches(tokens[:30], labels[:30], size=10, steps=240)):
        optimizer.zero_grad()
        loss = functional.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        monitor.step(loss=loss)
        if step % 12 == 11:
            model.eval()
            with torch.no_grad():
                monitor.log(val_loss=functional.cross_entropy(model(tokens[30:]), labels[30:]))
            model.train()
