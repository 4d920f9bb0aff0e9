"""Charts as files: pictures that show something, and tables with the recorded numbers."""

from __future__ import annotations

import io
import math
import re

import numpy as np
import pytest
from PIL import Image
from playwright.sync_api import Locator, expect

from tb_netdebug.core.eventlog.reader.run import read_run
from tests.support.browser import Chromium, Gallery, Look
from tests.support.recordings import STEPS


def picture(data: bytes) -> np.ndarray:
    """The pixels of a saved picture, which has a reasonable size."""
    with Image.open(io.BytesIO(data)) as image:
        assert image.format == "PNG"
        assert 200 <= image.width <= 4000
        assert 100 <= image.height <= 4000
        return np.asarray(image.convert("RGB"))


def inked(pixels: np.ndarray) -> float:
    """The share of pixels that are not the ground."""
    return float((pixels != pixels[2, 2]).any(axis=2).mean())


@pytest.mark.parametrize("dark", [False, True])
@pytest.mark.parametrize(
    ("view", "least"),
    [
        ("overview", 0.004),
        ("layers", 0.3),
        ("histograms", 0.02),
        ("data", 0.004),
        ("resources", 0.01),
        ("graph", 0.02),
    ],
)
def test_each_page_saves_pictures(
    chromium: Chromium, gallery: Gallery, view: str, least: float, dark: bool
) -> None:
    """Opaque ones on the ground of the theme, with something on it."""
    with chromium.look(gallery.board, alone=True, dark=dark, page=view, run="healthy") as page:
        button = page.tab.get_by_role("button", name=re.compile("^PNG")).first
        page.tab.locator("main [role=img][tabindex='0']").first.wait_for()
        page.wait_until(lambda: inked(picture(page.saved(button))) > least)
        ground = picture(page.saved(button))[2, 2].mean()
        assert (ground < 60) if dark else (ground > 200)


def test_a_picture_names_its_lines(chromium: Chromium, gallery: Gallery) -> None:
    """It is higher than the chart by a title and a line for the runs."""
    with chromium.look(gallery.board, {"with": "healthy"}, alone=True, run="healthy") as page:
        page.wait_drawn("healthy", last=STEPS - 1)
        chart = page.chart("Loss")
        canvas = chart.locator("canvas").bounding_box()
        assert canvas is not None
        pixels = picture(page.saved(chart.get_by_role("button", name="PNG")))
        assert canvas["height"] + 30 < len(pixels) < canvas["height"] + 120
        assert inked(pixels[:48]) > 0.005


def test_a_table_has_every_number(chromium: Chromium, gallery: Gallery) -> None:
    """Of a scalar with NaN: value, lowest and highest of each step, and how many were not finite."""
    recorded = read_run(gallery.logdir / "blown-up").ranks[0].scalars["loss"].values.tolist()
    with chromium.look(gallery.board, {"with": "blown-up"}, alone=True, run="blown-up") as page:
        page.wait_drawn("blown-up", last=STEPS - 1)
        header, *rows = page.table(page.chart("Loss"))
        assert ["series", "step", "value", "lowest", "highest", "before smoothing", "non-finite"] == header
        assert ["blown-up"] * STEPS == [row[0] for row in rows]
        for row, value in zip(rows, recorded, strict=True):
            if math.isfinite(value):
                assert [value] * 3 == [float(cell) for cell in row[2:5]]
            assert math.isfinite(value) == (row[6] == "0")


def figures(page: Look) -> Locator:
    return page.tab.locator("main").get_by_role("button", name=re.compile("^CSV"))


@pytest.mark.parametrize("view", ["overview", "layers", "histograms", "data", "resources", "graph"])
def test_every_chart_of_a_page_saves_a_table(chromium: Chromium, gallery: Gallery, view: str) -> None:
    """Rows as long as their header, and none of them without anything."""
    with chromium.look(gallery.board, alone=True, page=view, run="healthy") as page:
        figures(page).first.wait_for()
        for button in figures(page).all():
            button.scroll_into_view_if_needed()
            expect(button.locator("xpath=ancestor::figure")).not_to_contain_text("Loading")
            header, *rows = page.table(button.locator("xpath=.."))
            assert header
            assert all(len(row) == len(header) and any(row) for row in rows)
