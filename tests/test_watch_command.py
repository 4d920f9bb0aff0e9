"""`netdebug watch`: the live view in a terminal, and the same as text."""

from __future__ import annotations

import math
import os
import re
import signal
import subprocess
import sys
import unicodedata
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import cast

import pytest
import torch
from tensorboard.compat.proto.event_pb2 import Event
from tensorboard.compat.proto.summary_pb2 import Summary
from tensorboard.summary.writer.event_file_writer import EventFileWriter
from torch import nn

import tb_netdebug as nd
from tb_netdebug.cli import main
from tb_netdebug.records.step import Kind
from tests.support.loops import fit, mlp
from tests.support.run_cases import RecordedRun, layer, sample
from tests.support.terminal import (
    ALTERNATE_OFF,
    ALTERNATE_ON,
    CURSOR_OFF,
    CURSOR_ON,
    SEQUENCE,
    Terminal,
    environment,
)

HOSTILE = (
    "\x1b]0;owned\x07\x1b[31mred",
    "\u202edesrever",
    "two\nlines\r\ttab",
    "x" * 10_000,
    "שלום",
    "漢字" * 40,
    "</script><img src=x>",
    "[red]markup[/red]",
    "zalgo" + "\u0301" * 500,
)
"""Names that a log file may hold; the file system takes only some of them as names of runs."""


@pytest.fixture
def write(logdir: Path) -> Iterator[Callable[..., RecordedRun]]:
    """Makes a run of this name; all of them are closed at the end."""
    runs: list[RecordedRun] = []

    def make(name: str, steps: int = 3, **options: object) -> RecordedRun:
        runs.append(RecordedRun(logdir / name))
        runs[-1].add(steps, **options)  # type: ignore[arg-type]
        return runs[-1]

    yield make
    for run in runs:
        run.close()


def watch(*words: object, **env: str) -> subprocess.CompletedProcess[str]:
    """The command in a process of its own, with pipes for its output."""
    return subprocess.run(
        [sys.executable, "-m", "tb_netdebug", "watch", *map(str, words)],
        env=environment(**env),
        cwd=sys.prefix,
        capture_output=True,
        text=True,
        encoding="utf-8",
        check=False,
    )


def live(logdir: Path, *words: object, width: int = 80, height: int = 24, **env: str) -> Terminal:
    command = [sys.executable, "-m", "tb_netdebug", "watch", str(logdir), *map(str, words)]
    return Terminal(command, env, width=width, height=height)


def shown(capsys: pytest.CaptureFixture[str], *words: object) -> str:
    """What the command prints here; it has to succeed."""
    assert 0 == main(["watch", *map(str, words)])
    return capsys.readouterr().out


def row(text: str, start: str) -> str:
    return next(line for line in text.splitlines() if line.startswith(start))


# ---- as text ---------------------------------------------------------------------------------------------


