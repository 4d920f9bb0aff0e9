"""`netdebug run`: the script runs as under Python itself, and is told at the end what was found."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import zipfile
from dataclasses import dataclass
from pathlib import Path

import pytest

from tb_netdebug.cli import main
from tb_netdebug.cli.run import spelled_out
from tests.support.loops import Recorded

ROOT = Path(__file__).resolve().parents[2]
SCRIPTS = ROOT / "tests/support/scripts"
# What we say ourselves, at the end of all that the script has written on the same stream.
CLOSING = re.compile(r"(^NetDebug: (?!ERROR|WARNING).*\Z)", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True)
class Run:
    """How a program ended, what it wrote, and what we have said behind it."""

    code: int
    output: str
    errors: str
    closing: str = ""


def python(*words: str, folder: Path = SCRIPTS, text: str | None = None, flags: tuple[str, ...] = ()) -> Run:
    """A program of Python's own."""
    package = "" if sys.flags.isolated else str(ROOT)  # in an isolated run the installed wheel is tested
    ran = subprocess.run(
        [sys.executable, *flags, *words],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": package, "OMP_NUM_THREADS": "1", "COLUMNS": "100"},
        input=text,
        stdin=subprocess.DEVNULL if text is None else None,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    return Run(ran.returncode, ran.stdout, ran.stderr)


def watched(
    *words: str,
    folder: Path = SCRIPTS,
    text: str | None = None,
    flags: tuple[str, ...] = (),
    options: tuple[str, ...] = (),
) -> Run:
    """The same under `netdebug run`."""
    run = python("-m", "tb_netdebug", "run", *options, *words, folder=folder, text=text, flags=flags)
    closing = CLOSING.search(run.errors)
    errors = run.errors[: closing.start()] if closing else run.errors
    return Run(run.code, run.output, errors, closing[1] if closing else "")


SOFTMAXED = """
import torch
from torch import nn

model = nn.Sequential(nn.Linear(8, 4), nn.Softmax(1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(4):
    loss = nn.functional.cross_entropy(model(torch.randn(16, 8)), torch.arange(16) % 4)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""

WAYS = [
    "about",
    "return",
    "exit",
    "exit-3",
    "exit-none",
    "exit-text",
    "exit-true",
    "exit-negative",
    "exit-tuple",
    "close-streams",
    "raise",
    "raise-chained",
    "raise-hooked",
    "raise-hook-fails",
    "atexit",
    "thread",
    "os-exit",
    "interrupt",
    "interrupt-raised",
    "terminate",
    "fork",
]


@pytest.mark.parametrize("way", WAYS)
def test_a_script_runs_and_ends_as_under_python(way: str) -> None:
    """Its module, arguments, paths and pickles; exit status, output, traceback and the order at exit."""
    words = ("ways.py", way, "--every", "1", "-m", "--", "-x")
    expected, actual = python(*words), watched(*words)
    assert expected == Run(actual.code, actual.output, actual.errors)
    silent = ("os-exit", "terminate", "close-streams")
    assert actual.closing == ("" if way in silent else NO_TORCH)


NO_TORCH = "NetDebug: the script imported neither torch nor keras, so there was nothing to watch.\n"


@pytest.mark.parametrize(
    ("words", "flags"),
    [
        (("-m", "ways", "about", "-m", "other", "--", "--run"), ()),
        (("-m", "ways", "raise"), ()),
        (("-m", "no_such_module"), ()),
        (("./ways.py", "about"), ()),
        (("../scripts/ways.py", "about"), ()),
        (("ways.py", "about"), ("-P",) if sys.version_info >= (3, 11) else ()),
        (("ways.py", "about"), ("-OO", "-X", "dev")),
    ],
)
def test_modules_and_paths_are_taken_as_python_takes_them(
    words: tuple[str, ...], flags: tuple[str, ...]
) -> None:
    """`-m` with arguments that look like options, relative paths, and Python's own switches."""
    expected, actual = python(*words, flags=flags), watched(*words, flags=flags)
    assert expected.code == actual.code
    assert expected.output == actual.output
    assert expected.errors == actual.errors


def test_folders_archives_and_compiled_files(tmp_path: Path) -> None:
    """Whatever has a `__main__`."""
    source = (SCRIPTS / "ways.py").read_text()
    (tmp_path / "program").mkdir()
    (tmp_path / "program/__main__.py").write_text(source)
    with zipfile.ZipFile(tmp_path / "program.pyz", "w") as archive:
        archive.writestr("__main__.py", source)
    (tmp_path / "ways.py").write_text(source)
    assert 0 == python("-c", "import py_compile as p; p.compile('ways.py', 'ways.pyc')", folder=tmp_path).code
    for name in ("program", "./program", "program.pyz", "ways.pyc"):
        for way in ("about", "raise"):
            expected, actual = python(name, way, folder=tmp_path), watched(name, way, folder=tmp_path)
            assert expected == Run(actual.code, actual.output, actual.errors)


def test_standard_input_belongs_to_the_script(tmp_path: Path) -> None:
    """What is piped into it arrives, and `-` is a script from there."""
    lines = "one\ntwo\n"
    expected, actual = python("ways.py", "stdin", text=lines), watched("ways.py", "stdin", text=lines)
    assert ["['ONE\\n', 'TWO\\n']\n"] * 2 == [expected.output, actual.output]
    program = "import sys; print(__name__, sys.argv, sys.path[0] == '', 1 / 0)"
    expected, actual = (each("-", "x", text=program, folder=tmp_path) for each in (python, watched))
    assert expected == Run(actual.code, actual.output, actual.errors)


def test_a_script_that_is_no_python(tmp_path: Path) -> None:
    """Its SyntaxError is shown as its own."""
    (tmp_path / "broken.py").write_text("print('never')\nif True print('no Python')\n")
    expected, actual = python("broken.py", folder=tmp_path), watched("broken.py", folder=tmp_path)
    assert expected == Run(actual.code, actual.output, actual.errors)


def test_a_script_that_is_not_there(capsys: pytest.CaptureFixture[str]) -> None:
    """One sentence, and the same exit status as Python's."""
    assert 2 == python("nowhere.py").code == watched("nowhere.py").code
    assert "netdebug: cannot open 'nowhere.py': No such file or directory\n" == watched("nowhere.py").errors


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ([], "SCRIPT is missing"),
        (["--every", "0", "x.py"], "every=0"),
        (["--overhead", "2", "x.py"], "overhead=2.0 is a share"),
        (["--include", "(", "x.py"], "not a regular expression"),
        (["--run", "../x", "x.py"], "below logdir"),
    ],
)
def test_options_that_cannot_be_meant(
    words: list[str], sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Said before anything runs."""
    assert 2 == main(["run", *words])
    assert sentence in capsys.readouterr().err


def test_the_help_names_every_option(capsys: pytest.CaptureFixture[str]) -> None:
    """What can be typed, with an example for torchrun."""
    assert 0 == main(["run", "--help"])
    told = capsys.readouterr().out
    assert "netdebug run [options] (SCRIPT | -m MODULE) [ARGS...]" in told
    assert "torchrun" in told
    for option in [
        "--logdir",
        "--run",
        "--every",
        "--overhead",
        "--on-finding",
        "--include",
        "--exclude",
        "--console",
        "-m",
    ]:
        assert option in told


def test_a_package_with_a_training(tmp_path: Path) -> None:
    """`-m package` with relative imports: the same losses, weights and random numbers bit for bit."""
    words = ("-m", "study", "--lr", "0.01", "--steps", "12")
    expected = python(*words)
    actual = watched(*words, options=("--logdir", str(tmp_path / "logs"), "--run", "r", "--every", "1"))
    assert (0, expected.output) == (actual.code, actual.output)
    losses = [float(line) for line in expected.output.splitlines()[:12]]
    found = Recorded(tmp_path / "logs/r")
    assert losses == pytest.approx(found.series("loss"), rel=1e-6)
    assert {"": "Encoder"} == found.info["models"]
    assert ["AdamW"] == found.info["optimizers"]
    assert [10.0] * 12 == found.series("batch_size")
    assert "NetDebug: 12 steps recorded, verdict healthy." in actual.closing
    assert actual.closing.endswith(f"tensorboard --logdir {tmp_path / 'logs'}\n")


@pytest.mark.parametrize(
    ("how", "code", "steps"),
    [("", 1, 4), ("forward", 1, 3), ("backward", 1, 4), ("interrupt", -2, 4), ("os-exit", 9, 3)],
)
def test_a_training_that_fails_is_recorded_to_its_end(
    how: str, code: int, steps: int, tmp_path: Path
) -> None:
    """All steps are in the log, the failed one too (not after os._exit), and the traceback is its own.

    Of a forward pass that fails there is no step, only the capsule.
    """
    folder = tmp_path / "logs"
    expected = python("failing.py", how)
    actual = watched("failing.py", how, options=("--logdir", str(folder), "--run", "r"))
    assert (code, code) == (expected.code, actual.code)
    assert "tb_netdebug" not in actual.errors
    assert (
        expected.errors.splitlines()[-1:]
        == [line for line in actual.errors.splitlines() if not line.startswith("NetDebug: ")][-1:]
    )
    assert list(range(steps)) == Recorded(folder / "r").steps
    assert (how == "os-exit") == ("steps recorded" not in actual.closing)
    last = "".join(expected.errors.splitlines()[-1:]).partition(":")[0]
    ended = "was interrupted" if how == "interrupt" else f"ended with {last}"
    assert (how != "os-exit") == (f"The program {ended}: the verdict is on the steps" in actual.closing)


def test_a_script_that_only_infers(tmp_path: Path) -> None:
    """It is told that nothing was trained, and no folder is made."""
    (tmp_path / "inference.py").write_text((SCRIPTS / "inference.py").read_text())
    actual = watched("inference.py", folder=tmp_path)
    assert (0, python("inference.py", folder=tmp_path).output) == (actual.code, actual.output)
    assert "nothing was trained" in actual.closing
    assert ["inference.py"] == [path.name for path in tmp_path.iterdir()]


SICK = """
import torch
from torch import nn
torch.manual_seed(0)
model = nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for number in range(20):
    loss = model(torch.randn(8, 4)).square().mean() * (float("nan") if number == 9 else 1.0)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print("trained on")
"""


def test_findings_are_told_at_once_and_at_the_end(tmp_path: Path) -> None:
    """A line when it happens, the whole paragraph at the end, and where to see more."""
    (tmp_path / "sick.py").write_text(SICK)
    actual = watched("sick.py", folder=tmp_path, options=("--run", "ill"))
    assert (0, "trained on\n") == (actual.code, actual.output)
    assert re.search(r"^NetDebug: ERROR nonfinite-loss, steps? 9", actual.errors, re.MULTILINE)
    assert "verdict sick: " in actual.closing
    assert re.search(r"^ERROR nonfinite-loss, steps? 9.*\n  .+\n(.*\n)*  Try: ", actual.closing, re.MULTILINE)
    assert actual.closing.endswith("Recorded in runs/ill. To see more: tensorboard --logdir runs\n")


def test_a_finding_can_end_the_script(tmp_path: Path) -> None:
    """`--on-finding raise`: an error in the script, at the optimizer's step, soon after it was found."""
    slow = SICK.replace("    optimizer.step()", "    optimizer.step()\n    import time; time.sleep(0.1)")
    (tmp_path / "sick.py").write_text(slow)
    actual = watched("sick.py", folder=tmp_path, options=("--on-finding", "raise"))
    assert (1, "") == (actual.code, actual.output)
    assert "FindingError: ERROR nonfinite-loss" in actual.errors
    assert "optimizer.step()" in actual.errors
    assert "verdict sick" in actual.closing


FAILING = """
import torch

optimizer = torch.optim.SGD(torch.nn.Linear(2, 1).parameters(), lr=0.1)
for batch in []:
    optimizer.step()
"""


@pytest.mark.parametrize(
    ("last", "how"),
    [
        ("print(batch)", "failed"),
        ("raise KeyboardInterrupt", "was interrupted"),
        ("raise SystemExit(3)", "exited with status 3"),
        ("import sys; sys.exit('no data')", "exited with status 1"),
        ("del optimizer; raise SystemExit(2)", "exited with status 2"),
    ],
)
def test_a_script_that_fails_before_its_first_step(last: str, how: str, tmp_path: Path) -> None:
    """That is why no step was seen, and nothing else is guessed."""
    (tmp_path / "failing.py").write_text(FAILING + last)
    actual = watched("failing.py", folder=tmp_path)
    assert f"the script {how} before its first step was seen. Nothing was recorded.\n" in actual.closing


NEVER = "the script made no torch.optim optimizer"


@pytest.mark.parametrize(
    ("text", "closing"),
    [
        (
            FAILING,
            "no step of it was seen. Nothing was recorded. Check that the training loop was reached",
        ),
        (
            "import torch\nraise SystemExit(4)\n",
            "the script exited with status 4 before its first",
        ),
        ("import torch\nraise SystemExit(0)\n", NEVER),
    ],
)
def test_nothing_is_guessed_about_a_script_without_a_step(text: str, closing: str, tmp_path: Path) -> None:
    """Of torch.compile there is a word only where something was compiled."""
    (tmp_path / "stepless.py").write_text(text)
    assert closing in watched("stepless.py", folder=tmp_path).closing


def test_findings_can_be_ignored_until_the_end(tmp_path: Path) -> None:
    """`--on-finding ignore` says nothing while the script runs."""
    (tmp_path / "sick.py").write_text(SICK)
    actual = watched("sick.py", folder=tmp_path, options=("--on-finding", "ignore"))
    assert "ERROR" not in actual.errors
    assert "verdict sick" in actual.closing


def test_checks_are_set_for_a_script(tmp_path: Path) -> None:
    """On the command line, and in a netdebug.toml in the folder that the command is called in."""
    (tmp_path / "train.py").write_text(SOFTMAXED)
    slug = "loss-input-softmaxed"
    for options, is_told in ((("--off", slug), False), ((), True)):
        run = watched("train.py", folder=tmp_path, options=options)
        assert (0, is_told) == (run.code, slug in run.closing)
    (tmp_path / "netdebug.toml").write_text(f"[checks]\n{slug} = false\n")
    assert slug not in watched("train.py", folder=tmp_path).closing


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        (("--off", "nonsense"), "there is no check 'nonsense'"),
        (("--set", "dead-units.nonsense=3"), "has no threshold 'nonsense'"),
        (("--set", "dead-units"), "expected CHECK.NAME=NUMBER"),
        (("--config", "none.toml"), "none.toml"),
    ],
)
def test_a_check_that_does_not_exist_is_told_before_the_script_runs(
    options: tuple[str, ...], complaint: str
) -> None:
    run = python("-m", "tb_netdebug", "run", *options, "trainer.py")
    assert (2, "") == (run.code, run.output)
    assert complaint in run.errors
    assert "Traceback" not in run.errors


