"""Training loops that fail, are interrupted or closed: what was recorded is kept, and nothing is left."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import tb_netdebug as nd
from tests.support.loops import (
    OF_PARAMETERS,
    Recorded,
    assert_complete,
    fit,
    hooks_of,
    mlp,
    no_warnings,
    recorded,
)


def back(loss: torch.Tensor) -> None:
    loss.backward()  # type: ignore[no-untyped-call]


class Broken(nn.Module):
    """Fails in forward or backward when it is told to."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(6, 3)
        self.fails = ""

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        output: torch.Tensor = self.layer(inputs)
        if self.fails == "forward":
            raise ValueError("forward")
        if self.fails == "backward":
            output.register_hook(fail)
        return output


def fail(*_: object) -> None:
    raise ValueError("on purpose")


@pytest.mark.parametrize("place", ["forward", "backward", "optimizer"])
@pytest.mark.parametrize("kind", [ValueError, KeyboardInterrupt])
def test_going_on_after_an_exception(place: str, kind: type[BaseException], logdir: Path) -> None:
    """A step that fails half-way costs nothing but itself."""
    model = Broken()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    def raising(*_: object) -> None:
        raise kind("on purpose")

    def train_step(fails: bool) -> None:
        optimizer.zero_grad()
        output = model(torch.randn(8, 6))
        if fails and place == "forward":
            raising()
        if fails and place == "backward":
            output.register_hook(raising)
        back(output.square().mean())
        if fails and place == "optimizer":
            handle = optimizer.register_step_pre_hook(raising)
            try:
                optimizer.step()
            finally:
                handle.remove()
        optimizer.step()

    def steps(monitor: nd.Monitor) -> None:
        for batch in range(5):
            if batch == 2:
                with pytest.raises(kind):
                    train_step(fails=True)
            else:
                train_step(fails=False)
                monitor.step(loss=batch)

    found = recorded(logdir, model, optimizer, steps)
    assert [0.0, 1.0, 3.0, 4.0] == found.series("loss")
    for kind_ in OF_PARAMETERS:
        assert [0, 1, 2, 3] == list(found.samples(kind_, "layer.weight"))
    parts = [name for name in found.scalars if name.startswith("time/") and name != "time/step"]
    for step in found.steps:
        total = math.fsum(found.scalars[name].get(step, 0.0) for name in parts)
        assert total <= found.scalars["time/step"][step] * (1 + 1e-9)


def test_an_exception_in_a_module_goes_on_up(logdir: Path) -> None:
    """What the model raises reaches the user unchanged, and the next batch is recorded."""
    model = Broken()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    def steps(monitor: nd.Monitor) -> None:
        for batch, fails in enumerate(("", "forward", "", "backward", "")):
            model.fails = fails
            if fails:
                with pytest.raises(ValueError, match=r"forward|on purpose"):
                    fit(model, optimizer, steps=1)
            else:
                fit(model, optimizer, steps=1)
                monitor.step(loss=batch)

    found = recorded(logdir, model, optimizer, steps)
    assert [0.0, 2.0, 4.0] == found.series("loss")


def interrupted(model: nn.Module, optimizer: torch.optim.Optimizer, monitor: nd.Monitor) -> None:
    fit(model, optimizer, steps=3, monitor=monitor)
    raise KeyboardInterrupt


def test_an_interrupted_program_is_closed(logdir: Path) -> None:
    """KeyboardInterrupt inside the with block: what was recorded is in the file, and the hooks are gone."""
    model = mlp()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    before = hooks_of(model)
    with (
        pytest.raises(KeyboardInterrupt),
        no_warnings(),
        nd.watch(model, optimizer, logdir=logdir, run="run", every=1) as monitor,
    ):
        interrupted(model, optimizer, monitor)
    assert [0, 1, 2] == Recorded(logdir / "run").steps
    assert before == hooks_of(model)


def test_no_hook_is_left_after_close(logdir: Path) -> None:
    """Watching one after the other leaves modules, optimizers and torch's registries as they were."""
    model = mlp()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    before = hooks_of(model)
    of_optimizer = (len(optimizer._optimizer_step_pre_hooks), len(optimizer._optimizer_step_post_hooks))
    for run, given in (("first", optimizer), ("second", None), ("third", [optimizer])):
        found = recorded(
            logdir, model, given, lambda monitor: fit(model, optimizer, monitor=monitor), run=run
        )
        assert_complete(found, list(range(6)))
        assert before == hooks_of(model)
        assert of_optimizer == (
            len(optimizer._optimizer_step_pre_hooks),
            len(optimizer._optimizer_step_post_hooks),
        )


def test_two_watches_at_once(logdir: Path) -> None:
    """Both record everything, into folders of their own, and the second goes on after the first is closed."""
    model = mlp()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    before = hooks_of(model)
    options: dict[str, Any] = {"logdir": logdir, "every": 1, "strict": True, "memory": False}
    with no_warnings():
        first = nd.watch(model, optimizer, **options)
        second = nd.watch(model, optimizer, **options)
        assert first.run_dir != second.run_dir
        for step in range(4):
            fit(model, optimizer, steps=1)
            first.step(loss=step)
            second.step(loss=step)
            if step == 1:
                first.close()
        second.close()
    assert before == hooks_of(model)
    assert_complete(Recorded(first.run_dir), [0, 1])
    assert_complete(Recorded(second.run_dir), [0, 1, 2, 3])


def test_after_close_nothing_is_recorded_and_nothing_fails(logdir: Path) -> None:
    """Every method of a closed monitor does nothing."""
    model = mlp()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    monitors: list[nd.Monitor] = []

    def steps(monitor: nd.Monitor) -> None:
        monitors.append(monitor)
        fit(model, optimizer, steps=2, monitor=monitor)

    recorded(logdir, model, optimizer, steps)
    (monitor,) = monitors
    with no_warnings():
        fit(model, optimizer, steps=2, monitor=monitor)
        monitor.log(late=1)
        monitor.tensor("late", [1.0])
        monitor.image("late", torch.zeros(2, 2))
        monitor.close()
        assert not monitor.flush()
    assert [0, 1] == Recorded(logdir / "run").steps
