"""`netdebug replay` in the debugger: the step of a capsule, forward and backward, as often as one likes."""

from __future__ import annotations

import io
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from tests.support.replayed_here import replay_here
from tests.support.terminal import Terminal, environment

NETWORK = """
import torch
from torch import nn

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.drop, self.last = nn.Linear(4, 4), nn.Dropout(0.5), nn.Linear(4, 1)
        self.norm = nn.BatchNorm1d(4)

    def forward(self, x, *, scale=1.0):
        hidden = self.drop(self.norm(self.first(x)))
        return self.last(torch.log(hidden * scale))

def make():
    return Net()

def loss(output):
    return (output * 2).square().mean()

class Crashing(Net):
    def forward(self, x, *, scale=1.0):
        hidden = self.first(x)
        raise RuntimeError("the layer is full")
"""
SCRIPT = """
import sys
import torch
from net import Net
import tb_netdebug as nd

torch.manual_seed(0)
model = Net()
with nd.watch(model, logdir="logs", run="run", on_finding="ignore") as monitor:
    loss = model(torch.randn(3, 4), scale=2.0).mean()
    loss.backward()
    monitor.step(loss=loss)
"""
Replay = Callable[..., str]
CAPSULE = "logs/run/capsules/step-0.pt"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """With a network, its script, and the capsule of a step whose loss was NaN."""
    path = tmp_path_factory.mktemp("trained")
    (path / "net.py").write_text(NETWORK)
    (path / "train.py").write_text(SCRIPT)
    command = [sys.executable, "train.py"]
    subprocess.run(command, cwd=path, env=environment(), check=True, capture_output=True)
    return path


def replayed(
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    *commands: str,
    words: tuple[str, ...] = ("--model", "net.py:make"),
    code: int = 0,
) -> str:
    """What the commands show, from a pipe; after the facts of the capsule."""
    monkeypatch.chdir(folder)
    monkeypatch.syspath_prepend(str(folder))
    monkeypatch.delitem(sys.modules, "net", raising=False)
    monkeypatch.setattr("sys.stdin", io.StringIO("\n".join(commands)))
    assert code == replay_here(["--debug", *words, CAPSULE])
    caught = capsys.readouterr()
    return caught.out if code == 0 else caught.err


