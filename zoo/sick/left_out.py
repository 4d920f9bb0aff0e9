"""Parts that no optimizer has, and losses written by hand in which shapes do not fit."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

from zoo.data import batches, blobs, digits, regression, sequences
from zoo.fit import STANDS_STILL, UNTRAINED, descend, fit, perceptron
from zoo.program import Zoo, sick


class Branches(nn.Module):
    """A dict of lists, one branch of layers for each kind of feature."""

    def __init__(self) -> None:
        super().__init__()
        self.branches = {"left": [nn.Linear(10, 24), nn.Linear(24, 24)], "right": [nn.Linear(10, 24)]}
        self.out = nn.Linear(48, 4)

    def forward(self, x: Tensor) -> Tensor:
        found = []
        for part, layers in zip(x.chunk(2, 1), self.branches.values(), strict=True):
            for layer in layers:
                part = functional.relu(layer(part))
            found.append(part)
        result: Tensor = self.out(torch.cat(found, 1))
        return result


@sick("not-optimized", also=UNTRAINED)
def branches_in_a_plain_dict(zoo: Zoo) -> None:
    """A dict of lists of layers: only the last layer is known to torch."""
    inputs, labels = blobs(700, features=20, classes=4)
    model = Branches()
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    fit(zoo, model, optimizer, batches(inputs, labels, size=50, steps=120), functional.cross_entropy)


class Mixing(nn.Module):
    """Weights of its own in a plain list."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(8, 32)
        self.mixing = [nn.Parameter(torch.empty(32, 32).uniform_(-0.2, 0.2)) for _ in range(2)]
        self.last = nn.Linear(32, 1)

    def forward(self, x: Tensor) -> Tensor:
        x = functional.relu(self.first(x))
        for weight in self.mixing:
            x = functional.relu(x @ weight)
        result: Tensor = self.last(x)
        return result


@sick("not-optimized", also=UNTRAINED)
def parameters_in_a_plain_list(zoo: Zoo) -> None:
    """nn.Parameter in a list instead of nn.ParameterList."""
    inputs, targets = regression(700, features=8)
    model = Mixing()
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    fit(zoo, model, optimizer, batches(inputs, targets, size=50, steps=120), functional.mse_loss)


@sick("not-optimized", also=UNTRAINED)
def cells_of_a_handmade_rnn_in_a_list(zoo: Zoo) -> None:
    """Two stacked cells in a list: the recurrent part stays random, only embedding and head learn."""

    class Stacked(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embedding = nn.Embedding(12, 16)
            self.cells = [nn.GRUCell(16, 24), nn.GRUCell(24, 24)]
            self.head = nn.Linear(24, 2)

        def forward(self, tokens: Tensor) -> Tensor:
            states = [torch.zeros(len(tokens), 24) for _ in self.cells]
            for x in self.embedding(tokens).unbind(1):
                for place, cell in enumerate(self.cells):
                    states[place] = x = cell(x, states[place])
            result: Tensor = self.head(states[-1])
            return result

    tokens, labels = sequences(500, length=8)
    model = Stacked()
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    fit(zoo, model, optimizer, batches(tokens, labels, size=32, steps=120), functional.cross_entropy)


@sick(
    "not-optimized",
    also=UNTRAINED,
    slowly="Another model may have an optimizer of its own, which steps later.",
)
def decoder_that_nobody_trains(zoo: Zoo) -> None:
    """Encoder and decoder are two models, and the optimizer was given the first alone."""
    inputs = digits()[0].flatten(1)
    encoder, decoder = perceptron(64, 32, 8), perceptron(8, 32, 64)
    optimizer = torch.optim.Adam(encoder.parameters(), lr=3e-3)

    def loss_of(x: Tensor) -> Tensor:
        return functional.mse_loss(decoder(encoder(x)), x)

    descend(zoo, encoder, optimizer, batches(inputs, size=64, steps=150), loss_of)


@sick("loss-input-shape", also=STANDS_STILL)
def absolute_error_by_hand_broadcast(zoo: Zoo) -> None:
    """(targets - outputs.squeeze()).abs() with targets that kept their last dimension."""
    inputs, targets = regression(600, features=8)
    model = perceptron(8, 32, 1)
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)

    def loss_of(x: Tensor, y: Tensor) -> Tensor:
        error: Tensor = y - model(x).squeeze()
        return error.abs().mean()

    descend(zoo, model, optimizer, batches(inputs, targets, size=40, steps=150), loss_of)


@sick("loss-input-shape", also=STANDS_STILL)
def critic_error_by_hand_broadcast(zoo: Zoo) -> None:
    """Temporal differences: rewards in a row, values in a column, half the squared error."""
    states, rewards = regression(900, features=6)
    critic = perceptron(6, 32, 1)
    optimizer = torch.optim.RMSprop(critic.parameters(), lr=2e-3)

    def loss_of(state: Tensor, after: Tensor, reward: Tensor) -> Tensor:
        with torch.no_grad():
            wanted = reward + 0.5 * critic(after)[:, 0]
        error: Tensor = wanted - critic(state)
        return 0.5 * error.pow(2).mean()

    feed = batches(states, states.flip(0), rewards[:, 0], size=32, steps=150)
    descend(zoo, critic, optimizer, feed, loss_of)
