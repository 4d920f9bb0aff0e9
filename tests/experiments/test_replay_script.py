"""`netdebug replay CAPSULE SCRIPT`: the script gives its model, trains no second step and writes nothing."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import tb_netdebug as nd
from tb_netdebug.cli import main
from tb_netdebug.cli.replay import spelled_out
from tests.experiments.test_rehearsal_files import digest
from tests.support.replayed_here import replay_here

ROOT = Path(__file__).resolve().parents[2]
CAPSULE = "runs/r/capsules/step-1.pt"
# Without a word of NetDebug in it; it catches everything, and saves its weights in every step.
SCRIPT = """
import argparse, atexit, os, socket
import torch
from torch import nn

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.last = nn.Linear(4, 4), nn.Linear(4, 1)

    def forward(self, x):
        return self.last(torch.log(self.first(x)))

parser = argparse.ArgumentParser()
parser.add_argument("--lr", type=float, required=True)
options = parser.parse_args()
model = Net()
with torch.no_grad():
    model.first.weight.fill_(1.0), model.first.bias.fill_(0.5)
optimizer = torch.optim.SGD(model.parameters(), lr=options.lr)
open("log.txt", "a").write("began\\n")
atexit.register(lambda: open("atexit.txt", "w").write("x"))
for step in range(3):
    try:
        loss = model(torch.full((3, 4), -1.0 if step else 1.0)).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print("STEPPED", step, flush=True)
    finally:
        torch.save(model.state_dict(), "ckpt.pt")
"""
STUBBORN = (
    SCRIPT.partition("for step in range(3):")[0]
    + """
while True:
    try:
        model(torch.ones(3, 4)).mean().backward()
        optimizer.step()
        print("STEPPED")
    except:
        continue
