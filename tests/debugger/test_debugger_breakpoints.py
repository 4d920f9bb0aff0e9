"""Breakpoints, and the patterns of names that came over the wire."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tb_netdebug.debugger.place import AFTER, BACKWARD, END, FORWARD, OPTIMIZER, Place
from tb_netdebug.debugger.tensors.name_pattern import NamePattern
from tb_netdebug.debugger.trainer.breakpoints import MOST_BREAKPOINTS, Breakpoints
from tb_netdebug.debugger.workbench import WorkbenchError
from tests.support.debugger_bench import at, batch


def stops(
    points: Breakpoints, *, step: int = 0, layers: tuple[str, ...] = ("encoder.0", "head")
) -> list[Place]:
    return [place for place in batch(layers) if points.hit(place, step)]


def test_a_layer_is_stopped_at_before_it_is_called() -> None:
    """Once in a batch, and never after the call."""
    points = Breakpoints()
    made = points.set(layer=r"^encoder")
    assert [at(FORWARD, "encoder.0")] == stops(points)
    assert 1 == made.hits


@pytest.mark.parametrize(
    ("phase", "expected"),
    [
        (FORWARD, [at(FORWARD)]),
        (BACKWARD, [at(BACKWARD)]),
        (OPTIMIZER, [at(OPTIMIZER)]),
        (END, [at(END)]),
    ],
)
def test_without_a_layer_the_whole_batch_is_meant(phase: str, expected: list[Place]) -> None:
    """The begin of a phase, or the end of the batch."""
    points = Breakpoints()
    points.set(phase=phase)
    assert expected == stops(points)


def test_layers_going_backwards() -> None:
    """When the gradient of the output is there."""
    points = Breakpoints()
    points.set(layer="", phase=BACKWARD)
    assert [at(BACKWARD, "head"), at(BACKWARD, "encoder.0")] == stops(points)


def test_from_a_batch_on() -> None:
    """Not before its step, and in each one from there on."""
    points = Breakpoints()
    points.set(phase=OPTIMIZER, step=3)
    assert [0, 0, 0, 1, 1] == [len(stops(points, step=step)) for step in range(5)]


def test_operations_are_no_breakpoints() -> None:
    """Places of single operations lie within a layer that was stopped at already."""
    points = Breakpoints()
    points.set(layer="")
    points.set()
    assert points.hit(at(FORWARD, "encoder.0", op="aten.mm.default"), 0) is None
    assert points.hit(at(FORWARD, "encoder.0", AFTER), 0) is None


def test_switched_off_and_removed() -> None:
    """They stop nothing, and nothing is needed for them."""
    points = Breakpoints()
    made = points.set(layer="head")
    assert (True, False, False) == (points.wants_layers, points.wants_backward, points.is_empty)
    points.set(made.id, layer="head", is_on=False)
    assert (False, True, []) == (points.wants_layers, points.is_empty, stops(points))
    points.set(made.id, layer="head", phase=BACKWARD)
    assert (False, True) == (points.wants_layers, points.wants_backward)
    points.remove(made.id)
    assert (True, [], []) == (points.is_empty, points.as_list(), stops(points))


def test_an_edit_keeps_number_and_hits() -> None:
    """The list is as the wire has it, and numbers are not given twice."""
    points = Breakpoints()
    made = points.set(layer="head")
    stops(points)
    points.set(made.id, phase=END, step=4)
    expected = {"id": 1, "layer": None, "phase": "end", "step": 4, "is_on": True, "hits": 1}
    assert [expected] == points.as_list()
    points.remove(1)
    assert 2 == points.set().id


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ({"layer": "("}, "not a regular expression"),
        ({"layer": "x" * 501}, "too long"),
        ({"phase": OPTIMIZER, "layer": "fc"}, "leave out the layer"),
        ({"id": 7}, "There is no breakpoint 7."),
    ],
)
def test_refusals(arguments: dict[str, object], sentence: str) -> None:
    """Sentences, and nothing has changed."""
    points = Breakpoints()
    with pytest.raises(WorkbenchError, match=re.escape(sentence)):
        points.set(**arguments)  # type: ignore[arg-type]
    assert points.is_empty


def test_bounded_in_number() -> None:
    """Somebody's program that sets them for ever does not fill the memory of the training."""
    points = Breakpoints()
    for _ in range(MOST_BREAKPOINTS):
        points.set()
    with pytest.raises(WorkbenchError, match="remove one first"):
        points.set()
    with pytest.raises(WorkbenchError, match="no breakpoint 0"):
        points.remove(0)
    assert MOST_BREAKPOINTS == len(points.as_list())


