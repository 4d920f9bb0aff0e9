"""`netdebug debug`: what each command asks of the training, and what it shows. Without a terminal."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tb_netdebug.cli import main
from tb_netdebug.cli.debugging.commands import COMMANDS, command_of
from tb_netdebug.cli.debugging.words import CommandError, compact, excluding, ranges_of, split_slice
from tests.support.scripted_hub import HIT, KEY, NPY, PLACE, TENSOR, RefusedError, ScriptedHub, serving

Debug = Callable[..., str]


@pytest.fixture
def hub() -> Iterator[ScriptedHub]:
    with serving(ScriptedHub()) as started:
        yield started


@pytest.fixture
def debug(hub: ScriptedHub, capsys: pytest.CaptureFixture[str]) -> Debug:
    """Does the commands, all of which have to work; what they show."""

    def run(*commands: str, code: int = 0) -> str:
        assert code == main(["debug", hub.address, "-c", *commands])
        caught = capsys.readouterr()
        assert (code == 0) == (caught.err == "")
        return caught.out if code == 0 else caught.err

    return run


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
    import re

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
    with pytest.raises(CommandError, match="`help` lists them"):
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
    assert "Paused in step 5: the step is done" in shown
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
    assert "The training is over." in debug("continue")
    assert "is over" in debug_again(hub)


def debug_again(hub: ScriptedHub) -> str:
    """What a call to a training says that has ended meanwhile."""
    hub.is_gone = False
    from tb_netdebug.cli.debugging.desk import Desk
    from tb_netdebug.cli.debugging.paper import Paper
    from tb_netdebug.debugger.attendance import Attendance
    from tb_netdebug.debugger.client import GoneError
    from tb_netdebug.debugger.http_client import HttpClient
    from tb_netdebug.debugger.hub_address import HubAddress

    client = HttpClient(HubAddress.of(hub.address), label="ada", environ={})
    with Attendance(client, lambda _: None) as attendance:
        desk = Desk(client, attendance, Paper(io.StringIO()), is_interactive=False)
        desk.choose(client.sessions()[0])
        hub.is_gone = True
        with pytest.raises(GoneError) as caught:
            desk.call("recheck")
        return str(caught.value)


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


# ---- what stops it --------------------------------------------------------------------------------------

BREAK = {"layer": None, "phase": "forward", "step": None}
WATCH = {"kind": "gradient", "tensors": r"encoder\..*", "statistic": "abs_max", "comparison": ">"}


@pytest.mark.parametrize(
    ("line", "verb", "arguments", "told"),
    [
        ("break encoder", "set_breakpoint", {**BREAK, "layer": "^encoder$"}, "forward of layers ^encoder$"),
        (
            r"b 'enc.*' backward",
            "set_breakpoint",
            {**BREAK, "layer": "enc.*", "phase": "backward"},
            "backward",
        ),
        ("b optimizer", "set_breakpoint", {**BREAK, "phase": "optimizer"}, "breakpoint 1: optimizer\n"),
        ("b end --from-step 9", "set_breakpoint", {**BREAK, "phase": "end", "step": 9}, "from step 9 on"),
        (
            r"watch gradient encoder\..* abs_max > 100",
            "set_watchpoint",
            {**WATCH, "threshold": 100.0},
            r"watchpoint 1: gradient encoder\..*: abs_max > 100",
        ),
        (
            "watch output . nonfinite",
            "set_watchpoint",
            {
                "kind": "output",
                "tensors": ".",
                "statistic": "nonfinite",
                "comparison": "is",
                "threshold": None,
            },
            "not finite",
        ),
        (
            "watch scalar loss min < -1",
            "set_watchpoint",
            {"kind": "scalar", "tensors": "loss", "statistic": "min", "comparison": "<", "threshold": -1.0},
            "min < -1",
        ),
    ],
)
def test_points(
    hub: ScriptedHub, debug: Debug, line: str, verb: str, arguments: dict[str, Any], told: str
) -> None:
    """Each is set as it was written; a whole name means that layer alone."""
    assert told in debug(line)
    assert [arguments] == hub.asked(verb)


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        ("watch", "required"),
        ("watch joy . max > 1", "'joy' is no kind. There are: batch"),
        ("watch weight . size > 1", "'size' is no statistic"),
        ("watch weight . max", "> THRESHOLD"),
        ("watch weight . max > much", "'much' is no number"),
        ("watch weight . nonfinite > 1", "needs no threshold"),
        ("watch 7 > 1", "There is no watchpoint 7"),
        ("break a b c", "invalid choice"),
        ("delete 3", "There is no breakpoint or watchpoint 3"),
        ("watch 'weight", "quotation mark"),
    ],
)
def test_points_that_are_none(hub: ScriptedHub, debug: Debug, line: str, sentence: str) -> None:
    """What is wrong is said in words, and nothing is set."""
    assert sentence in debug(line, code=1)
    assert [] == hub.calls


def test_recommended_watchpoints_are_set_once(hub: ScriptedHub, debug: Debug) -> None:
    """Those that are there already stay as they are."""
    assert "The loss is not finite" in debug("watch recommended", "watch recommended")
    assert ["nonfinite-loss"] == [wanted["preset"] for wanted in hub.asked("set_watchpoint")]


def test_points_are_changed_in_their_place(hub: ScriptedHub, debug: Debug) -> None:
    """Another threshold, off and on, and away again; what is not said stays."""
    watch = r"watch gradient encoder\..* abs_max > 100"
    shown = debug(
        watch, "break end", "watch 1 > 50", "disable watchpoint 1", "list", "delete breakpoint 1", "list"
    )
    changed = {**WATCH, "threshold": 50.0, "id": 1}
    assert {**changed, "is_on": True} == hub.asked("set_watchpoint")[1]
    assert {**changed, "is_on": False} == hub.asked("set_watchpoint")[2]
    assert "abs_max > 50, off" in shown
    assert "There are no breakpoints." in shown
    assert "`delete watchpoint 1`" in debug("break end", "delete 1", code=1)
    assert "enable" in debug("help enable")
    debug("delete all")
    assert [[], []] == [hub.state["breakpoints"], hub.state["watchpoints"]]


def test_hits_in_their_order(hub: ScriptedHub, debug: Debug) -> None:
    """With what was wanted and what was there, and the advice once."""
    hub.change(hits=1)
    shown = debug("hits", "hits clear")
    assert "abs_max > 100   250.5" in shown
    assert 1 == shown.count("Advice: Lower the learning rate.")
    assert "forgotten" in shown
    hub.answers["hits"] = lambda _: []
    assert "There are no hits." in debug("hits")


def test_recheck_shows_what_is_new(hub: ScriptedHub, debug: Debug) -> None:
    """Without a step."""
    assert "hit 1 of watchpoint 1" in debug("recheck")


# ---- looking --------------------------------------------------------------------------------------------


def test_where(debug: Debug) -> None:
    """Place, the person's own frames, and source lines with the layers that come from them."""
    shown = debug("where")
    assert "/home/ada/net.py:10 in forward" in shown
    assert "linear.py" not in shown
    assert "line 6   # encoder2" in shown
    assert "linear.py:7" in debug("where --all")


