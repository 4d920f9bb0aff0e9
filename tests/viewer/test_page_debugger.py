"""The page Debugger in a browser, with a real training: pausing, stepping, looking inside, and who may."""

from __future__ import annotations

import io
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from playwright.sync_api import Locator, expect

from tests.support.browser import DESK, Chromium, Gallery, Look
from tests.support.hub_page import HubPage
from tests.support.steppable_training import BATCH, SteppableTraining
from tests.support.streamed import Home, wait_for
from tests.support.tensorboard_process import TensorBoard

RUN = "digits"
# Browsers write what a server refuses to their console, too.
REFUSED = "the server responded with a status of 409"


@pytest.fixture(scope="module")
def home() -> Iterator[Home]:
    with Home() as found:
        yield found


@pytest.fixture(scope="module")
def place(
    home: Home, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[TensorBoard, SteppableTraining]]:
    """A TensorBoard that lists one training."""
    logdir = tmp_path_factory.mktemp("debugged")
    with (
        TensorBoard("--logdir", str(logdir), env=home.env) as board,
        SteppableTraining(home, logdir, RUN) as training,
    ):
        HubPage(board).key()
        yield board, training


@contextmanager
def opened(
    chromium: Chromium, board: TensorBoard, *, allowed: str = "$^", context: Any = None, **link: str
) -> Iterator[Look]:
    """The page of the debugger. At its end it leaves at once, and the training runs on."""
    with chromium.look(board, link, alone=True, allowed=allowed, context=context, page="debugger") as page:
        try:
            status(page).wait_for()
            yield page
        finally:
            client = page.tab.evaluate("() => sessionStorage.getItem('netdebug.debugger.client')")
            page.page.goto("about:blank")
            HubPage(board, client).attend()


@pytest.fixture
def page(chromium: Chromium, place: tuple[TensorBoard, SteppableTraining]) -> Iterator[Look]:
    with opened(chromium, place[0]) as found:
        yield found


def status(page: Look) -> Locator:
    return page.tab.get_by_role("region", name="Run controls").get_by_role("status").first


def button(page: Look, name: str) -> Locator:
    return page.tab.get_by_role("button", name=name, exact=True)


def pause(page: Look) -> None:
    button(page, "Pause").click()
    expect(status(page)).to_contain_text("Paused in batch")


def open_tab(page: Look, name: str) -> Locator:
    page.tab.get_by_role("tab", name=re.compile(f"^{name}")).click()
    return page.tab.get_by_role("tabpanel", name=name)


def step_to(page: Look, layer: str) -> None:
    """By the key, as often as it takes."""
    for _ in range(40):
        before = status(page).inner_text()
        if before.endswith(f"before {layer}"):
            return
        page.page.keyboard.press("F10")
        expect(status(page)).to_have_text(
            re.compile(f"^Paused(?!{re.escape(before.removeprefix('Paused'))}$)")
        )
    raise AssertionError(f"no step leads to {layer}")


def test_without_a_training_it_says_how_to_start_one(chromium: Chromium, gallery: Gallery) -> None:
    """In the code and from the shell, and that it cannot be done from the page."""
    with chromium.look(gallery.board, alone=True, page="debugger") as page:
        expect(page.tab.get_by_role("heading", name="No run can be paused yet")).to_be_visible()
        expect(page.tab.locator("main")).to_contain_text("nd.watch(model, optimizer, debugger=True)")
        expect(page.tab.locator("main")).to_contain_text("netdebug run --debugger train.py")
        expect(page.tab.locator("main")).to_contain_text("cannot be turned on from the page")
        page.survey("debugger-none")


def test_pausing_shows_where_it_stands(page: Look) -> None:
    """The tab has a mark; layers and code show the place; who paused it has the controls."""
    expect(status(page)).to_contain_text("Running, in batch")
    page.page.keyboard.press("F8")
    expect(status(page)).to_contain_text("Paused in batch")
    expect(page.tab.get_by_role("link", name="Debugger a run is paused")).to_be_visible()
    expect(page.tab.get_by_text("You hold the controls.")).to_be_visible()
    step_to(page, "encoder.1.second")
    expect(page.tab.get_by_role("region", name="Layers").locator("[aria-current=location]")).to_contain_text(
        "second"
    )
    here = page.tab.get_by_role("list", name="Lines of steppable_training.py").locator(
        "[aria-current=location]"
    )
    expect(here).to_contain_text("self.second(hidden)")
    variables = page.tab.get_by_role("region", name="Variables")
    expect(variables).to_contain_text("hidden")
    expect(variables).to_contain_text("float32")
    page.survey("debugger-paused")


