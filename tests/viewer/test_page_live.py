"""What an open page does while a training writes: it draws, rests, zooms and catches up."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import expect

from tests.support.browser import Chromium, Look
from tests.support.run_cases import RecordedRun
from tests.support.tensorboard_process import TensorBoard


class Training:
    """Writes steps on demand, with the loss 1, 1/2, 1/3 and so on."""

    def __init__(self, logdir: Path, name: str, steps: int = 20) -> None:
        self.name = name
        self.steps = 0
        self._run = RecordedRun(logdir / name)
        self.go(steps)

    def go(self, steps: int) -> int:
        """So many more; the number of the last one."""
        self._run.add(steps, scalars={"batch_size": 4.0})
        self.steps += steps
        return self.steps - 1

    def close(self) -> None:
        self._run.close()


@pytest.fixture(scope="module")
def board(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[TensorBoard, Path]]:
    logdir = tmp_path_factory.mktemp("live")
    with TensorBoard("--logdir", str(logdir)) as board:
        yield board, logdir


@pytest.fixture
def look(
    chromium: Chromium, board: tuple[TensorBoard, Path], request: pytest.FixtureRequest
) -> Iterator[tuple[Look, Training]]:
    """A page on a training of its own, which alone is drawn, up to its last step."""
    training = Training(board[1], request.node.name)
    link = {"run": training.name, "with": training.name}
    with chromium.look(board[0], link, alone=True) as page:
        page.wait_drawn(training.name, last=training.steps - 1)
        yield page, training
    training.close()


def test_new_steps_are_drawn_by_themselves(look: tuple[Look, Training]) -> None:
    """Without a reload, in the curve, the list and the vital signs."""
    page, training = look
    for _ in range(3):
        page.wait_drawn(training.name, last=training.go(5))
    assert {step: 1 / (step + 1) for step in range(training.steps)} == page.curve("Loss", training.name)
    expect(
        page.tab.get_by_role("button", name=re.compile(f"^{training.name}.*step {training.steps - 1}"))
    ).to_be_visible()
    expect(page.tab.get_by_role("status").filter(has_text="Live")).to_be_visible()


def test_pause_holds_the_picture_and_continuing_catches_up(look: tuple[Look, Training]) -> None:
    """Neither curve nor words move while the page is paused, though the news arrive."""
    page, training = look
    before = training.steps - 1
    page.page.keyboard.press("Space")
    expect(page.tab.get_by_role("status").filter(has_text="Paused")).to_be_visible()
    last = training.go(10)
    other = Training(Path(training._run.path).parent.parent, f"beside-{training.name}")
    entry = page.tab.get_by_role("button", name=re.compile(f"^{other.name}"))
    # A run that comes later is listed: by then the news of the steps have long been here.
    expect(entry).to_be_visible()
    assert before == page.last_drawn(training.name)
    expect(page.tab.get_by_text(f"{before + 1} steps", exact=True)).to_be_visible()
    expect(
        page.tab.get_by_role("button", name=re.compile(f"^{training.name}.*step {before}"))
    ).to_be_visible()
    page.page.keyboard.press("Space")
    page.wait_drawn(training.name, last=last)
    expect(page.tab.get_by_text(f"{last + 1} steps", exact=True)).to_be_visible()
    other.close()


def test_zoom_is_kept_while_data_streams_in(look: tuple[Look, Training]) -> None:
    """A drag chooses steps, which stay until a double click shows all of them again."""
    page, training = look
    plot = page.chart("Loss").locator(".u-over")
    plot.scroll_into_view_if_needed()
    box = plot.bounding_box()
    assert box is not None
    y = box["y"] + box["height"] / 2
    page.page.mouse.move(box["x"] + box["width"] * 0.25, y)
    page.page.mouse.down()
    page.page.mouse.move(box["x"] + box["width"] * 0.5, y, steps=5)
    page.page.mouse.up()
    zoom = page.tab.get_by_role("button", name=re.compile(r"^Steps \d+ – \d+"))
    expect(zoom).to_be_visible()
    words = zoom.inner_text()
    page.wait_until(lambda: min(page.curve("Loss", training.name)) > 0)
    shown = page.curve("Loss", training.name)
    assert 4 <= min(shown) < max(shown) <= 11
    vitals = page.tab.get_by_role("region", name="Vital signs")
    last = training.go(10)
    expect(vitals).to_contain_text(f"near step {last}")
    assert words == zoom.inner_text()
    assert shown == page.curve("Loss", training.name)
    plot.dblclick()
    page.wait_drawn(training.name, last=last)
    expect(zoom).to_have_count(0)


def test_the_axis_changes_what_is_drawn(look: tuple[Look, Training]) -> None:
    """Steps, seconds since the beginning, or samples of four a step."""
    page, training = look
    axes = page.tab.get_by_role("group", name="Horizontal axis")
    for button, unit in [("Samples", 4.0), ("Time", 0.1), ("Steps", 1.0)]:
        axes.get_by_role("button", name=button).click()
        first = unit if button == "Samples" else 0.0
        expected = [first + unit * step for step in range(training.steps)]
        assert expected == pytest.approx(list(page.curve("Loss", training.name)), abs=1e-6)
    axes.get_by_role("button", name="Time").click()
    page.wait_drawn(training.name, last=training.go(5))
    assert training.steps == len(page.curve("Loss", training.name))


def test_smoothing_keeps_the_curve_behind(look: tuple[Look, Training]) -> None:
    """What is drawn lags behind the values, which stay to be seen."""
    page, training = look
    page.tab.get_by_role("slider", name="Smoothing").fill("0.9")
    raw = page.curve("Loss", training.name, "before smoothing")
    smooth = page.curve("Loss", training.name)
    assert {step: 1 / (step + 1) for step in range(training.steps)} == raw
    assert all(smooth[step] > raw[step] for step in range(1, training.steps))
    page.wait_drawn(training.name, last=training.go(5))
    assert training.steps == len(page.curve("Loss", training.name))
    page.picture("live-smoothed")


def test_a_logarithmic_axis_changes_the_picture(look: tuple[Look, Training]) -> None:
    """And not the numbers."""
    page, training = look
    numbers = page.curve("Loss", training.name)
    picture = "() => document.querySelector('.line-chart canvas').toDataURL()"
    before = page.tab.evaluate(picture)
    page.tab.get_by_role("checkbox", name="Log y").check()
    page.tab.wait_for_function(f"(before) => ({picture})() !== before", arg=before)
    assert numbers == page.curve("Loss", training.name)
    page.picture("live-log")


def test_a_new_run_appears_by_itself(chromium: Chromium, logdir: Path) -> None:
    """And is drawn, as long as nobody chose which runs are."""
    with TensorBoard("--logdir", str(logdir)) as board, chromium.look(board, alone=True) as page:
        expect(page.tab.get_by_role("heading", name="No runs yet")).to_be_visible()
        for name in ("first", "second"):
            training = Training(logdir, name)
            expect(page.tab.get_by_role("button", name=re.compile(f"^{name}"))).to_be_visible()
            page.wait_drawn(name, last=training.go(3))
            training.close()
