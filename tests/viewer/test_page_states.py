"""When there is nothing to show, or something went wrong: the page says what, and what to do next."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import expect

from tb_netdebug.core.eventlog.writer import EventWriter
from tb_netdebug.core.records.step import StepRecord
from tests.support.browser import Chromium, Gallery
from tests.support.event_files import newer_block
from tests.support.recordings import write_curve
from tests.support.tensorboard_process import TensorBoard

PAGES = ("overview", "layers", "histograms", "data", "resources", "graph")


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[TensorBoard, Path]]:
    """A damaged run, one that a newer NetDebug wrote, one of both, and one to be deleted."""
    logdir = tmp_path_factory.mktemp("states")
    for name in ("doomed", "other"):
        write_curve(logdir / name, steps=200)
    damage(logdir / "damaged")
    write_curve(logdir / "newer", steps=5)
    with event_file(logdir / "newer").open("ab") as file:
        file.write(newer_block(9))
    with TensorBoard("--logdir", str(logdir)) as board:
        yield board, logdir


def event_file(folder: Path) -> Path:
    (found,) = folder.glob("events*")
    return found


def damage(folder: Path) -> None:
    """Records 200 steps in ten blocks, and zeroes a part of one of them as a disk that lost it would."""
    writer = EventWriter(folder, mirror=None)
    for step in range(200):
        writer.put(StepRecord(step, 1.7e9 + step, {"loss": 1 / (step + 1)}))
        if step % 20 == 19:
            assert writer.flush()
    size = event_file(folder).stat().st_size
    writer.close()
    with event_file(folder).open("r+b") as file:
        file.seek(size // 2)
        file.write(bytes(8))


def test_an_empty_logdir_says_how_to_record(chromium: Chromium, logdir: Path) -> None:
    """With its path, the lines of code, and where to send records; the first run then appears by itself."""
    with TensorBoard("--logdir", str(logdir)) as board, chromium.look(board, alone=True) as page:
        expect(page.tab.get_by_role("heading", name="No runs yet")).to_be_visible()
        expect(page.tab.locator("main")).to_contain_text(str(logdir))
        expect(page.tab.locator("main")).to_contain_text("nd.watch(model, optimizer)")
        expect(page.tab.locator("main")).to_contain_text(
            re.compile(r"netdebug run --remote 127\.0\.0\.1:\d+")
        )
        page.survey("states-empty")
        write_curve(logdir / "first")
        page.wait_drawn("first", last=19)


def test_damage_is_told(chromium: Chromium, place: tuple[TensorBoard, Path]) -> None:
    """Where it lies and how much it is; the rest is drawn."""
    with chromium.look(place[0], {"with": "damaged"}, alone=True, run="damaged") as page:
        page.wait_drawn("damaged", last=199)
        drawn = page.curve("Loss", "damaged")
        assert 100 <= len(drawn) < 200
        assert all(value == pytest.approx(1 / (step + 1)) for step, value in drawn.items())
        gaps = page.tab.get_by_text(re.compile("[Dd]amaged places? in the files"))
        expect(gaps).to_be_visible()
        gaps.click()
        expect(page.tab.locator("main")).to_contain_text("at byte")
        page.survey("states-damaged")


def test_a_newer_version_is_told_in_a_sentence(chromium: Chromium, place: tuple[TensorBoard, Path]) -> None:
    """In the list and on the page."""
    with chromium.look(place[0], alone=True, run="newer") as page:
        expect(page.tab.locator("main").get_by_text(re.compile("newer")).nth(1)).to_be_visible()
        expect(
            page.tab.locator(".run-facts").filter(has_text=re.compile("newer|pip|version"))
        ).to_be_visible()
        page.survey("states-newer")


def test_a_run_that_is_deleted_goes(chromium: Chromium, place: tuple[TensorBoard, Path]) -> None:
    """From the list and from the page, which shows another one."""
    board, logdir = place
    # A request for it may be on its way, and browsers write what a server refuses to their console.
    with chromium.look(board, alone=True, run="doomed", allowed="with a status of 404") as page:
        page.wait_drawn("doomed", last=199)
        shutil.rmtree(logdir / "doomed")
        expect(page.tab.get_by_role("button", name=re.compile("^doomed"))).to_have_count(0)
        expect(page.tab.locator(".page-run")).not_to_have_text("doomed")
        expect(page.tab.get_by_role("region", name="Vital signs")).to_be_visible()


@pytest.mark.parametrize("run", ["scalars", "summary"])
def test_no_page_is_empty_without_words(chromium: Chromium, gallery: Gallery, run: str) -> None:
    """A run without samples, and one that is not ours: each page shows something or says what is missing."""
    with chromium.look(gallery.board, alone=True, run=run) as page:
        for name in PAGES:
            page.open(name.capitalize())
            expect(page.tab.get_by_role("link", name=name.capitalize(), exact=True)).to_have_attribute(
                "aria-current", "page"
            )
            expect(page.tab.locator("main")).not_to_contain_text("Reading the")
            expect(page.tab.locator("main")).to_contain_text(re.compile(r"(\w+\W+){8}"))
            page.survey(f"states-{run}-{name}")


@pytest.mark.parametrize("view", PAGES)
def test_a_run_of_nan_can_be_looked_at(chromium: Chromium, gallery: Gallery, view: str) -> None:
    """Every page of the run that blew up is drawn, without a complaint."""
    with chromium.look(gallery.board, alone=True, page=view, run="blown-up") as page:
        expect(page.tab.locator(".page-run")).to_have_text("blown-up")
        expect(page.tab.locator("main")).not_to_contain_text("cannot be shown")
        expect(page.tab.locator("main").get_by_role("img").first).to_be_visible()
        page.survey(f"states-nan-{view}")


def test_choosing_nothing_draws_the_run_in_focus(chromium: Chromium, gallery: Gallery) -> None:
    """With no tick in the list, the page is still about a run."""
    with chromium.look(gallery.board, alone=True, run="healthy") as page:
        page.tab.get_by_role("button", name="None", exact=True).click()
        expect(page.tab.get_by_role("heading", name="0 of 5 drawn")).to_be_visible()
        page.wait_until(lambda: {"healthy"} == {row[0] for row in page.table(page.chart("Loss"))[1:]})
        page.tab.get_by_role("searchbox", name=re.compile("^Search runs")).fill("no such run")
        expect(page.tab.get_by_text("No runs match.")).to_be_visible()
        page.tab.get_by_role("searchbox", name=re.compile("^Search runs")).fill("/(a/")
        expect(page.tab.get_by_text("not a complete regular expression")).to_be_visible()
