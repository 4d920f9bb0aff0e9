"""The page Layers: the heat map, and what a click on a layer opens."""

from __future__ import annotations

import csv
import io
import math
import re
from pathlib import Path

import pytest
from playwright.sync_api import Locator, Route, expect

from tb_netdebug.core.eventlog.reader.run import read_run
from tb_netdebug.core.records.step import Kind, Series
from tests.support.browser import Chromium, Gallery, Look
from tests.support.recordings import STEPS

GREATEST = {"page": "layers", "run": "healthy", "v.layers.kind": "gradient", "v.layers.stat": "max"}


def heat_map(page: Look) -> Locator:
    return page.tab.locator("section.heat")


def greatest(logdir: Path, name: str, kind: Kind = Kind.GRADIENT) -> list[float]:
    """The maxima of a tensor as they were recorded, a sample in each step."""
    found: list[float] = (
        read_run(logdir / "healthy").ranks[0].tensors[Series(kind, name)].headers["max"].tolist()
    )
    return found


def test_cells_hold_what_was_recorded(chromium: Chromium, gallery: Gallery) -> None:
    """Each tensor a row and each step a column, in the numbers that the map saves."""
    with chromium.look(gallery.board, GREATEST, alone=True) as page:
        header, *rows = page.table(heat_map(page))
        assert ["tensor", *map(str, range(STEPS))] == header
        assert [f"{layer}.{part}" for layer in (0, 2, 4) for part in ("weight", "bias")] == [
            row[0] for row in rows
        ]
        for name, *cells in rows:
            assert greatest(gallery.logdir, name) == pytest.approx([float(cell) for cell in cells], rel=1e-6)
        page.survey("layers")


def test_keys_read_cells(chromium: Chromium, gallery: Gallery) -> None:
    """The cell under the cursor is said in words."""
    values = greatest(gallery.logdir, "0.bias")
    with chromium.look(gallery.board, GREATEST, alone=True) as page:
        heat_map(page).get_by_role("img").focus()
        for key in ("Home", "ArrowDown", "ArrowRight"):
            page.page.keyboard.press(key)
        said = heat_map(page).get_by_role("status")
        expect(said).to_have_text(re.compile(r"^0\.bias, step 1, max .*\d"))
        assert values[1] == pytest.approx(number(said.inner_text().split("max ")[1]), rel=1e-4)


def number(text: str) -> float:
    """As the page writes it, powers of ten and thin spaces included."""
    return float(text.replace("−", "-").replace("\u202f", ""))


def test_another_statistic_of_another_kind(chromium: Chromium, gallery: Gallery) -> None:
    """Choosing what is drawn changes the map, its title and the link."""
    with chromium.look(gallery.board, GREATEST, alone=True) as page:
        page.tab.get_by_role("radio", name="Activations").click()
        page.tab.get_by_label("Statistic").select_option("zeros")
        picture = heat_map(page).get_by_role("img", name=re.compile("^zeros of activations"))
        expect(picture).to_be_visible()
        names = [row[0] for row in page.table(heat_map(page))[1:]]
        assert {"0", "1", "2", "3", "4"} <= set(names)
        page.page.wait_for_url(re.compile(r"v\.layers\.kind=activation.*v\.layers\.stat=zeros"))
        page.tab.get_by_role("searchbox", name="Search tensors by name").fill("1")
        expect(heat_map(page).get_by_role("img", name=re.compile(", 1 rows"))).to_be_visible()


def test_what_is_drawn_keeps_its_own_name(chromium: Chromium, gallery: Gallery) -> None:
    """While the answer to another choice is on its way, the picture before it stays under the name it had."""
    held: list[Route] = []
    gradients, activations = re.compile("^max of gradients"), re.compile("^zeros of activations")
    with chromium.look(gallery.board, GREATEST, alone=True) as page:
        expect(heat_map(page).get_by_role("img", name=gradients)).to_be_visible()
        before = page.table(heat_map(page))
        page.page.route("**/columns?*", lambda route: held.append(route))
        page.tab.get_by_role("radio", name="Activations").click()
        page.tab.get_by_label("Statistic").select_option("zeros")
        page.wait_until(lambda: any("zeros" in each.request.url for each in held))
        expect(heat_map(page).get_by_role("img", name=gradients)).to_be_visible()
        assert before == page.table(heat_map(page))
        held[-1].continue_()
        expect(heat_map(page).get_by_role("img", name=activations)).to_be_visible()
        assert before != page.table(heat_map(page))


def test_a_click_opens_a_layer_and_leads_to_its_histogram(chromium: Chromium, gallery: Gallery) -> None:
    """Quantile bands equal to the recording, and a click on a step that goes to that very histogram."""
    with chromium.look(gallery.board, GREATEST, alone=True) as page:
        heat_map(page).get_by_role("img").click(position={"x": 500, "y": 10})
        details = page.tab.get_by_role("region", name="Details of 0.weight")
        bands = details.locator("figure").filter(
            has=page.tab.get_by_role("img", name=re.compile("^Quantiles"))
        )
        rows = list(
            csv.DictReader(io.StringIO(page.saved(bands.first.get_by_role("button", name="CSV")).decode()))
        )
        most = [float(row["max"]) for row in rows]
        assert greatest(gallery.logdir, "0.weight") == pytest.approx(most, rel=1e-6)
        page.survey("layers-detail")
        details.get_by_role("button", name="Histogram", exact=True).click()
        expect(page.tab.get_by_role("region", name="Histogram of 0.weight")).to_be_visible()


def test_a_step_leads_to_its_histogram(chromium: Chromium, gallery: Gallery) -> None:
    """Enter on a sample of the details opens Histograms at that tensor and step."""
    with chromium.look(gallery.board, {**GREATEST, "v.layers.tensor": "2.weight"}, alone=True) as page:
        details = page.tab.get_by_role("region", name="Details of 2.weight")
        details.get_by_role("img", name=re.compile("^Histograms of 2.weight")).focus()
        for key in ("ArrowLeft", "ArrowLeft", "Enter"):
            page.page.keyboard.press(key)
        page.page.wait_for_url(re.compile(r"page=histograms.*v\.histograms\.tensor=2\.weight.*step=57\b"))
        histogram = page.tab.get_by_role("region", name="Histogram of 2.weight")
        expect(histogram.get_by_text("step 57", exact=True)).to_be_visible()


def test_sick_steps_can_be_told_from_healthy_ones(chromium: Chromium, gallery: Gallery) -> None:
    """Where all values were NaN, the map has no number, and a cell says how many."""
    link = {**GREATEST, "run": "blown-up"}
    with chromium.look(gallery.board, link, alone=True) as page:
        rows = page.table(heat_map(page))[1:]
        assert "" in rows[0]
        assert math.isfinite(float(rows[0][1]))
        heat_map(page).get_by_role("img").focus()
        page.page.keyboard.press("End")
        expect(heat_map(page).get_by_role("status")).to_contain_text(
            "no finite value, not finite: 100 % of the values"
        )
        page.survey("layers-nan")