def test_a_real_training(logdir: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Step, loss, phases and the norms of every layer are those of the training."""
    torch.manual_seed(0)
    model = mlp()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with nd.watch(model, optimizer, logdir=logdir, run="real", every=1) as monitor:
        losses = fit(model, optimizer, steps=5, monitor=monitor)
    text = shown(capsys, logdir)
    assert "step 4" in row(text, "real")
    assert f"{losses[-1]:.4f}" in row(text, "loss")
    assert {"F", "B", "O"} <= set(row(text, "step time"))
    assert "1 in 1 " in row(text, "samples")
    assert "(step 4)" in row(text, "layer, worst first")
    first = cast(nn.Linear, next(model.children()))
    norm = torch.cat([first.weight.flatten(), first.bias]).norm().item()
    before = float(row(text, "0 ").split()[1])
    assert math.isclose(norm, before, rel_tol=0.05)  # it is the one before the last update


def test_the_course_of_the_run(
    logdir: Path, write: Callable[..., RecordedRun], capsys: pytest.CaptureFixture[str]
) -> None:
    """Loss, norm and own numbers have their last value and a line, in which a cross is not finite."""
    run = write("a", 8, scalars={"scalar/accuracy": 0.5})
    run.add(8, scalars={"loss": math.nan, "gradient_norm": 2.0, "nonfinite_gradients": 7.0})
    text = shown(capsys, logdir)
    assert re.fullmatch(r"loss +NaN  [▁-█]{8}×{8}", row(text, "loss"))
    assert re.fullmatch(r"gradient norm +NaN  ×{8}", row(text, "gradient norm"))
    assert re.fullmatch(r"accuracy +0\.5000  ▄{8}", row(text, "accuracy"))


def test_the_worst_layer_comes_first(
    logdir: Path, write: Callable[..., RecordedRun], capsys: pytest.CaptureFixture[str]
) -> None:
    """What is not finite, then updates far from a thousandth of the weight, then the others as they run."""
    samples = [
        *layer("good", 1.0, 0.5, 1e-3),
        *layer("slow", 1.0, 1e-6, 1e-9),
        *layer("broken", 1.0, math.nan, 1e-3),
        *layer("wild", 1.0, 9.0, 0.5),
        sample(Kind.ACTIVATION, "relu", [0.0] * 8, active=[False] * 6 + [True] * 2),
    ]
    write("a", 2, samples=samples)
    table = shown(capsys, logdir).partition("layer, worst first")[2].splitlines()[1:]
    assert ["broken", "slow", "relu", "wild", "good"] == [line.split()[0] for line in table]
    assert ["broken", "1.00", "NaN/Inf", "0.00100", "-"] == table[0].split()
    assert ["slow", "1.00", "1.0e-06", "1.0e-09", "-"] == table[1].split()
    assert ["relu", "-", "-", "-", "75", "%"] == table[2].split()


def test_the_list_of_layers_is_as_long_as_asked(
    logdir: Path, write: Callable[..., RecordedRun], capsys: pytest.CaptureFixture[str]
) -> None:
    """How many more there are is told; 0 shows none."""
    write("a", 1, samples=[each for name in "abcde" for each in layer(name, 1.0, 1.0, 1e-3)])
    assert "and 3 more" == shown(capsys, logdir, "--layers", 2).splitlines()[-1]
    assert "worst first" not in shown(capsys, logdir, "--layers", 0)
    assert 2 == main(["watch", str(logdir), "--layers", "-1"])


def test_the_run_that_began_last_is_shown(
    logdir: Path, write: Callable[..., RecordedRun], capsys: pytest.CaptureFixture[str]
) -> None:
    """Or the one that was asked for, by its name or the last part of it."""
    write("old/net", 3).close()
    newer = write("new", 5)
    later = newer.path.with_name(re.sub(r"\d{10}", "4000000000", newer.path.name))
    newer.close()
    newer.path.rename(later)
    assert "step 4" in row(shown(capsys, logdir), "▸ new")
    assert "step 2" in row(shown(capsys, logdir, "--run", "old/net"), "▸ old/net")
    assert "step 2" in row(shown(capsys, logdir, "--run", "net"), "▸ old/net")


def test_a_folder_that_all_runs_share_is_told_once(
    logdir: Path, write: Callable[..., RecordedRun], capsys: pytest.CaptureFixture[str]
) -> None:
    """In the title, so that the names differ where one sees it."""
    write("monday/a")
    write("monday/b")
    text = shown(capsys, logdir)
    assert "/monday/ " in text.splitlines()[0]
    assert ["a", "b"] == [line[2:].split()[0] for line in text.splitlines()[1:3]]


def test_the_output_is_the_same_each_time(logdir: Path, write: Callable[..., RecordedRun]) -> None:
    """Nothing in it depends on the moment, the width is fixed, and there are no colours."""
    run = write("a", 40, samples=layer("one", 1.0, 1.0, 1e-3))
    run.close()
    os.utime(run.path, (1e9, 1e9))  # what was written just now would be called live, for a while
    first, second = watch(logdir, "--once", FORCE_COLOR="", COLUMNS="50"), watch(logdir)
    assert (0, "") == (first.returncode, first.stderr)
    assert first.stdout == second.stdout
    assert "\x1b" not in first.stdout


def test_damage_is_told(
    logdir: Path, write: Callable[..., RecordedRun], capsys: pytest.CaptureFixture[str]
) -> None:
    """What is whole is shown, and how many places are not."""
    run = write("a", 3)
    run.add(3)
    run.close()
    data = bytearray(run.path.read_bytes())
    data[len(data) // 3] ^= 0xFF
    run.path.write_bytes(data)
    assert "cannot be read" in row(shown(capsys, logdir), "gaps")


def test_several_ranks(
    logdir: Path, write: Callable[..., RecordedRun], capsys: pytest.CaptureFixture[str]
) -> None:
    """It is said that there are others than the one shown."""
    write("a")
    other = RecordedRun(logdir / "a", rank=1)
    other.add(3)
    other.close()
    assert "2  shown is rank 0" in row(shown(capsys, logdir), "ranks")


def test_runs_of_other_writers(logdir: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Their scalars are shown, whatever their names are."""
    writer = EventFileWriter(str(logdir))
    for step in range(5):
        value = Summary.Value(tag="Loss/train", simple_value=5.0 - step)
        writer.add_event(Event(step=step, wall_time=1e9 + step, summary=Summary(value=[value])))
    writer.close()
    assert "1.0000  █" in row(shown(capsys, logdir), "Loss/train")


def test_nothing_heavy_is_imported(logdir: Path, run_python: Callable[..., str]) -> None:
    """A training can be watched where there is no torch, and the view is there at once."""
    RecordedRun(logdir / "a").close()
    run = RecordedRun(logdir / "b")
    run.add(3)
    run.close()
    code = (
        f"import sys; from tb_netdebug.cli import main; main(['watch', {str(logdir)!r}, '--once']);"
        "print([name for name in ('torch', 'tensorboard', 'grpc') if name in sys.modules])"
    )
    assert "[]" == run_python(code).splitlines()[-1]


# ---- names that others have written ----------------------------------------------------------------------


def is_harmless(text: str) -> bool:
    """Only letters, signs and line ends, and the one mark that keeps a line in order."""
    bad = {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"}
    return not any(unicodedata.category(c) in bad for c in text.replace("\n", "").replace("\u200e", ""))


def hostile_run(logdir: Path) -> None:
    run = RecordedRun(logdir / "run \x1b[2J\x07")
    samples = [each for name in HOSTILE for each in layer(name, 1.0, 1.0, 1e-3)]
    run.add(3, samples=samples, scalars={f"scalar/{name}": 1.0 for name in HOSTILE})
    run.close()
    other = RecordedRun(logdir / "\u202eother")
    other.add(1)
    other.close()


def test_hostile_names_are_only_text(logdir: Path) -> None:
    """No escape sequence, no line break and no mark that turns the line comes through."""
    hostile_run(logdir)
    ran = watch(logdir, "--run", "run \x1b[2J\x07")
    assert (0, "") == (ran.returncode, ran.stderr)
    assert is_harmless(ran.stdout)
    assert {"\\x1b]0;owned\\x07", "\\u202e", "[red]markup[/red]", "</script>", "שלום"} <= {
        text for text in ("\\x1b]0;owned\\x07", "\\u202e", "[red]markup[/red]", "</script>", "שלום")
        if text in ran.stdout
    }  # fmt: skip


def test_hostile_names_on_a_live_screen(logdir: Path) -> None:
    """The screen shows what is drawn, and nothing that a name asked for."""
    hostile_run(logdir)
    with live(logdir, "--run", "run \x1b[2J\x07", width=60, height=50) as terminal:
        assert is_harmless(terminal.wait_for("worst first", "markup"))
        assert b"\x1b[2J" not in terminal.output
        assert b"owned\x07" not in terminal.output


def test_a_message_about_a_hostile_name_is_harmless(logdir: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """Also where it only says that there is no such run."""
    hostile_run(logdir)
    assert 2 == main(["watch", str(logdir), "--run", "nobody", "--once"])
    assert is_harmless(capfd.readouterr().err)


# ---- mistakes --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["nowhere"], "there is no folder nowhere. Give the logdir"),
        (["file"], "file is a file. Give the folder that it is in: ."),
        (["localhost:6006"], "localhost:6006 is an address, and only folders can be watched yet"),
        (["[::1]:6006"], "is an address"),
        (["empty"], "there is no run in empty yet"),
        ([".", "--run", "b"], "has no run of that name. There are: a"),
        ([".", "--layers", "many"], "--layers"),
        ([], "LOGDIR"),
    ],
)
def test_mistakes_are_explained(
    words: Sequence[str],
    expected: str,
    logdir: Path,
    write: Callable[..., RecordedRun],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """One message that says what to do, no stack trace, and exit code 2."""
    monkeypatch.chdir(logdir)
    (logdir / "file").touch()
    (logdir / "empty").mkdir()
    write("a")
    assert 2 == main(["watch", *words])
    told = capsys.readouterr()
    assert expected in told.err
    assert ("", False) == (told.out, "Traceback" in told.err)


# ---- live ------------------------------------------------------------------------------------------------


def assert_left_clean(terminal: Terminal) -> None:
    """The screen of before is back, with a cursor, and typing works as it did."""
    assert 1 == terminal.output.count(ALTERNATE_ON) == terminal.output.count(ALTERNATE_OFF)
    assert terminal.output.rindex(CURSOR_ON) > terminal.output.rindex(CURSOR_OFF)
    assert terminal.modes_before == terminal.modes()


def test_new_steps_appear(logdir: Path, write: Callable[..., RecordedRun]) -> None:
    """Whatever is added to the run is on the screen soon after, and q quits."""
    run = write("a", 3)
    with live(logdir) as terminal:
        terminal.wait_for("step 2", "0.3333")
        run.add(4, samples=layer("fresh", 1.0, 1.0, 1e-3))
        terminal.wait_for("step 6", "0.1429", "fresh")
        terminal.press("q")
        assert 0 == terminal.end()
        assert_left_clean(terminal)


def test_it_waits_for_the_first_run(logdir: Path, write: Callable[..., RecordedRun]) -> None:
    """An empty folder is not a mistake: the training may begin later."""
    with live(logdir) as terminal:
        terminal.wait_for("There is no run in", "waiting")
        write("early", 2)
        terminal.wait_for("early", "step 1", without="waiting")


def test_it_waits_for_the_run_that_was_asked_for(logdir: Path, write: Callable[..., RecordedRun]) -> None:
    """And says so, and shows what others there are."""
    write("other")
    with live(logdir, "--run", "mine") as terminal:
        terminal.wait_for("There is no run mine yet", "1 run")
        write("mine", 7)
        terminal.wait_for("mine", "step 6", without="waiting")


@pytest.mark.parametrize(("forth", "back"), [("\t", "\x1b[Z"), ("\x1b[B", "\x1b[A"), ("\x1b[C", "\x1b[D")])
def test_keys_change_the_run(forth: str, back: str, logdir: Path, write: Callable[..., RecordedRun]) -> None:
    """Tab and arrows go through the list and around its end."""
    for number, name in enumerate("abc"):
        write(name, number + 1)
    with live(logdir, "--run", "a") as terminal:
        terminal.wait_for("▸ a", "loss                1.0000")
        terminal.press(forth)
        terminal.wait_for("▸ b", "loss                0.5000")
        terminal.press(forth + forth)
        terminal.wait_for("▸ a", "loss                1.0000")
        terminal.press(back)
        terminal.wait_for("▸ c", "loss                0.3333")


def test_ctrl_c_leaves_the_terminal_clean(logdir: Path, write: Callable[..., RecordedRun]) -> None:
    """With the exit code that shells expect."""
    write("a")
    with live(logdir) as terminal:
        terminal.wait_for("step 2")
        terminal.press("\x03")
        assert 130 == terminal.end()
        assert_left_clean(terminal)
        assert b"Traceback" not in terminal.output


def test_sigterm_leaves_the_terminal_clean(logdir: Path, write: Callable[..., RecordedRun]) -> None:
    """Whoever ends it from outside gets the terminal back as well."""
    write("a")
    with live(logdir) as terminal:
        terminal.wait_for("step 2")
        terminal.send(signal.SIGTERM)
        assert 143 == terminal.end()
        assert_left_clean(terminal)
        assert b"Traceback" not in terminal.output


def test_keys_are_not_echoed(logdir: Path, write: Callable[..., RecordedRun]) -> None:
    """Keys without a meaning do nothing, and Ctrl-Z does not leave a full screen in the shell."""
    write("a")
    with live(logdir) as terminal:
        terminal.wait_for("step 2")
        terminal.press("zyx\x1a\x1b[5~")
        write("b")
        assert "zyx" not in terminal.wait_for("2 runs")


def test_the_window_may_change_its_size(logdir: Path, write: Callable[..., RecordedRun]) -> None:
    """The next drawing fits, also into forty columns."""
    write("a", samples=[each for name in "abcdefgh" for each in layer(f"layer.{name}", 1.0, 1.0, 1e-3)])
    with live(logdir, width=100, height=30) as terminal:
        terminal.wait_for("update/w")
        terminal.resize(40, 12)
        lines = terminal.wait_for("upd/w", "and ", without="update/w").split("\n")
        assert 12 >= len(lines)
        assert {40} >= {len(line) for line in lines if line}


def test_a_run_that_goes_away(logdir: Path, write: Callable[..., RecordedRun]) -> None:
    """Whoever deletes it does not hurt the view, which then waits for others."""
    run = write("gone")
    run.close()
    with live(logdir) as terminal:
        terminal.wait_for("step 2")
        run.path.unlink()
        terminal.wait_for("There is no run in")


def test_a_terminal_that_can_do_nothing_gets_text(logdir: Path, write: Callable[..., RecordedRun]) -> None:
    """As with --once."""
    write("a").close()
    with live(logdir, TERM="dumb") as terminal:
        assert 0 == terminal.end()
        assert "step 2" in SEQUENCE.sub("", terminal.output.decode())
        assert ALTERNATE_ON not in terminal.output


def test_a_terminal_without_unicode(logdir: Path) -> None:
    """Bars and signs are ASCII, and letters that it does not know are question marks."""
    run = RecordedRun(logdir / "größe")
    run.add(3, scalars={"loss": math.nan})
    run.close()
    ran = watch(logdir, PYTHONIOENCODING="ascii", PYTHONUTF8="0")
    assert (0, "") == (ran.returncode, ran.stderr)
    assert ran.stdout.isascii()
    assert "xxx" in row(ran.stdout, "loss")
    assert "gr??e" in ran.stdout
