"""Queries come from anybody: what is not one is refused in words, and nothing unchecked gets through."""

from __future__ import annotations

import json
import re
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tb_netdebug.core.records.step import Kind
from tb_netdebug.viewer.plugin.queries import (
    FIELDS,
    LONGEST_NAME,
    LONGEST_PATTERN,
    LONGEST_TEXT,
    MOST_COLUMNS,
    MOST_NAMES,
    MOST_POINTS,
    MOST_QUERIES,
    REQUIRED,
    Query,
    QueryError,
    parse_queries,
    parse_query,
)

HEAT = {"what": "heat", "run": "a", "kind": "gradient", "statistic": "norm"}
ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=10,
)
FIELD_NAMES = sorted({"what", "run", *(name for fields in FIELDS.values() for name in fields)})
LIKELY = st.sampled_from(
    [*FIELDS, "a", "weight", "norm", 0, 7, -1, 1e300, 2**63, "*" * 50, ["loss"], [[]], "x" * 300]
)


@given(ANYTHING)
def test_anything_is_a_query_or_an_error(value: Any) -> None:
    """No value of any kind raises something else than a QueryError."""
    with suppress(QueryError):
        assert isinstance(parse_query(value), Query)


@given(st.sampled_from(sorted(FIELDS)), st.dictionaries(st.sampled_from(FIELD_NAMES), LIKELY | ANYTHING))
def test_what_is_accepted_is_within_the_limits(what: str, fields: dict[str, Any]) -> None:
    """A query that gets through has only known fields, each of its type and within its limits."""
    try:
        query = parse_query({"run": "r", **fields, "what": what})
    except QueryError:
        return
    assert set(query.arguments) <= FIELDS[what].keys()
    assert set(REQUIRED[what]) <= set(query.arguments)
    for name, value in query.arguments.items():
        if name == "kind":
            assert isinstance(value, Kind)
        elif name == "names":
            assert len(value) <= MOST_NAMES
        elif name in ("points", "columns"):
            assert 1 <= value <= max(MOST_POINTS, MOST_COLUMNS)
        elif name in ("name", "pattern", "statistic"):
            assert len(value) <= LONGEST_NAME
        else:
            assert isinstance(value, int)
            assert -(2**63) <= value < 2**63


@given(st.text(max_size=200))
def test_any_text_is_a_list_of_queries_or_an_error(text: str) -> None:
    """The text of a URL is anything."""
    with suppress(QueryError):
        assert isinstance(parse_queries(text), list)


@pytest.mark.parametrize(
    "text",
    ["", "{}", "3", "[", "[" * 60_000, "1" * 60_000, '"' + "\\u00" * 10, "[" + " " * LONGEST_TEXT + "]"],
    ids=lambda text: text[:8],
)
def test_no_list_of_queries_is_refused(text: str) -> None:
    """Neither depth nor length nor a number of 60 000 digits does any harm."""
    with pytest.raises(QueryError):
        parse_queries(text)


def test_too_many_queries_are_refused() -> None:
    """The number is in the sentence."""
    assert MOST_QUERIES == len(parse_queries(json.dumps([HEAT] * MOST_QUERIES)))
    with pytest.raises(QueryError, match="There are 101 queries"):
        parse_queries(json.dumps([HEAT] * (MOST_QUERIES + 1)))


def test_a_wrong_query_leaves_the_others_alone() -> None:
    """Charts of one page ask together, and one of them may be wrong."""
    found = parse_queries(json.dumps([HEAT, {"what": "nonsense"}, HEAT]))
    assert [Query, QueryError, Query] == [type(one) for one in found]


def test_fields_become_values() -> None:
    """Names of kinds become kinds, whole floats become steps, and null counts as not given."""
    query = parse_query({**HEAT, "first": 3.0, "last": None, "columns": 10})
    assert "heat" == query.what
    assert {
        "kind": Kind.GRADIENT, "statistic": "norm", "first": 3, "columns": 10,
    } == query.arguments  # fmt: skip


def found(pattern: str, *names: str) -> list[str]:
    compiled = re.compile(parse_query({**HEAT, "pattern": pattern}).arguments["pattern"])
    return [name for name in names if compiled.search(name)]


def test_a_pattern_is_a_part_of_the_name() -> None:
    """Never a regular expression: its signs are letters like others, and the case does not matter."""
    names = ("conv1.weight", "conv1.bias", "fc.weight", "head[0].(w+)+")
    assert ["conv1.weight", "conv1.bias"] == found("CONV", *names)
    assert ["conv1.weight", "fc.weight"] == found(".weight", *names)
    assert ["head[0].(w+)+"] == found("(w+)+", *names)
    assert list(names) == found("", *names)
    assert [] == found("conv.*", *names)


@pytest.mark.parametrize(
    "pattern", ["(a+)+$", "(a|aa)*b", "(.*)*x", "a{1,9999}{1,9999}", "\\", "[", "(?P<", "x" * 100]
)
def test_no_pattern_searches_for_ever(pattern: str) -> None:
    """What would keep a regular expression busy for years is just text that is not found."""
    assert [] == found(pattern, "a" * 10_000)


SCALARS = {"what": "scalars", "run": "a", "names": ["loss"]}
BANDS = {"what": "bands", "run": "a", "kind": "weight", "name": "w"}


@pytest.mark.parametrize(
    ("query", "complaint"),
    [
        ({**SCALARS, "points": MOST_POINTS + 1}, "from 1 to 20000"),
        ({**SCALARS, "points": 0}, "from 1 to 20000"),
        ({**SCALARS, "points": True}, "whole number"),
        ({**SCALARS, "points": 1.5}, "whole number"),
        ({**SCALARS, "names": ["a"] * (MOST_NAMES + 1)}, "at most 200 names"),
        ({**SCALARS, "names": ["a"] * 50, "points": 10_000}, "fewer points"),
        ({**SCALARS, "names": [3]}, "must be text"),
        ({**SCALARS, "first": 5, "last": 4}, "after `last`"),
        ({**SCALARS, "first": 2**63}, "whole number"),
        ({**SCALARS, "rank": -1}, "whole number"),
        ({**SCALARS, "colour": "red"}, "no field 'colour'"),
        ({"what": "scalars", "run": "a"}, "needs `names`"),
        ({"what": "scalars", "names": []}, "needs `run`"),
        ({**SCALARS, "run": 7}, "`run` must be text"),
        ({**SCALARS, "run": "x" * (LONGEST_NAME + 1)}, "at most 20000 characters"),
        ({**BANDS, "columns": MOST_COLUMNS + 1}, "from 1 to 4000"),
        ({**BANDS, "kind": "weights"}, "must be one of weight, gradient"),
        ({**HEAT, "statistic": "norm; drop table"}, "name of a statistic"),
        ({**HEAT, "pattern": "x" * (LONGEST_PATTERN + 1)}, "at most 100 characters"),
        ({"what": ["heat"]}, "must be one of scalars, heat"),
        ([], "must be a JSON object"),
    ],
)
def test_a_wrong_field_is_named(query: Any, complaint: str) -> None:
    """Whoever wrote the query reads which field is wrong and what it may be."""
    with pytest.raises(QueryError, match=complaint):
        parse_query(query)
