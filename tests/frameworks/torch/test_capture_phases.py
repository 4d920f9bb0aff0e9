"""Where the time of a step goes, and how big its batches are, whatever part of a model is called."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

from tests.support.probed import Probed, probed, sgd

STEPS = [0, 1, 2]
PHASES = ("time/data", "time/forward", "time/backward", "time/optimizer")


class Holder(nn.Module):
    """Parts and no `forward`, as a policy and its critic are often kept together."""

    def __init__(self) -> None:
        super().__init__()
        self.policy, self.critic = nn.Sequential(nn.Linear(4, 4), nn.ReLU()), nn.Linear(4, 1)

    def value(self, x: torch.Tensor) -> Any:
        return self.critic(self.policy(x))


def trained(logdir: Path, model: Any, call: Callable[[torch.Tensor], Any], *, batches: int = 1) -> Probed:
    """Three steps, of so many batches of five each; `call` makes an output."""
    parts = model.values() if isinstance(model, dict) else [model]
    optimizer = sgd(nn.ModuleList(parts))

    def body(step: int) -> torch.Tensor:
        optimizer.zero_grad()
        for _ in range(batches):
            loss: torch.Tensor = call(torch.randn(5, 4)).square().mean()
            loss.backward()
        with torch.no_grad():
            call(torch.randn(7, 4))
        optimizer.step()
        return loss

    return probed(logdir, model, optimizer, body, steps=len(STEPS))


def assert_seen(found: Probed, size: float) -> None:
    """All phases in all steps, and batches of this size."""
    for phase in PHASES:
        assert STEPS == list(found.scalar(phase)), phase
    assert dict.fromkeys(STEPS, size) == found.scalar("batch_size")


def test_a_list_of_modules(logdir: Path) -> None:
    """It is never called itself; the first part tells the size of the batch, the others do not add to it."""
    torch.manual_seed(0)
    layers = nn.ModuleList([nn.Linear(4, 6), nn.ReLU(), nn.Linear(6, 2)])

    def call(x: torch.Tensor) -> torch.Tensor:
        for layer in layers:
            x = layer(x)
        return x

    assert_seen(trained(logdir, layers, call, batches=2), 10.0)


def test_a_dict_of_containers(logdir: Path) -> None:
    """Its parts are looked for as deep as they lie; one that is never called takes nothing away."""
    torch.manual_seed(0)
    idle, last = nn.Linear(4, 4), nn.Linear(4, 2)
    model = nn.ModuleDict({"unused": idle, "used": nn.ModuleList([nn.Linear(4, 4)]), "last": last})
    assert_seen(trained(logdir, model, lambda x: last(model["used"][0](x))), 5.0)


def test_a_module_without_a_forward_of_its_own(logdir: Path) -> None:
    """A container, too, although its class is the user's."""
    torch.manual_seed(0)
    model = Holder()
    assert_seen(trained(logdir, model, model.value), 5.0)


def test_a_part_within_another(logdir: Path) -> None:
    """The shared part runs inside of the whole: one forward pass, and one batch."""
    torch.manual_seed(0)
    part = nn.Linear(4, 4)
    whole = nn.Sequential(part, nn.ReLU(), nn.Linear(4, 2))
    model = nn.ModuleDict({"part": part, "whole": whole})
    assert_seen(trained(logdir, model, whole), 5.0)


def test_several_models(logdir: Path) -> None:
    """The batches are those of the first."""
    torch.manual_seed(0)
    first, second = nn.ModuleList([nn.Linear(4, 3)]), nn.Linear(3, 2)
    found = trained(logdir, {"A": first, "B": second}, lambda x: second(first[0](x).repeat(3, 1)))
    assert_seen(found, 5.0)


@pytest.mark.parametrize("is_reentrant", [True, False])
def test_what_is_computed_again_is_no_second_batch(is_reentrant: bool, logdir: Path) -> None:
    """Activation checkpointing calls the parts once more during the backward pass."""
    torch.manual_seed(0)
    layers = nn.ModuleList([nn.Linear(4, 4), nn.Linear(4, 2)])

    def call(x: torch.Tensor) -> Any:
        if not torch.is_grad_enabled():
            return layers[1](layers[0](x))
        for layer in layers:
            x = checkpoint(layer, x.requires_grad_(), use_reentrant=is_reentrant)
        return x

    assert_seen(trained(logdir, layers, call), 5.0)


def test_a_call_that_failed_is_forgotten(logdir: Path) -> None:
    """The next steps are told as ever."""
    torch.manual_seed(0)
    first, second = nn.Linear(4, 4), nn.Linear(4, 2)

    def call(x: torch.Tensor) -> Any:
        if torch.is_grad_enabled():
            with pytest.raises(RuntimeError, match="shapes"):
                first(torch.randn(5, 3))
        return second(first(x))

    found = trained(logdir, nn.ModuleList([first, second]), call)
    assert STEPS == list(found.scalar("time/forward"))