"""
)
MISTAKES = {
    "raises.py": ("[][1]", "raises.py ended before its first optimizer step: IndexError"),
    "leaves.py": ("import os; os._exit(9)", "leaves.py ended the process itself (exit status 9)"),
    "nothing.py": ("x = 1", "no torch model was seen in nothing.py, which ended without an optimizer"),
}


def netdebug(folder: Path, words: Sequence[str]) -> subprocess.CompletedProcess[str]:
    code = f"import sys; from tb_netdebug.cli import main; sys.exit(main({list(words)!r}))"
    return subprocess.run(
        [sys.executable, "-c", code],  # far from the checkout: an isolated Python would not find `-m train`
        cwd=folder,
        env={**os.environ, "PYTHONPATH": "" if sys.flags.isolated else str(ROOT), "COLUMNS": "120"},
        capture_output=True,
        text=True,
        check=False,
        stdin=subprocess.DEVNULL,
    )


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """With a script and what `netdebug run` has recorded of it."""
    path = tmp_path_factory.mktemp("trained")
    (path / "train.py").write_text(SCRIPT)
    (path / "stubborn.py").write_text(STUBBORN)
    for name, (text, _) in MISTAKES.items():
        (path / name).write_text(text)
    run = ["run", "--logdir", "runs", "--run", "r", "--on-finding", "ignore", "train.py", "--lr", "0.1"]
    assert "STEPPED 2" in netdebug(path, run).stdout
    for name in ("log.txt", "atexit.txt"):
        (path / name).unlink()
    return path


@pytest.mark.parametrize("words", [["train.py", "--lr", "0.5"], ["-m", "train", "--lr", "0.5"]])
def test_a_script_without_a_word_of_ours(words: list[str], folder: Path) -> None:
    """It runs to its first step with its own arguments; the model takes the weights of the capsule."""
    before = digest(folder)
    ran = netdebug(folder, ["replay", CAPSULE, *words])
    assert 1 == ran.returncode, ran.stderr
    assert "STEPPED" not in ran.stdout
    assert "from finite inputs." == " ".join(ran.stdout.split())[-19:]
    assert ["first", "(Linear)", "float32[3,", "4]"] in [line.split()[:4] for line in ran.stdout.splitlines()]
    assert before == digest(folder)
    assert "netdebug: Writes were confined by the kernel (an overlay over every file system)." in ran.stderr
    (written,) = [line for line in ran.stderr.splitlines() if "Written to a temporary copy" in line]
    assert ["atexit.txt", "ckpt.pt", "log.txt"] == [
        Path(each.rstrip(".")).name
        for each in written.partition(": Written to a temporary copy, now gone: ")[2].split(", ")
    ]


@pytest.mark.parametrize(
    ("words", "said"),
    [(["nowhere.pt", "train.py"], "there is no file nowhere.pt"), ([CAPSULE, "nowhere.py"], "nowhere.py")],
)
def test_nothing_is_said_of_writes_when_nothing_ran(words: list[str], said: str, folder: Path) -> None:
    ran = netdebug(folder, ["replay", *words])
    assert (2, 1) == (ran.returncode, len(ran.stderr.splitlines()))
    assert said in ran.stderr


def test_a_script_that_catches_everything(folder: Path) -> None:
    """It is left behind; the batch is run beside it, and the exit code is that of the replay."""
    before = digest(folder)
    ran = netdebug(folder, ["replay", CAPSULE, "stubborn.py", "--lr", "1"])
    assert 1 == ran.returncode, ran.stderr
    assert "STEPPED" not in ran.stdout
    assert ran.stdout.rstrip().endswith("from finite inputs.")
    assert "stubborn.py does not end when asked to" in ran.stderr
    assert before == digest(folder)


def test_a_script_that_is_not_stopped(folder: Path) -> None:
    """What trains without a step that can be seen runs to its end, which is not kept quiet."""
    (folder / "steps_by_itself.py").write_text(SCRIPT.replace("optimizer.step()", "pass"))
    ran = netdebug(folder, ["replay", CAPSULE, "steps_by_itself.py", "--lr", "1"])
    assert 1 == ran.returncode, ran.stderr
    assert "netdebug: steps_by_itself.py ran to its end without an optimizer step.\n" in ran.stderr
    endless = "\nwhile True:\n    torch.autograd.grad(model(torch.ones(3, 4)).mean(), model.first.bias)\n"
    (folder / "endless.py").write_text(SCRIPT.partition("for step in range(3):")[0] + endless)
    ran = netdebug(folder, ["replay", CAPSULE, "endless.py", "--lr", "1"])
    assert 1 == ran.returncode, ran.stderr
    assert (
        "netdebug: endless.py was stopped (endless.py:25) after 1000 backward passes without an optimizer "
        "step. If it trains, NetDebug did not see how.\n"
    ) in ran.stderr
    ordinary = netdebug(folder, ["replay", CAPSULE, "train.py", "--lr", "1"])
    assert "to its end" not in ordinary.stderr


@pytest.mark.parametrize("name", MISTAKES)
def test_scripts_without_a_first_step(name: str, folder: Path) -> None:
    """A sentence says how they ended."""
    ran = netdebug(folder, ["replay", CAPSULE, name])
    assert 2 == ran.returncode
    assert MISTAKES[name][1] in ran.stderr
    assert "Traceback" not in ran.stderr


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["--model", "net:make", CAPSULE, "train.py"], "either SCRIPT or --model"),
        ([CAPSULE, "-m"], "MODULE is missing"),
    ],
)
def test_mistakes_that_start_nothing(words: list[str], text: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Before anything is read."""
    assert 2 == main(["replay", *words])
    assert text in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("c.pt", "-- c.pt"),
        ("--no-debug c.pt train.py --lr 1 --debug", "--no-debug -- c.pt train.py --lr 1 --debug"),
        ("c.pt --model net.py:make", "--model net.py:make -- c.pt"),
        ("c.pt --backward train.py -x", "--backward -- c.pt train.py -x"),
        ("c.pt train.py -- --lr 1", "-- c.pt train.py --lr 1"),
        ("c.pt -- train.py --lr 1", "-- c.pt train.py --lr 1"),
        ("c.pt -m package.train -m 1", "-m -- c.pt package.train -m 1"),
    ],
)
def test_what_stands_behind_the_script_is_its_own(words: str, expected: str) -> None:
    """Options of ours stand before it, as with `netdebug run`."""
    assert expected == " ".join(spelled_out(words.split()))


# ---- the command of a finding ----------------------------------------------------------------------------

# Zero on the way there, and infinite times zero on the way back.
BACKWARD = """
import torch
from torch import nn

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.last = nn.Linear(4, 4), nn.Linear(4, 1)

    def forward(self, x):
        return self.last((self.first(x) * 0.0).sqrt())

model = Net()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(3):
    optimizer.zero_grad()
    model(torch.ones(3, 4)).mean().backward()
    optimizer.step()
"""


