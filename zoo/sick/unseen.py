"""What beginners post: lines in the wrong order, wrong dimensions, settings that mean something else."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.data import DataLoader, TensorDataset, WeightedRandomSampler

from zoo.data import batches, blobs, digits, discs, regression, shapes, table
from zoo.fit import BLOWS_UP, NOT_FINITE, STANDS_STILL, UNTRAINED, descend, fit, perceptron
from zoo.program import Zoo, sick


@sick("unchanged-weights", also=("zero-gradients", "update-ratio-low", *UNTRAINED, *STANDS_STILL))
def cleared_between_backward_and_step(zoo: Zoo) -> None:
    """backward(), zero_grad(), step(): when the optimizer comes, the gradients are gone."""
    pictures, labels = digits()
    model = perceptron(64, 48, 10)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    monitor = zoo.watch(model, optimizer)
    for x, y in batches(pictures.flatten(1), labels, size=64, steps=150):
        loss = functional.cross_entropy(model(x), y)
        loss.backward()
        optimizer.zero_grad()
        optimizer.step()
        monitor.step(loss=loss)


@sick("grad-not-cleared", also=("learning-rate-high", *BLOWS_UP), from_step=1)
def zero_grad_before_the_epoch(zoo: Zoo) -> None:
    """One indentation too few: gradients are cleared once an epoch, not once a batch."""
    inputs, targets = regression(640, features=8)
    model = perceptron(8, 32, 32, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    loader = DataLoader(TensorDataset(inputs, targets), batch_size=32, shuffle=True)
    monitor = zoo.watch(model, optimizer)
    for _ in range(8):
        optimizer.zero_grad()
        for x, y in loader:
            loss = functional.mse_loss(model(x), y)
            loss.backward()
            optimizer.step()
            monitor.step(loss=loss)


@sick("update-ratio-low", also=("unchanged-weights", "vanishing-gradients", *STANDS_STILL))
def clipped_to_almost_nothing(zoo: Zoo) -> None:
    """clip_grad_norm_(…, 1e-5): that was meant to be the weight decay, the norm was to be 1."""
    pictures, labels = shapes(600)
    model = nn.Sequential(
        nn.Conv2d(1, 8, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(8, 16, 3), nn.ReLU(), nn.Flatten(),
        nn.Linear(144, 4),
    )  # fmt: skip
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    monitor = zoo.watch(model, optimizer)
    for x, y in batches(pictures, labels, size=32, steps=150):
        loss = functional.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1e-5)
        optimizer.step()
        monitor.step(loss=loss)


@sick(
    "learning-rate-zero",
    also=("update-ratio-low", "unchanged-weights", *STANDS_STILL),
    from_step=15,
    slowly="Many a schedule ends at 0: only the steps that follow show that the training did not.",
)
def linear_decay_over_epochs(zoo: Zoo) -> None:
    """A decay to zero over the number of epochs, stepped in each batch: over before the first epoch ends."""
    pictures, labels = digits()
    epochs = 15
    model = perceptron(64, 64, 10)
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-4)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: max(0.0, 1 - step / epochs))
    monitor = zoo.watch(model, optimizer)
    for x, y in batches(pictures.flatten(1), labels, size=32, steps=200):
        loss = functional.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
        monitor.step(loss=loss)


@sick("loss-input-logits", also=("loss-input-range", "loss-at-chance-start", *STANDS_STILL))
def log_softmax_over_the_batch(zoo: Zoo) -> None:
    """nn.LogSoftmax(dim=0): each class is shared out among the rows, not each row among the classes."""
    inputs, labels = table("wine")
    inputs = (inputs - inputs.mean(0)) / inputs.std(0)
    model = nn.Sequential(nn.Linear(13, 24), nn.ReLU(), nn.Linear(24, 3), nn.LogSoftmax(dim=0))
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    fit(zoo, model, optimizer, batches(inputs, labels, size=32, steps=150), nn.NLLLoss())


@sick("loss-input-range", also=("loss-negative", *BLOWS_UP))
def masks_read_from_png(zoo: Zoo) -> None:
    """Masks come as 0 and 255, and nobody divides: binary cross entropy falls to minus thousands."""
    pictures, masks = discs(400)
    model = nn.Sequential(
        nn.Conv2d(1, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.Conv2d(8, 1, 3, padding=1)
    )
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    fit(zoo, model, optimizer, batches(pictures, 255 * masks, size=32, steps=150), nn.BCEWithLogitsLoss())


@sick("dead-units", also=("dead-layer", "constant-output", "zero-gradients", *STANDS_STILL), from_step=10)
def relu_behind_the_scores(zoo: Zoo) -> None:
    """Each layer has its ReLU, the last one, too: most of the ten scores become 0, and stay it."""
    pictures, labels = digits()
    model = nn.Sequential(
        nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 10), nn.ReLU()
    )
    optimizer = torch.optim.Adam(model.parameters(), lr=0.02)
    feed = batches(pictures.flatten(1), labels, size=32, steps=200)
    fit(zoo, model, optimizer, feed, functional.cross_entropy)


class Standardised(nn.Module):
    """Divides by the deviation of the batch, and is careful about zeros."""

    def forward(self, x: Tensor) -> Tensor:
        return (x - x.mean(0)) / (x.std(0) + 1e-5)


@sick("nonfinite-loss", also=NOT_FINITE, from_step=8)
def last_batch_of_a_single_row(zoo: Zoo) -> None:
    """257 rows in batches of 32, drop_last forgotten: the deviation of one row is NaN."""
    inputs, targets = regression(257, features=6)
    model = nn.Sequential(nn.Linear(6, 32), Standardised(), nn.Tanh(), nn.Linear(32, 1))
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    loader = DataLoader(TensorDataset(inputs, targets), batch_size=32, shuffle=True)
    fit(zoo, model, optimizer, (batch for _ in range(12) for batch in loader), nn.MSELoss())


@sick(
    "constant-output",
    also=("zero-gradients", "unchanged-weights", "dead-layer", "dead-units", *STANDS_STILL),
)
def keep_probability_given_to_dropout(zoo: Zoo) -> None:
    """Ported from a library where 1.0 means "keep all": in torch it means "drop all"."""
    inputs, labels = table("breast_cancer")
    inputs = (inputs - inputs.mean(0)) / inputs.std(0)
    model = nn.Sequential(nn.Linear(30, 24), nn.ReLU(), nn.Dropout(1.0), nn.Linear(24, 2))
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    fit(zoo, model, optimizer, batches(inputs, labels, size=32, steps=150), functional.cross_entropy)


class Sentiment(nn.Module):
    def __init__(self, words: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(words, 16)
        self.lstm = nn.LSTM(16, 24, batch_first=True)
        self.head = nn.Linear(24, 2)

    def forward(self, tokens: Tensor) -> Tensor:
        states, _ = self.lstm(self.embedding(tokens))
        result: Tensor = self.head(states[:, -1])
        return result


@sick("input-constant", also=("constant-output", "input-repeated-batch", *STANDS_STILL))
def every_word_unknown(zoo: Zoo) -> None:
    """The vocabulary is in lower case, the reviews are not: each word becomes the one for "unknown"."""
    words = ["GREAT", "GOOD", "FINE", "LOVELY", "BAD", "AWFUL", "POOR", "BORING", "THE", "FILM", "WAS", "SO"]
    labels = torch.randint(2, (500,))
    kinds = 4 * (1 - labels)[:, None] + torch.randint(4, (500, 3))
    places = torch.cat([torch.randint(8, 12, (500, 5)), kinds], 1)
    reviews = [[words[place] for place in row] for row in places.tolist()]
    vocabulary = {word.lower(): number for number, word in enumerate(words, start=2)}
    tokens = torch.tensor([[vocabulary.get(word, 1) for word in review] for review in reviews])
    model = Sentiment(len(words) + 2)
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    fit(zoo, model, optimizer, batches(tokens, labels, size=32, steps=150), functional.cross_entropy)


@sick(
    "overfitting",
    also=("input-repeated-batch", "labels-single-class", "labels-imbalanced"),
    from_step=20,
)
def sampler_given_weights_of_classes(zoo: Zoo) -> None:
    """WeightedRandomSampler wants a weight a row; given one a class, it draws the first four rows only."""
    inputs, labels = blobs(600, features=12, classes=4, spread=0.5)
    x_train, y_train, x_test, y_test = inputs[:400], labels[:400], inputs[400:], labels[400:]
    weights = 1 / y_train.bincount(minlength=4)
    sampler = WeightedRandomSampler(weights.tolist(), num_samples=400)
    loader = DataLoader(TensorDataset(x_train, y_train), batch_size=40, sampler=sampler)
    model = perceptron(12, 48, 4)
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    monitor = zoo.watch(model, optimizer)
    for _ in range(20):
        for x, y in loader:
            loss = functional.cross_entropy(model(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            monitor.step(loss=loss)
        model.eval()
        with torch.no_grad():
            monitor.log(val_loss=functional.cross_entropy(model(x_test), y_test))
        model.train()


@sick("constant-output", also=("weight-collapse", "vanishing-gradients", "loss-plateau"), from_step=10)
def pairs_that_belong_together_only(zoo: Zoo) -> None:
    """Two views of a picture are to be alike, and nothing says what is to differ: all pictures become one."""
    pictures, _ = digits()
    model = perceptron(64, 64, 16)
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)

    def loss_of(x: Tensor) -> Tensor:
        one, two = (model(x + 0.3 * torch.randn_like(x)) for _ in range(2))
        return functional.mse_loss(one, two)

    descend(zoo, model, optimizer, batches(pictures.flatten(1), size=64, steps=200), loss_of)


@sick("nonfinite-loss", also=(*BLOWS_UP, "learning-rate-high", "loss-input-range"), from_step=3)
def prices_in_full_and_plain_sgd(zoo: Zoo) -> None:
    """Houses of some 300 000 each, SGD at the rate of the tutorial: a handful of steps, and all is NaN."""
    inputs, values = regression(600, features=8)
    prices = 300_000 + 90_000 * values
    model = perceptron(8, 32, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    fit(zoo, model, optimizer, batches(inputs, prices, size=32, steps=120), nn.MSELoss())


@sick("loss-at-chance", also=("not-learning", "loss-plateau"))
def scores_of_pixels_viewed(zoo: Zoo) -> None:
    """(N, C, H, W) becomes (-1, C) by view(), without a permute: each pixel gets scores of others."""
    areas = torch.randint(4, (300, 1, 6, 6))
    labels = areas.repeat_interleave(2, 2).repeat_interleave(2, 3)
    greys = labels.float() - 1.5 + 0.3 * torch.randn(300, 1, 12, 12)
    model = nn.Sequential(
        nn.Conv2d(1, 12, 3, padding=1),
        nn.ReLU(),
        nn.Conv2d(12, 12, 3, padding=1),
        nn.ReLU(),
        nn.Conv2d(12, 4, 1),
    )
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)

    def loss_of(x: Tensor, y: Tensor) -> Tensor:
        return functional.cross_entropy(model(x).view(-1, 4), y.view(-1))

    descend(zoo, model, optimizer, batches(greys, labels, size=24, steps=160), loss_of)