def test_source_and_locals(debug: Debug) -> None:
    """By the end of a file's name; of any frame."""
    assert "->    10  line 10" in debug("source")
    assert "   # Net" in debug("source net.py:3")
    assert "No layer and no frame comes from '/etc/passwd'" in debug("source /etc/passwd", code=1)
    assert "float32[2, 3]" in debug("locals")
    assert "There are frames 0 to 2" in debug("locals 9", code=1)


def test_modules(debug: Debug) -> None:
    """In their order, the one that it is in marked; by name and by class."""
    rows = debug("modules").splitlines()
    assert ["(the", "->", "encoder2"] == [row.split()[0] for row in rows[1:]]
    assert "encoder2" not in debug("modules -t Linear")
    assert "no regular expression" in debug("modules -m '('", code=1)


def test_tensors_in_the_order_wanted(hub: ScriptedHub, debug: Debug) -> None:
    """As the batch makes them, or sorted; of a kind, with names that match and that do not."""

    def names(line: str) -> list[str]:
        return [row.split()[0] for row in debug(line).splitlines()[1:-1]]

    assert "input:encoder[1]" == names("tensors")[0]
    assert "output:encoder" == names("tensors -s size -r")[0]
    assert "gradient:encoder.weight" == names("t -s name")[0]
    assert ["weight:encoder.weight"] == names("t -k weight")
    assert ["gradient:encoder.weight"] == names("t -m weight$ -x ^weight")
    assert {"kind": "weight", "match": "enc", "most": 2000} == (
        debug("t -k weight -m enc"),
        hub.calls[-1][1],
    )[1]


