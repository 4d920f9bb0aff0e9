"""Optimizers that move the inputs of a network: no training, and no run."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import nn
from torch.optim import LBFGS, SGD, Adam, Optimizer

from tb_netdebug.core.records.step import Kind
from tests.cli.test_run_command import watched
from tests.support.loops import Recorded
from tests.support.zero_code import sgd, step, zero_code

Move = Callable[[nn.Module], Optimizer]


def network() -> nn.Module:
    return nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3)).eval()


def descend(network: nn.Module, optimizer: Optimizer, made: Callable[[], torch.Tensor]) -> None:
    for _ in range(6):

        def closure() -> torch.Tensor:
            optimizer.zero_grad()
            loss = network(made()).square().mean()
            loss.backward()
            return loss

        if isinstance(optimizer, LBFGS):
            optimizer.step(closure)
        else:
            closure()
            optimizer.step()


def adversarial(network: nn.Module) -> Optimizer:
    inputs = torch.randn(5, 4, requires_grad=True)
    optimizer = Adam([inputs])
    descend(network, optimizer, lambda: inputs)
    return optimizer


def a_parameter(network: nn.Module) -> Optimizer:
    """As in tutorials on style transfer: of a network that is frozen."""
    network.requires_grad_(False)
    inputs = nn.Parameter(torch.randn(5, 4))
    optimizer = LBFGS([inputs])
    descend(network, optimizer, lambda: inputs)
    return optimizer


def a_disturbance(network: nn.Module) -> Optimizer:
    """What is optimized is added to the input, of a size that a weight of the network has, too."""
    picture, disturbance = torch.randn(8, 4), torch.zeros(8, 4, requires_grad=True)
    optimizer = SGD([disturbance], lr=0.1)
    descend(network, optimizer, lambda: (picture + disturbance).clamp(-1, 1))
    return optimizer


@pytest.mark.parametrize("move", [adversarial, a_parameter, a_disturbance])
def test_inputs_that_are_optimized_make_no_run(logdir: Path, move: Move) -> None:
    """Whoever asks why nothing was recorded is told which optimizer it was, and where it was made."""
    with zero_code(logdir) as found:
        optimizer = move(network())
    assert [] == found.trainings
    assert 0 == found.optimizers
    [told] = found.unrecorded()
    assert told.startswith(f"nothing was trained: {type(optimizer).__name__} (test_zero_code_inputs.py:")
    assert "holds no parameter of a model" in told


def test_a_training_with_attacks_in_between_is_one_run(logdir: Path) -> None:
    """Adversarial training: the steps are those of the network's own optimizer."""
    with zero_code(logdir) as found:
        model = network().train()
        optimizer = sgd(model)
        losses = []
        for _ in range(12):
            attack = torch.zeros(5, 4, requires_grad=True)
            attacker = SGD([attack], lr=0.1)
            inputs = torch.randn(5, 4)
            for _ in range(2):
                attacker.zero_grad()
                (-model(inputs + attack).square().mean()).backward()
                attacker.step()
            losses.append(step(model, optimizer))
    assert [12] == [training.steps for training in found.trainings]
    assert 0 == found.passed_over


def test_plain_weights_in_front_of_a_loss_are_a_training(logdir: Path) -> None:
    """The module that is called with what comes of them is no network: it has no weights."""
    with zero_code(logdir) as found:
        weight = torch.randn(4, 1, requires_grad=True)
        optimizer, measure = SGD([weight], lr=0.1), nn.MSELoss()
        for _ in range(6):
            optimizer.zero_grad()
            measure(torch.randn(8, 4) @ weight, torch.zeros(8, 1)).backward()
            optimizer.step()
    assert 1 == len(found.trainings)
    assert {"tensor0"} == Recorded(found.trainings[0].run_dir).names(Kind.WEIGHT)


SCRIPT = """
import torch
torch.manual_seed(0)
network = torch.nn.Linear(4, 2)
inputs = torch.randn(5, 4, requires_grad=True)
optimizer = torch.optim.Adam([inputs])
for _ in range(5):
    loss = torch.nn.functional.cross_entropy(network(inputs), torch.zeros(5, dtype=torch.long))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print(loss.item())
"""


def test_the_closing_line_names_the_optimizer(tmp_path: Path) -> None:
    """And no folder is made."""
    script = tmp_path / "attack.py"
    script.write_text(SCRIPT)
    actual = watched(str(script), folder=tmp_path)
    assert (0, "") == (actual.code, actual.errors)
    assert "nothing was trained: Adam (attack.py:6) holds no parameter of a model." in actual.closing
    assert [script] == list(tmp_path.iterdir())
