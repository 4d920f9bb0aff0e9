"""The Overview in a real browser, inside of a real TensorBoard."""

from __future__ import annotations

import math
import re

import pytest
from playwright.sync_api import expect

from tb_netdebug.core.eventlog.reader.run import read_run
from tests.support.browser import DESK, PHONE, Chromium, Gallery
from tests.support.recordings import STEPS


@pytest.mark.parametrize("dark", [False, True])
@pytest.mark.parametrize("size", [DESK, PHONE])
def test_the_loss_is_drawn(chromium: Chromium, gallery: Gallery, size: tuple[int, int], dark: bool) -> None:
    """Up to the last step, in both themes, on a desk and on a phone, and nothing sticks out."""
    with chromium.look(gallery.board, size=size, dark=dark, run="healthy") as page:
        page.wait_drawn("healthy", last=STEPS - 1)
        assert 0 == page.overflow
        page.picture(f"tensorboard-{size[0]}-{'dark' if dark else 'light'}")


def test_the_numbers_are_those_of_the_recording(chromium: Chromium, gallery: Gallery) -> None:
    """The curve of the loss has every step, and the vital signs say its last value."""
    recorded = read_run(gallery.logdir / "healthy").ranks[0]
    loss = dict(zip(recorded.steps.tolist(), recorded.scalars["loss"].values.tolist(), strict=True))
    with chromium.look(gallery.board, alone=True, run="healthy") as page:
        page.wait_drawn("healthy", last=STEPS - 1)
        assert loss == page.curve("Loss", "healthy")
        vitals = page.tab.get_by_role("region", name="Vital signs")
        shown = vitals.get_by_role("button").filter(has_text="Loss").locator(".vital-value").inner_text()
        assert float(shown) == pytest.approx(loss[STEPS - 1], rel=1e-3)
        expect(page.tab.get_by_text(f"{STEPS} steps").first).to_be_visible()
        page.survey("overview")


def test_a_loss_that_became_nan_is_told(chromium: Chromium, gallery: Gallery) -> None:
    """In the vital signs, with the step from which on, in the words of the chart, and in its numbers."""
    values = read_run(gallery.logdir / "blown-up").ranks[0].scalars["loss"].values
    broken = [step for step, value in enumerate(values.tolist()) if not math.isfinite(value)]
    with chromium.look(gallery.board, alone=True, run="blown-up") as page:
        page.wait_drawn("blown-up", last=STEPS - 1)
        vitals = page.tab.get_by_role("region", name="Vital signs")
        expect(vitals.get_by_role("button").filter(has_text="Steps with NaN or Inf")).to_contain_text(
            "from step"
        )
        chart = page.chart("Loss").get_by_role("img")
        expect(chart).to_have_attribute("aria-label", re.compile("blown-up .* with non-finite values"))
        bad = page.curve("Loss", "blown-up", "non-finite")
        assert broken == [step for step, count in bad.items() if count > 0]
        page.survey("overview-nan")


def test_every_scalar_has_a_chart(chromium: Chromium, gallery: Gallery) -> None:
    """In groups; the filter leaves those that have the word in their names."""
    with chromium.look(gallery.board, alone=True, run="healthy") as page:
        scalars = page.tab.get_by_role("region", name="All scalars")
        scalars.get_by_role("heading", name="Optimization").wait_for()
        expect(scalars.get_by_role("heading", name="accuracy", exact=True)).to_be_attached()
        scalars.get_by_role("searchbox").fill("gradient")
        expect(scalars.get_by_role("heading", name="accuracy", exact=True)).to_have_count(0)
        expect(scalars.get_by_role("heading", name="Gradient norm", exact=True)).to_be_visible()
        scalars.get_by_role("searchbox").fill("no such chart")
        expect(scalars.get_by_text("No charts match.")).to_be_visible()


def test_runs_are_drawn_together(chromium: Chromium, gallery: Gallery) -> None:
    """Whatever is ticked in the list is in the chart, and named below it."""
    with chromium.look(gallery.board, {"with": "healthy"}, alone=True, run="healthy") as page:
        page.wait_drawn("healthy", last=STEPS - 1)
        assert {"healthy"} == {row[0] for row in page.table(page.chart("Loss"))[1:]}
        page.tab.get_by_role("checkbox", name="Draw ranks").check(force=True)
        page.wait_drawn("ranks", last=19)
        assert {"healthy", "ranks"} == {row[0] for row in page.table(page.chart("Loss"))[1:]}
        expect(page.chart("Loss").get_by_role("list")).to_contain_text("ranks")
