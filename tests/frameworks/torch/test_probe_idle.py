"""What is told when no optimizer steps."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import tb_netdebug as nd
from tb_netdebug.core.records.step import Kind
from tests.support.loops import mlp, vectors
from tests.support.probed import Probed, backward, probed, sgd


def idle(found: Probed) -> list[tuple[int, dict[str, Any]]]:
    return [(step, told) for step, told in found.facts.get("optimizer", []) if told["id"] == "none"]


@pytest.mark.parametrize("is_cleared_last", [False, True])
def test_no_optimizer_steps(is_cleared_last: bool, logdir: Path) -> None:
    """`optimizer.step()` was forgotten; gradients come and are cleared."""
    model = mlp()
    optimizer = sgd(model)

    def body(step: int) -> torch.Tensor:
        if not is_cleared_last:
            optimizer.zero_grad()
        loss = backward(model)
        if is_cleared_last:
            optimizer.zero_grad()
        return loss

    step, told = idle(probed(logdir, model, optimizer, body))[0]
    assert 2 + is_cleared_last == step
    assert (0, True, True, False) == tuple(told[key] for key in ("steps", "gradients", "cleared", "moved"))


def by_data(model: nn.Module) -> None:
    for each in model.parameters():
        assert each.grad is not None
        each.data -= 0.1 * each.grad


def in_place(model: nn.Module) -> None:
    with torch.no_grad():
        for each in model.parameters():
            assert each.grad is not None
            each.sub_(0.1 * each.grad)


@pytest.mark.parametrize("update", [by_data, in_place])
def test_updates_by_hand(update: Any, logdir: Path) -> None:
    """They are legitimate, however written."""
    model = mlp()

    def body(step: int) -> torch.Tensor:
        model.zero_grad()
        loss = backward(model)
        update(model)
        return loss

    assert [] == idle(probed(logdir, model, None, body, steps=20))


def test_accumulation(logdir: Path) -> None:
    """The optimizer steps after 16 batches for the first time."""
    model = mlp()
    optimizer = sgd(model)

    def body(step: int) -> torch.Tensor:
        loss = backward(model)
        if step % 16 == 15:
            optimizer.step()
            optimizer.zero_grad()
        return loss

    assert [] == idle(probed(logdir, model, optimizer, body, steps=40))


def test_accumulation_before_an_optimizer_is_known(logdir: Path) -> None:
    """It was not given to NetDebug; the batches before its first step move nothing and are no updates."""
    model = mlp()
    optimizer = sgd(model)

    def body(step: int) -> torch.Tensor:
        loss = backward(model)
        if step % 20 == 19:
            optimizer.step()
            optimizer.zero_grad()
        return loss

    found = probed(logdir, model, None, body, steps=60, every=1)
    for name, _ in model.named_parameters():
        assert {19, 39, 59} == found.recorded.samples(Kind.UPDATE, name).keys()
    (run,) = nd.check(logdir).runs
    assert "unchanged-weights" not in [each.rule for each in run.findings]


def test_steps_that_a_scaler_skips(logdir: Path) -> None:
    """Its first scale is too large: the gradients overflow, and are cleared unused."""
    model = mlp()
    optimizer = sgd(model)

    def body(step: int) -> torch.Tensor:
        optimizer.zero_grad()
        loss = backward(model)
        if step < 10:
            model[0].weight.grad.fill_(torch.inf)  # type: ignore[index]
        else:
            optimizer.step()
        return loss

    assert [] == idle(probed(logdir, model, optimizer, body, steps=20))


def test_what_was_said_is_taken_back(logdir: Path) -> None:
    """When an optimizer steps after all."""
    model = mlp()
    optimizer = sgd(model)

    def body(step: int) -> torch.Tensor:
        optimizer.zero_grad()
        loss = backward(model)
        if step == 4:
            optimizer.step()
        return loss

    told = [(step, told["steps"]) for step, told in idle(probed(logdir, model, optimizer, body, steps=8))]
    assert [(2, 0), (4, 1)] == told


def test_predictions_only(logdir: Path) -> None:
    """Nothing is trained, and nothing is said."""
    model = mlp()

    def body(step: int) -> torch.Tensor:
        with torch.no_grad():
            return model(vectors()[0]).mean()  # type: ignore[no-any-return]

    assert {} == probed(logdir, model, None, body, steps=40).facts.get("optimizer", {})