def test_tensors_with_statistics(hub: ScriptedHub, debug: Debug) -> None:
    """`--nonfinite` leaves the sick ones alone."""
    fine = {**TENSOR, "statistics": {**TENSOR["statistics"], "nan": 0}}
    hub.answers["tensor"] = lambda wanted: TENSOR if wanted["name"] == "output:encoder" else fine
    assert 4 == len(debug("tensors -v").splitlines()) - 1
    assert ["output:encoder"] == [row.split()[0] for row in debug("tensors --nonfinite").splitlines()[1:]]


def test_print_shows_values_and_statistics(hub: ScriptedHub, debug: Debug) -> None:
    """NaN among them; marks, summaries and the step before where they are wanted."""
    shown = debug("print weight:encoder.weight")
    assert "6 values, 1 NaN, 2 zeros; min -1.5, max 2, mean 0.25, std 1, norm 2.5" in shown
    assert ["1", "0", "2", "-1.5"] == shown.splitlines()[-2].split()
    assert "Note: Something is thinned." in shown
    assert "1.5*" in debug("print weight:encoder.weight -r 1,inf")
    assert "values of" not in debug("print weight:encoder.weight -s")
    shown = debug("print weight:encoder.weight --previous")
    assert "previous:" in shown
    assert "difference:" in shown
    wanted = {"name": "weight:encoder.weight", "slice": None, "previous": True, "cells": 400}
    assert wanted == hub.asked("tensor")[-1]


@pytest.mark.parametrize(
    ("line", "name", "part"),
    [
        ("p output:encoder[0, :, -1]", "output:encoder", "[0,:,-1]"),
        ("p input:encoder[1]", "input:encoder[1]", None),
        ("p input:encoder[1][0]", "input:encoder[1]", "[0]"),
        ("p encoder[0]", "output:encoder", "[0]"),
    ],
)
def test_names_and_slices(hub: ScriptedHub, debug: Debug, line: str, name: str, part: str | None) -> None:
    """A name may end in brackets of its own, and do without its kind where it is clear."""
    debug(line)
    (wanted,) = hub.asked("tensor")
    assert (name, part) == (wanted["name"], wanted["slice"])


def test_names_that_are_not_clear(hub: ScriptedHub, debug: Debug) -> None:
    """They are asked back, or the training says that there is none."""
    shown = debug("p encoder.weight", code=1)
    assert "Which one: gradient:encoder.weight, weight:encoder.weight?" in shown
    assert "There is no tensor nobody." in debug("p nobody", code=1)


def test_a_tensor_as_a_file(hub: ScriptedHub, debug: Debug, tmp_path: Path) -> None:
    """The bytes as they come; a file that is there already stays."""
    path = tmp_path / "w.npy"
    assert "300 kB" in debug(f"print weight:encoder.weight[0] -w {path}")
    assert NPY == path.read_bytes()
    assert "already" in debug(f"print weight:encoder.weight -w {path}", code=1)
    assert "[0]" == hub.asked("tensor.npy")[0]["slice"]


def test_expressions_are_sent_as_they_are(hub: ScriptedHub, debug: Debug) -> None:
    """With quotes, backquotes, comparisons and a minus in front."""
    text = "-abs(`weight:encoder.weight`) > 'x'"
    assert text in debug(f"eval {text}")
    assert [text] == [wanted["text"] for wanted in hub.asked("evaluate")]
    assert "Which expression?" in debug("eval", code=1)


