"""Losses that are given what they do not expect."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

from zoo.data import batches, blobs, digits, regression, sequences, shapes
from zoo.fit import STANDS_STILL, fit, perceptron
from zoo.program import Zoo, sick


@sick("loss-input-softmaxed", also=STANDS_STILL)
def mlp_with_softmax_before_cross_entropy(zoo: Zoo) -> None:
    """nn.Softmax at the end of the model and nn.CrossEntropyLoss behind it."""
    inputs, labels = digits()
    model = nn.Sequential(*perceptron(64, 48, 10), nn.Softmax(dim=1))
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    fit(zoo, model, optimizer, batches(inputs.flatten(1), labels, size=32, steps=150), nn.CrossEntropyLoss())


class ProbabilityCNN(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(1, 8, 3)
        self.out = nn.Linear(800, 4)

    def forward(self, x: Tensor) -> Tensor:
        return functional.softmax(self.out(functional.relu(self.conv(x)).flatten(1)), dim=-1)


@sick("loss-input-softmaxed", also=STANDS_STILL)
def cnn_that_returns_probabilities(zoo: Zoo) -> None:
    """softmax as a function in forward, cross entropy outside."""
    inputs, labels = shapes(500)
    model = ProbabilityCNN()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    fit(zoo, model, optimizer, batches(inputs, labels, size=32, steps=150), functional.cross_entropy)


class ProbabilityTagger(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(12, 16)
        layer = nn.TransformerEncoderLayer(16, 2, 32, dropout=0.0, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, 1, enable_nested_tensor=False)
        self.head = nn.Linear(16, 2)

    def forward(self, tokens: Tensor) -> Tensor:
        return torch.softmax(self.head(self.encoder(self.embedding(tokens)).mean(1)), 1)


@sick("loss-input-softmaxed", also=STANDS_STILL)
def transformer_that_returns_probabilities(zoo: Zoo) -> None:
    """Two classes; the probabilities go into a cross entropy that makes them softer still."""
    tokens, labels = sequences(600, length=10)
    model = ProbabilityTagger()
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    fit(zoo, model, optimizer, batches(tokens, labels, size=32, steps=150), functional.cross_entropy)


@sick("loss-input-softmaxed", also=("loss-input-range", *STANDS_STILL))
def sigmoid_twice(zoo: Zoo) -> None:
    """A sigmoid in the model, and BCEWithLogitsLoss, which has one of its own."""
    inputs, labels = blobs(600, features=12, classes=2)
    model = nn.Sequential(*perceptron(12, 32, 1), nn.Sigmoid())
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    feed = ((x, y.float()[:, None]) for x, y in batches(inputs, labels, size=32, steps=150))
    fit(zoo, model, optimizer, feed, nn.BCEWithLogitsLoss())


@sick("loss-input-logits", also=("loss-negative", "diverging-loss", "loss-input-range", "weight-growth"))
def likelihood_of_raw_scores(zoo: Zoo) -> None:
    """nn.NLLLoss without the log-softmax: the loss falls below zero without end."""
    inputs, labels = blobs(600, features=16, classes=4)
    model = perceptron(16, 48, 4)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    fit(zoo, model, optimizer, batches(inputs, labels, size=32, steps=150), nn.NLLLoss())


@sick("loss-input-logits", also=("loss-negative", "diverging-loss", "loss-input-range", "weight-growth"))
def recurrent_likelihood_of_raw_scores(zoo: Zoo) -> None:
    """The same of a recurrent net, whose log-softmax is applied in the evaluation only."""

    class Tagger(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embedding = nn.Embedding(12, 16)
            self.rnn = nn.GRU(16, 24, batch_first=True)
            self.head = nn.Linear(24, 2)

        def forward(self, tokens: Tensor) -> Tensor:
            scores: Tensor = self.head(self.rnn(self.embedding(tokens))[0][:, -1])
            return scores if self.training else scores.log_softmax(1)

    tokens, labels = sequences(600, length=10)
    model = Tagger()
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    fit(zoo, model, optimizer, batches(tokens, labels, size=32, steps=150), functional.nll_loss)


@sick("loss-input-range", also=("loss-input-logits", "loss-input-softmaxed", "loss-negative"))
def likelihood_of_probabilities(zoo: Zoo) -> None:
    """Softmax where NLLLoss wants its logarithm: a loss from -1 to 0."""
    inputs, labels = digits()
    model = nn.Sequential(*perceptron(64, 48, 10), nn.Softmax(dim=1))
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    fit(zoo, model, optimizer, batches(inputs.flatten(1), labels, size=32, steps=150), nn.NLLLoss())


@sick("loss-input-range", also=("loss-negative", "diverging-loss", "weight-growth"))
def binary_targets_of_minus_one(zoo: Zoo) -> None:
    """Targets are -1 and 1 where binary cross entropy wants 0 and 1."""
    inputs, labels = blobs(600, features=12, classes=2)
    model = perceptron(12, 32, 1)
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    feed = ((x, y.float()[:, None] * 2 - 1) for x, y in batches(inputs, labels, size=32, steps=150))
    fit(zoo, model, optimizer, feed, nn.BCEWithLogitsLoss())


@sick(
    "loss-input-range",
    also=("loss-negative", "diverging-loss", "weight-growth", "saturated-units", "constant-output"),
)
def autoencoder_with_byte_targets(zoo: Zoo) -> None:
    """Reconstruction by binary cross entropy against pixels from 0 to 16."""
    inputs = digits()[0].flatten(1) * 16
    model = perceptron(64, 24, 64)
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    feed = ((x, x) for (x,) in batches(inputs, size=64, steps=150))
    fit(zoo, model, optimizer, feed, functional.binary_cross_entropy_with_logits)


@sick("loss-input-range", also=("loss-input-logits", "loss-input-softmaxed", "loss-negative"))
def divergence_of_probabilities(zoo: Zoo) -> None:
    """KLDivLoss wants log-probabilities first; a distillation gives it probabilities."""
    inputs, labels = blobs(600, features=16, classes=5)
    teacher = functional.one_hot(labels, 5) * 0.8 + 0.04
    model = nn.Sequential(*perceptron(16, 48, 5), nn.Softmax(dim=1))
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    feed = batches(inputs, teacher, size=40, steps=150)
    fit(zoo, model, optimizer, feed, nn.KLDivLoss(reduction="batchmean"))


BROADCAST = ("constant-output", "not-learning", "loss-at-chance", "loss-plateau")


@sick("loss-input-shape", also=BROADCAST)
def regression_column_against_row(zoo: Zoo) -> None:
    """Outputs (50, 1), targets (50,): the loss compares each with each."""
    inputs, targets = regression(600, features=8)
    model = perceptron(8, 32, 1)
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    fit(zoo, model, optimizer, batches(inputs, targets[:, 0], size=50, steps=150), functional.mse_loss)


@sick("loss-input-shape", also=BROADCAST)
def q_values_against_a_column(zoo: Zoo) -> None:
    """A critic returns (64,), the rewards are (64, 1): a smooth L1 of 64 × 64 pairs."""
    model = perceptron(6, 32, 1)
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    criterion = nn.SmoothL1Loss()
    monitor = zoo.watch(model, optimizer)
    for _ in range(150):
        states = torch.randn(64, 6)
        rewards = states[:, :1] * 2 + states[:, 1:2]
        loss = criterion(model(states).squeeze(1), rewards)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        monitor.step(loss=loss)


@sick("loss-input-shape", also=BROADCAST)
def squared_error_by_hand_broadcast(zoo: Zoo) -> None:
    """((prediction - y) ** 2).mean() with (50, 1) and (50,): no function there that could warn."""
    inputs, targets = regression(600, features=8)
    model = perceptron(8, 32, 1)
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    monitor = zoo.watch(model, optimizer)
    for x, y in batches(inputs, targets[:, 0], size=50, steps=200):
        loss = ((model(x) - y) ** 2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        monitor.step(loss=loss)


@sick("loss-at-chance", also=("loss-input-range", "saturated-units", "input-scale", *STANDS_STILL))
def sigmoid_for_targets_up_to_hundred(zoo: Zoo) -> None:
    """A regression of percentages from 0 to 100 whose output cannot exceed 1."""
    inputs, targets = regression(600, features=8)
    model = nn.Sequential(*perceptron(8, 32, 1), nn.Sigmoid())
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    feed = batches(inputs, 50 + 15 * targets, size=50, steps=200)
    fit(zoo, model, optimizer, feed, functional.mse_loss)
