"""`netdebug debug` in a terminal: the prompt, Tab, Ctrl-C, and leaving."""

from __future__ import annotations

import math
import re
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.scripted_hub import KEY, ScriptedHub, other, serving
from tests.support.terminal import Terminal

PROMPT = r"\(netdebug\) $"


@pytest.fixture
def hub() -> Iterator[ScriptedHub]:
    with serving(ScriptedHub()) as started:
        yield started


@pytest.fixture
def terminal(hub: ScriptedHub, tmp_path: Path) -> Iterator[Terminal]:
    """At its first prompt."""
    with opened(hub, tmp_path) as terminal:
        terminal.wait_for_output(PROMPT)
        yield terminal


def opened(hub: ScriptedHub, home: Path, *words: str, **env: str) -> Terminal:
    command = [sys.executable, "-m", "tb_netdebug", "debug", hub.address, *words]
    return Terminal(command, {"XDG_STATE_HOME": str(home), "NO_COLOR": "1", **env}, width=100)


def typed(terminal: Terminal, line: str, *patterns: str) -> str:
    """What a line brings, once it has the patterns and there is a new prompt."""
    before = len(terminal.written)
    terminal.press(f"{line}\r")
    terminal.wait_until(
        lambda: all(found(pattern, terminal.written[before:]) for pattern in (*patterns, PROMPT)),
        f"{patterns} after {line!r}",
    )
    return terminal.written[before:]


def found(pattern: str, text: str) -> bool:

    return re.search(pattern, text) is not None


def left(terminal: Terminal) -> int:
    """The exit code, with the terminal as it was."""
    code = terminal.end()
    assert terminal.modes_before == terminal.modes()
    assert b"Traceback" not in terminal.output
    return code


def test_it_says_where_it_is(terminal: Terminal) -> None:
    """The training, its program, and where it is paused, before the first prompt."""
    assert "night/mlp: train.py, process 4242 on box" in terminal.written
    assert "Paused in step 4: you asked for it" in terminal.written


@pytest.mark.parametrize(("run", "what"), [("day", "runs"), ("night/mlp", "processes of this run")])
def test_it_says_that_there_are_others(hub: ScriptedHub, tmp_path: Path, run: str, what: str) -> None:
    """Other runs, or other ranks of the same."""
    hub.others = [other(hub, run, 1, "k1")]
    with opened(hub, tmp_path) as terminal:
        terminal.wait_for_output(f"There are 2 {what}: `sessions` lists them", PROMPT)


def test_an_empty_line_repeats_a_step(terminal: Terminal, hub: ScriptedHub) -> None:
    """And only a step: nobody sets a breakpoint twice by an Enter too many."""
    typed(terminal, "step layer 2", "Paused in step 5")
    typed(terminal, "", "Paused in step 6")
    assert [2, 2] == [wanted["count"] for wanted in hub.asked("step")]
    typed(terminal, "break end", "breakpoint 1")
    typed(terminal, "")
    assert 1 == len(hub.asked("set_breakpoint"))


@pytest.mark.parametrize(
    ("keys", "line"),
    [
        ("sna\t\r", "snapshot"),
        ("help wat\t\r", "help watch"),
        ("print wei\t\r", "print weight:encoder.weight"),
        ("print weight:enc\t[0]\r", r"print weight:encoder\.weight\[0\]"),
        ("eval abs(gra\t)\r", r"eval abs\(gradient:encoder\.weight\)"),
        ("use nig\t\r", "use night/mlp"),
        ("source /home/a\t\r", "source /home/ada/net.py"),
        ("watch gradient enc\t", r"encoder\s+encoder2"),
        ("watch gradient . abs_ma\t> 1\r", r"watchpoint 1: gradient \.: abs_max > 1"),
    ],
)
def test_tab_completes(terminal: Terminal, keys: str, line: str) -> None:
    """Commands, and what they take: tensors, layers, kinds, runs, files."""
    terminal.press(keys)
    terminal.wait_for_output(line)