def test_batch_learning_rate_and_snapshot(hub: ScriptedHub, debug: Debug) -> None:
    """The rest of what there is to see and to do."""
    assert ["input", "label"] == [row.split()[0] for row in debug("batch").splitlines()[1:]]
    assert "0.1" in debug("lr")
    assert "0.001" in debug("lr 1e-3")
    assert {"optimizer": 0, "group": None, "value": 0.001} == hub.asked("set_learning_rate")[-1]
    debug("lr 1 0 1e-3")
    assert {"optimizer": 1, "group": 0, "value": 0.001} == hub.asked("set_learning_rate")[-1]
    assert "capsules/step-4.pt" in debug("snapshot")
    hub.change(learning_rates=[{**hub.state["learning_rates"][0], "optimizer": number} for number in (0, 1)])
    assert "several optimizers" in debug("lr 1", code=1)


# ---- trainings ------------------------------------------------------------------------------------------


def other(hub: ScriptedHub, run: str, rank: int, key: str) -> dict[str, Any]:
    return {**hub.row(), "key": key, "session": {**hub.session, "run": [run], "rank": rank}}


def test_several_trainings(hub: ScriptedHub, debug: Debug) -> None:
    """They are listed; without a name none is guessed, and parts of a name are enough."""
    hub.others = [other(hub, "day", 0, "k1"), other(hub, "day", 1, "k2")]
    assert "give --run NAME: night/mlp, day" in debug_code(hub, ["where"], 2)
    shown = debug_ok(hub, ["--run", "night", "-c", "sessions", "use 1", "use day 1", "use mlp"])
    assert "day, rank" not in shown
    assert [[KEY], ["k1"], ["k2"], [KEY], []] == [each["sessions"] for each in hub.attended]
    assert "no run 'evening'" in debug_code(hub, ["--run", "evening", "-c", "where"], 2)


def debug_ok(hub: ScriptedHub, words: list[str]) -> str:
    return debug_code(hub, words, 0)


def debug_code(hub: ScriptedHub, words: list[str], code: int) -> str:
    """Output and errors of the command line."""
    import contextlib

    out = io.StringIO()
    words = words if words[0].startswith("-") else ["-c", *words]
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(out):
        assert code == main(["debug", hub.address, *words])
    return out.getvalue()


def test_no_training_at_all(hub: ScriptedHub) -> None:
    """The sentence says how one is armed."""
    hub.is_gone = True
    assert "there is no training to debug: arm one by debugger=True" in debug_code(hub, ["where"], 2)


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


def test_hostile_names_are_only_text(hub: ScriptedHub, debug: Debug) -> None:
    """Whatever a training calls its layers, files, tensors and reasons, the terminal stays whole."""
    evil = "\x1b]0;owned\x07"
    hub.session |= {"run": [evil], "program": evil, "cannot": [evil]}
    hub.others = [other(hub, evil, 1, "k1")]
    place = {**PLACE, "module": evil, "class_name": evil, "file": evil, "function": evil}
    hub.change(place=place, reason={"kind": "asked", "text": evil, "id": None}, note=evil, hits=1)
    hub.change(breakpoints=[{"id": 1, "layer": evil, "phase": evil, "step": None, "is_on": True, "hits": 1}])
    hub.answers["stack"] = lambda _: [{"file": evil, "line": 1, "function": evil, "is_user": True, "locals": [
        {"name": evil, "type": evil, "text": evil}]}]  # fmt: skip
    hub.answers["source"] = lambda _: {"file": evil, "first_line": 1, "lines": [evil]}
    hub.answers["hits"] = lambda _: [{**HIT, "tensor": evil, "advice": evil}]
    hub.answers["tensor"] = lambda _: {**TENSOR, "name": evil, "dtype": evil, "notes": [evil], "slice": evil}
    hub.answers["snapshot"] = lambda _: {"path": evil}
    hub.answers["modules"] = lambda _: [
        {"name": evil, "class_name": evil, "file": evil, "line": 1, "parameters": 1}
    ]
    lines = (
        "sessions",
        "use 0",
        "where",
        "locals",
        "modules",
        "list",
        "hits",
        "p weight:encoder.weight",
        "snapshot",
    )
    shown = debug(*lines)
    assert "\x1b" not in shown
    assert "\x07" not in shown
    assert shown.count("\\x1b]0;owned\\x07") > 20
