"""`netdebug debug`: what each command asks of the training, and what it shows. Without a terminal."""

from __future__ import annotations

import contextlib
import io
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tb_netdebug.cli import main
from tb_netdebug.cli.debugging import choice
from tb_netdebug.cli.debugging.commands import COMMANDS, command_of
from tb_netdebug.cli.debugging.output import DebuggerOutput
from tb_netdebug.cli.debugging.words import CommandError, compact, excluding, ranges_of, split_slice
from tb_netdebug.cli.debugging.workspace import Workspace
from tb_netdebug.debugger.client.attendance import Attendance
from tb_netdebug.debugger.client.client import TrainingGoneError
from tb_netdebug.debugger.client.http_client import HttpClient
from tb_netdebug.debugger.client.hub_address import HubAddress
from tests.support.scripted_hub import KEY, Debug, RefusedError, ScriptedHub, debugging, other, serving


@pytest.fixture
def hub() -> Iterator[ScriptedHub]:
    with serving(ScriptedHub()) as started:
        yield started


@pytest.fixture
def debug(hub: ScriptedHub, capsys: pytest.CaptureFixture[str]) -> Debug:
    return debugging(hub, capsys)


# ---- words ----------------------------------------------------------------------------------------------


def test_ranges_as_people_write_them() -> None:
    """One pair, or several as tfdbg takes them."""
    infinity = float("inf")
    assert [(1.0, infinity)] == ranges_of("1,inf")
    assert [(-infinity, -1.0), (1.0, infinity)] == ranges_of("[[-inf, -1], [1, inf]]")
    for wrong in ("", "1", "a,b", "1,2,3"):
        with pytest.raises(CommandError):
            ranges_of(wrong)


def test_slices_may_have_spaces() -> None:
    """Brackets hold together; the last ones are the slice."""
    assert "a[0,:,3:10] -r [[1,2],[3,4]]" == compact("a[0, :, 3:10] -r [[1, 2], [3, 4]]")
    assert ("input:a[1]", "[0,:]") == split_slice("input:a[1][0,:]")
    assert ("a", None) == split_slice("a")


def test_excluding_is_one_regular_expression() -> None:
    """The wire takes only one: what matches, without what is excluded."""
    assert "a" == excluding("a", None)
    for pattern, names in ((excluding(None, "b|c"), ["a"]), (excluding("a", "b"), ["a", "ac"])):
        assert pattern is not None
        assert names == [name for name in ("a", "ab", "ac", "b") if re.search(pattern, name)]


def test_every_command_is_explained(debug: Debug) -> None:
    """The list has all, and each has a usage and a purpose of its own."""
    listed = debug("help")
    for command in COMMANDS:
        assert command.purpose
        assert command.purpose.split()[0] in listed
        assert command.usage.split()[0] in debug(f"help {command.name}")


def test_names_are_short_where_they_are_clear() -> None:
    """Short forms first, then beginnings; what is not clear is asked back."""
    for word, name in {"s": "step", "c": "continue", "n": "next", "p": "print", "snap": "snapshot"}.items():
        assert name == command_of(word).name
    with pytest.raises(CommandError, match=r"Which one: \w+, \w+"):
        command_of("re")
    with pytest.raises(CommandError, match="`help` lists the commands"):
        command_of("fly")


# ---- moving ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("line", "verb", "arguments"),
    [
        ("step", "step", {"by": "batch", "count": 1, "match": None}),
        ("s 3", "step", {"by": "batch", "count": 3, "match": None}),
        ("s layer 2 -m enc", "step", {"by": "layer", "count": 2, "match": "enc"}),
        ("step op -x 'view|copy'", "step", {"by": "op", "count": 1, "match": "^(?!.*(?:view|copy))"}),
        ("n", "step", {"by": "layer", "count": 1, "match": None}),
        ("next 5", "step", {"by": "layer", "count": 5, "match": None}),
        ("until step 12", "run_to", {"step": 12}),
        ("until encoder", "run_to", {"layer": "^encoder$"}),
        (r"until enc\d", "run_to", {"layer": r"enc\d"}),
    ],
)
def test_steps(hub: ScriptedHub, debug: Debug, line: str, verb: str, arguments: dict[str, Any]) -> None:
    """Each goes there and shows where that is."""
    shown = debug(line)
    assert [arguments] == hub.asked(verb)
    assert "Paused in step 5: you stepped to here" in shown
    assert "forward, before encoder (Linear)" in shown
    assert "->    10  line 10" in shown


def test_a_step_that_this_training_cannot_do(hub: ScriptedHub, debug: Debug) -> None:
    """It is refused here, with the training's own reason."""
    hub.session |= {"can": ["batch"], "cannot": ["The graph is compiled."]}
    assert "cannot be stepped by layer. The graph is compiled." in debug("next", code=1)
    assert [] == hub.asked("step")


@pytest.mark.parametrize("line", ["step sideways", "step batch many", "step 1 2", "next x", "until step x"])
def test_steps_that_are_none(hub: ScriptedHub, debug: Debug, line: str) -> None:
    """They are not sent."""
    assert debug(line, code=1)
    assert [] == hub.calls


def test_continue_waits_for_the_next_stop(hub: ScriptedHub, debug: Debug) -> None:
    """And tells what has stopped it, with the new hits."""

    def go_on(_: object) -> dict[str, Any]:
        hub.change(status="running")
        state = hub.state
        hub.stop("watchpoint", "abs_max of gradient:encoder.weight is 250.5, above 100", 1, hits=1)
        return state

    hub.answers["continue"] = go_on
    shown = debug("continue")
    assert "Paused in step 5: watchpoint 1 was hit: abs_max of gradient:encoder.weight is 250.5" in shown
    assert "hit 1 of watchpoint 1: gradient:encoder.weight: abs_max > 100: 250.5" in shown
    assert [{"since": 0}] == hub.asked("hits")


