"""A loop that forgets `monitor.step`: said after twenty optimizer steps, at the end, and in the run."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import tb_netdebug as nd
from tb_netdebug.core.eventlog.reader.followed_run import FollowedRun
from tb_netdebug.core.eventlog.reader.logdir import LogDir
from tb_netdebug.recording.first_step import STEPS_OF_PATIENCE

EARLY = "NetDebug: nothing is recorded yet: "
END = "NetDebug: nothing was recorded: "
LINE = "monitor.step(loss=loss)"
ROOT = Path(__file__).resolve().parents[2]
RUN_SCRIPTS = ROOT / "tests/support/run_scripts.py"
FORGOTTEN = """
import os, sys, warnings, torch, tb_netdebug as nd
{first}
def main():
    model = torch.nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    nd.watch(model, optimizer, logdir="runs", run="run")  # and nobody keeps what it returns
    for _ in range({steps}):
        optimizer.zero_grad()
        model(torch.ones(2, 4)).sum().backward()
        optimizer.step()
    {last}
main()
"""
# How many steps, what comes first, and what last.
PROGRAMS = {
    "long": (30, "", ""),
    "short": (3, "", ""),
    "exits": (3, "", "sys.exit(3)"),
    "closed-terminal": (3, "", "sys.stderr.close()"),
    "forks": (3, "", "os.fork() and os.wait()"),
    "warnings-off": (30, "warnings.simplefilter('ignore')", ""),
    "warnings-raise": (30, "warnings.simplefilter('error')", ""),
}


@dataclass(frozen=True, slots=True)
class Program:
    """One that has ended: its exit code, all that it printed, and where its run is."""

    code: int
    said: str
    logdir: Path


class Loop:
    """A training by hand; `step` is a batch without a `monitor.step`."""

    def __init__(self, make: Callable[[nn.Module], Sequence[torch.optim.Optimizer]] | None = None) -> None:
        self.model = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 1))
        self.optimizers = list(
            make(self.model) if make else [torch.optim.SGD(self.model.parameters(), lr=0.01)]
        )

    def watch(self, logdir: Path) -> nd.Monitor:
        return nd.watch(self.model, self.optimizers, logdir=logdir, run="run", on_finding="ignore")

    def step(self, times: int = 1) -> torch.Tensor:
        loss = torch.zeros(())
        for _ in range(times):
            for each in self.optimizers:
                each.zero_grad()
            loss = self.model(torch.randn(2, 4)).square().mean()
            loss.backward()
            for each in self.optimizers:
                each.step()
        return loss


def one_each(model: nn.Module) -> list[torch.optim.Optimizer]:
    """Many optimizers, as those have who step within backward: some for each parameter."""
    parameters = list(model.parameters()) * 8
    return [torch.optim.SGD([each], lr=0.001) for each in parameters]


def opened(logdir: Path) -> FollowedRun:
    places = LogDir([("", str(logdir))])
    places.refresh()
    run = places.open("run")
    run.refresh()
    return run


def reason_in(logdir: Path) -> str:
    """What the page, `watch` and `check` say of the run: the same sentences."""
    (report,) = nd.check(logdir).runs
    details = opened(logdir).details()
    assert ("unknown", "unknown") == (report.verdict, details["verdict"])
    assert report.reason == details["reason"]
    assert report.reason is not None
    return report.reason


def test_it_is_said_once_with_the_line_to_add(logdir: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Not a step too early; and at the end once more, with what was seen."""
    loop = Loop()
    monitor = loop.watch(logdir)
    loop.step(STEPS_OF_PATIENCE - 1)
    assert "" == capsys.readouterr().err
    loop.step()
    said = capsys.readouterr().err
    assert said.startswith(f"{EARLY}the optimizer stepped 20 times and monitor.step was not called.")
    assert LINE in said
    assert f"{Path(__file__).name}:" in said  # where nd.watch stands
    loop.step(100)
    assert "" == capsys.readouterr().err
    monitor.close()
    monitor.close()
    said = capsys.readouterr().err
    assert 1 == said.count(END)
    assert "stepped 120 times" in said
    assert LINE in said
    assert "stepped 120 times" in reason_in(logdir)


def test_a_run_that_goes_on_has_the_reason_already(logdir: Path) -> None:
    """For the page and `netdebug watch`, while the loop runs."""
    loop = Loop()
    monitor = loop.watch(logdir)
    loop.step(STEPS_OF_PATIENCE)
    assert monitor.flush()
    assert "the optimizer stepped 20 times and `monitor.step` was not called" in reason_in(logdir)
    monitor.close()


