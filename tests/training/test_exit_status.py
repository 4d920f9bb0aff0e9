"""`on_finding="raise"` when the script is over before anything was found: the exit status says it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import tb_netdebug as nd
from tb_netdebug.checks.finding_error import FindingError

WATCHED = """
import atexit, math, sys
import torch
import tb_netdebug as nd

atexit.register(print, "cleaned up")
model = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
monitor = nd.watch(model, optimizer, on_finding="raise", logdir="runs", run="run")
for number in range(3):
    loss = model(torch.randn(8, 4)).square().mean() * (math.nan if number == 2 and BAD else 1.0)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    monitor.step(loss=loss)
"""
UNWATCHED = "\n".join(
    line for line in WATCHED.splitlines() if "monitor" not in line and "tb_netdebug" not in line
)
PLAIN, RUN = (), ("-m", "tb_netdebug", "run", "--on-finding", "raise", "--logdir", "runs")


def ended(
    folder: Path, before: tuple[str, ...], script: str, end: str = "", *, is_bad: bool = True
) -> tuple[int, str, str]:
    """Status, output and errors of a script."""
    (folder / "script.py").write_text(f"BAD = {is_bad}\n{script}\n{end}\n")
    done = subprocess.run(
        [sys.executable, *before, "script.py"], cwd=folder, capture_output=True, text=True, check=False
    )
    return done.returncode, done.stdout, done.stderr


WAYS = pytest.mark.parametrize(
    ("before", "script"),
    [(PLAIN, WATCHED), (RUN, WATCHED), (RUN, UNWATCHED)],
    ids=["watch", "watch under run", "run"],
)


@WAYS
def test_what_is_found_at_the_end_makes_the_status_1(
    tmp_path: Path, before: tuple[str, ...], script: str
) -> None:
    """The finding is named; what the script has registered to be done at exit is done."""
    status, output, errors = ended(tmp_path, before, script)
    assert (1, "cleaned up\n") == (status, output)
    assert "nonfinite-loss" in errors
    assert "Traceback" not in errors


@WAYS
def test_a_healthy_training_ends_as_ever(tmp_path: Path, before: tuple[str, ...], script: str) -> None:
    status, output, errors = ended(tmp_path, before, script, is_bad=False)
    assert (0, "cleaned up\n") == (status, output), errors


@WAYS
@pytest.mark.parametrize(
    ("end", "status"),
    [("sys.exit(3)", 3), ("sys.exit(0)", 1), ("raise KeyboardInterrupt", -2)],
)
def test_a_status_of_the_scripts_own_is_kept(
    tmp_path: Path, before: tuple[str, ...], script: str, end: str, status: int
) -> None:
    """Unless it says that all went well."""
    assert status == ended(tmp_path, before, script, end)[0]


def test_with_raises_also_where_another_error_is_being_handled(logdir: Path) -> None:
    """Only an error of the block itself goes before the finding."""
    import torch

    model = torch.nn.Linear(2, 1)
    try:
        raise KeyError("handled")
    except KeyError:
        with (
            pytest.raises(FindingError, match="nonfinite-loss"),
            nd.watch(model, logdir=logdir, run="run", on_finding="raise") as monitor,
        ):
            monitor.step(loss=float("nan"))
