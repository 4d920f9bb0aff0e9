"""Numbers, times and names in sentences. Findings themselves are read where they are found: in `judged` of
`support/stories.py`, and in test_checks_complete.py."""

from __future__ import annotations

import math
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tb_netdebug.checks.finding import Finding, Severity
from tb_netdebug.checks.wording.phrases import agree, counted, listed, named, number, percent, size, span
from tb_netdebug.checks.wording.words import paragraph, places
from tests.support.reading import complaints

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize(
    ("share", "said"),
    [
        (0.0, "0 %"), (1.0, "100 %"), (0.613, "61 %"), (0.0613, "6.1 %"), (0.05, "5 %"), (0.0999, "10 %"),
        (0.9951, "99.5 %"), (0.99999, "99.9 %"), (0.005, "0.5 %"), (1e-4, "0.01 %"), (1.3e-5, "0.001 %"),
        (2e-7, "0.00002 %"), (1e-12, "less than 0.000001 %"), (6.35, "635 %"), (-0.03, "-3 %"),
    ],
)  # fmt: skip
def test_shares(share: float, said: str) -> None:
    """Only nothing is 0 %, and only all is 100 %."""
    assert said == percent(share)


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (0, "0"), (1, "1"), (2.3026, "2.3"), (0.00031, "0.00031"), (2.3e-9, "2.3e-09"), (12345, "12300"),
        (-0.25, "-0.25"), (999_999, "1 million"), (3.689e6, "3.69 million"), (1.34e9, "1.34 billion"),
        (4.05e13, "40.5 trillion"), (8e18, "more than 1000 trillion"), (math.nan, "NaN"),
        (math.inf, "infinite"), (-math.inf, "minus infinity"), (-1e20, "less than minus 1000 trillion"),
    ],
)  # fmt: skip
def test_numbers(value: float, said: str) -> None:
    assert said == number(value)


@given(st.floats())
def test_any_number_is_readable(value: float) -> None:
    """Never as Python prints it, and never zero if it is not."""
    for said in (number(value), number(value, 1), percent(value), number(value, 4)):
        assert not re.search(r"\b(nan|inf)\b|e\+|\d,", said)
        assert (value == 0) or said not in ("0", "0 %", "-0", "-0 %")


@given(st.floats(1e-4, 1e14), st.integers(2, 6))
def test_numbers_are_what_they_say(value: float, digits: int) -> None:
    said, _, word = number(value, digits).partition(" ")
    times = {"": 1.0, "million": 1e6, "billion": 1e9, "trillion": 1e12}[word]
    assert math.isclose(float(said) * times, value, rel_tol=0.51 * 10 ** (1 - digits))


def test_counts_times_and_sizes() -> None:
    assert ("0 layers", "1 layer", "2 layers") == (
        counted(0, "layer"),
        counted(1, "layer"),
        counted(2, "layer"),
    )
    assert ("1 batch", "3 batches") == tuple(counted(count, "batch", "batches") for count in (1, 3))
    assert ("is", "are") == (agree(1, "is", "are"), agree(0, "is", "are"))
    assert ["0.3 ms", "340 ms", "1.5 s", "10 min", "2 h"] == list(map(span, (0.0003, 0.34, 1.5, 600, 7200)))
    assert ("33.6 MB", "1.21 GB") == (size(33.6e6), size(1.21e9))


def test_names_of_digits_are_said_to_be_layers() -> None:
    assert ["layer 13", "layer 0.1", "layer 3[0]", "0.weight", "relu3"] == [
        named(name) for name in ("13", "0.1", "3[0]", "0.weight", "relu3")
    ]
    assert "a, layer 2, c, d and 3 more" == listed(["a", "2", "c", "d", "e", "f", "g"])
    assert ("", ", in layer 1, fc") == (places([]), places(["1", "fc"]))


def test_names_cannot_move_the_cursor() -> None:
    """Names are not ours."""
    finding = Finding("dead-units", Severity.WARNING, 1, 2, ["\x1b[2J"], "1 of \x1b[2J.", "Try.", {}, 0.9)
    assert "\x1b" not in paragraph(finding)


@pytest.mark.parametrize(
    "said", ["5% of 3.", "1 layers of 3.", "3 units of 13 were 0.", "It is 1e+09.", "No."]
)
def test_complaints_are_made(said: str) -> None:
    """The check on texts finds what it is made for."""
    assert complaints(said, "Lower it.")


def test_no_rule_formats_shares_by_itself() -> None:
    """Python's own percent has no space before it; powers of ten come from `number` alone."""
    rules = sorted((ROOT / "tb_netdebug/checks").rglob("*.py"))
    own = {path.name: re.findall(r"\{[^{}]*:\.\d[%ge]\}", path.read_text(encoding="utf-8")) for path in rules}
    assert {} == {name: found for name, found in own.items() if found}
