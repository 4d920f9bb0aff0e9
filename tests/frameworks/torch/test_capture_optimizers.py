"""Optimizers that come and go."""

from __future__ import annotations

import gc
from pathlib import Path

import pytest
import torch
from torch import nn

import tb_netdebug as nd
from tb_netdebug.core.eventlog.reader.run import read_run


def test_watching_that_begins_within_a_step(logdir: Path) -> None:
    """In the closure, where Lightning calls the model: that step counts, with its gradients."""
    model = nn.Linear(2, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    monitors: list[nd.Monitor] = []

    def closure() -> float:
        if not monitors:
            monitors.append(
                nd.watch(model, optimizer, logdir=logdir, run="run", every=1, memory=False, strict=True)
            )
        optimizer.zero_grad()
        loss = model(torch.ones(3, 2)).sum()
        loss.backward()
        return float(loss.detach())

    for _ in range(3):
        loss = optimizer.step(closure)
        monitors[0].step(loss=loss)
    monitors[0].close()
    norms = read_run(logdir / "run").main.scalars["gradient_norm"]
    assert pytest.approx([27**0.5] * 3) == norms.values.tolist()


def test_optimizers_that_are_gone_leave_nothing_behind(logdir: Path) -> None:
    """A program may make one for every step."""
    model = nn.Linear(2, 1)
    with nd.watch(model, logdir=logdir, run="many", every=1, memory=False, strict=True) as monitor:
        for step in range(20):
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1 * (step + 1))
            model(torch.ones(3, 2)).sum().backward()
            optimizer.step()
            optimizer.zero_grad()
            monitor.step()
            assert 1 == len(monitor._adapter._optimizers._known)
            del optimizer
            gc.collect()
    rates = read_run(logdir / "many").main.scalars
    assert ["lr/0"] == [name for name in rates if name.startswith("lr/")]
    assert pytest.approx([0.1 * (step + 1) for step in range(20)]) == rates["lr/0"].values.tolist()


@pytest.mark.parametrize("is_first", [True, False])
def test_gradients_that_a_hook_repairs_are_those_of_the_step(is_first: bool, logdir: Path) -> None:
    """Whether it is registered before or after watching begins, it runs before we look."""
    model = nn.Linear(2, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    def repair(*_: object) -> None:
        for weight in model.parameters():
            assert weight.grad is not None
            weight.grad.nan_to_num_()

    if is_first:
        optimizer.register_step_pre_hook(repair)
    with nd.watch(model, optimizer, logdir=logdir, run="run", every=1, on_finding="ignore") as monitor:
        if not is_first:
            handle = optimizer.register_step_pre_hook(repair)
        for number in range(12):
            outputs = model(torch.ones(3, 2) * number)
            loss = outputs.square().mean() + (outputs - outputs).abs().sqrt().sum()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            monitor.step(loss=loss)
        if not is_first:
            handle.remove()
            assert repair not in optimizer._optimizer_step_pre_hooks.values()  # type: ignore[attr-defined]
    assert {0.0} == set(read_run(logdir / "run").main.scalars["nonfinite_gradients"].values.tolist())
    assert "nonfinite-gradient" not in {each.rule for each in nd.check(logdir).runs[0].findings}
