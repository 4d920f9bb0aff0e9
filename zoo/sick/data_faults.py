"""Data that nothing can be learned from, or not so."""

from __future__ import annotations

import time

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.data import DataLoader, Dataset, TensorDataset

from zoo.data import batches, blobs, digits, regression, sequences, shapes, table
from zoo.fit import BLOWS_UP, STANDS_STILL, fit, perceptron
from zoo.program import Zoo, sick


@sick("input-constant", also=("constant-output", *STANDS_STILL))
def pictures_divided_as_integers(zoo: Zoo) -> None:
    """Bytes // 255: all pixels are 0."""
    pictures, labels = digits()
    inputs = ((pictures * 254).to(torch.uint8) // 255).float()
    model = nn.Sequential(nn.Conv2d(1, 8, 3), nn.ReLU(), nn.Flatten(), nn.Linear(288, 10))
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    fit(zoo, model, optimizer, batches(inputs, labels, size=32, steps=120), functional.cross_entropy)


@sick("input-constant", also=("constant-output", *STANDS_STILL))
def first_row_in_every_place(zoo: Zoo) -> None:
    """The dataset ignores its index: every row of inputs is the first one."""

    class Stuck(Dataset[tuple[Tensor, Tensor]]):
        def __init__(self, inputs: Tensor, labels: Tensor) -> None:
            self.inputs, self.labels = inputs, labels

        def __len__(self) -> int:
            return len(self.labels)

        def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
            return self.inputs[0], self.labels[index]

    model = perceptron(16, 48, 4)
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    loader = DataLoader(Stuck(*blobs(3000, features=16, classes=4)), batch_size=25, shuffle=True)
    fit(zoo, model, optimizer, loader, functional.cross_entropy)


@sick(
    "input-scale",
    also=(
        "saturated-units",
        "exploding-gradients",
        "loss-at-chance-start",
        "loss-oscillating",
        "loss-spike",
        *STANDS_STILL,
    ),
)
def wine_as_it_is_stored(zoo: Zoo) -> None:
    """Thirteen columns from 0.1 to 1700, unscaled, into an MLP."""
    inputs, labels = table("wine")
    model = perceptron(13, 32, 3)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    fit(zoo, model, optimizer, batches(inputs, labels, size=32, steps=200), functional.cross_entropy)


@sick("input-scale", also=("loss-at-chance-start", "dead-layer", "dead-units", *BLOWS_UP, *STANDS_STILL))
def cnn_on_bytes(zoo: Zoo) -> None:
    """Pixels from 0 to 255 where 0 to 1 was meant, with the SGD of a tutorial."""
    pictures, labels = digits()
    model = nn.Sequential(nn.Conv2d(1, 8, 3), nn.ReLU(), nn.Flatten(), nn.Linear(288, 10))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    fit(zoo, model, optimizer, batches(pictures * 255, labels, size=32, steps=120), functional.cross_entropy)


@sick("input-scale", also=("saturated-units", "dead-units", *STANDS_STILL, *BLOWS_UP))
def years_without_centring(zoo: Zoo) -> None:
    """A column of years around 2000 with a spread of 5 next to unit columns."""
    inputs, targets = regression(600, features=5)
    inputs[:, 0] = 2000 + 5 * inputs[:, 0]
    model = perceptron(5, 32, 1, activation=nn.Tanh)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.02)
    fit(zoo, model, optimizer, batches(inputs, targets, size=50, steps=150), functional.mse_loss)


@sick("input-repeated-batch", also=("overfitting",))
def first_batch_of_a_new_iterator(zoo: Zoo) -> None:
    """next(iter(loader)) in each step: without shuffling, it is the first batch for ever."""
    inputs, labels = digits()
    loader = DataLoader(TensorDataset(inputs.flatten(1), labels), batch_size=32)
    model = perceptron(64, 48, 10)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    monitor = zoo.watch(model, optimizer)
    for _ in range(150):
        x, y = next(iter(loader))
        loss = functional.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        monitor.step(loss=loss)


