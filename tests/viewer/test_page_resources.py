"""The page Resources: where time and memory go, and what the ranks do."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Locator, expect

from tb_netdebug.core.eventlog.reader.run import read_run
from tests.support.browser import Chromium, Gallery, Look
from tests.support.recordings import MEMORY, STEPS


def stack(page: Look, title: str) -> Locator:
    return page.tab.locator(".stack-chart").filter(
        has=page.tab.get_by_role("heading", name=re.compile(title))
    )


def test_the_parts_of_a_step_add_up(chromium: Chromium, gallery: Gallery) -> None:
    """What is saved of the picture is the recorded time of each step, split."""
    whole = read_run(gallery.logdir / "healthy").ranks[0].scalars["time/step"].values.tolist()
    with chromium.look(gallery.board, alone=True, page="resources", run="healthy") as page:
        header, *rows = page.table(stack(page, "^Step time by phase"))
        assert {"step", "Forward", "Loss and backward", "Optimizer"} <= set(header)
        assert whole == pytest.approx([sum(map(float, row[1:])) for row in rows], rel=1e-6)
        page.tab.get_by_role("radio", name="Shares").click()
        expect(stack(page, "in shares$")).to_be_visible()
        page.survey("resources")


def test_memory_of_the_process_is_drawn(chromium: Chromium, gallery: Gallery) -> None:
    """Up to its recorded peak."""
    with chromium.look(gallery.board, alone=True, page="resources", run="ranks") as page:
        rows = page.table(stack(page, ", peak 3 GiB"))[1:]
        assert {MEMORY["memory/rss"]} == {float(row[1]) for row in rows}
        expect(page.tab.get_by_role("region", name="Resources at a glance")).to_contain_text("memory, peak")


def test_the_cost_of_monitoring_is_told(chromium: Chromium, gallery: Gallery) -> None:
    """With what was dropped, and that the files could be read."""
    with chromium.look(gallery.board, alone=True, page="resources", run="healthy") as page:
        cost = page.curve(
            "Cost of monitoring",
            "Cost of monitoring",
        )
        recorded = read_run(gallery.logdir / "healthy").ranks[0].scalars["monitor/overhead"]
        assert dict(zip(recorded.rows.tolist(), recorded.values.tolist(), strict=True)) == cost
        expect(page.tab.get_by_text("nothing was dropped")).to_be_visible()
        expect(page.tab.get_by_text("All files were read without gaps.")).to_be_visible()


def test_the_slowest_rank_is_found(chromium: Chromium, gallery: Gallery) -> None:
    """Ranks stand side by side, and one of them can be shown on all pages."""
    with chromium.look(gallery.board, alone=True, page="resources", run="ranks") as page:
        expect(page.tab.get_by_role("heading", name="Ranks (2)")).to_be_visible()
        expect(page.tab.get_by_role("row", name=re.compile(r"^1 \(slowest\).*30 ms"))).to_be_visible()
        assert {0.03} == set(page.curve("Step time by rank", "rank 1").values())
        expect(page.tab.get_by_text("Rank 0 shows all of them")).to_be_visible()
        expect(page.tab.get_by_text("Processes in the group")).to_be_visible()
        page.survey("resources-ranks")
        page.tab.get_by_role("row", name=re.compile(r"^1 \(slowest\)")).get_by_role("button").click()
        expect(page.tab.get_by_role("combobox", name=re.compile("^Rank"))).to_have_value("1")
        expect(page.tab.get_by_text("Most of a step, 66.7 %, goes to waiting for data.")).to_be_visible()


def test_runs_without_times_say_how_to_get_them(chromium: Chromium, gallery: Gallery) -> None:
    """Our own run of scalars alone, and one of a SummaryWriter."""
    with chromium.look(gallery.board, alone=True, page="resources", run="scalars") as page:
        expect(page.tab.get_by_text("No step was timed in this range")).to_be_visible()
        page.picture("resources-scalars")
        page.tab.get_by_role("button", name=re.compile("^summary")).click()
        expect(page.tab.get_by_role("heading", name="This run holds no step times or memory")).to_be_visible()
        page.survey("resources-summary")


def test_steps_are_zoomed_everywhere_at_once(chromium: Chromium, gallery: Gallery) -> None:
    """A range of steps that was chosen on one page holds on the others."""
    link = {"page": "resources", "run": "healthy", "range": "10~29"}
    with chromium.look(gallery.board, link, alone=True) as page:
        rows = page.table(stack(page, "^Step time by phase"))[1:]
        assert [*range(10, 30)] == [int(row[0]) for row in rows]
        page.open("Overview")
        page.wait_drawn("healthy", last=29)
        assert [*range(10, 30)] == [int(x) for x in page.curve("Loss", "healthy")]
        page.tab.get_by_role("button", name=re.compile("^Steps 10 – 29")).click()
        page.wait_drawn("healthy", last=STEPS - 1)
