"""A run without a step on the page: neither a green tick nor the number of another run anywhere."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from playwright.sync_api import Locator, expect

import tb_netdebug as nd
from tests.support.browser import Chromium, Look
from tests.support.recordings import STEPS, train
from tests.support.run_cases import RecordedRun
from tests.support.tensorboard_process import TensorBoard

ALL_ARE_LONG = "from tb_netdebug.viewer.plugin import verdicts\nverdicts.MOST_BYTES = -1\n"
REASON = re.compile("^Nothing was recorded: the optimizer stepped 3 times and monitor.step was not called")


def forget(logdir: Path, name: str) -> None:
    """By `nd.watch`, without a `monitor.step`."""
    model = torch.nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with nd.watch(model, optimizer, logdir=logdir, run=name):
        for _ in range(3):
            model(torch.randn(2, 4)).sum().backward()
            optimizer.step()


@pytest.fixture(scope="module")
def board(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TensorBoard]:
    logdir = tmp_path_factory.mktemp("unknown")
    train(logdir, "healthy")
    forget(logdir, "forgotten")
    killed = RecordedRun(logdir / "killed")
    killed.add(STEPS)
    killed.close()
    with TensorBoard("--logdir", str(logdir), preamble=ALL_ARE_LONG) as board:
        yield board


@pytest.fixture
def look(chromium: Chromium, board: TensorBoard) -> Iterator[Look]:
    """The run without a step in focus, and the healthy one drawn beside it."""
    with chromium.look(board, {"run": "forgotten", "with": "healthy"}, alone=True) as page:
        page.wait_drawn("healthy", last=STEPS - 1)
        yield page


def corner(page: Look, title: str) -> Locator:
    return page.chart(title).locator(".chart-value")


def vital(page: Look, title: str) -> Locator:
    return page.tab.get_by_role("region", name="Vital signs").get_by_role("button").filter(has_text=title)


def in_list(page: Look, run: str) -> Locator:
    runs = page.tab.get_by_role("complementary", name="Runs")
    return runs.get_by_role("button", name=re.compile(f"^{run}")).locator(".run-verdict")


def test_the_verdict_has_the_reason_and_the_next_step(look: Look) -> None:
    """With a sign of its own, in no colour that praises or warns."""
    verdict = look.tab.get_by_role("region", name="Verdict")
    expect(verdict.locator("p").first).to_have_text(re.compile(REASON.pattern))
    expect(verdict.locator("code").filter(has_text="monitor.step(loss=loss)")).to_be_visible()
    expect(verdict.locator(".good, .bad, .warning")).to_have_count(0)
    expect(look.tab.get_by_text("No sign of trouble")).to_have_count(0)
    look.survey("unknown")


def test_the_list_has_a_sign_of_its_own(look: Look) -> None:
    """And whoever points at it reads the reason."""
    expect(in_list(look, "healthy")).to_have_text("healthy")
    expect(in_list(look, "healthy")).to_have_class(re.compile(r"\bgood\b"))
    expect(in_list(look, "forgotten")).to_have_text("unknown")
    expect(in_list(look, "forgotten")).not_to_have_class(re.compile(r"good|bad|warning"))
    expect(in_list(look, "forgotten")).to_have_attribute("title", REASON)
    shapes = [in_list(look, run).locator("path").get_attribute("d") for run in ("healthy", "forgotten")]
    assert shapes[0] != shapes[1]


def test_a_run_that_nobody_judged_says_so(look: Look) -> None:
    """In the list; once it was judged in the background, the open page shows the verdict."""
    expect(in_list(look, "killed")).to_have_text("not judged")
    expect(in_list(look, "killed")).not_to_have_class(re.compile(r"good|bad|warning"))
    expect(in_list(look, "killed")).to_have_attribute(
        "title", re.compile("^This run is not judged yet: netdebug")
    )
    look.tab.get_by_role("button", name=re.compile("^killed")).click()
    expect(look.tab.get_by_text("No sign of trouble.")).to_be_visible(timeout=60_000)
    expect(in_list(look, "killed")).to_have_text("healthy")


def test_no_number_of_another_run_stands_under_it(look: Look) -> None:
    """Not in the corner of the loss, where the other run is drawn, and under no vital sign."""
    assert {"healthy"} == {row[0] for row in look.table(look.chart("Loss"))[1:]}
    expect(corner(look, "Loss")).to_have_count(0)
    expect(look.chart("Loss").get_by_role("list")).to_have_text(re.compile("^healthy"))  # whose line that is
    values = look.tab.get_by_role("region", name="Vital signs").locator(".vital-value")
    assert {"–"} == set(values.all_inner_texts())
    expect(look.tab.get_by_role("region", name="Vital signs").locator(".good")).to_have_count(0)
    expect(vital(look, "Steps with NaN or Inf")).to_contain_text("not recorded")
    # also under the crosshair, which the arrow keys move along the other run
    look.chart("Loss").get_by_role("img").focus()
    look.page.keyboard.press("ArrowRight")
    expect(look.chart("Loss").locator(".dot")).to_have_count(1)
    expect(corner(look, "Loss")).to_have_count(0)


def test_a_run_that_has_numbers_shows_its_own(look: Look) -> None:
    """As soon as it is in focus, in the same chart."""
    look.tab.get_by_role("button", name=re.compile("^healthy")).click()
    expect(corner(look, "Loss")).to_have_text(re.compile(r"^\d"))
    expect(vital(look, "Steps with NaN or Inf").locator(".vital-value")).to_have_text("none")
    expect(look.tab.get_by_text("No sign of trouble.")).to_be_visible()


def test_a_chart_that_was_not_in_sight_says_nothing_of_the_run(look: Look) -> None:
    """It has asked for nothing so far; what the run has is drawn as soon as somebody scrolls there."""
    look.tab.get_by_role("button", name=re.compile("^healthy")).click()
    expect(look.chart("Step")).to_have_count(1)
    expect(look.tab.get_by_text("The selected runs have no")).to_have_count(0)


def test_the_page_of_the_data_borrows_no_number_either(look: Look) -> None:
    """Its curves are made from several scalars."""
    look.open("Data")
    title = "Samples per second"
    look.curve(title, "healthy")
    assert {"healthy"} == {row[0] for row in look.table(look.chart(title))[1:]}
    expect(corner(look, title)).to_have_count(0)