def test_a_training_that_ends_while_it_is_waited_for(hub: ScriptedHub, debug: Debug) -> None:
    """Whoever is no longer in the list of the same hub has ended."""

    def go_on(_: object) -> dict[str, Any]:
        hub.is_gone = True
        return {**hub.state, "status": "running"}

    hub.answers["continue"] = go_on
    assert "The run is over." in debug("continue")


def test_questions_to_a_training_that_is_over(hub: ScriptedHub) -> None:
    """They are answered with that, and not with what the hub says of an unknown key."""
    client = HttpClient(HubAddress.of(hub.address), label="ada", environ={})
    with Attendance(client, lambda _: None) as attendance:
        desk = Workspace(client, attendance, DebuggerOutput(io.StringIO()), is_interactive=False)
        desk.choose(client.sessions()[0])
        hub.is_gone = True
        with pytest.raises(TrainingGoneError, match="The training night/mlp is over"):
            desk.call("recheck")


def test_continue_in_the_background(hub: ScriptedHub, debug: Debug) -> None:
    """It runs on while the next commands are done."""
    assert "Running" in debug("continue &", "sessions")
    assert "running" == hub.state["status"]


def test_pause_and_detach(hub: ScriptedHub, debug: Debug) -> None:
    """One holds it, the other lets it go."""
    hub.change(status="running")
    assert "Paused in step 5: you asked for it" in debug("pause")
    assert "Running" in debug("detach")


def test_who_has_detached_is_not_there(hub: ScriptedHub, debug: Debug) -> None:
    """Until the next question, or else the watchpoints would stop it again."""
    debug("detach", "sessions", "hits")
    assert [[KEY], [], [KEY], []] == [each["sessions"] for each in hub.attended]


# ---- trainings ------------------------------------------------------------------------------------------


def test_several_trainings(hub: ScriptedHub, debug: Debug) -> None:
    """They are listed; without a name none is guessed, and parts of a name are enough."""
    hub.others = [other(hub, "day", 0, "k1"), other(hub, "day", 1, "k2")]
    assert "choose one with --run NAME: night/mlp, day" in debug_code(hub, ["where"], 2)
    shown = debug_ok(hub, ["--run", "night", "-c", "sessions", "use 1", "use day 1", "use mlp"])
    assert "day, rank" not in shown
    assert [[KEY], ["k1"], ["k2"], [KEY], []] == [each["sessions"] for each in hub.attended]
    assert "no run 'evening'" in debug_code(hub, ["--run", "evening", "-c", "where"], 2)


def debug_ok(hub: ScriptedHub, words: list[str]) -> str:
    return debug_code(hub, words, 0)


def debug_code(hub: ScriptedHub, words: list[str], code: int) -> str:
    """Output and errors of the command line."""
    out = io.StringIO()
    words = words if words[0].startswith("-") else ["-c", *words]
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(out):
        assert code == main(["debug", hub.address, *words])
    return out.getvalue()


def test_no_training_at_all(hub: ScriptedHub, monkeypatch: pytest.MonkeyPatch) -> None:
    """One is waited for a moment; the sentence says how one is armed."""
    hub.is_gone = True
    monkeypatch.setattr(choice, "PATIENCE_SECS", 0.5)
    assert "there is no run to debug: start one with debugger=True" in debug_code(hub, ["where"], 2)


def test_the_controls(hub: ScriptedHub, debug: Debug) -> None:
    """Who has them is seen; they are taken and released, and leaving says so to the hub."""
    shown = debug("take", "sessions", "release", "sessions")
    assert ["you", "free"] == [row.split()[-1] for row in shown.splitlines() if row.startswith("->")]
    assert [] == hub.attended[-1]["sessions"]


def test_who_does_not_hold_the_controls(hub: ScriptedHub, debug: Debug) -> None:
    """The hub's own words are shown, without what they could do to a terminal."""

    def refuse(_: object) -> None:
        raise RefusedError(409, "\x1b[2JAda has the controls.")

    hub.answers["continue"] = refuse
    assert "netdebug: \\x1b[2JAda has the controls.\n" == debug("continue", code=1)


# ---- without a terminal ---------------------------------------------------------------------------------


def test_commands_from_a_pipe(
    hub: ScriptedHub, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Line by line, without prompts; comments and empty lines are nothing; the first mistake ends it."""
    monkeypatch.setattr("sys.stdin", io.StringIO("# begin\n\nstep\nquit\nstep\n"))
    assert 0 == main(["debug", hub.address])
    assert 1 == len(hub.asked("step"))
    monkeypatch.setattr("sys.stdin", io.StringIO("nonsense\nstep\n"))
    assert 1 == main(["debug", hub.address])
    assert 1 == len(hub.asked("step"))
    caught = capsys.readouterr()
    assert "(netdebug)" not in caught.out
    assert "\x1b" not in caught.out
    assert "'nonsense'" in caught.err


def test_output_into_a_file(debug: Debug, tmp_path: Path) -> None:
    """With `>`, except where that compares."""
    path = tmp_path / "all.txt"
    assert "" == debug(f"tensors > {path}")
    assert "4 tensors, 96 B" in path.read_text()
    assert "cannot be written" in debug(f"tensors > {tmp_path}", code=1)
