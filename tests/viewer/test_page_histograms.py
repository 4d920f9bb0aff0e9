"""The page Histograms: honest bins of any step, and two compared."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Locator, expect

from tb_netdebug.core.eventlog.reader.run import read_run
from tb_netdebug.core.records.step import Kind, Series
from tb_netdebug.core.stats.packed import Summary
from tests.support.browser import Chromium, Gallery, Look
from tests.support.recordings import STEPS

WEIGHT = {
    "page": "histograms",
    "run": "healthy",
    "v.histograms.kind": "weight",
    "v.histograms.tensor": "2.weight",
}


def recorded(gallery: Gallery, kind: Kind = Kind.WEIGHT, name: str = "2.weight") -> list[Summary]:
    """The samples of a tensor, one for each step."""
    return list(read_run(gallery.logdir / "healthy").ranks[0].tensors[Series(kind, name)].summaries())


def bars(page: Look) -> Locator:
    """The large histogram."""
    return page.tab.locator("figure").filter(
        has=page.tab.get_by_role("img", name=re.compile("^Histogram of"))
    )


def columns(page: Look) -> list[list[float]]:
    """lower, upper and the counts of all bins."""
    return [
        list(column)
        for column in zip(*([*map(float, row)] for row in page.table(bars(page))[1:]), strict=True)
    ]


def test_bins_are_those_of_the_sketch(chromium: Chromium, gallery: Gallery) -> None:
    """The newest sample's, with exact counts from its least to its greatest value, and the tables agree."""
    newest = recorded(gallery)[-1]
    with chromium.look(gallery.board, WEIGHT, alone=True) as page:
        lower, upper, counts = columns(page)
        assert sorted(newest.counts) == sorted(counts)
        assert newest.min >= lower[0]
        assert newest.max <= upper[-1]
        assert sorted(lower) == lower
        numbers = page.tab.get_by_role("region", name="Histogram of 2.weight").get_by_role("table")
        expect(numbers.filter(has_text="Statistics")).to_contain_text(re.compile("values.*1.024"))
        page.survey("histograms")


def test_another_step_has_other_bins(chromium: Chromium, gallery: Gallery) -> None:
    """Chosen by number, by the buttons beside it, and back to the newest one."""
    samples = recorded(gallery)
    with chromium.look(gallery.board, WEIGHT, alone=True) as page:
        step = page.tab.get_by_role("group", name="Step shown")
        number = step.get_by_role("spinbutton", name="Step")
        expect(number).to_have_value(str(STEPS - 1))
        number.fill("7")
        page.page.keyboard.press("Enter")
        page.tab.get_by_role("img", name=re.compile("^Histogram of 2.weight, step 7:")).wait_for()
        assert sorted(samples[7].counts) == sorted(columns(page)[2])
        step.get_by_role("button", name="Next sample").click()
        page.tab.get_by_role("img", name=re.compile("^Histogram of 2.weight, step 8:")).wait_for()
        assert sorted(samples[8].counts) == sorted(columns(page)[2])
        step.get_by_role("button", name="Newest").click()
        page.tab.get_by_role("img", name=re.compile(f"^Histogram of 2.weight, step {STEPS - 1}:")).wait_for()


def test_two_steps_are_compared(chromium: Chromium, gallery: Gallery) -> None:
    """In one picture and one table, side by side, with the distance between them."""
    samples = recorded(gallery)
    link = {**WEIGHT, "v.histograms.step": "50", "v.histograms.vs": "3"}
    with chromium.look(gallery.board, link, alone=True) as page:
        expect(page.tab.get_by_text("Distance between the distributions")).to_be_visible()
        a, b = columns(page)[2:]
        assert (1024, 1024) == (sum(a), sum(b))
        assert samples[3].counts.sum() == sum(b)
        page.survey("histograms-compared")


def test_steps_are_merged(chromium: Chromium, gallery: Gallery) -> None:
    """A range of steps is one histogram with the values of all of them."""
    link = {**WEIGHT, "v.histograms.step": "10", "v.histograms.to": "19"}
    with chromium.look(gallery.board, link, alone=True) as page:
        page.tab.get_by_role("img", name=re.compile("steps 10 – 19, 10 samples merged")).wait_for()
        assert 10 * 1024 == sum(columns(page)[2])


@pytest.mark.parametrize("axis", ["linear", "symlog", "log"])
def test_the_axis_changes_the_picture_and_not_the_bins(
    chromium: Chromium, gallery: Gallery, axis: str
) -> None:
    """What is saved stays as it was recorded."""
    with chromium.look(gallery.board, WEIGHT, alone=True) as page:
        page.tab.get_by_role("radiogroup", name="Value axis").get_by_text(axis, exact=True).click()
        assert sorted(recorded(gallery)[-1].counts) == sorted(columns(page)[2])
        page.picture(f"histograms-{axis}")


def test_all_tensors_are_listed(chromium: Chromium, gallery: Gallery) -> None:
    """With the search in the list, and the keys that go through it."""
    with chromium.look(gallery.board, WEIGHT, alone=True) as page:
        names = page.tab.get_by_role("list", name="Tensors").get_by_role("button")
        expect(names).to_have_count(6)
        search = page.tab.get_by_role("searchbox", name=re.compile("^Search tensors by name"))
        search.fill("bias")
        expect(names).to_have_count(3)
        search.press("ArrowDown")
        expect(page.tab.get_by_role("region", name="Histogram of 0.bias")).to_be_visible()


def test_values_that_are_not_finite_are_counted_beside(chromium: Chromium, gallery: Gallery) -> None:
    """When all of a tensor became NaN there is no bar, and a sentence and a number instead."""
    link = {**WEIGHT, "run": "blown-up", "v.histograms.tensor": "0.weight"}
    with chromium.look(gallery.board, link, alone=True) as page:
        histogram = page.tab.get_by_role("region", name="Histogram of 0.weight")
        expect(histogram.get_by_text("There is no finite value.")).to_be_visible()
        expect(histogram.get_by_role("table").filter(has_text="Statistics")).to_contain_text("100 %")
        step = histogram.get_by_role("spinbutton", name="Step")
        expect(step).to_have_value(str(STEPS - 1))
        histogram.get_by_role("button", name="Previous sample").click()
        expect(step).to_have_value(str(STEPS - 2))
        page.survey("histograms-nan")


def test_a_summary_writer_s_histograms_are_shown(chromium: Chromium, gallery: Gallery) -> None:
    """With the buckets that torch wrote."""
    link = {"page": "histograms", "run": "summary"}
    with chromium.look(gallery.board, link, alone=True) as page:
        expect(page.tab.get_by_role("region", name="Histogram of layer/weight")).to_be_visible()
        assert 100 == sum(columns(page)[2])
