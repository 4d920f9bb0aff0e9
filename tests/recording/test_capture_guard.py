"""What goes wrong in the recording never reaches the training; trouble makes it look closer."""

from __future__ import annotations

import inspect
import math
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import tb_netdebug as nd
from tb_netdebug.core.eventlog.writer import WriterWarning
from tb_netdebug.core.records.step import Kind
from tb_netdebug.recording.governor import STEPS_AROUND_TROUBLE
from tb_netdebug.recording.guard import MOST_FAULTS, MonitorError
from tests.support.loops import Recorded, fit, mlp, our_warnings, recorded


class Prickly(torch.Tensor):
    """Computes like any other, but fails where only a recorder looks."""

    def is_contiguous(self, *_: Any, **__: Any) -> bool:
        raise RuntimeError("do not look at me")

    def detach(self) -> torch.Tensor:
        raise RuntimeError("do not look at me")


class Thorny(nn.Module):
    """Its first output cannot be looked at, and its second layer gets an ordinary tensor again."""

    def __init__(self) -> None:
        super().__init__()
        self.body = mlp()
        self.thorn = Thorn()

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        scores: torch.Tensor = self.body(self.thorn(inputs).as_subclass(torch.Tensor))
        return scores


class Thorn(nn.Module):
    """Gives its input as a Prickly."""

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        return inputs.as_subclass(Prickly)


def losses_of(steps: int, logdir: Path | None, **options: Any) -> tuple[list[float], int]:
    """The losses, and the line on which it was watched."""
    torch.manual_seed(11)
    model = Thorny()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    if logdir is None:
        return fit(model, optimizer, steps=steps), 0
    line = inspect.currentframe().f_lineno + 1  # type: ignore[union-attr]
    with nd.watch(model, optimizer, logdir=logdir, run="run", every=1, memory=False, **options) as monitor:
        return fit(model, optimizer, steps=steps, monitor=monitor), line


def test_a_failing_hook_is_said_once_at_the_users_line(logdir: Path) -> None:
    """One warning, equal losses, and everything else is recorded."""
    expected, _ = losses_of(5, None)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        losses, line = losses_of(5, logdir)
    assert expected == losses
    (warning,) = [each for each in caught if issubclass(each.category, WriterWarning)]
    assert (__file__, line) == (warning.filename, warning.lineno)
    assert "looking at the output of thorn: RuntimeError: do not look at me" in str(warning.message)
    assert "The training goes on" in str(warning.message)
    found = Recorded(logdir / "run")
    assert expected == found.series("loss")
    assert {f"body.{number}" for number in range(5)} == found.names(Kind.ACTIVATION)
    assert [0, 1, 2, 3, 4] == list(found.samples(Kind.UPDATE, "body.0.weight"))


def test_after_many_faults_nothing_is_looked_at(logdir: Path) -> None:
    """A second warning says so; the losses go on being recorded."""
    expected, _ = losses_of(MOST_FAULTS + 10, None)
    with our_warnings() as told:
        losses, _ = losses_of(MOST_FAULTS + 10, logdir)
    assert expected == losses
    assert 2 == len(told)
    assert f"After {MOST_FAULTS} such failures" in told[1]
    found = Recorded(logdir / "run")
    assert expected == found.series("loss")
    assert list(range(MOST_FAULTS - 1)) == list(found.samples(Kind.ACTIVATION, "body.4"))
    assert list(range(MOST_FAULTS - 1)) == list(found.samples(Kind.UPDATE, "body.0.weight"))


def test_strict_raises_at_the_end_of_the_step(logdir: Path) -> None:
    """Not in the middle of the forward pass; and when it goes on, again at the next one."""
    torch.manual_seed(11)
    model = Thorny()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with (
        our_warnings() as told,
        nd.watch(model, optimizer, logdir=logdir, run="run", every=1, strict=True) as monitor,
    ):
        for _ in range(3):
            fit(model, optimizer, steps=1)
            with pytest.raises(MonitorError, match="do not look at me"):
                monitor.step()
    assert [] == told
    assert [0, 1, 2] == Recorded(logdir / "run").steps


