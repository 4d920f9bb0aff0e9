"""The pieces of `netdebug watch`: harmless names, courses in a line, and drawings that fit."""

from __future__ import annotations

import math
import unicodedata

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from tb_netdebug.cli.harmless import fitted, harmless
from tb_netdebug.cli.keyboard import NAMES, split
from tb_netdebug.cli.layer_rows import LayerRow
from tb_netdebug.cli.sparkline import sparkline
from tb_netdebug.cli.vital_signs import Trend, VitalSigns
from tb_netdebug.cli.watch_cells import ago, phase_bar
from tb_netdebug.cli.watch_page import Page, RunLine, View
from tb_netdebug.cli.watched_runs import common_folder, plain

BAD = {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"}
LEFT_TO_RIGHT = "\u200e"
NUMBERS = st.floats()
# Surrogates stand for bytes of file names that are no UTF-8.
TEXTS = st.text(st.characters(), max_size=60) | st.sampled_from(
    ["x" * 10_000, "\x1b[31m", "\u202etxt", "漢" * 99, "\udcff", "e" + "\u0301" * 99, ""]
)
COURSES = st.builds(Trend, st.lists(NUMBERS, max_size=50).map(np.array), NUMBERS)
MAYBE = st.none() | NUMBERS
SIGNS = st.builds(
    VitalSigns,
    name=TEXTS,
    state=st.sampled_from(["live", "idle", "ended", "unknown", "unreadable"]),
    complaint=TEXTS,
    last_step=st.none() | st.integers(0, 10**12),
    last_time=st.none() | st.floats(0, 4e9),
    steps_per_sec=MAYBE,
    step_secs=MAYBE,
    phase_secs=st.dictionaries(st.sampled_from(["data", "forward", "backward", "optimizer"]), NUMBERS),
    courses=st.dictionaries(TEXTS, COURSES, max_size=3),
    memory=st.dictionaries(st.sampled_from(["memory/rss", "memory/gpu0/used"]), NUMBERS),
    sampled_every=MAYBE,
    overhead=MAYBE,
    gaps=st.integers(0, 3),
    ranks=st.integers(1, 3),
)
LAYERS = st.builds(
    LayerRow,
    TEXTS,
    st.integers(-1, 10**9),
    NUMBERS,
    NUMBERS,
    NUMBERS,
    NUMBERS,
    st.sets(st.sampled_from(["weight", "gradient", "update", "activation"])),
)
RUNS = st.lists(
    st.builds(RunLine, TEXTS, st.sampled_from(["live", ""]), st.none() | st.integers(0), MAYBE), max_size=9
)


@st.composite
def views(draw: st.DrawFn) -> View:
    runs = draw(RUNS)
    return View(
        logdir=draw(TEXTS),
        runs=runs,
        chosen=draw(st.integers(-1, len(runs) - 1)),
        signs=draw(st.none() | SIGNS),
        layers=draw(st.lists(LAYERS, max_size=6)),
        message=draw(TEXTS),
        complaints=draw(st.lists(TEXTS, max_size=2)),
        more_runs=draw(st.integers(0, 2000)),
    )


@given(views(), st.integers(1, 160), st.integers(1, 60), st.booleans())
def test_every_drawing_fits_its_screen(view: View, width: int, height: int, ascii_only: bool) -> None:
    """Whatever a log holds and however small the window is; below twenty columns the terminal cuts."""
    lines = Page(width, height, ascii_only=ascii_only).lines(view)
    assert len(lines) == max(height, 1)
    assert max(cell_len(line.plain) for line in lines) <= max(width, 20)
    assert is_harmless("".join(line.plain for line in lines))


@given(views())
def test_on_paper_there_is_room_for_all(view: View) -> None:
    """Without a height every run and every layer has its line."""
    lines = Page(100, most_layers=100).lines(view)
    assert len(lines) >= len(view.layers) + (len(view.runs) if len(view.runs) > 1 else 0)
    assert max(cell_len(line.plain) for line in lines) <= 100


def is_harmless(text: str) -> bool:
    return not any(unicodedata.category(character) in BAD for character in text.replace(LEFT_TO_RIGHT, ""))


@given(TEXTS, st.integers(0, 40))
def test_a_fitted_name_fits(text: str, width: int) -> None:
    """In cells, not in characters: some letters take two, some none."""
    shown = fitted(text, width)
    assert cell_len(shown) <= width
    assert is_harmless(shown)


def test_what_cannot_be_printed_is_spelled_out() -> None:
    """So that one sees that it is there."""
    assert r"a\x1b[31mb" == harmless("a\x1b[31mb")
    assert r"\u202e\n\t\udcff" == harmless("\u202e\n\t\udcff")


def test_ordinary_names_stay_as_they_are() -> None:
    """In any alphabet; one that runs from right to left keeps the numbers behind it in their places."""
    assert "größe/層.weight 2" == harmless("größe/層.weight 2")
    assert "שלום" + LEFT_TO_RIGHT == harmless("שלום")


def test_a_long_name_keeps_both_ends() -> None:
    """Layers differ at their ends and belong together at their beginnings."""
    assert "encod…ntion.q_proj" == fitted("encoder.layers.11.attention.q_proj", 18)


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([0, 1, 2, 3, 4, 5, 6, 7], "▁▂▃▄▅▆▇█"),
        ([5, 5, 5], "▄▄▄"),
        ([0, 0], "▄▄"),
        ([1, math.nan, 2, math.inf, -math.inf], "▁×█××"),
        ([math.nan], "×"),
        ([-1e308, 1e308], "▁█"),
        ([1, 10, 100, 1e4], "▁▃▅█"),  # a wide range is drawn by its logarithm
        ([0, 10, 100, 1e4], "▁▁▁█"),  # which zero does not have
        ([100, 1e4, 1e8], "▁▃█"),
        ([1e-9, 1e-7, 1e-3], "▁▃█"),
        ([], ""),
    ],
)
def test_the_course_of_a_number(values: list[float], expected: str) -> None:
    """Higher is more, a cross is not finite."""
    assert expected == sparkline(values, 8)