def test_tab_offers_nothing_harmful(terminal: Terminal, hub: ScriptedHub) -> None:
    """A name that could do something to a terminal is not put into the line."""
    evil = {"name": "weight:\x1b[2Jevil", "kind": "weight", "shape": [1], "dtype": "float32", "bytes": 4}
    hub.answers["tensors"] = lambda _: [evil]
    terminal.press("print wei\t")
    hub.wait_for_call("tensors")
    terminal.press("\x15")
    typed(terminal, "lr", "SGD")
    assert b"\x1b[2Jevil" not in terminal.output


def test_continue_shows_what_stops_it(terminal: Terminal, hub: ScriptedHub) -> None:
    """It waits, and the prompt comes back with the reason."""
    terminal.press("c\r")
    terminal.wait_for_output("Running, step 4, loss 0.5. Ctrl-C pauses the run")
    hub.stop("watchpoint", "the loss is not finite", 2)
    terminal.wait_for_output("Paused in step 5: watchpoint 2 was hit: the loss is not finite", PROMPT)


def test_a_list_that_is_older_than_the_answer(terminal: Terminal, hub: ScriptedHub) -> None:
    """A training that goes on is not taken for paused because the hub has not heard of it yet."""
    hub.answers["continue"] = lambda _: {**hub.state, "status": "running"}
    terminal.press("c\r")
    terminal.wait_for_output("Running, step 4, loss 0.5. Ctrl-C pauses the run")
    hub.stop()
    terminal.wait_for_output("Paused in step 5 because of breakpoint 1", PROMPT)


def test_ctrl_c_pauses_a_running_training(terminal: Terminal, hub: ScriptedHub) -> None:
    """As in gdb; the program goes on."""
    terminal.press("continue\r")
    hub.wait_for_call("continue")
    terminal.wait_for_output("Running, step 4")
    terminal.press("\x03")
    terminal.wait_for_output("Paused in step 5: you asked for it", PROMPT)
    assert 1 == len(hub.asked("pause"))


def test_ctrl_c_twice_gives_the_prompt_back(terminal: Terminal, hub: ScriptedHub) -> None:
    """When the training takes its time with pausing."""
    terminal.press("continue\r")
    terminal.wait_for_output("Running, step 4")
    hub.answers["pause"] = lambda _: hub.state  # which is still running
    terminal.press("\x03")
    hub.wait_for_call("pause")
    terminal.press("\x03")
    terminal.wait_for_output("has not paused yet", PROMPT)
    hub.stop("asked", "you asked for it")
    typed(terminal, "wait", "Paused in step 5")


def test_ctrl_c_at_the_prompt_forgets_the_line(terminal: Terminal, hub: ScriptedHub) -> None:
    """And leaves nothing running or done."""
    terminal.press("snapshot")
    terminal.wait_for_output(PROMPT[:-1] + "snapshot$")  # a line that is not read yet is nobody's
    pressed = -math.inf

    def is_forgotten() -> bool:
        """Between a key and the wait for another, Python's readline misses a signal until the next."""
        nonlocal pressed
        if time.monotonic() - pressed > 2.0:
            pressed = time.monotonic()
            terminal.press("\x03")
        return bool(re.search(r"Ctrl-D to leave(?s:.)*" + PROMPT, terminal.written))

    terminal.wait_until(is_forgotten, "a prompt after Ctrl-C")
    assert [] == hub.asked("snapshot")


@pytest.mark.parametrize("keys", ["quit\r", "q\r", "\x04"])
@pytest.mark.parametrize("answer", ["\r", "y\r", "\x04"])
def test_leaving_lets_a_paused_training_run(
    terminal: Terminal, hub: ScriptedHub, keys: str, answer: str
) -> None:
    """After a question; and the hub hears that nobody is there any more."""
    terminal.press(keys)
    terminal.wait_for_output("Let it continue")
    terminal.press(answer)
    assert 0 == left(terminal)
    assert 1 == len(hub.asked("continue"))
    assert [] == hub.attended[-1]["sessions"]


