"""`netdebug watch` in a terminal, and names that would like to play with it."""

from __future__ import annotations

import math
import signal
import unicodedata
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tb_netdebug.cli import main
from tests.support.run_cases import RecordedRun, layer
from tests.support.terminal import ALTERNATE_OFF, ALTERNATE_ON, CURSOR_OFF, CURSOR_ON, SEQUENCE, Terminal
from tests.support.watching import live, row, watch, written

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
    yield from written(logdir)


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
        terminal.wait_for("There is no run in", "Waiting")
        write("early", 2)
        terminal.wait_for("early", "step 1", without="Waiting")


def test_it_waits_for_the_run_that_was_asked_for(logdir: Path, write: Callable[..., RecordedRun]) -> None:
    """And says so, and shows what others there are."""
    write("other")
    with live(logdir, "--run", "mine") as terminal:
        terminal.wait_for("There is no run mine yet", "1 run")
        write("mine", 7)
        terminal.wait_for("mine", "step 6", without="Waiting")


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
