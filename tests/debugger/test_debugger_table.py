"""The debugger's one table of messages: what is made of it is up to date, and both ends keep to it."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

from tb_netdebug.debugger.hub.statements import StatementError, session_of, state_of, value_of
from tb_netdebug.debugger.place import Place
from tb_netdebug.debugger.protocol.arguments import ArgumentError
from tb_netdebug.debugger.protocol.presets import PRESETS
from tb_netdebug.debugger.protocol.statements import (
    HitJson,
    PlaceJson,
    PresetJson,
    SessionJson,
    StateJson,
    TensorJson,
    fields_of,
)
from tb_netdebug.debugger.protocol.verbs import VERBS, checked
from tb_netdebug.debugger.trainer.hits import Hit
from tb_netdebug.debugger.workbench import TensorEntry
from tests.support.debugged import debugged

ROOT = Path(__file__).parents[2]
PLACE = {
    "phase": "end", "module": None, "class_name": None, "edge": "before", "op": None, "number": 3,
    "file": "net.py", "line": 5, "function": "forward",
}  # fmt: skip
STATE: dict[str, Any] = {
    "version": 3, "status": "paused", "is_attached": True, "step": 7, "place": PLACE,
    "reason": {"kind": "breakpoint", "text": "of breakpoint 1", "id": 1}, "paused_at": 1.5,
    "lease_secs": 15.0, "resumes_at": None, "is_waiting": False, "loss": "NaN", "hits": 2,
    "breakpoints": [{"id": 1, "layer": "fc", "phase": "forward", "step": None, "is_on": False, "hits": 1}],
    "watchpoints": [
        {"id": 1, "kind": "loss", "tensors": "", "statistic": "nonfinite", "comparison": "is",
         "threshold": None, "is_on": True, "advice": "Look.", "preset": None, "hits": 0, "complaint": None}
    ],
    "learning_rates": [{"optimizer": 0, "group": 0, "name": "SGD", "value": 0.1}], "note": None,
}  # fmt: skip


def names(shape: Any) -> list[str]:
    return [each.name for each in fields_of(shape)]


def test_what_is_made_of_the_table_is_up_to_date() -> None:
    """The page's types and parsers, and the tables in README.md; `make table` writes them."""
    script = [sys.executable, str(ROOT / "tools/debugger_table.py"), "--check"]
    check = subprocess.run(script, capture_output=True, text=True, check=False, cwd=ROOT)
    assert (0, "", "") == (check.returncode, check.stdout, check.stderr)


def test_what_is_nothing_else_has_the_fields_of_the_table() -> None:
    """Places, hits, presets and entries of tensors are dataclasses, whose fields are sent by name."""
    for shape, sent in ((PlaceJson, Place), (HitJson, Hit), (TensorJson, TensorEntry)):
        assert sorted(names(shape)) == sorted(each.name for each in fields(sent))
    assert all(names(PresetJson) == list(each.as_dict()) for each in PRESETS)


def test_every_field_is_documented() -> None:
    """A line each, also in what only the page reads."""
    told = [each.told for shape in (StateJson, SessionJson, HitJson) for each in fields_of(shape)]
    assert len(told) == len([words for words in told if words and "\n" not in words])


def test_a_session_tells_what_the_table_says() -> None:
    """The fields in their order, of types that the hub lets pass as they are."""
    with debugged() as rig:
        rig.ask("set_breakpoint", layer="head")
        rig.ask("set_watchpoint", kind="weight", statistic="max", comparison=">", threshold=9.0)
        state = rig.ask("pause")
        assert names(StateJson) == list(state)
        assert state == state_of(state)
        for verb in ("hits", "modules", "stack", "tensors", "batch", "presets"):
            answer = rig.ask(verb)
            assert answer == value_of(verb, answer)


def test_what_passes_the_hub() -> None:
    """A whole state passes as it is, without the fields that the table does not know."""
    assert state_of(STATE) == STATE == state_of({**STATE, "more": 1, "place": {**PLACE, "more": [1]}})
    assert list(STATE) == names(StateJson)
    assert list(PLACE) == names(PlaceJson)


def test_an_older_session_lacks_fields() -> None:
    """Each has a value that says the least."""
    nothing = {
        "version": 0, "status": "running", "is_attached": False, "step": 0, "place": None, "reason": None,
        "paused_at": None, "lease_secs": 0.0, "resumes_at": None, "is_waiting": False, "loss": None,
        "hits": 0, "breakpoints": [], "watchpoints": [], "learning_rates": [], "note": None,
    }  # fmt: skip
    assert nothing == state_of({}) == state_of(dict.fromkeys(nothing))
    assert {
        "run": [], "run_dir": "", "rank": 0, "world_size": 1, "group": "", "pid": 0, "host": "",
        "program": "", "framework": "", "models": {}, "can": [], "cannot": [],
        "collective_timeout_secs": None,
    } == session_of({})  # fmt: skip
    state = state_of({"place": {}, "breakpoints": [{}], "watchpoints": [{}], "learning_rates": [{}]})
    assert state["place"] is not None
    assert ("start", "before") == (state["place"]["phase"], state["place"]["edge"])
    assert [True, True] == [each["is_on"] for each in (*state["breakpoints"], *state["watchpoints"])]
    assert [None] == [each["value"] for each in state["learning_rates"]]


@pytest.mark.parametrize(
    "odd",
    [
        {"status": "asleep"}, {"version": "1"}, {"version": True}, {"is_attached": 1}, {"place": []},
        {"place": {"phase": "lunch"}}, {"place": {"edge": "beside"}}, {"reason": {"text": 3}},
        {"loss": "much"}, {"hits": 0.5}, {"breakpoints": {}}, {"breakpoints": [{"id": "1"}]},
        {"watchpoints": [{"threshold": "x"}]}, {"learning_rates": [[]]}, {"note": "x" * 5000},
        {"hits": 1 << 60}, {"breakpoints": [{}] * 1001},
    ],
)  # fmt: skip
def test_what_does_not_pass_the_hub(odd: dict[str, Any]) -> None:
    """A state with one field of another type, or too big, is refused as a whole."""
    with pytest.raises(StatementError):
        state_of({**STATE, **odd})


@pytest.mark.parametrize("odd", [{"can": ["fly"]}, {"run": "a"}, {"models": {"a": 1}}, {"cannot": [1]}])
def test_a_session_that_does_not_pass_the_hub(odd: dict[str, Any]) -> None:
    """Neither does one that says of itself what no session says."""
    with pytest.raises(StatementError):
        session_of(odd)


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_has_an_answer_that_is_checked(verb: str) -> None:
    """Nothing of another kind passes, whatever the verb."""
    with pytest.raises(StatementError):
        value_of(verb, 7)


@pytest.mark.parametrize(
    ("verb", "arguments", "sentence"),
    [
        ("set_breakpoint", {"phase": "start"}, "phase must be one of forward, backward, optimizer, end."),
        ("set_watchpoint", {"kind": "planet"}, "kind must be one of batch, input, output"),
        ("set_watchpoint", {"kind": "loss", "statistic": "median"}, "statistic must be one of nonfinite"),
        (
            "set_watchpoint",
            {"kind": "loss", "statistic": "max", "comparison": "="},
            "comparison must be one of >, <, is.",
        ),
    ],
)
def test_a_word_that_is_no_choice(verb: str, arguments: dict[str, Any], sentence: str) -> None:
    """Refused where the request comes in; nothing behind it looks again."""
    with pytest.raises(ArgumentError, match=sentence):
        checked(verb, arguments)
