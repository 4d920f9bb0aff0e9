"""The page Graph: the modules, how data flows through them, and their health."""

from __future__ import annotations

import re

from playwright.sync_api import Locator, expect

from tests.support.browser import PHONE, Chromium, Gallery, Look


def module_list(page: Look) -> Locator:
    return page.tab.get_by_role("tree", name="Modules")


def boxes(page: Look) -> Locator:
    return page.tab.get_by_role("img", name=re.compile("^Module graph"))


def test_modules_have_their_shapes_and_parameters(chromium: Chromium, gallery: Gallery) -> None:
    """In the numbers that the picture saves."""
    with chromium.look(gallery.board, alone=True, page="graph", run="healthy") as page:
        boxes(page).wait_for()
        header, *rows = page.table(page.tab.locator(".graph-stage"))
        found = {row[0]: dict(zip(header, row, strict=True)) for row in rows}
        assert ["Linear", "544", "32×16 float32", "32×32 float32"] == [
            found["0"][column] for column in ("class", "parameters", "inputs", "outputs")
        ]
        assert [str(544 + 1056 + 132)] == [
            row["parameters"] for row in found.values() if row["class"] == "Sequential"
        ]
        page.survey("graph")


def test_the_list_says_the_same_as_text(chromium: Chromium, gallery: Gallery) -> None:
    """Rows open and close by keys, and the chosen one is in the link."""
    with chromium.look(gallery.board, alone=True, page="graph", run="healthy") as page:
        page.tab.get_by_role("radio", name="List").click()
        rows = module_list(page).get_by_role("treeitem")
        expect(rows).to_have_count(6)
        expect(rows.nth(1)).to_contain_text("32×32")
        module_list(page).focus()
        for key in ("Home", "ArrowLeft"):
            page.page.keyboard.press(key)
        expect(rows).to_have_count(1)
        for key in ("ArrowRight", "ArrowDown", "ArrowDown"):
            page.page.keyboard.press(key)
        expect(rows).to_have_count(6)
        expect(rows.nth(2)).to_have_attribute("aria-selected", "true")
        page.page.wait_for_url(re.compile(r"v\.graph\.module=1\b"))
        page.survey("graph-list")


def test_groups_open_and_close(chromium: Chromium, gallery: Gallery) -> None:
    """By the panel of the chosen module, and by keys on the picture."""
    with chromium.look(gallery.board, alone=True, page="graph", run="healthy") as page:
        boxes(page).wait_for()
        boxes(page).focus()
        page.page.keyboard.press("Home")
        panel = page.tab.get_by_role("complementary", name="Selected module")
        panel.get_by_role("button", name="Close", exact=True).click()
        expect(boxes(page)).to_have_attribute("aria-label", re.compile("^Module graph, [1-3] boxes"))
        page.tab.get_by_role("button", name="Open all").click()
        expect(boxes(page)).to_have_attribute("aria-label", re.compile("^Module graph, [78] boxes"))


def test_search_reveals_a_module(chromium: Chromium, gallery: Gallery) -> None:
    """The chosen one is brought to the middle, and everything known of it is told."""
    with chromium.look(gallery.board, alone=True, page="graph", run="healthy") as page:
        search = page.tab.get_by_role("combobox", name="Find a module by name or class")
        search.fill("tanh")
        expect(page.tab.get_by_role("listbox", name="Modules found").get_by_role("option")).to_have_count(1)
        search.press("Enter")
        panel = page.tab.get_by_role("complementary", name="Selected module")
        expect(panel.get_by_role("heading").first).to_contain_text("Tanh")
        expect(panel).to_contain_text("once in one forward pass")
        search.fill("no such module")
        expect(page.tab.get_by_text("No modules match.")).to_be_visible()


def test_a_module_leads_to_its_tensors(chromium: Chromium, gallery: Gallery) -> None:
    """From its parameter to the layers, and from the number beside it to the histogram."""
    link = {"page": "graph", "run": "healthy", "v.graph.module": "2"}
    with chromium.look(gallery.board, link, alone=True) as page:
        panel = page.tab.get_by_role("complementary", name="Selected module")
        row = panel.get_by_role("row").filter(has_text="weight").last
        expect(row).to_contain_text("32×32")
        page.survey("graph-module")
        row.get_by_role("button", name="weight").click()
        expect(page.tab.get_by_role("region", name="Details of 2.weight")).to_be_visible()
        page.open("Graph")
        row.get_by_role("cell").nth(3).get_by_role("button").click()
        expect(page.tab.get_by_role("region", name="Histogram of 2.weight")).to_be_visible()
        page.page.wait_for_url(re.compile("histograms.kind=gradient"))


def test_runs_without_a_graph_say_why(chromium: Chromium, gallery: Gallery) -> None:
    """Whether one may still come, or never will."""
    with chromium.look(gallery.board, alone=True, page="graph", run="scalars") as page:
        expect(page.tab.get_by_role("heading", name="No graph yet")).to_be_visible()
        page.tab.get_by_role("button", name=re.compile("^summary")).click()
        expect(page.tab.get_by_role("heading", name="This run holds no graph")).to_be_visible()
        page.survey("graph-none")


def test_a_narrower_window_keeps_the_graph_and_its_tab_in_sight(chromium: Chromium, gallery: Gallery) -> None:
    """The middle of the picture stays the middle, and the row of tabs moves to the open one."""
    with chromium.look(gallery.board, alone=True, page="graph", run="healthy") as page:
        boxes(page).wait_for()
        page.page.set_viewport_size({"width": PHONE[0], "height": PHONE[1]})
        tab = page.tab.get_by_role("navigation").get_by_role("link", name="Graph")
        expect(tab).to_be_in_viewport(ratio=0.9)
        hint = page.tab.locator(".graph-hint")

        def is_centred() -> bool:
            box = boxes(page).bounding_box()
            assert box is not None
            page.page.mouse.move(box["x"] + box["width"] / 2, box["y"] + 150)
            return hint.count() == 1

        page.wait_until(is_centred)
