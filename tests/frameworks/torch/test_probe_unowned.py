"""Parameters that a loss depends on, and that no model and no optimizer has."""

from __future__ import annotations

import copy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional

from tb_netdebug.frameworks.torch.coverage.reached import reached_by
from tests.support.loops import mlp, vectors
from tests.support.probed import Probed, probed, sgd

Loss = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]
STEPS = 20


def trained(
    logdir: Path, model: nn.Module, loss_of: Loss, *others: torch.optim.Optimizer, given: Any = None
) -> Probed:
    """The model learns with an optimizer of its own; the others step as well."""
    optimizers = [sgd(model), *others]

    def body(step: int) -> torch.Tensor:
        for optimizer in optimizers:
            optimizer.zero_grad()
        loss = loss_of(*vectors())
        loss.backward()
        for optimizer in optimizers:
            optimizer.step()
        return loss

    return probed(logdir, model, given, body, steps=STEPS)


class Nested(nn.Module):
    """Layers and single weights where torch does not look."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(6, 6)
        self.blocks = {"a": [nn.Linear(6, 6, bias=False)]}
        self.weights = (nn.Parameter(torch.rand(6, 3) - 0.5),)

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        result: torch.Tensor = self.blocks["a"][0](self.first(inputs)).relu() @ self.weights[0]
        return result


def test_places_in_plain_containers(logdir: Path) -> None:
    """A list in a dict, and a tensor in a tuple, are named by where they are."""
    model = Nested()
    found = trained(logdir, model, lambda x, y: functional.cross_entropy(model(x), y))
    ((step, told),) = found.facts["unowned"]
    assert (1, ["blocks[a][0].weight", "weights[0]"]) == (step, told["names"])


def test_layers_that_only_the_forward_knows(logdir: Path) -> None:
    """Between two layers of the model, wherever they are kept."""
    middle = nn.Linear(6, 6)

    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.last = nn.Linear(6, 6), nn.Linear(6, 3)

        def forward(self, inputs: torch.Tensor) -> torch.Tensor:
            result: torch.Tensor = self.last(middle(self.first(inputs)).relu())
            return result

    model = Model()
    found = trained(logdir, model, lambda x, y: functional.cross_entropy(model(x), y))
    ((step, told),) = found.facts["unowned"]
    assert (1, "inside", 2, [], True) == (step, told["id"], told["tensors"], told["names"], told["fresh"])
    assert [[6], [6, 6]] == sorted(told["shapes"])


@pytest.mark.parametrize("is_before", [True, False])
def test_another_network_is_waited_for(is_before: bool, logdir: Path) -> None:
    """One before or behind the model may have an optimizer that steps rarely."""
    model, other = (nn.Linear(8, 3), nn.Linear(6, 8)) if is_before else (nn.Linear(6, 8), nn.Linear(8, 3))
    both = nn.Sequential(*((other, model) if is_before else (model, other)))
    found = trained(logdir, model, lambda x, y: functional.cross_entropy(both(x), y))
    ((step, told),) = found.facts["unowned"]
    assert (16, "outside", 2, True, False) == (
        step, told["id"], told["tensors"], told["fresh"], told["twin"]
    )  # fmt: skip


def test_what_was_trained_before_is_not_fresh(logdir: Path) -> None:
    """Weights with longer tails than those that torch starts with."""
    model, backbone = nn.Linear(64, 3), nn.Linear(6, 64)
    nn.init.normal_(backbone.weight, std=0.3)
    found = trained(logdir, model, lambda x, y: functional.cross_entropy(model(backbone(x)), y))
    assert not found.last("unowned")["fresh"]


def test_a_copy_of_the_model_is_called_so(logdir: Path) -> None:
    """A target network whose output nobody has detached, and that meets the outputs of the model's layers."""
    model = nn.Linear(6, 6)
    target = copy.deepcopy(model)
    found = trained(logdir, model, lambda x, y: (target(model(x)) - model(x)).square().mean())
    assert (True, "outside") == (found.last("unowned")["twin"], found.last("unowned")["id"])


def nothing(model: nn.Module) -> tuple[Loss, list[torch.optim.Optimizer]]:
    return lambda x, y: functional.cross_entropy(model(x), y), []