@pytest.fixture
def replay(folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Replay:
    def run(*commands: str, words: tuple[str, ...] = ("--model", "net.py:make"), code: int = 0) -> str:
        return replayed(folder, monkeypatch, capsys, *commands, words=words, code=code)

    return run


def test_it_is_paused_before_the_step(replay: Replay) -> None:
    """What the capsule says of itself, where backward begins, and where the step is."""
    shown = replay("where")
    assert "The first NaN is produced in Net" in shown
    assert "The backward pass begins at the sum of the model's outputs" in shown
    assert "Paused in step 0: before the step that the capsule holds" in shown
    assert "threading.py" not in shown


def test_continue_goes_to_the_first_nan(replay: Replay) -> None:
    """And everything that came before it is still there to be looked at."""
    shown = replay("continue", "print output:norm", "print output:drop", "batch")
    assert "watchpoint 2 was hit: output:last holds 3 values that are NaN or infinite" in shown
    assert "return self.last(torch.log(hidden * scale))" in shown
    assert "output:norm  float32[3, 4]" in shown
    assert "input  batch:0" in shown


def test_forward_and_backward(replay: Replay) -> None:
    """Layer by layer on the way there and back; at the end it says that it is the end."""
    shown = replay(
        "delete all",
        "until first",
        "next",
        "next 2",
        "next",
        "step backward 2",
        "step batch",
        "print gradient:last.weight",
    )
    places = [line.strip() for line in shown.splitlines() if line.startswith("  ") and " (" in line]
    assert ["before first (Linear)", "before norm (BatchNorm1d)", "before last (Linear)"] == [
        place.removeprefix("forward, ") for place in places if place.startswith("forward, before")
    ]
    assert any(place.startswith("backward, after") for place in places)
    assert "Note: The step is over. `continue` or `restart` goes back to its beginning." in shown
    assert "gradient:last.weight  float32[1, 4]" in shown


def test_the_same_numbers_after_a_restart(replay: Replay, folder: Path) -> None:
    """Weights, running averages, modes and dropout are those of the capsule each time."""
    look = ("until last", "print output:drop -w {}.npy", "print input:last -s")
    lines = [line.format(number) for number in range(3) for line in (*look, "restart")]
    shown = replay("delete all", *lines, "continue", "continue", "until last", "print output:drop -w 3.npy")
    first = np.load(folder / "0.npy")
    assert (3, 4) == first.shape
    assert (first == 0).any()  # dropped
    assert (first != 0).any()
    for number in range(1, 4):
        np.testing.assert_array_equal(first, np.load(folder / f"{number}.npy"))
    assert 5 == shown.count("before the step that the capsule holds")


def test_a_loss_of_ones_own(replay: Replay) -> None:
    """The way back begins there."""
    shown = replay(
        "delete all",
        "step batch",
        "print loss:backward -s",
        words=("--loss", "net.py:loss", "--model", "net.py:make"),
    )
    assert "The backward pass begins at the loss that --loss computes." in shown
    assert "loss:backward  float32[]" in shown


def test_a_step_that_fails(replay: Replay) -> None:
    """The error is told, and what came before it can be looked at."""
    shown = replay("continue", "print output:first -s", "restart", words=("--model", "net.py:Crashing"))
    assert "The step failed: RuntimeError: the layer is full (net.py:24)." in " ".join(shown.split())
    assert "output:first  float32[3, 4]" in shown


def test_a_loss_that_does_not_fit(replay: Replay) -> None:
    """In the words of the table; the class of our own error is no part of them."""
    shown = replay("delete all", "continue", words=("--loss", "net.py:make", "--model", "net.py:make"))
    assert (
        "The step failed: --loss net.py:make cannot be called with the model's output as its only argument"
        in " ".join(shown.split())
    )
    assert "UserMistake" not in shown


def test_operations_of_the_step(replay: Replay) -> None:
    """One by one, or those that match."""
    shown = replay("delete all", "step op -m log")
    assert "before aten.log.default in Net" in shown


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("--model", "torch.nn:Identity"), "do not fit a Identity"),
        (
            ("--model", "net.py:make", "--loss", "net.py:nothing"),
            "--loss net.py:nothing: net.py has no attribute",
        ),
        (("--model", "net.py:make", "--loss", "loss"), "expected MODULE:CALLABLE"),
    ],
)
def test_mistakes_are_said_before_it_opens(replay: Replay, words: tuple[str, ...], sentence: str) -> None:
    """With the exit code of all mistakes."""
    assert sentence in replay("where", words=words, code=2)


def command_line(folder: Path, *options: str) -> list[str]:
    """In the folder, which a terminal of the tests is not."""
    words = ["replay", *options, CAPSULE, "train.py"]
    code = (
        f"import os, sys; os.chdir({str(folder)!r}); from tb_netdebug.cli import main; "
        f"sys.exit(main({words}))"
    )
    return [sys.executable, "-c", code]


def test_a_person_at_a_terminal_gets_the_debugger(folder: Path, tmp_path: Path) -> None:
    """Tab, Ctrl-C and leaving without a question: there is no training that could run on."""
    command = command_line(folder)
    env = {"XDG_STATE_HOME": str(tmp_path), "NO_COLOR": "1"}
    with Terminal(command, env, width=120) as terminal:
        terminal.wait_for_output(r"before the step that the capsule holds", r"\(netdebug\) $")
        terminal.press("c\r")
        terminal.wait_for_output("watchpoint 2 was hit", r"\(netdebug\) $")
        prompts = terminal.written.count("(netdebug)")
        terminal.press("\x03")
        terminal.wait_until(lambda: terminal.written.count("(netdebug)") > prompts, "a new prompt")
        terminal.press("print output:nor\t -s\r")
        terminal.wait_for_output(r"12 values", r"\(netdebug\) $")
        terminal.press("\x04")
        assert 0 == terminal.end()
        assert "Let it continue" not in terminal.written
        assert b"Traceback" not in terminal.output


def test_a_person_may_want_the_table(folder: Path, tmp_path: Path) -> None:
    """As a pipe gets it."""
    command = command_line(folder, "--no-debug")
    with Terminal(command, {}, width=120) as terminal:
        assert 1 == terminal.end()
        assert "from finite inputs." in terminal.written
        assert "(netdebug)" not in terminal.written