def test_nothing_heavy_is_imported_before_the_script() -> None:
    """A script may set OMP_NUM_THREADS before it imports NumPy: nobody else may have imported it."""
    assert "[]\n" in python("ways.py", "about").output
    assert "[]\n" in watched("ways.py", "about").output


def test_under_torchrun_the_ranks_write_one_run(tmp_path: Path) -> None:
    """`torchrun -m tb_netdebug run train.py` on two processes: rank 0 speaks, both record."""
    script = str(SCRIPTS / "distributed.py")
    torchrun = (
        "-m",
        "torch.distributed.run",
        "--standalone",
        "--local-addr",
        "127.0.0.1",
        "--nproc-per-node",
        "2",
    )
    expected = python(*torchrun, script, folder=tmp_path)
    actual = python(*torchrun, "-m", "tb_netdebug", "run", script, folder=tmp_path)
    assert (0, 0) == (expected.code, actual.code), expected.errors + actual.errors
    assert sorted(expected.output.splitlines()) == sorted(actual.output.splitlines())
    assert 1 == actual.errors.count("NetDebug: 5 steps recorded")
    (run,) = (tmp_path / "runs").iterdir()
    assert [list(range(5))] * 2 == [Recorded(run, rank).steps for rank in (0, 1)]


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (
            ["--debugger", "train.py", "--debugger", "x:1"],
            ["--debugger=here", "train.py", "--debugger", "x:1"],
        ),
        (["--debugger", "[::1]:6007", "train.py"], ["--debugger=[::1]:6007", "train.py"]),
        (
            ["--logdir", "d", "--debugger", "-m", "package"],
            ["--logdir", "d", "--debugger=here", "-m", "package"],
        ),
        (["--console", "--debugger=h:1", "train.py"], ["--console", "--debugger=h:1", "train.py"]),
        (["train.py", "--debugger"], ["train.py", "--debugger"]),
        (["--debugger"], ["--debugger=here"]),
    ],
)
def test_the_debugger_needs_no_address(words: list[str], expected: list[str]) -> None:
    """`--debugger` takes the next word only when it is an address, and the script keeps all of its own."""
    assert expected == spelled_out(words)
