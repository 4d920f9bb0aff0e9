"""Much of everything: 500 modules, 1000 runs, hundreds of scalars."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from playwright.sync_api import expect
from torch import nn

import tb_netdebug as nd
from tests.support.browser import DESK, Chromium
from tests.support.recordings import write_curve
from tests.support.tensorboard_process import TensorBoard

RUNS = 1000
SCALARS = 300


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.activation, self.second, self.rest = (
            nn.Linear(4, 4),
            nn.ReLU(),
            nn.Linear(4, 4),
            nn.Identity(),
        )

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        found: torch.Tensor = self.rest(inputs + self.second(self.activation(self.first(inputs))))
        return found


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TensorBoard]:
    """A network of 100 blocks of five modules, and a run of hundreds of scalars."""
    logdir = tmp_path_factory.mktemp("large")
    model = nn.Sequential(*[Block() for _ in range(100)])
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    with nd.watch(model, optimizer, logdir=logdir, run="deep", every=1) as monitor:
        for _ in range(5):
            loss = model(torch.randn(8, 4)).square().mean()
            torch.autograd.backward(loss)
            optimizer.step()
            monitor.step(loss=loss)
    write_curve(
        logdir / "scalars",
        steps=5,
        scalars={f"group{at % 7}/scalar {at}": float(at) for at in range(SCALARS)},
    )
    with TensorBoard("--logdir", str(logdir)) as board:
        yield board


@pytest.fixture(scope="module")
def many(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TensorBoard]:
    """Copies of one short run, in folders."""
    logdir = tmp_path_factory.mktemp("many")
    write_curve(logdir / "model", steps=5)
    (file,) = (logdir / "model").glob("events*")
    for number in range(RUNS):
        folder = logdir / f"sweep{number % 10}" / f"run{number:04d}"
        folder.mkdir(parents=True)
        (folder / file.name).write_bytes(file.read_bytes())
    remove(logdir / "model")
    with TensorBoard("--logdir", str(logdir)) as board:
        yield board


def remove(folder: Path) -> None:
    for file in folder.iterdir():
        file.unlink()
    folder.rmdir()


def test_a_graph_of_500_modules_can_be_read(chromium: Chromium, large: TensorBoard) -> None:
    """Closed groups at first; search finds one deep inside; all of it opens and closes."""
    with chromium.look(large, alone=True, page="graph", run="deep") as page:
        picture = page.tab.get_by_role("img", name=re.compile("^Module graph"))
        expect(page.tab.get_by_role("complementary", name="The whole network")).to_contain_text("501")
        page.survey("size-graph")
        search = page.tab.get_by_role("combobox", name="Find a module by name or class")
        search.fill("73.second")
        search.press("Enter")
        expect(page.tab.get_by_role("complementary", name="Selected module")).to_contain_text("73.second")
        page.picture("size-graph-found")
        page.tab.get_by_role("button", name="Open all").click()
        expect(picture).to_have_attribute("aria-label", re.compile(r"^Module graph, \d{3,} boxes"))
        page.tab.get_by_role("radio", name="List").click()
        page.tab.get_by_role("tree", name="Modules").focus()
        page.page.keyboard.press("End")
        expect(page.tab.get_by_role("treeitem", selected=True)).to_contain_text("rest")


def test_layers_of_500_modules_are_grouped(chromium: Chromium, large: TensorBoard) -> None:
    """Groups open by keys, a search reduces them, and the table has all of them."""
    link = {"v.layers.kind": "weight"}
    with chromium.look(large, link, alone=True, page="layers", run="deep") as page:
        heat = page.tab.locator("section.heat")
        assert 400 == len(page.table(heat)) - 1
        page.survey("size-layers")
        page.tab.get_by_role("button", name="close all").click()
        expect(heat.get_by_role("img", name=re.compile(", 100 rows"))).to_be_visible()
        page.tab.get_by_role("button", name="open all").click()
        expect(heat.get_by_role("img", name=re.compile(", [4-7]00 rows"))).to_be_visible()
        page.tab.get_by_role("searchbox", name="Search tensors by name").fill("42.first")
        page.wait_until(lambda: len(page.table(heat)) - 1 == 2)


def test_histograms_of_500_modules_are_listed(chromium: Chromium, large: TensorBoard) -> None:
    """Only those in sight exist, and the search finds the others."""
    with chromium.look(large, alone=True, page="histograms", run="deep") as page:
        names = page.tab.get_by_role("list", name="Tensors").get_by_role("button")
        names.first.wait_for()
        assert names.count() < 60
        page.tab.get_by_role("searchbox", name=re.compile("^Search tensors")).fill("99.second.w")
        expect(names).to_have_count(1)
        names.click()
        expect(page.tab.get_by_role("region", name="Histogram of 99.second.weight")).to_be_visible()


def test_hundreds_of_scalars_are_drawn_when_seen(chromium: Chromium, large: TensorBoard) -> None:
    """Each has a chart, which asks for its data as soon as one scrolls to it."""
    with chromium.look(large, {"with": "scalars"}, alone=True, run="scalars") as page:
        page.wait_drawn("scalars", last=4)
        charts = page.tab.get_by_role("region", name="All scalars").locator("figure.line-chart")
        expect(charts).to_have_count(SCALARS + 1)
        page.survey("size-scalars")
        page.page.set_viewport_size({"width": DESK[0], "height": DESK[1]})
        chart = page.chart("group5/scalar 299")
        chart.scroll_into_view_if_needed()
        expect(chart.get_by_role("img")).to_have_attribute("aria-label", re.compile("last 299"))


def test_a_thousand_runs_are_listed(chromium: Chromium, many: TensorBoard) -> None:
    """Search finds one of them, the list scrolls to its end, and several can be drawn together."""
    with chromium.look(many, alone=True) as page:
        expect(page.tab.get_by_role("heading", name=re.compile(f"of {RUNS} drawn"))).to_be_visible()
        page.survey("size-runs")
        page.page.set_viewport_size({"width": DESK[0], "height": DESK[1]})
        entries = page.tab.get_by_role("list", name="Runs").get_by_role("listitem")
        assert entries.count() < 60
        page.tab.get_by_role("combobox", name="Sort runs").select_option("name")
        page.tab.locator(".runs-panel .virtual").evaluate("(list) => list.scrollTo(0, list.scrollHeight)")
        expect(entries.last).to_contain_text("run0999")
        search = page.tab.get_by_role("searchbox", name=re.compile("^Search runs"))
        search.fill("/sweep3.*00[0-4]3/")
        expect(entries).to_have_count(5)
        page.tab.get_by_role("button", name="Draw matches").click()
        page.wait_drawn("sweep3/run0043", last=4)
        assert {f"sweep3/run00{tens}3" for tens in range(5)} == {
            row[0] for row in page.table(page.chart("Loss"))[1:]
        }
        page.picture("size-runs-drawn")