def batch_of(page: Look) -> int:
    """The number in the words about the place, whether it is paused there or about to be."""
    (number,) = re.findall(r"in batch ([0-9\W]+?)(?:, |$)", status(page).inner_text())
    return int(re.sub(r"\D", "", number))


def test_a_paused_training_is_told_wherever_its_run_is(page: Look) -> None:
    """In the list of runs and on the Overview: nothing comes of it, and the reason is known."""
    pause(page)
    page.open("Overview")
    row = page.tab.get_by_role("button", name=re.compile(f"^{RUN}"))
    expect(row).to_contain_text("paused")
    expect(row).to_have_attribute(
        "title", re.compile(r"Paused in batch [\d,]+, .*, for \d+ s\. To continue it, open")
    )
    state = page.tab.get_by_role("region", name="Run state")
    # As long as it takes until the silence of a training is worth a word.
    expect(state).to_contain_text(re.compile(r"Paused in batch .*, for 1[2-9] s"), timeout=30_000)
    expect(row).not_to_contain_text("no data")
    expect(page.tab.locator(".live-text")).to_contain_text("Run paused")
    page.survey("debugger-paused-overview")
    page.page.set_viewport_size({"width": DESK[0], "height": DESK[1]})
    state.get_by_role("button", name="Open the Debugger").click()
    button(page, "Continue").click()
    page.open("Overview")
    expect(row).to_contain_text("live")


def test_a_held_key_steps_on(page: Look) -> None:
    """From layer to layer into the next batch, and no further than it is held."""
    pause(page)
    step_to(page, "head")
    batch = batch_of(page)
    page.page.keyboard.down("F10")
    page.wait_until(lambda: batch_of(page) >= batch + 2)
    page.page.keyboard.up("F10")
    page.page.keyboard.press("Shift+F11")
    expect(status(page)).to_contain_text("at its end")


def test_a_tensor_is_looked_at(page: Look) -> None:
    """Its statistics, its values as a table, a slice of it, and as a file that NumPy reads."""
    pause(page)
    panel = open_tab(page, "Tensors")
    panel.get_by_role("searchbox").fill("head.weight")
    panel.get_by_role("button", name=re.compile("^weight head.weight")).click()
    inspector = page.tab.get_by_role("article", name="Tensor weight:head.weight")
    expect(inspector).to_contain_text("2 × 16 float32")
    heat = inspector.get_by_role("img", name=re.compile("^Heat map of weight:head.weight"))
    expect(heat).to_have_attribute("aria-label", re.compile("2 rows and 16 columns"))
    whole = np.load(io.BytesIO(page.saved(inspector.get_by_role("button", name=".npy"))))
    assert (2, 16) == whole.shape
    field = inspector.get_by_role("textbox", name="Slice")
    field.fill("[1, 3:7]")
    field.press("Enter")
    expect(heat).to_have_attribute("aria-label", re.compile("1 row and 4 columns"))
    plots = inspector.locator(".tensor-plot")
    cells = page.table(plots.filter(has=page.tab.get_by_role("img", name=re.compile("^Heat map"))))
    np.testing.assert_allclose(whole[1, 3:7], [float(cell) for cell in cells[1][1:]], rtol=1e-6)
    heat.focus()
    page.page.keyboard.press("ArrowRight")
    expect(inspector).to_contain_text(re.compile(r"\[0, [0-9]+\]"))
    page.survey("debugger-tensor")


def test_the_step_before_is_compared(page: Look) -> None:
    """After one more batch there is a difference of what was chosen."""
    pause(page)
    panel = open_tab(page, "Tensors")
    panel.get_by_role("searchbox").fill("head.bias")
    panel.get_by_role("button", name=re.compile("^weight head.bias")).click()
    inspector = page.tab.get_by_role("article", name="Tensor weight:head.bias")
    inspector.get_by_role("radio", name="difference").click()
    for _ in range(2):
        before = status(page).inner_text()
        button(page, "Batch").click()
        expect(status(page)).not_to_have_text(before)
    expect(inspector.get_by_role("img", name=re.compile("^Heat map"))).to_be_visible()