@pytest.mark.parametrize("batches_a_step", [1, 5])
@pytest.mark.parametrize("make", [None, one_each], ids=["one", "one for each parameter"])
def test_nobody_is_bothered_who_calls_it(
    logdir: Path, capsys: pytest.CaptureFixture[str], make: Any, batches_a_step: int
) -> None:
    """With one optimizer and with many, after each update and after several."""
    loop = Loop(make)
    with loop.watch(logdir) as monitor:
        assert not make or len(loop.optimizers) > STEPS_OF_PATIENCE
        for _ in range(30):
            monitor.step(loss=loop.step(batches_a_step))
    assert "" == capsys.readouterr().err
    assert "unknown" != nd.check(logdir).runs[0].verdict


def test_batches_that_are_added_up(logdir: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Forty batches, of which every second one steps: that is twenty steps of the optimizer."""
    loop = Loop()
    monitor = loop.watch(logdir)
    for number in range(2 * STEPS_OF_PATIENCE):
        assert "" == capsys.readouterr().err
        loop.model(torch.ones(2, 4)).sum().backward()
        if number % 2:
            loop.optimizers[0].step()
    assert capsys.readouterr().err.startswith(EARLY)
    monitor.close()


def test_several_optimizers_have_a_count_of_their_own(
    logdir: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    loop = Loop(one_each)
    monitor = loop.watch(logdir)
    loop.step(STEPS_OF_PATIENCE - 1)
    assert "" == capsys.readouterr().err
    loop.step()
    assert 1 == capsys.readouterr().err.count(EARLY)
    monitor.close()


def test_without_a_step_of_an_optimizer(logdir: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Loop().watch(logdir).close()
    said = capsys.readouterr().err
    assert said.startswith(f"{END}`monitor.step` was not called, and no optimizer step was seen.")
    assert "Check that the training loop ran." in said
    assert "no optimizer step was seen" in reason_in(logdir)


def test_a_program_that_fails_first(logdir: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Beside its traceback there is no advice about something else."""
    with pytest.raises(RuntimeError, match="no data"), Loop().watch(logdir):
        raise RuntimeError("no data")
    assert f"{END}the program failed or was interrupted before its first step.\n" == capsys.readouterr().err
    assert "Nothing was recorded: the program failed or was interrupted before its first step." == reason_in(
        logdir
    )


def test_a_program_that_is_killed_first(logdir: Path) -> None:
    """Nobody has said anything at the end: what is known is said, and what to do."""
    monitor = Loop().watch(logdir)
    assert monitor.flush()
    reason = reason_in(logdir)
    assert "it ended before its first step" in reason
    assert LINE in reason
    monitor.close()


def test_other_ranks_are_silent(
    logdir: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first one has said it."""
    monkeypatch.setenv("RANK", "1")
    monkeypatch.setenv("WORLD_SIZE", "2")
    loop = Loop()
    monitor = loop.watch(logdir)
    loop.step(STEPS_OF_PATIENCE + 1)
    monitor.close()
    assert "" == capsys.readouterr().err


def test_after_it_was_said_a_step_still_counts(logdir: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A loop that calls it after each epoch alone."""
    loop = Loop()
    with loop.watch(logdir) as monitor:
        monitor.step(loss=loop.step(STEPS_OF_PATIENCE))
        assert 1 == capsys.readouterr().err.count(EARLY)
        monitor.step(loss=loop.step(STEPS_OF_PATIENCE))
    assert "" == capsys.readouterr().err
    (report,) = nd.check(logdir).runs
    assert (2, None) == (report.steps, report.reason)
    assert "before_first_step" not in opened(logdir).info()


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Program]:
    """All of them at once, each a process that imports torch no more."""
    folder = tmp_path_factory.mktemp("programs")
    for name, (steps, first, last) in PROGRAMS.items():
        (folder / f"{name}.py").write_text(FORGOTTEN.format(steps=steps, first=first, last=last))
    path = os.pathsep.join([*(entry for entry in sys.path if entry), str(ROOT)])
    done = subprocess.run(
        [sys.executable, RUN_SCRIPTS, folder, *(f"{name} {folder / name}.py" for name in PROGRAMS)],
        stdout=subprocess.PIPE,
        text=True,
        check=True,
        env={**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "1"},
    )
    codes = {told["script"]: told["code"] for told in map(json.loads, done.stdout.splitlines())}
    return {
        name: Program(codes[name], (folder / name / "output").read_text(), folder / name / "runs")
        for name in PROGRAMS
    }


@pytest.mark.parametrize("name", PROGRAMS)
def test_at_the_end_of_a_program(programs: dict[str, Program], name: str) -> None:
    """Also of one that threw the monitor away, that forks, that switched warnings off or made them raise."""
    steps, _, last = PROGRAMS[name]
    done = programs[name]
    assert (3 if "exit" in last else 0) == done.code
    assert int("close" not in last) == done.said.count(END)
    assert int(steps >= STEPS_OF_PATIENCE) == done.said.count(EARLY)
    assert f"stepped {steps} times" in reason_in(done.logdir)