@pytest.mark.parametrize(
    "pattern",
    [r".*.*.*.*\b!", "|".join([r".*.*.*.*\b!"] * 5), "(a+)+$", "(a|a)*b", "(a*)*b", "((a+))+!",
     "(?:a?){60}a{60}", "(a|b|ab)*c", ".*.*.*.*.*x", "(a|a)" * 20, "a?" * 30 + "a" * 30, "(x+x+)+y",
     "([a-z]+)*!", "(?#[)(a+)+!(?#])", "(?x)(a+ # )\n)+!", "(?:(?:a+){2}){2}!", "(?=(a*)*b)(?<!(a|a)*b)c"],
)  # fmt: skip
def test_patterns_that_would_take_for_ever(pattern: str) -> None:
    """Each letter of a name costs at most as many steps as the pattern has parts, however it is written."""
    found = NamePattern(pattern)
    for letters in (50, 100, 200, 300):
        before = found.steps
        found.finds("a" * (letters // 2) + "." + "a" * (letters // 2 - 1))
        assert found.steps - before <= 2 * found.states * (letters + 2)


@pytest.mark.parametrize(
    ("pattern", "sentence"),
    [
        (r"(a)\1", "a reference to a group"),
        ("(a)?(?(1)b|c)", "a condition"),
        ("(a{100}){100}", "is too big"),
        ("((((a{9}){9}){9}){9}){9}", "is too big"),
        ("x" * 501, "501 characters is too long"),
        ("(" * 400, "not a regular expression"),
        ("a**", "not a regular expression"),
    ],
)
def test_patterns_that_are_refused(pattern: str, sentence: str) -> None:
    """With a sentence that says what in them cannot be searched for in bounded time."""
    with pytest.raises(WorkbenchError, match=re.escape(sentence)):
        NamePattern(pattern)


@pytest.mark.parametrize(
    ("pattern", "name", "expected"),
    [
        ("", "anything", True),
        (r"^encoder\..*weight$", "encoder.0.weight", True),
        (r"layers\.(0|1|11)\.", "layers.11.attention", True),
        (r"(encoder|decoder)\.\d+\.(weight|bias)$", "decoder.12.bias", True),
        (r"^(?!.*norm).*weight$", "encoder.norm.weight", False),
        (r"[()+*|]+", "a*b", True),
        (r"\(\+\)+", "(+)))", True),
        (r"(?P<kind>weight|bias)$", "fc.bias", True),
        (r"(?i)ENCODER", "encoder.0", True),
        (r"a|b|c|d|e|f|g|h|i|j|k|l|m|n|o|p", "zzzp", True),
    ],
)
def test_patterns_that_people_write(pattern: str, name: str, expected: bool) -> None:
    """As Python searches; asked twice it says the same."""
    found = NamePattern(pattern)
    assert [expected, expected] == [found.finds(name), found.finds(name)]


@given(pattern=st.text("ab()|*+?.[]\\{}1,^$", max_size=24), name=st.text("ab", max_size=20))
def test_any_text_as_a_pattern(pattern: str, name: str) -> None:
    """It is refused with a sentence, or searched as Python does and soon."""
    try:
        found = NamePattern(pattern)
    except WorkbenchError:
        return
    assert bool(re.search(pattern, name)) == found.finds(name)


ATOMS = ["a", "B", ".", r"\d", r"\w", r"\W", r"\s", "[a-c]", "[^a]", r"[^\d_]", "ſ", "K", "é", r"\.", ""]
ANCHORS = ["^", "$", r"\A", r"\Z", r"\b", r"\B"]
EXPRESSIONS = st.recursive(
    st.sampled_from([*ATOMS, *ANCHORS]),
    lambda inner: st.one_of(
        st.tuples(inner, inner).map("".join),
        st.tuples(inner, inner).map(lambda two: f"(?:{two[0]}|{two[1]})"),
        st.tuples(inner, st.sampled_from(["*", "+", "?", "{2}", "{1,3}", "{0,2}?", "*?", "{2,}"])).map(
            lambda two: f"(?:{two[0]}){two[1]}"
        ),
        st.tuples(st.sampled_from(["?=", "?!", "?i:", "?s:", "?m:", "?a:", "?-i:"]), inner).map(
            lambda two: f"({two[0]}{two[1]})"
        ),
        st.sampled_from([r"(?<=a)", r"(?<!\w)", "(?<=ab)", "(?<!a|.)"]),
    ),
    max_leaves=8,
)


@settings(max_examples=400)
@given(
    flags=st.sampled_from(["", "(?i)", "(?m)", "(?s)", "(?a)", "(?ia)", "(?ims)"]),
    pattern=EXPRESSIONS,
    name=st.text("abcABKksſé1_. \n-", max_size=9),
)
def test_any_expression(flags: str, pattern: str, name: str) -> None:
    """Classes, anchors, flags, repetitions, looks ahead and behind: found is what Python finds."""
    assert bool(re.search(flags + pattern, name)) == NamePattern(flags + pattern).finds(name)