def test_leaving_may_leave_it_paused(terminal: Terminal, hub: ScriptedHub) -> None:
    """Or not happen at all."""
    terminal.press("quit\r")
    terminal.wait_for_output("Let it continue")
    typed(terminal, "c")
    terminal.press("quit\r")
    terminal.wait_until(lambda: terminal.written.count("Let it continue") == 2, "second question")
    terminal.press("n\r")
    assert 0 == left(terminal)
    assert [] == hub.asked("continue")


def test_a_running_training_is_left_without_a_question(terminal: Terminal, hub: ScriptedHub) -> None:
    """There is nothing to decide."""
    typed(terminal, "continue &", "Running")
    terminal.press("\x04")
    assert 0 == left(terminal)


def test_what_others_do_is_told(terminal: Terminal, hub: ScriptedHub) -> None:
    """Before the next prompt, whatever the line was."""
    typed(terminal, "continue &", "Running")
    hub.stop("breakpoint", "of breakpoint 7", 7)
    typed(terminal, "", "Paused in step 5 because of breakpoint 7")


def test_a_history_that_lasts(terminal: Terminal, hub: ScriptedHub, tmp_path: Path) -> None:
    """The next time, too, and nobody else may read it."""
    typed(terminal, "continue &", "Running")
    typed(terminal, "lr", "SGD")
    terminal.press("\x04")
    assert 0 == left(terminal)
    history = tmp_path / "netdebug/debug_history"
    assert ["continue &", "lr"] == history.read_text().splitlines()[-2:]
    assert 0o700 == history.parent.stat().st_mode & 0o777
    with opened(hub, tmp_path) as again:
        again.wait_for_output(PROMPT)
        again.press("\x1b[A\r")
        again.wait_for_output("SGD")


def test_the_first_training_is_waited_for(hub: ScriptedHub, tmp_path: Path) -> None:
    """Who starts the debugger first need not start it again."""
    hub.is_gone = True
    with opened(hub, tmp_path) as terminal:
        terminal.wait_for_output("no run to debug yet")
        hub.is_gone = False
        terminal.wait_for_output("Paused in step 4", PROMPT)


def test_ctrl_c_while_it_waits_for_a_training(hub: ScriptedHub, tmp_path: Path) -> None:
    """There is nothing to pause: it ends."""
    hub.is_gone = True
    with opened(hub, tmp_path) as terminal:
        terminal.wait_for_output("no run to debug yet")
        terminal.press("\x03")
        assert 130 == left(terminal)


def test_a_hub_that_is_started_again(terminal: Terminal, hub: ScriptedHub) -> None:
    """While it is waited for, the training is not taken for over: it comes back to the new hub."""
    terminal.press("continue\r")
    terminal.wait_for_output("Running, step 4")
    hub.epoch, hub.is_gone = "second", True
    terminal.wait_for_output("TensorBoard does not answer. Waiting for it")
    hub.is_gone = False
    hub.stop()
    terminal.wait_for_output("Paused in step 5", PROMPT)


def test_a_terminal_that_can_do_nothing(hub: ScriptedHub, tmp_path: Path) -> None:
    """It gets text, and a prompt."""
    with opened(hub, tmp_path, TERM="dumb") as terminal:
        terminal.wait_for_output(PROMPT)
        typed(terminal, "print weight:encoder.weight", "6 values")
        assert b"\x1b[" not in terminal.output


def test_python_without_readline(hub: ScriptedHub, tmp_path: Path) -> None:
    """It works, without Tab."""
    code = (
        "import sys; sys.modules['readline'] = None; from tb_netdebug.cli import main; "
        f"main(['debug', {hub.address!r}])"
    )
    with Terminal([sys.executable, "-c", code], {"XDG_STATE_HOME": str(tmp_path)}) as terminal:
        terminal.wait_for_output(PROMPT)
        typed(terminal, "snapshot", "step-4.pt")


def test_the_end_of_the_training_while_it_is_waited_for(terminal: Terminal, hub: ScriptedHub) -> None:
    """It is said, and the prompt comes back."""
    terminal.press("continue\r")
    terminal.wait_for_output("Running, step 4")
    hub.is_gone = True
    terminal.wait_for_output("The run is over", PROMPT)
    terminal.press("\x04")
    assert 0 == left(terminal)
    assert KEY == hub.attended[0]["sessions"][0]
