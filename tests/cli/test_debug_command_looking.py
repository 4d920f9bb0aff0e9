"""`netdebug debug`: what stops a training, and what is seen of it. Without a terminal."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.scripted_hub import (
    HIT,
    NPY,
    PLACE,
    TENSOR,
    Debug,
    ScriptedHub,
    debugging,
    other,
    serving,
)


@pytest.fixture
def hub() -> Iterator[ScriptedHub]:
    with serving(ScriptedHub()) as started:
        yield started


@pytest.fixture
def debug(hub: ScriptedHub, capsys: pytest.CaptureFixture[str]) -> Debug:
    return debugging(hub, capsys)


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
        ("watch joy . max > 1", "'joy' is not a kind. Choose one of: batch"),
        ("watch weight . size > 1", "'size' is not a statistic"),
        ("watch weight . max", "> THRESHOLD"),
        ("watch weight . max > much", "'much' is not a number"),
        ("watch weight . nonfinite > 1", "takes no threshold"),
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
    assert "cleared" in shown
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
    assert "not a regular expression" in debug("modules -m '('", code=1)


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