@sick("input-repeated-batch", also=("overfitting",))
def batch_fetched_outside_the_loop(zoo: Zoo) -> None:
    """The batch is taken before the loop over steps, and a validation set shows the harm."""
    inputs, targets = regression(800, features=10, noise=0.5)
    loader = DataLoader(TensorDataset(inputs[:700], targets[:700]), batch_size=25, shuffle=True)
    model = perceptron(10, 64, 1)
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    monitor = zoo.watch(model, optimizer)
    source = iter(loader)
    x, y = next(source)
    for step in range(200):
        loss = functional.mse_loss(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 20 == 19:
            with torch.no_grad():
                monitor.log(val_loss=functional.mse_loss(model(inputs[700:]), targets[700:]))
        monitor.step(loss=loss)


@sick("labels-single-class")
def labels_lost_in_conversion(zoo: Zoo) -> None:
    """Labels were strings; a comparison with the wrong name makes them all 0."""
    inputs, _ = blobs(600, features=16, classes=4)
    labels = torch.zeros(600, dtype=torch.long)
    model = perceptron(16, 32, 4)
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    fit(zoo, model, optimizer, batches(inputs, labels, size=40, steps=120), functional.cross_entropy)


@sick("labels-single-class", slowly="Of two classes one may be rare: a batch without it is no proof.")
def binary_labels_all_one(zoo: Zoo) -> None:
    """A threshold below every value: all targets of a logistic regression are 1."""
    inputs, _ = sequences(600, length=10)
    targets = (inputs.float().mean(1, keepdim=True) > -1.0).float()
    model = nn.Sequential(nn.Embedding(12, 8), nn.Flatten(), nn.Linear(80, 1))
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    fit(zoo, model, optimizer, batches(inputs, targets, size=40, steps=120), nn.BCEWithLogitsLoss())


@sick("labels-imbalanced", also=STANDS_STILL)
def one_in_a_hundred(zoo: Zoo) -> None:
    """One row in a hundred is of the other class, and nothing is done about it."""
    labels = (torch.rand(5000) < 0.01).long()
    inputs = torch.randn(5000, 10) + 0.5 * labels[:, None]
    model = perceptron(10, 32, 2)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    fit(zoo, model, optimizer, batches(inputs, labels, size=64, steps=200), functional.cross_entropy)


@sick("labels-imbalanced", also=STANDS_STILL)
def most_pictures_of_one_kind(zoo: Zoo) -> None:
    """Of four classes, one has 95 of a hundred pictures."""
    inputs, labels = shapes(2000)
    rows = (labels == 0) | (torch.rand(2000) < 0.018)
    model = nn.Sequential(nn.Conv2d(1, 8, 3), nn.ReLU(), nn.Flatten(), nn.Linear(800, 4))
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    fit(
        zoo,
        model,
        optimizer,
        batches(inputs[rows], labels[rows], size=50, steps=150),
        functional.cross_entropy,
    )


@sick("labels-sorted", also=("labels-single-class", "loss-oscillating", "loss-spike"))
def digits_sorted_and_not_shuffled(zoo: Zoo) -> None:
    """A folder per class, read in order, shuffle=False: each batch has one digit only."""
    inputs, labels = digits()
    order = labels.argsort()
    data = TensorDataset(inputs[order].flatten(1), labels[order])
    model = perceptron(64, 48, 10)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    monitor = zoo.watch(model, optimizer)
    for _ in range(4):
        for x, y in DataLoader(data, batch_size=32):
            loss = functional.cross_entropy(model(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            monitor.step(loss=loss)


@sick("labels-sorted", also=("labels-single-class", "loss-oscillating", "loss-spike"))
def cancer_table_in_two_halves(zoo: Zoo) -> None:
    """All ill patients come first, then all healthy ones, in each epoch."""
    inputs, labels = table("breast_cancer")
    inputs = (inputs - inputs.mean(0)) / inputs.std(0)
    order = labels.argsort(stable=True)
    loader = DataLoader(TensorDataset(inputs[order], labels[order].float()[:, None]), batch_size=16)
    model = perceptron(30, 16, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    monitor = zoo.watch(model, optimizer)
    for _ in range(5):
        for x, y in loader:
            loss = functional.binary_cross_entropy_with_logits(model(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            monitor.step(loss=loss)


@sick("loss-at-chance", also=STANDS_STILL)
def labels_of_other_pictures(zoo: Zoo) -> None:
    """Inputs and labels are shuffled separately, anew in each epoch."""
    inputs, labels = digits()
    model = perceptron(64, 48, 10)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    pairs = zip(
        batches(inputs.flatten(1), size=64, steps=220), batches(labels, size=64, steps=220), strict=True
    )
    fit(zoo, model, optimizer, ((x, y) for (x,), (y,) in pairs), functional.cross_entropy)


@sick("not-learning", also=STANDS_STILL)
def targets_without_any_sense(zoo: Zoo) -> None:
    """A regression whose targets come from a random generator: new ones for each batch."""
    inputs, _ = regression(600, features=8)
    model = perceptron(8, 32, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    feed = ((x, torch.randn(len(x), 1)) for (x,) in batches(inputs, size=50, steps=200))
    fit(zoo, model, optimizer, feed, functional.mse_loss)


@sick("loss-spike", also=("exploding-gradients", "input-scale", "diverging-loss"), from_step=100)
def a_batch_in_other_units(zoo: Zoo) -> None:
    """One file is in millimetres: from time to time a batch is a thousand times too large."""
    inputs, targets = regression(800, features=8)
    model = perceptron(8, 32, 1)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    monitor = zoo.watch(model, optimizer)
    for step, (x, y) in enumerate(batches(inputs, targets, size=40, steps=200)):
        if 100 <= step < 106 or step >= 194:
            x = x * 1000
        loss = functional.mse_loss(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        monitor.step(loss=loss)


class Slow(Dataset[tuple[Tensor, Tensor]]):
    """Decodes for a millisecond, as pictures from a disk do."""

    def __init__(self, inputs: Tensor, labels: Tensor) -> None:
        self.inputs, self.labels = inputs, labels

    def __len__(self) -> int:
        return len(self.labels)

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
        time.sleep(0.001)
        return self.inputs[index], self.labels[index]


@sick("data-wait")
def loader_without_workers(zoo: Zoo) -> None:
    """The loader decodes each picture in the training's own process: most of a step is waiting."""
    loader = DataLoader(Slow(*shapes(960)), batch_size=16, shuffle=True)
    model = nn.Sequential(nn.Conv2d(1, 8, 3), nn.ReLU(), nn.Flatten(), nn.Linear(800, 4))
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    monitor = zoo.watch(model, optimizer)
    for _ in range(2):
        for x, y in loader:
            loss = functional.cross_entropy(model(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            monitor.step(loss=loss)


@sick("step-time-outlier", from_step=40)
def checkpoint_in_the_middle_of_steps(zoo: Zoo) -> None:
    """Every fortieth step writes something to a slow disk and takes a hundred times as long."""
    inputs, targets = regression(600, features=8)
    model = perceptron(8, 64, 1)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    monitor = zoo.watch(model, optimizer)
    for step, (x, y) in enumerate(batches(inputs, targets, size=50, steps=260)):
        loss = functional.mse_loss(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 40 == 0 and step:
            time.sleep(0.4)
        monitor.step(loss=loss)


@sick("memory-growth")
def losses_kept_with_their_graphs(zoo: Zoo) -> None:
    """history.append(loss) keeps every graph, and all activations in it: four megabytes a step."""
    inputs, targets = regression(256, features=16)
    model = perceptron(16, 2048, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    monitor = zoo.watch(model, optimizer)
    history = []
    for _ in range(300):
        loss = functional.mse_loss(model(inputs), targets)
        optimizer.zero_grad()
        loss.backward(retain_graph=True)
        optimizer.step()
        history.append(loss)
        monitor.step(loss=loss)