def adversarial(model: nn.Module) -> tuple[Loss, list[torch.optim.Optimizer]]:
    """Inputs that require gradients."""
    return lambda x, y: functional.cross_entropy(model(x.requires_grad_()), y), []


def penalty(model: nn.Module) -> tuple[Loss, list[torch.optim.Optimizer]]:
    """A gradient of a gradient."""

    def loss_of(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        scores = model(x.requires_grad_())
        (slope,) = torch.autograd.grad(scores.sum(), x, create_graph=True)
        loss: torch.Tensor = functional.cross_entropy(scores, y) + slope.square().mean()
        return loss

    return loss_of, []


def teacher(model: nn.Module) -> tuple[Loss, list[torch.optim.Optimizer]]:
    """Targets of another network that nobody has detached: beside the model, not part of it."""
    other = nn.Linear(6, 3)
    return lambda x, y: functional.mse_loss(model(x), other(x)), []


def rival(model: nn.Module) -> tuple[Loss, list[torch.optim.Optimizer]]:
    """Another network with its own optimizer."""
    critic = nn.Linear(3, 1)
    return lambda x, y: critic(model(x)).mean(), [sgd(critic)]


def frozen(model: nn.Module) -> tuple[Loss, list[torch.optim.Optimizer]]:
    """A network that is told not to learn."""
    critic = nn.Linear(3, 1).requires_grad_(False)
    return lambda x, y: critic(model(x)).mean(), []


def by_hand(model: nn.Module) -> tuple[Loss, list[torch.optim.Optimizer]]:
    """Weights that the program itself moves."""
    scale = nn.Parameter(torch.rand(8, 3))

    def loss_of(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        scale.data -= 0.01
        loss: torch.Tensor = (model(x) * scale[0]).square().mean()
        return loss

    return loss_of, []


def test_one_optimizer_for_the_model_and_more(logdir: Path) -> None:
    """A head that is not watched is no rival."""
    model, head = nn.Linear(6, 8), nn.Linear(8, 3)
    optimizer = torch.optim.SGD([*model.parameters(), *head.parameters()], lr=0.1)

    def body(step: int) -> torch.Tensor:
        inputs, labels = vectors()
        loss = functional.cross_entropy(head(model(inputs)), labels)
        loss.backward()
        optimizer.step()
        return loss

    assert not {"unowned", "elsewhere"} & probed(logdir, model, optimizer, body, steps=STEPS).facts.keys()


@pytest.mark.parametrize("kind", [nothing, adversarial, penalty, teacher, rival, frozen, by_hand])
def test_nothing_is_said_of(kind: Any, logdir: Path) -> None:
    """What others train, what nobody shall train, and inputs."""
    model = mlp()
    loss_of, others = kind(model)
    facts = trained(logdir, model, loss_of, *others).facts
    assert "unowned" not in facts
    assert ([(0, {"tensors": 2})] if others else None) == facts.get("elsewhere")


def test_it_is_taken_back(logdir: Path) -> None:
    """An optimizer comes for it after all."""
    model = Nested()
    hidden = [model.blocks["a"][0].weight, model.weights[0]]
    optimizers = [sgd(model)]

    def body(step: int) -> torch.Tensor:
        if step == 5:
            optimizers.append(torch.optim.SGD(hidden, lr=0.1))
        inputs, labels = vectors()
        loss = functional.cross_entropy(model(inputs), labels)
        loss.backward()
        for optimizer in optimizers:
            optimizer.step()
        return loss

    found = probed(logdir, model, None, body, steps=STEPS)
    assert [(1, 2), (5, 0)] == [(step, told["tensors"]) for step, told in found.facts["unowned"]]


def test_large_graphs_are_walked_in_part() -> None:
    """As many operations as wanted, and no more; gradients stay as they are."""
    layers = [nn.Linear(4, 4) for _ in range(50)]
    inputs = torch.rand(2, 4)
    for layer in layers:
        inputs = layer(inputs)
    found = reached_by([inputs.sum()], (), most=20)
    assert 0 < len(found) < 20
    assert 100 == len(reached_by([inputs.sum()], ()))
    assert all(each.grad is None for layer in layers for each in layer.parameters())
    assert {} == reached_by([torch.zeros(1)], ())