def test_warnings_as_errors_do_not_reach_the_training(logdir: Path) -> None:
    """Under python -W error the recorder's own warnings are printed instead."""
    expected, _ = losses_of(3, None)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        losses, _ = losses_of(3, logdir)
    assert expected == losses


def test_tensors_and_images_that_cannot_be_read(logdir: Path) -> None:
    """What the user hands in by mistake is said once and costs nothing else."""
    with our_warnings() as told, nd.watch(mlp(), logdir=logdir, run="run", memory=False) as monitor:
        for step in range(3):
            monitor.tensor("object", object())
            monitor.tensor("meta", torch.empty(3, device="meta"))
            monitor.image("line", torch.zeros(3))
            monitor.tensor("good", [1.0, 2.0])
            monitor.step(loss=step)
    assert 2 == len(told)
    found = Recorded(logdir / "run")
    assert [0, 1, 2] == found.steps
    assert {"good"} == found.names(Kind.TENSOR)


def test_a_folder_that_cannot_be_written(logdir: Path) -> None:
    """The training goes on with equal losses, and one sentence says where nothing can be written."""
    (logdir / "run").write_text("a file in the way")
    torch.manual_seed(11)
    model = Thorny()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with our_warnings() as told:
        monitor = nd.watch(model.body, optimizer, logdir=logdir, run="run", every=1)
        losses = fit(model, optimizer, steps=3, monitor=monitor)
        monitor.close()
    assert losses_of(3, None)[0] == losses
    assert 1 == len([text for text in told if "cannot write" in text])


def test_a_line_a_batch(logdir: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """console=True prints loss, batch size, norm and time of each batch."""
    model = mlp()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    found = recorded(
        logdir, model, optimizer, lambda monitor: fit(model, optimizer, monitor=monitor), console=True
    )
    header, *lines = capsys.readouterr().out.splitlines()
    assert ["step", "loss", "batch", "grad", "norm", "rss", "time"] == header.split()
    assert [(str(step), f"{found.series('loss')[step]:.4f}", "8") for step in found.steps] == [
        tuple(line.split()[:3]) for line in lines
    ]


def test_without_console_nothing_is_printed(logdir: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Neither on stdout nor on stderr."""
    model = mlp()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    recorded(logdir, model, optimizer, lambda monitor: fit(model, optimizer, monitor=monitor))
    assert ("", "") == capsys.readouterr()


def test_trouble_brings_the_steps_around_it(logdir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With no room in the log, samples are held back until a loss is NaN: then those before and after."""
    monkeypatch.setattr("tb_netdebug.training.monitor.LOG_BYTES_PER_SEC", 0)
    monkeypatch.setattr("tb_netdebug.training.monitor.LOG_BURST_BYTES", 1)
    model = mlp()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    def steps(monitor: nd.Monitor) -> None:
        for step in range(60):
            fit(model, optimizer, steps=1)
            monitor.step(loss=math.nan if step == 30 else 1.0)

    found = recorded(logdir, model, optimizer, steps, every="auto", overhead=0.999, flight_recorder=10)
    assert list(range(60)) == list(found.scalars["loss"])
    sampled = set(found.samples(Kind.WEIGHT, "0.weight"))
    assert {0, *range(31, 30 + STEPS_AROUND_TROUBLE)} <= sampled
    assert sampled <= {0, *range(21, 31 + STEPS_AROUND_TROUBLE)}


def test_numbers_that_are_not_finite_are_recorded_as_such(logdir: Path) -> None:
    """NaN in loss, weights and activations: counted, and the training is left to itself."""
    model = mlp()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    def steps(monitor: nd.Monitor) -> None:
        fit(model, optimizer, steps=2, monitor=monitor)
        with torch.no_grad():
            model[0].weight[0, 0] = math.nan
        fit(model, optimizer, steps=2, monitor=monitor)

    found = recorded(logdir, model, optimizer, steps)
    assert [False, False, True, True] == [bool(np.isnan(value)) for value in found.series("loss")]
    assert 8 == found.samples(Kind.ACTIVATION, "0")[2].nan
    assert [0.0, 0.0] == found.series("nonfinite_gradients")[:2]
    gradients = [found.samples(Kind.GRADIENT, name)[2].nan for name in found.names(Kind.GRADIENT)]
    assert sum(gradients) == found.series("nonfinite_gradients")[2] > 0
