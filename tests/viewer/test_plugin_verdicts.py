"""Runs that nobody judged while they trained: short ones at once, long ones in the background."""

from __future__ import annotations

import queue
import shlex
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tb_netdebug.viewer.plugin import verdicts
from tb_netdebug.viewer.plugin.background_judge import BackgroundJudge
from tests.support.run_cases import RecordedRun
from tests.viewer.test_plugin_routes import Browser

WAIT_SECS = 120


@pytest.fixture
def browser(logdir: Path) -> Iterator[Browser]:
    browser = Browser(logdir=str(logdir))
    yield browser
    browser.close()


@pytest.fixture
def all_are_long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(verdicts, "MOST_BYTES", 0)


def unjudged(folder: Path, *, loss: float = 1.0) -> None:
    """As of a training that was killed before it said anything about itself."""
    run = RecordedRun(folder)
    run.add(20, scalars={"loss": loss})
    run.close()


def row_when(browser: Browser, name: str, is_so: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
    """The row of a run as soon as it is so; the hub says when there is something new."""
    while True:
        told = browser.json("runs")
        [row] = [row for row in told["runs"] if row["name"] == name]
        if is_so(row):
            found: dict[str, Any] = row
            return found
        assert browser.plugin._application is not None
        assert browser.plugin._application.service.hub.wait(told["version"], timeout=WAIT_SECS), row


def not_judged(logdir: Path, name: str) -> str:
    return f"This run is not judged yet: `netdebug check {shlex.quote(str(logdir / name))}` judges it."


def test_the_list_says_what_is_not_judged(logdir: Path, browser: Browser) -> None:
    """With the command, until somebody looks at the run: then it has a verdict in the list, too."""
    unjudged(logdir / "killed run")
    row = row_when(browser, "killed run", lambda row: row["version"] is not None)
    assert (None, not_judged(logdir, "killed run")) == (row["verdict"], row["reason"])
    details = browser.json("run", run="killed run")
    assert ("healthy", None) == (details["verdict"], details["reason"])
    row = row_when(browser, "killed run", lambda row: row["verdict"] is not None)
    assert ("healthy", None) == (row["verdict"], row["reason"])


@pytest.mark.usefixtures("all_are_long")
def test_a_long_run_is_judged_in_the_background(logdir: Path, browser: Browser) -> None:
    """The answer does not wait for it; the list and the details have the verdict when it is there."""
    unjudged(logdir / "long", loss=float("nan"))
    details = browser.json("run", run="long")
    assert None is details["verdict"]
    assert f"{not_judged(logdir, 'long')} {verdicts.IN_BACKGROUND}" == details["reason"]
    row = row_when(browser, "long", lambda row: row["verdict"] is not None)
    assert ("sick", None) == (row["verdict"], row["reason"])
    details = browser.json("run", run="long")
    assert ("sick", "nonfinite-loss") == (details["verdict"], details["findings"][0]["rule"])


def test_only_the_folder_that_was_asked_for_is_judged(logdir: Path) -> None:
    """Runs below it, and Python files in it, have no part in that."""
    unjudged(logdir)
    unjudged(logdir / "below", loss=float("nan"))
    (logdir / "json.py").write_text("raise SystemExit('the code of others ran')\n")
    told = queue.SimpleQueue[tuple[str, int, Any]]()
    judge = BackgroundJudge(lambda folder, version, report, secs: told.put((folder, version, report)))
    judge.want(str(logdir), 7)
    folder, version, report = told.get(timeout=WAIT_SECS)
    assert (str(logdir), 7, "healthy") == (folder, version, report["verdict"])
    judge.close()


def test_a_run_that_cannot_be_judged_is_not_tried_for_ever(logdir: Path) -> None:
    """It is told as such; and after the end nothing is begun."""
    told = queue.SimpleQueue[Any]()
    judge = BackgroundJudge(lambda folder, version, report, secs: told.put(report))
    judge.want(str(logdir / "gone"), 1)
    assert None is told.get(timeout=WAIT_SECS)
    judge.close()
    judge.want(str(logdir), 1)
    assert told.empty()


def test_closing_ends_the_process(logdir: Path) -> None:
    """Also of one that has only just begun; the fixture of all tests looks for what is left."""
    unjudged(logdir)
    judge = BackgroundJudge(lambda *told: None)
    judge.want(str(logdir), 1)
    judge.close()
