"""Networks that cannot learn as they were made: depth, initial weights, activations."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

from zoo.data import batches, blobs, digits, regression, shapes
from zoo.fit import BLOWS_UP, STANDS_STILL, fit, perceptron
from zoo.program import Zoo, sick


@sick("vanishing-gradients", also=("update-ratio-low", "constant-output", "saturated-units", *STANDS_STILL))
def ten_layers_of_sigmoid(zoo: Zoo) -> None:
    """The gradient of a sigmoid is at most a quarter: nothing arrives at the first of ten."""
    inputs, labels = digits()
    model = perceptron(64, *[32] * 10, 10, activation=nn.Sigmoid)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    fit(
        zoo,
        model,
        optimizer,
        batches(inputs.flatten(1), labels, size=64, steps=150),
        functional.cross_entropy,
    )


@sick(
    "vanishing-gradients",
    also=(
        "init-scale",
        "activation-scale",
        "constant-output",
        "update-ratio-low",
        "zero-gradients",
        *STANDS_STILL,
    ),
)
def tanh_net_with_tiny_weights(zoo: Zoo) -> None:
    """Twelve tanh layers, all weights drawn with a deviation of 0.01 as in an old tutorial."""
    inputs, labels = blobs(800, features=20, classes=4)
    model = perceptron(20, *[40] * 12, 4, activation=nn.Tanh)
    for parameter in model.parameters():
        nn.init.normal_(parameter, std=0.01)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-4)
    fit(zoo, model, optimizer, batches(inputs, labels, size=50, steps=150), functional.cross_entropy)


@sick("vanishing-gradients", also=("update-ratio-low", "constant-output", "saturated-units", *STANDS_STILL))
def plain_cnn_of_fourteen_sigmoids(zoo: Zoo) -> None:
    """A deep convolutional net without norms or shortcuts."""
    inputs, labels = shapes(400)
    layers = [layer for i in range(14) for layer in (nn.Conv2d(8 if i else 1, 8, 3, padding=1), nn.Sigmoid())]
    model = nn.Sequential(*layers, nn.AdaptiveAvgPool2d(2), nn.Flatten(), nn.Linear(32, 4))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    fit(zoo, model, optimizer, batches(inputs, labels, size=32, steps=100), functional.cross_entropy)


@sick("exploding-gradients", also=("init-scale", "loss-at-chance-start", "learning-rate-high", *BLOWS_UP))
def ten_layers_drawn_from_a_unit_normal(zoo: Zoo) -> None:
    """torch.randn as the weights of ten layers: signals grow fivefold in each."""
    inputs, targets = regression(500, features=16)
    model = perceptron(16, *[48] * 10, 1)
    for parameter in model.parameters():
        nn.init.normal_(parameter)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    fit(zoo, model, optimizer, batches(inputs, targets, size=50, steps=100), functional.mse_loss)


@sick("exploding-gradients", also=("init-scale", "loss-at-chance-start", *BLOWS_UP))
def deep_classifier_with_xavier_gain_four(zoo: Zoo) -> None:
    """A gain of 4 in each of eight ReLU layers; Adam hides it in the weights, not in the gradients."""
    inputs, labels = digits()
    model = perceptron(64, *[64] * 8, 10)
    for module in model:
        if isinstance(module, nn.Linear):
            nn.init.xavier_normal_(module.weight, gain=4.0)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    fit(
        zoo,
        model,
        optimizer,
        batches(inputs.flatten(1), labels, size=64, steps=120),
        functional.cross_entropy,
    )


@sick(
    "dead-layer",
    also=("dead-units", "zero-gradients", "constant-output", "vanishing-gradients", *STANDS_STILL),
)
def relu_layer_below_zero(zoo: Zoo) -> None:
    """A bias of -10 in the middle: no unit there ever passes anything."""
    inputs, labels = blobs(800, features=16, classes=4, spread=1.0)
    middle = nn.Linear(48, 48)
    nn.init.constant_(middle.bias, -10.0)
    model = nn.Sequential(nn.Linear(16, 48), nn.ReLU(), middle, nn.ReLU(), nn.Linear(48, 4))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    fit(zoo, model, optimizer, batches(inputs, labels, size=40, steps=150), functional.cross_entropy)


@sick("dead-units", also=("dead-layer", "init-scale"))
def two_thirds_of_filters_dead(zoo: Zoo) -> None:
    """Loaded biases of another network: 11 of 16 filters never pass anything."""
    inputs, labels = shapes(600)
    first = nn.Conv2d(1, 16, 3)
    with torch.no_grad():
        first.get_parameter("bias")[:11] = -20.0
    model = nn.Sequential(first, nn.ReLU(), nn.AdaptiveAvgPool2d(4), nn.Flatten(), nn.Linear(256, 4))
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    fit(zoo, model, optimizer, batches(inputs, labels, size=32, steps=150), functional.cross_entropy)


@sick("dead-layer", also=("dead-units", "zero-gradients", "constant-output", *STANDS_STILL))
def autoencoder_with_dead_bottleneck(zoo: Zoo) -> None:
    """All weights into the bottleneck were made negative by abs() of the wrong sign; inputs are positive."""
    inputs = digits()[0].flatten(1)
    bottleneck = nn.Linear(64, 8)
    with torch.no_grad():
        bottleneck.weight.copy_(-bottleneck.weight.abs())
        bottleneck.bias.fill_(-0.1)
    model = nn.Sequential(bottleneck, nn.ReLU(), nn.Linear(8, 64))
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    feed = ((x, x) for (x,) in batches(inputs, size=64, steps=150))
    fit(zoo, model, optimizer, feed, functional.mse_loss)


@sick("saturated-units", also=("init-scale", "vanishing-gradients", "activation-scale", *STANDS_STILL))
def tanh_far_beyond_its_bend(zoo: Zoo) -> None:
    """Weights of a deviation of 5 under tanh: all outputs are ±1."""
    inputs, labels = blobs(800, features=20, classes=5)
    model = perceptron(20, 64, 64, 5, activation=nn.Tanh)
    for parameter in list(model.parameters())[:4]:
        nn.init.normal_(parameter, std=5.0)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    fit(zoo, model, optimizer, batches(inputs, labels, size=40, steps=150), functional.cross_entropy)


@sick("saturated-units", also=("input-scale", "vanishing-gradients", *STANDS_STILL))
def sigmoid_units_fed_with_bytes(zoo: Zoo) -> None:
    """Pictures from 0 to 255 into sigmoid units."""
    inputs, labels = digits()
    model = perceptron(64, 32, 32, 10, activation=nn.Sigmoid)
    nn.init.normal_(next(model.parameters()), std=0.3)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    feed = batches(inputs.flatten(1) * 255, labels, size=64, steps=150)
    fit(zoo, model, optimizer, feed, functional.cross_entropy)


@sick("init-constant", also=("zero-gradients", "dead-layer", "dead-units", "constant-output", *STANDS_STILL))
def mlp_of_zeros(zoo: Zoo) -> None:
    """All weights and biases zero: every unit is every other."""
    inputs, labels = digits()
    model = perceptron(64, 32, 32, 10)
    for parameter in model.parameters():
        nn.init.zeros_(parameter)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    fit(
        zoo,
        model,
        optimizer,
        batches(inputs.flatten(1), labels, size=64, steps=120),
        functional.cross_entropy,
    )


@sick("init-constant", also=STANDS_STILL)
def regression_of_equal_weights(zoo: Zoo) -> None:
    """Every weight is 0.1: all units of a layer stay equal for ever."""
    inputs, targets = regression(500, features=10)
    model = perceptron(10, 32, 32, 1, activation=nn.Tanh)
    for name, parameter in model.named_parameters():
        nn.init.constant_(parameter, 0.1 if name.endswith("weight") else 0.0)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    fit(zoo, model, optimizer, batches(inputs, targets, size=50, steps=120), functional.mse_loss)


class Recurrent(nn.Module):
    def __init__(self, hidden: int, outputs: int) -> None:
        super().__init__()
        self.rnn = nn.RNN(4, hidden, batch_first=True)
        self.head = nn.Linear(hidden, outputs)

    def forward(self, x: Tensor) -> Tensor:
        result: Tensor = self.head(self.rnn(x)[0][:, -1])
        return result


@sick("init-constant", also=STANDS_STILL)
def rnn_of_equal_weights(zoo: Zoo) -> None:
    """An RNN whose weights were all filled with 0.05."""
    rows = torch.randn(500, 10, 4)
    labels = (rows[:, :, 0].sum(1) > 0).long()
    model = Recurrent(24, 2)
    for parameter in model.rnn.parameters():
        nn.init.constant_(parameter, 0.05)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    fit(zoo, model, optimizer, batches(rows, labels, size=32, steps=120), functional.cross_entropy)


@sick(
    "init-scale",
    also=(
        "loss-at-chance-start",
        "activation-scale",
        "exploding-gradients",
        "dead-units",
        "update-ratio-low",
    ),
)
def classifier_drawn_far_too_wide(zoo: Zoo) -> None:
    """Hidden weights of a deviation of 3: the first loss is in the thousands."""
    inputs, labels = blobs(800, features=32, classes=5)
    model = perceptron(32, 64, 64, 5)
    for parameter in model.parameters():
        nn.init.normal_(parameter, std=3.0)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    fit(zoo, model, optimizer, batches(inputs, labels, size=40, steps=150), functional.cross_entropy)


@sick(
    "init-scale",
    also=("vanishing-gradients", "activation-scale", "constant-output", "update-ratio-high", *STANDS_STILL),
)
def cnn_drawn_a_thousand_times_too_narrow(zoo: Zoo) -> None:
    """A deviation of 1e-5 in four convolutions."""
    inputs, labels = shapes(500)
    layers = [layer for i in range(4) for layer in (nn.Conv2d(12 if i else 1, 12, 3, padding=1), nn.ReLU())]
    model = nn.Sequential(*layers, nn.AdaptiveAvgPool2d(2), nn.Flatten(), nn.Linear(48, 4))
    for parameter in model.parameters():
        nn.init.normal_(parameter, std=1e-5)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    fit(zoo, model, optimizer, batches(inputs, labels, size=32, steps=120), functional.cross_entropy)


@sick("loss-at-chance-start", also=("init-scale", "activation-scale", "exploding-gradients"))
def last_layer_hundred_times_too_loud(zoo: Zoo) -> None:
    """The output layer begins so large that the first loss is ten times that of guessing."""
    inputs, labels = digits()
    last = nn.Linear(48, 10)
    with torch.no_grad():
        last.weight *= 100
    model = nn.Sequential(nn.Linear(64, 48), nn.ReLU(), last)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    fit(
        zoo,
        model,
        optimizer,
        batches(inputs.flatten(1), labels, size=64, steps=150),
        functional.cross_entropy,
    )


@sick(
    "activation-scale",
    also=("input-scale", "exploding-gradients", "init-scale", "loss-at-chance-start", "diverging-loss"),
)
def residual_blocks_that_double(zoo: Zoo) -> None:
    """Sixteen blocks of x + 2x without a norm: outputs in the hundred thousands."""

    class Doubling(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear = nn.Linear(24, 24)

        def forward(self, x: Tensor) -> Tensor:
            return 2 * x + functional.relu(self.linear(x))

    inputs, labels = blobs(500, features=24, classes=4)
    model = nn.Sequential(*(Doubling() for _ in range(16)), nn.Linear(24, 4))
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    fit(zoo, model, optimizer, batches(inputs, labels, size=32, steps=100), functional.cross_entropy)


@sick("constant-output", also=("dead-layer", "dead-units", "zero-gradients", *STANDS_STILL))
def relu_behind_the_last_layer(zoo: Zoo) -> None:
    """A regression of negative targets ends in a ReLU: the answer is always 0."""
    inputs, targets = regression(500, features=8)
    model = nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 1), nn.ReLU())
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    fit(zoo, model, optimizer, batches(inputs, targets - 5, size=50, steps=200), functional.mse_loss)


@sick(
    "zero-gradients",
    also=("dead-layer", "constant-output", "unchanged-weights", "saturated-units", *STANDS_STILL),
)
def output_clamped_out_of_reach(zoo: Zoo) -> None:
    """Predictions are clamped to 0 … 1 while they begin at 5: no gradient passes the clamp."""

    class Clamped(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.body = perceptron(8, 32, 1)
            nn.init.constant_(self.body[-1].get_parameter("bias"), 5.0)

        def forward(self, x: Tensor) -> Tensor:
            result: Tensor = self.body(x).clamp(0.0, 1.0)
            return result

    inputs, targets = regression(500, features=8)
    model = Clamped()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    fit(zoo, model, optimizer, batches(inputs, targets.sigmoid(), size=50, steps=120), functional.mse_loss)


@sick("zero-gradients", also=("no-gradient", "unchanged-weights", *STANDS_STILL))
def hinge_loss_never_active(zoo: Zoo) -> None:
    """A triplet margin with the wrong sign: the loss is 0 from the first step on."""
    inputs, labels = blobs(400, features=12, classes=4)
    model = perceptron(12, 32, 8)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    monitor = zoo.watch(model, optimizer)
    for x, _ in batches(inputs, labels, size=60, steps=120):
        anchor, positive, negative = functional.normalize(model(x), dim=1).chunk(3)
        distance = (anchor - positive).norm(dim=1) - (anchor - negative).norm(dim=1)
        loss = functional.relu(distance - 2.5).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        monitor.step(loss=loss)