@given(st.lists(NUMBERS, max_size=300), st.integers(0, 40), st.booleans())
def test_a_course_takes_any_numbers(values: list[float], width: int, ascii_only: bool) -> None:
    """At most as many characters as there are values and columns."""
    line = sparkline(values, width, ascii_only=ascii_only)
    assert len(line) == min(width, len(values))
    assert line.isascii() or not ascii_only


@pytest.mark.parametrize(
    ("sent", "expected"), [(0.5, 0.5), ("Infinity", math.inf), (None, None), ("0.5x", None)]
)
def test_a_loss_from_another_machine(sent: float | str | None, expected: float | None) -> None:
    """What is no number is left out, and the view goes on."""
    assert expected == plain(sent)


def test_each_phase_is_in_the_bar() -> None:
    """Even the shortest has its letter, and the bar is as wide as there is room."""
    parts = {"data": 1e-6, "forward": 2.0, "backward": 6.0, "optimizer": 0.0, "other": 1e-9}
    assert "DFFFBBBBBB." == phase_bar(parts, 11).plain


@pytest.mark.parametrize("key", sorted(NAMES))
def test_keys_come_one_by_one(key: str) -> None:
    """Also when several were pressed between two looks."""
    assert [key, "q", key] == split(f"{key}q{key}")


def test_the_folder_that_names_share() -> None:
    """Whole folders only."""
    assert "a/b/" == common_folder(["a/b/x", "a/b/c/y"])
    assert "" == common_folder(["ab/x", "ac/x"]) == common_folder(["a/x", "."]) == common_folder(["a/x"])


@pytest.mark.parametrize(
    ("secs", "expected"), [(-1, "0 s"), (119, "119 s"), (120, "2 min"), (7200, "2 h"), (1e6, "12 days")]
)
def test_how_long_ago(secs: float, expected: str) -> None:
    """In the unit that says enough."""
    assert expected == ago(secs)
