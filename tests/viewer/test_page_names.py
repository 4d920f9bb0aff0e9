"""Names that mean harm are text: nothing of them runs, and none breaks the layout."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch
from playwright.sync_api import expect
from torch import nn

import tb_netdebug as nd
from tb_netdebug.core.eventlog.writer import EventWriter
from tb_netdebug.core.records.step import Kind, Sample, Series, StepRecord
from tb_netdebug.core.stats.twin import summarize
from tests.support.browser import Chromium
from tests.support.tensorboard_process import TensorBoard

SCRIPT = "</script><img src=x onerror=alert(1)>"
TURNED = "abc\u202egnp.exe"
NAMES = [
    SCRIPT, TURNED, "long" * 2500, "lone \ud800 surrogate", "two\nlines", "__proto__", "constructor", "../..",
    "javascript:alert(1)", "<b>bold</b>", "=cmd|' /C calc'!A0", "${alert(1)}", "", " ",
]  # fmt: skip
# As names of folders: without a slash, not too long, and what a file system can say.
RUNS = [
    "<img src=x onerror=alert(1)>",
    TURNED,
    "long" * 60,
    "two\nlines",
    "__proto__",
    "constructor",
    "a&b=c#d%2F",
]
STEPS = 5


class Hostile(nn.Module):
    """A network of which the modules have such names."""

    def __init__(self) -> None:
        super().__init__()
        for name in NAMES:
            if name and "." not in name and not hasattr(self, name):
                self.add_module(name, nn.Linear(4, 4))

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        for layer in self._modules.values():
            assert layer is not None
            inputs = layer(inputs)
        return inputs


def shown(name: str) -> str:
    """Letters that cannot be seen, or turn others around, are replaced."""
    return re.sub("[\u202e\n]", "\ufffd", name)


def train(logdir: Path) -> None:
    model = Hostile()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    with nd.watch(model, optimizer, logdir=logdir, run="hostile", every=1) as monitor:
        for _ in range(STEPS):
            loss = model(torch.randn(8, 4)).square().mean()
            optimizer.zero_grad()
            torch.autograd.backward(loss)
            optimizer.step()
            monitor.step(loss=loss)


def write(folder: Path) -> None:
    """Scalars and tensors with all of the names."""
    values = np.linspace(-1, 1, 50, dtype=np.float32)
    summary = summarize([(values.ctypes.data, values.size, 0)], 1)[0]
    kinds = (Kind.WEIGHT, Kind.GRADIENT, Kind.TENSOR)
    samples = [Sample(Series(kind, name), summary) for kind in kinds for name in NAMES]
    writer = EventWriter(folder)
    for step in range(STEPS):
        scalars = {
            "loss": 1.0,
            **{name: float(step) for name in NAMES},
            **{f"scalar/{name}": 1.0 for name in NAMES},
        }
        writer.put(StepRecord(step, 1.7e9 + step, scalars, samples))
    writer.close()


@pytest.fixture(scope="module")
def board(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TensorBoard]:
    logdir = tmp_path_factory.mktemp("hostile")
    train(logdir)
    write(logdir / "names")
    for name in RUNS:
        write(logdir / name)
    with TensorBoard("--logdir", str(logdir)) as board:
        yield board


@pytest.mark.parametrize("view", ["overview", "layers", "histograms", "data", "resources", "graph"])
@pytest.mark.parametrize("run", ["names", "hostile"])
def test_no_name_runs_or_breaks_a_page(chromium: Chromium, board: TensorBoard, view: str, run: str) -> None:
    """On each page, in both sizes, with the names of tensors, scalars and modules."""
    with chromium.look(board, alone=True, page=view, run=run) as page:
        expect(page.tab.locator(".page-run")).to_have_text(run)
        expect(page.tab.locator("main")).not_to_contain_text("Reading the")
        page.survey(f"names-{view}-{run}")
        assert [] == page.alerts
        assert 0 == page.tab.locator("img, b:not([class]), script:not([src])").filter(has_text="bold").count()
        assert 0 == page.tab.locator("main img").count()


@pytest.mark.parametrize("run", RUNS)
def test_a_run_of_any_name_is_shown_as_text(chromium: Chromium, board: TensorBoard, run: str) -> None:
    """Found in the list, drawn, in the link, and there again after a reload."""
    with chromium.look(board, alone=True) as page:
        page.tab.get_by_role("searchbox", name=re.compile("^Search runs")).fill(run.split("\n")[0][:40])
        entry = page.tab.locator(".run-main", has=page.tab.locator(".run-base", has_text=shown(run)[:100]))
        entry.first.click()
        page.wait_drawn(run, last=STEPS - 1)
        page.tab.wait_for_function(
            "(run) => decodeURIComponent(location.hash).includes('run=' + run)", arg=run
        )
        page.page.reload()
        page.wait_drawn(run, last=STEPS - 1)
        expect(page.tab.locator(".page-run")).to_have_text(shown(run))
        page.survey(f"names-run-{RUNS.index(run)}")
        assert [] == page.alerts


def test_names_stay_themselves_in_saved_tables(chromium: Chromium, board: TensorBoard) -> None:
    """But none begins a formula."""
    link = {"v.layers.kind": "weight", "v.layers.groups": "0"}
    with chromium.look(board, link, alone=True, page="layers", run="names") as page:
        rows = page.table(page.tab.locator("section.heat"))[1:]
        saved = {row[0] for row in rows}
        assert {SCRIPT, TURNED, "two\nlines", "__proto__", "constructor", "../.."} <= saved
        assert "'=cmd|' /C calc'!A0" in saved
        assert not [name for name in saved if name.startswith("=")]


def test_a_hostile_link_does_no_harm(chromium: Chromium, board: TensorBoard) -> None:
    """Whatever somebody puts into a link, there is a page."""
    parts = ("page", "range", "axis", "smoothing", "rank", "v.layers.kind", "v.__proto__", "v.overview.x")
    link = dict.fromkeys(parts, SCRIPT)
    with chromium.look(board, link, run="names") as page:
        page.wait_drawn("names", last=STEPS - 1)
        page.open("Layers")
        expect(page.tab.locator("section.heat")).to_be_visible()
        assert [] == page.alerts