def test_the_batch_is_shown_with_its_labels(page: Look) -> None:
    """Pictures as pictures, and what the loss was given beside the output below them."""
    pause(page)
    page.page.keyboard.press("Shift+F11")
    expect(status(page)).to_contain_text("at its end")
    step_to(page, "encoder")  # in a batch whose loss is yet to be called
    panel = open_tab(page, "Batch")
    hint = panel.get_by_text("The inputs of the loss are captured from its first call after the pause.")
    expect(hint).to_be_visible()
    page.survey("debugger-batch-unlabelled")
    button(page, "Backward").click()
    expect(status(page)).to_contain_text("in the backward pass")
    expect(hint).to_have_count(0)
    expect(panel.get_by_role("img", name=re.compile("^Picture"))).to_have_count(BATCH)
    expect(panel.get_by_role("listitem").filter(has_text=re.compile("^label [01]$"))).to_have_count(BATCH)
    page.survey("debugger-batch")


def test_a_watchpoint_stops_the_training(page: Look) -> None:
    """Any gradient of the encoder above a threshold; its hits come in order, and lead to their tensors."""
    panel = open_tab(page, "Watch")
    draft = panel.get_by_role("region", name="New watchpoint")
    draft.get_by_role("textbox", name="Name pattern").fill("^encoder.*")
    draft.get_by_role("textbox", name="Name pattern").press("Tab")
    draft.get_by_role("textbox", name="Threshold").fill("1e-9")
    draft.get_by_role("textbox", name="Threshold").press("Tab")
    draft.get_by_role("button", name="Add").click()
    expect(status(page)).to_contain_text("Paused in batch")
    hits = open_tab(page, "Hits")
    first = hits.get_by_role("listitem").first
    expect(first).to_contain_text("gradient: abs max > 1e−9")
    page.survey("debugger-hits")
    page.page.set_viewport_size({"width": DESK[0], "height": DESK[1]})
    tensor = first.get_by_role("button").inner_text()
    assert tensor.startswith("gradient:encoder.")
    first.get_by_role("button").click()
    expect(page.tab.get_by_role("article", name=f"Tensor {tensor}")).to_contain_text("float32")
    panel = open_tab(page, "Watch")
    panel.get_by_role("button", name=re.compile("^Remove gradient")).click()
    expect(panel.get_by_role("checkbox")).to_have_count(0)
    button(page, "Continue").click()
    expect(status(page)).to_contain_text("Running, in batch")


def test_a_recommended_watchpoint_is_one_click(page: Look) -> None:
    """What is set is marked, and goes again."""
    panel = open_tab(page, "Watch")
    preset = panel.get_by_role("region", name="Recommended watchpoints").get_by_role(
        "button", name="A gradient holds NaN or infinity"
    )
    preset.click()
    expect(preset).to_be_disabled()
    page.survey("debugger-watch")
    panel.get_by_role("button", name=re.compile("^Remove gradient")).click()
    expect(preset).to_be_enabled()


def test_a_breakpoint_on_a_layer_stops_there(page: Look) -> None:
    """Set by the dot beside the layer, and listed; it goes by the same dot."""
    layers = page.tab.get_by_role("region", name="Layers")
    layers.get_by_role("button", name=re.compile("^head")).click()
    page.page.keyboard.press("b")
    expect(status(page)).to_contain_text("before head")
    expect(open_tab(page, "Breaks").get_by_role("region", name=re.compile("^Breakpoint: "))).to_have_count(1)
    layers.get_by_role("button", name="Breakpoint on head").click()
    expect(layers.get_by_role("button", name="Breakpoint on head")).to_have_attribute("aria-pressed", "false")
    button(page, "Continue").click()
    expect(status(page)).to_contain_text("Running, in batch")


def test_an_expression_is_evaluated(page: Look) -> None:
    """With its result, or with what is wrong with it."""
    pause(page)
    panel = open_tab(page, "Evaluate")
    field = panel.get_by_role("textbox", name="Expression")
    field.fill("abs(`weight:head.bias`) * 0 + 7")
    field.press("Enter")
    result = panel.get_by_role("region", name="Result")
    expect(result).to_contain_text("2 float")
    expect(result.get_by_role("img", name=re.compile("^Heat map"))).to_be_visible()


def test_the_learning_rate_changes(page: Look, place: tuple[TensorBoard, SteppableTraining]) -> None:
    """In the optimizer itself, when Enter has been pressed."""
    field = open_tab(page, "Rates").get_by_role("textbox", name=re.compile("^Learning rate of"))
    field.fill("0.0025")
    field.press("Enter")
    page.wait_until(lambda: 0.0025 in place[1].rates)
    expect(page.tab.get_by_role("tabpanel", name="Rates")).to_contain_text("0.0025 →")


