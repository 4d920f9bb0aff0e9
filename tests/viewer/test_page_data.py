"""The page Data: what goes in, and how fast."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import expect

from tb_netdebug.core.eventlog.reader.run import read_run
from tb_netdebug.core.records.step import Kind, Series
from tests.support.browser import Chromium, Gallery
from tests.support.recordings import STEPS


def test_batches_are_told(chromium: Chromium, gallery: Gallery) -> None:
    """Their size, how many samples were seen, and the share of each step spent waiting for them."""
    scalars = read_run(gallery.logdir / "healthy").ranks[0].scalars
    waits = (scalars["time/data"].values / scalars["time/step"].values).tolist()
    with chromium.look(gallery.board, alone=True, page="data", run="healthy") as page:
        glance = page.tab.get_by_role("region", name="Data at a glance")
        expect(glance).to_contain_text(re.compile(r"Batch size\s*32\s*always"))
        expect(glance).to_contain_text("1.92k")
        assert dict.fromkeys(range(STEPS), 32.0) == page.curve("Batch size", "healthy")
        shown = page.curve("Waiting for data, % of step", "healthy")
        assert waits == pytest.approx([shown[step] for step in range(STEPS)], rel=1e-9)
        page.survey("data")


def test_inputs_and_labels_have_bands(chromium: Chromium, gallery: Gallery) -> None:
    """Each tensor of the loop's own over all steps, with a way to its histogram."""
    tensors = read_run(gallery.logdir / "healthy").ranks[0].tensors
    newest = tensors[Series(Kind.TENSOR, "label/largest")].headers[-1]
    with chromium.look(gallery.board, alone=True, page="data", run="healthy") as page:
        for heading in ("Inputs", "Labels"):
            expect(page.tab.get_by_role("heading", name=heading, exact=True)).to_be_attached()
        chart = page.chart("label/largest")
        chart.scroll_into_view_if_needed()
        facts = page.tab.get_by_text(f"from {newest['min']:.0f} to {newest['max']:.0f}")
        expect(facts.first).to_be_visible()
        assert STEPS == len(page.table(chart)[1:])
        page.picture("data-tensors")
        chart.locator("xpath=..").get_by_role("button", name="Histograms").click()
        expect(page.tab.get_by_role("region", name="Histogram of label/largest")).to_be_visible()


def test_what_was_not_recorded_is_explained(chromium: Chromium, gallery: Gallery) -> None:
    """A run without tensors says which line of code would bring them."""
    with chromium.look(gallery.board, alone=True, page="data", run="scalars") as page:
        expect(page.tab.get_by_text("No step has been timed in this run yet")).to_be_visible()
        expect(page.tab.get_by_text('monitor.tensor("input/pixels", images)')).to_be_visible()
        page.survey("data-scalars")


def test_a_summary_writer_s_run_has_no_batches(chromium: Chromium, gallery: Gallery) -> None:
    """The page says so, and shows its histograms all the same."""
    with chromium.look(gallery.board, alone=True, page="data", run="summary") as page:
        expect(page.tab.get_by_text("written by a SummaryWriter")).to_be_visible()
        expect(page.chart("layer/weight")).to_be_attached()
        page.survey("data-summary")
