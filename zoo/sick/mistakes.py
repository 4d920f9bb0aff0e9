"""Mistakes in the loop: modes, optimizers, gradients, signs."""

from __future__ import annotations

import copy

import torch
from torch import Tensor, nn
from torch.nn import functional

from zoo.data import batches, blobs, digits, regression, shapes
from zoo.fit import STANDS_STILL, fit, perceptron
from zoo.program import Zoo, sick


@sick("eval-mode-training")
def mlp_left_in_eval(zoo: Zoo) -> None:
    """After a first evaluation the model is never put back into train mode."""
    inputs, labels = blobs(512, features=20, classes=4)
    model = nn.Sequential(nn.Linear(20, 64), nn.BatchNorm1d(64), nn.ReLU(), nn.Dropout(0.2), nn.Linear(64, 4))
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    monitor = zoo.watch(model, optimizer)
    model.eval()
    with torch.no_grad():
        functional.cross_entropy(model(inputs), labels)
    for x, y in batches(inputs, labels, size=64, steps=150):
        loss = functional.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        monitor.step(loss=loss)


@sick("eval-mode-training", from_step=60)
def cnn_in_eval_after_first_epoch(zoo: Zoo) -> None:
    """model.train() stands before the loop over epochs instead of in it."""
    inputs, labels = shapes(800)
    model = nn.Sequential(
        nn.Conv2d(1, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.Flatten(), nn.Dropout(0.3), nn.Linear(800, 4)
    )
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    monitor = zoo.watch(model, optimizer)
    model.train()
    for _ in range(3):
        for x, y in batches(inputs[:640], labels[:640], size=32, steps=60):
            loss = functional.cross_entropy(model(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            monitor.step(loss=loss)
        model.eval()
        with torch.no_grad():
            monitor.log(val_loss=functional.cross_entropy(model(inputs[640:]), labels[640:]))


@sick("train-mode-evaluating", from_step=20)
def validated_with_dropout_on(zoo: Zoo) -> None:
    """model.eval() is forgotten: dropout and batch norm act in the validation, too."""
    inputs, labels = blobs(700, features=20, classes=5)
    model = nn.Sequential(nn.Linear(20, 64), nn.BatchNorm1d(64), nn.ReLU(), nn.Dropout(0.5), nn.Linear(64, 5))
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    monitor = zoo.watch(model, optimizer)
    for step, (x, y) in enumerate(batches(inputs[:500], labels[:500], size=50, steps=150), start=1):
        loss = functional.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        monitor.step(loss=loss)
        if step % 20 == 0:
            with torch.no_grad():
                monitor.log(val_loss=functional.cross_entropy(model(inputs[500:]), labels[500:]))


@sick("train-mode-evaluating", from_step=40)
def cnn_tested_without_eval(zoo: Zoo) -> None:
    """The test loop has no_grad() and nothing else; batch norm learns from the test set, too."""
    inputs, labels = shapes(640)
    model = nn.Sequential(
        nn.Conv2d(1, 8, 3, bias=False), nn.BatchNorm2d(8), nn.ReLU(), nn.Flatten(), nn.Linear(800, 4)
    )
    optimizer = torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9)
    monitor = zoo.watch(model, optimizer)
    for _ in range(4):
        model.train()
        for x, y in batches(inputs[:512], labels[:512], size=32, steps=40):
            loss = functional.cross_entropy(model(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            monitor.step(loss=loss)
        right = 0
        with torch.no_grad():
            for x, y in batches(inputs[512:], labels[512:], size=32, steps=4):
                right += int((model(x).argmax(1) == y).sum())
        monitor.log(test_accuracy=right / 128)


@sick(
    "grad-not-cleared",
    also=("diverging-loss", "loss-oscillating", "exploding-gradients", "update-ratio-high"),
)
def mlp_without_zero_grad(zoo: Zoo) -> None:
    """optimizer.zero_grad() is missing."""
    inputs, labels = digits()
    model = perceptron(64, 48, 10)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    monitor = zoo.watch(model, optimizer)
    for x, y in batches(inputs.flatten(1), labels, size=32, steps=150):
        loss = functional.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        monitor.step(loss=loss)


@sick("grad-not-cleared")
def autoencoder_clears_another_model(zoo: Zoo) -> None:
    """zero_grad() is called on a copy of the model."""
    inputs = digits()[0].flatten(1)
    model = perceptron(64, 16, 64)
    best = copy.deepcopy(model)
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    monitor = zoo.watch(model, optimizer)
    for (x,) in batches(inputs, size=64, steps=150):
        best.zero_grad()
        loss = functional.mse_loss(model(x), x)
        loss.backward()
        optimizer.step()
        monitor.step(loss=loss)


@sick("no-gradient", also=("unchanged-weights", *STANDS_STILL))
def loss_made_anew_from_its_number(zoo: Zoo) -> None:
    """torch.tensor(loss.item(), requires_grad=True) silences the error, and nothing learns."""
    inputs, labels = blobs(500, features=10, classes=3)
    model = perceptron(10, 32, 3)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    monitor = zoo.watch(model, optimizer)
    for x, y in batches(inputs, labels, size=50, steps=120):
        value = functional.cross_entropy(model(x), y)
        loss = torch.tensor(value.item(), requires_grad=True)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        monitor.step(loss=loss)


class Split(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.encoder = nn.Sequential(nn.Conv2d(1, 8, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten())
        self.classifier = nn.Sequential(nn.Linear(200, 32), nn.ReLU(), nn.Linear(32, 4))

    def forward(self, x: Tensor) -> Tensor:
        features = self.encoder(x).detach()
        result: Tensor = self.classifier(features)
        return result


@sick("no-gradient", also=("unchanged-weights", "not-optimized"))
def encoder_cut_off_by_detach(zoo: Zoo) -> None:
    """A detach() left over from a visualisation: the convolutions never learn."""
    inputs, labels = shapes(500)
    model = Split()
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    fit(zoo, model, optimizer, batches(inputs, labels, size=32, steps=120), functional.cross_entropy)


class Unused(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(30, 16)
        self.first, self.second = nn.Linear(16, 16), nn.Linear(16, 16)
        self.head = nn.Linear(16, 2)

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.embedding(tokens).mean(1)
        hidden = functional.relu(self.first(x))
        hidden = functional.relu(self.second(x))
        result: Tensor = self.head(hidden)
        return result


@sick("no-gradient", also=("unchanged-weights",))
def layer_whose_output_is_overwritten(zoo: Zoo) -> None:
    """The second layer reads x instead of the first one's output."""
    tokens = torch.randint(30, (600, 8))
    labels = (tokens.float().mean(1) > 14.5).long()
    model = Unused()
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    fit(zoo, model, optimizer, batches(tokens, labels, size=32, steps=150), functional.cross_entropy)


@sick("not-optimized", also=("unchanged-weights", "no-gradient", *STANDS_STILL))
def model_rebuilt_after_optimizer(zoo: Zoo) -> None:
    """The optimizer still holds the weights of the model that was replaced."""
    inputs, labels = digits()
    model = perceptron(64, 48, 10)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    model = perceptron(64, 48, 10)
    fit(
        zoo,
        model,
        optimizer,
        batches(inputs.flatten(1), labels, size=64, steps=120),
        functional.cross_entropy,
    )


@sick("not-optimized", also=("unchanged-weights",))
def only_the_head_is_optimised(zoo: Zoo) -> None:
    """A new transformer, of which the optimizer was given the last layer alone."""
    tokens = torch.randint(20, (600, 10))
    labels = (tokens.float().mean(1) > 9.5).long()
    layer = nn.TransformerEncoderLayer(16, 2, 32, dropout=0.0, batch_first=True)
    encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
    head = nn.Linear(160, 2)
    model = nn.Sequential(nn.Embedding(20, 16), encoder, nn.Flatten(), head)
    optimizer = torch.optim.Adam(head.parameters(), lr=1e-3)
    fit(zoo, model, optimizer, batches(tokens, labels, size=32, steps=120), functional.cross_entropy)


class PlainList(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(20, 32)
        self.hidden = [nn.Linear(32, 32) for _ in range(3)]
        self.last = nn.Linear(32, 5)

    def forward(self, x: Tensor) -> Tensor:
        x = functional.relu(self.first(x))
        for layer in self.hidden:
            x = functional.relu(layer(x))
        result: Tensor = self.last(x)
        return result


@sick("not-optimized", also=("no-gradient", "frozen-weights", "unchanged-weights"))
def layers_in_a_plain_list(zoo: Zoo) -> None:
    """A Python list instead of nn.ModuleList: model.parameters() does not know these layers."""
    inputs, labels = blobs(700, features=20, classes=5)
    model = PlainList()
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    fit(zoo, model, optimizer, batches(inputs, labels, size=50, steps=120), functional.cross_entropy)


@sick("frozen-weights", also=("unchanged-weights", "not-optimized", *STANDS_STILL))
def everything_frozen_but_a_bias(zoo: Zoo) -> None:
    """A new network; the filter of names thaws "2.bias" only."""
    inputs, labels = blobs(600, features=16, classes=4)
    model = perceptron(16, 48, 4)
    for name, parameter in model.named_parameters():
        parameter.requires_grad = name == "2.bias"
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    fit(zoo, model, optimizer, batches(inputs, labels, size=50, steps=150), functional.cross_entropy)


@sick("unchanged-weights", also=("update-ratio-low", "precision-headroom", *STANDS_STILL))
def bfloat16_swallows_updates(zoo: Zoo) -> None:
    """Steps of 1e-6 are far below what bfloat16 weights can hold."""
    inputs, labels = blobs(600, features=16, classes=4, spread=0.5)
    model = perceptron(16, 64, 4).to(torch.bfloat16)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-6, weight_decay=0.0)
    feed = batches(inputs.to(torch.bfloat16), labels, size=50, steps=150)
    fit(zoo, model, optimizer, feed, functional.cross_entropy)


@sick("unchanged-weights", also=STANDS_STILL)
def best_weights_restored_each_step(zoo: Zoo) -> None:
    """Rolling back to the "best" state, which was saved before the first step and never again."""
    inputs, targets = regression(500, features=8)
    model = perceptron(8, 32, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    saved = copy.deepcopy(model.state_dict())
    monitor = zoo.watch(model, optimizer)
    for x, y in batches(inputs, targets, size=50, steps=150):
        loss = functional.mse_loss(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        model.load_state_dict(saved)
        monitor.step(loss=loss)