def test_the_command_of_nan_gradients_shows_them(tmp_path: Path) -> None:
    """As it is printed: the forward pass alone is finite."""
    (tmp_path / "train.py").write_text(BACKWARD)
    ran = netdebug(tmp_path, ["run", "--logdir", "runs", "--run", "r", "train.py"])
    (command,) = set(re.findall(r"^ *(netdebug replay .*)$", ran.stdout + ran.stderr, re.MULTILINE))
    assert f"netdebug replay --backward {tmp_path}/runs/r/capsules/step-0.pt train.py" == command
    again = netdebug(tmp_path, shlex.split(command)[1:])
    assert 1 == again.returncode, again.stderr
    assert "The loss is finite; the first NaN on the way back is in the gradients of" in " ".join(
        again.stdout.split()
    )


MOVED = "import os\nos.makedirs('elsewhere', exist_ok=True)\nos.chdir('elsewhere')\n"


@pytest.mark.parametrize(
    ("started", "told"),
    [
        (["run", "--logdir", "runs", "-m", "pack.train", "--lr", "1"], "-m pack.train --lr 1"),
        (["run", "--logdir", "runs", "-m", "pack"], "-m pack"),
        (["run", "--logdir", "runs", "moved.py", "--lr", "1"], "{folder}/moved.py --lr 1"),
    ],
)
def test_the_command_runs_the_program_as_it_was_started(
    started: list[str], told: str, tmp_path: Path
) -> None:
    """A module by its name, since it may import its neighbours; a file also after a change of the folder."""
    package = tmp_path / "pack"
    package.mkdir()
    (package / "__init__.py").touch()
    (package / "neighbour.py").touch()
    for name in ("train", "__main__"):
        (package / f"{name}.py").write_text(f"from . import neighbour\n{BACKWARD}")
    (tmp_path / "moved.py").write_text(MOVED + BACKWARD)
    ran = netdebug(tmp_path, started)
    (command,) = set(re.findall(r"^ *(netdebug replay .*)$", ran.stdout + ran.stderr, re.MULTILINE))
    assert command.endswith(f"/capsules/step-0.pt {told.format(folder=tmp_path)}")
    again = netdebug(tmp_path, shlex.split(command)[1:])
    assert 1 == again.returncode, again.stderr


# ---- what does not come again ----------------------------------------------------------------------------


def capsule_of(model: nn.Module, path: Path, **other: Any) -> str:
    with nd.watch(model, logdir=path, run="r", on_finding="ignore") as monitor:
        model(torch.ones(2, 3))
        written = monitor.capsule()
    content = torch.load(str(written), weights_only=True)
    torch.save({**content, **other}, path / "other.pt")
    return str(path / "other.pt")


@pytest.mark.parametrize(
    ("fact", "told", "advice"),
    [
        ('{"kind": "NaN", "what": "output", "where": "0"}', "saw NaN in", "other than the weights"),
        ('{"kind": "Inf", "what": "output", "where": "0"}', "saw an infinity in", "other than the weights"),
        ('{"kind": "NaN", "what": "loss"}', "saw NaN in", "Try --backward"),
    ],
)  # fmt: skip
def test_a_capsule_that_does_not_come_again(
    fact: str, told: str, advice: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    """What the training saw is said, what the capsule says of it, and what to try; the code says finite."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / f"net{hash(fact)}.py").write_text(
        "from torch import nn\ndef make(): return nn.Linear(3, 2)\n"
    )
    path = capsule_of(nn.Linear(3, 2), tmp_path, first_nonfinite=fact)
    assert 0 == replay_here(["--model", f"net{hash(fact)}.py:make", path])
    shown = " ".join(capsys.readouterr().out.split())
    assert f"Everything was finite here, but the training {told} this step. The capsule records: The" in shown
    assert advice in shown


FAILING = (
    "from torch import nn\nclass Net(nn.Linear):\n    def forward(self, x): raise RuntimeError('full')\n"
)


@pytest.mark.parametrize(("error", "code"), [("Traceback…\nRuntimeError: full\n", 1), (None, 2)])
def test_a_step_that_fails(
    error: str | None, code: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    """The sentence says where, and whether it failed so in the run."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / f"failing{code}.py").write_text(FAILING + "def make(): return Net(3, 2)\n")
    path = capsule_of(nn.Linear(3, 2), tmp_path, error=json.dumps(error))
    assert code == replay_here(["--model", f"failing{code}.py:make", path])
    shown = " ".join(capsys.readouterr().out.split())
    assert (
        f"The step failed{' as it did then' if error else ''}: RuntimeError: full (failing{code}.py:3)"
        in shown
    )