def test_detached_it_runs_on(page: Look) -> None:
    """Nobody attends, so that watchpoints are off, until somebody attaches again."""
    pause(page)
    button(page, "Detach").click()
    expect(status(page)).to_contain_text("Running, in batch")
    expect(page.tab.get_by_text("Detached: breakpoints and watchpoints are off.")).to_be_visible()
    button(page, "Attach").click()
    expect(page.tab.get_by_text("Nobody holds the controls.")).to_be_visible()
    pause(page)


def test_a_reload_keeps_the_pause(page: Look) -> None:
    """And the controls, and what was looked at."""
    pause(page)
    open_tab(page, "Hits")
    page.page.wait_for_url(re.compile(r"v\.debugger\.tab=hits"))
    words = status(page).inner_text()
    page.page.reload()
    expect(status(page)).to_have_text(words)
    expect(page.tab.get_by_text("You hold the controls.")).to_be_visible()
    expect(page.tab.get_by_role("tab", name="Hits")).to_have_attribute("aria-selected", "true")


def test_two_pages_share_a_training(chromium: Chromium, place: tuple[TensorBoard, SteppableTraining]) -> None:
    """One holds the controls, and the other sees who; it can take them over, and the first one sees that."""
    with (
        opened(chromium, place[0], allowed=REFUSED) as anna,
        opened(chromium, place[0], allowed=REFUSED) as bert,
    ):
        anna.tab.get_by_role("button", name=re.compile("^You are")).click()
        anna.tab.get_by_role("textbox", name="Your name, as others see it").fill("Anna")
        anna.page.keyboard.press("Enter")
        pause(anna)
        expect(status(bert)).to_contain_text("Paused in batch")
        expect(bert.tab.get_by_text("Anna holds the controls.")).to_be_visible()
        button(bert, "Continue").click()
        expect(bert.tab.get_by_role("alert")).to_contain_text("Anna has the controls")
        expect(status(bert)).to_contain_text("Paused in batch")
        button(bert, "Take over").click()
        expect(bert.tab.get_by_text("You hold the controls.")).to_be_visible()
        expect(anna.tab.get_by_text(re.compile("^Tab .* holds the controls."))).to_be_visible()
        button(bert, "Continue").click()
        expect(status(anna)).to_contain_text("Running, in batch")


def test_what_is_typed_at_once_stays(page: Look) -> None:
    """Into a field that has only just come, before the browser has even drawn it."""
    page.tab.evaluate(
        """() => new MutationObserver((_, observer) => {
          const field = document.querySelector(".debug-name");
          if (!field) return;
          observer.disconnect();
          field.value = "Anna";
          field.dispatchEvent(new InputEvent("input", { bubbles: true }));
        }).observe(document.body, { childList: true, subtree: true })"""
    )
    page.tab.get_by_role("button", name=re.compile("^You are")).click()
    field = page.tab.get_by_role("textbox", name="Your name, as others see it")
    expect(field).to_be_focused()  # what follows the drawing has been done
    expect(field).to_have_value("Anna")
    field.press("End")
    field.press_sequentially(" Lee")
    field.press("Enter")
    expect(button(page, "You are “Anna Lee”")).to_be_visible()


def test_closing_the_page_lets_the_training_go(
    chromium: Chromium, place: tuple[TensorBoard, SteppableTraining]
) -> None:
    """No client is left, and it goes on by itself."""
    hub = HubPage(place[0])
    key = hub.key()
    with chromium.look(place[0], alone=True, page="debugger") as page:
        pause(page)
        assert "paused" == hub.entry(key)["state"]["status"]
    wait_for(lambda: hub.entry(key)["state"]["status"] == "running")


def test_it_comes_back_with_tensorboard(chromium: Chromium, tmp_path: Path) -> None:
    """The page tries again, learns the new token by itself, and can pause the same training."""
    with Home() as home, TensorBoard("--logdir", str(tmp_path), env=home.env) as board:
        port = str(board.port)
        with (
            SteppableTraining(home, tmp_path, RUN),
            chromium.look(board, alone=True, allowed="Failed to load resource", page="debugger") as page,
        ):
            expect(status(page)).to_contain_text("Running, in batch")
            board.stop()
            expect(page.tab.get_by_role("alert")).to_contain_text("TensorBoard is not responding")
            with TensorBoard("--logdir", str(tmp_path), "--port", port, env=home.env):
                expect(status(page)).to_contain_text("Running, in batch")
                pause(page)
                expect(page.tab.get_by_text("You hold the controls.")).to_be_visible()
