"""Training loops of all kinds, paused and stepped through a batch: they learn what they do alone."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import nn
from torch.nn import functional

from tests.support.debugged_loop import BATCHES, Loop, debugged_loop
from tests.support.loops import Recorded
from tests.support.streamed import steps, wait_for


def two_optimizers() -> Loop:
    torch.manual_seed(0)
    makes, judges = nn.Sequential(nn.Linear(4, 2)), nn.Sequential(nn.Linear(2, 1))
    of_makes, of_judges = (torch.optim.Adam(each.parameters(), lr=0.01) for each in (makes, judges))

    def batch() -> torch.Tensor:
        judges.zero_grad()
        made = makes(torch.randn(6, 4))
        loss = functional.softplus(judges(made.detach())).mean() + judges(torch.randn(6, 2)).square().mean()
        loss.backward()
        of_judges.step()
        makes.zero_grad()
        judges(made).mean().backward()
        of_makes.step()
        return loss

    return Loop({"G": makes, "D": judges}, [of_makes, of_judges], batch)


def closures() -> Loop:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 1))
    optimizer = torch.optim.LBFGS(model.parameters(), lr=0.5, max_iter=2)
    inputs = torch.randn(8, 3)

    def closure() -> torch.Tensor:
        optimizer.zero_grad()
        loss = (model(inputs) - inputs[:, :1]).square().mean()
        loss.backward()
        return loss

    return Loop({"": model}, [optimizer], lambda: optimizer.step(closure))


def accumulated() -> Loop:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(3, 4), nn.Dropout(0.5), nn.Linear(4, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)

    def batch() -> torch.Tensor:
        optimizer.zero_grad()
        for _ in range(2):
            loss = model(torch.randn(8, 3)).square().mean() / 2
            loss.backward()
        optimizer.step()
        return loss

    return Loop({"": model}, [optimizer], batch)


def mixed() -> Loop:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)

    def batch() -> torch.Tensor:
        optimizer.zero_grad()
        with torch.autocast("cpu", torch.bfloat16):
            loss = model(torch.randn(8, 3)).square().mean()
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        return loss

    return Loop({"": model}, [optimizer], batch)


CALL = ["forward Sequential", "forward 0", "forward 1", "forward 2"]
JUDGING = ["forward D", "forward D/0"]
MAKING = ["forward G", "forward G/0"]


@pytest.mark.parametrize(
    ("make", "places"),
    [
        (
            two_optimizers,
            [*MAKING, *JUDGING, *JUDGING, "backward", "optimizer", *JUDGING, "backward", "optimizer", "end"],
        ),
        (closures, ["optimizer", *CALL, "backward", *CALL, "backward", "end"]),
        (accumulated, [*CALL, "backward", *CALL, "backward", "optimizer", "end"]),
        (mixed, [*CALL, "backward", "optimizer", "end"]),
    ],
)
def test_each_kind_of_loop_is_stepped(
    logdir: Path, monkeypatch: pytest.MonkeyPatch, make: Callable[[], Loop], places: list[str]
) -> None:
    """By layer through a whole batch, then in all other ways; the weights become what they do alone."""
    alone = make()
    for _ in range(BATCHES):
        alone.batch()
    loop = make()
    with debugged_loop(loop, logdir, monkeypatch) as training:
        found = [training.step("layer")]
        while found[-1] != "end":
            found.append(training.step("layer"))
        for by in ("backward", "op", "optimizer", "op", "batch"):
            training.step(by)
            for each in training.ask("tensors"):
                training.ask("tensor", name=each["name"])
    assert places == found
    assert all(torch.equal(one, other) for one, other in zip(alone.weights(), loop.weights(), strict=True))
    assert list(range(BATCHES)) == steps(logdir / "run")


def test_a_pause_is_no_time_of_the_training(logdir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither of its steps nor of what watching costs, although it is where a step ends."""
    with debugged_loop(accumulated(), logdir, monkeypatch) as training:
        training.step("layer")
        training.step("batch")
        spent = training.monitor._governor.spent_secs
        lasts = 0.5 + 2 * (training.monitor._collector.spent_secs + spent)
        began = time.perf_counter()
        wait_for(lambda: time.perf_counter() - began > lasts)
    recorded = Recorded(logdir / "run")
    paused = recorded.scalars["probe/paused"][0]
    assert lasts < paused
    assert recorded.scalars["time/step"][0] < paused
    assert training.monitor._governor.spent_secs < lasts
