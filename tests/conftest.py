"""Fixtures for all tests, and the watch over what a test leaves behind."""

from __future__ import annotations

import gc
import importlib
import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType

import hypothesis
import psutil
import pytest

pytest_plugins = ["tests.support.browser"]

ROOT = Path(__file__).resolve().parent.parent
# Python's own, kept for the rest of the process once multiprocessing has needed it.
# "--type=" are the processes of a browser, which come and go as it likes; the browser itself is watched.
NOT_OURS = ("multiprocessing.resource_tracker", "multiprocessing.forkserver", "--type=")
GRACE_SECS = 5.0
PATIENCE_SECS = 60.0
# Tests that import one of these wait for other processes, on a machine of others, too.
TALKING = re.compile(
    r"^from tests\.support\."
    r"(browser|collector_process|spoken_to|streamed|tensorboard_process|terminal|trainer) import",
    re.MULTILINE,
)

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # as of what a shell starts with "&"
    signal.signal(signal.SIGINT, signal.default_int_handler)

hypothesis.settings.register_profile(
    "netdebug",
    deadline=None,  # a busy machine is not a failure
    max_examples=60,
    derandomize=bool(os.environ.get("CI")),
)
hypothesis.settings.load_profile("netdebug")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What waits for other processes has a second try, and is listed as rerun. Everything else has one."""
    for module in {each for item in items if (each := item.getparent(pytest.Module)) is not None}:
        if TALKING.search(module.path.read_text(encoding="utf-8")):
            module.add_marker(pytest.mark.flaky(reruns=1))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Why something was tried a second time: that it went well then is no excuse."""
    for report in terminalreporter.getreports("rerun"):
        terminalreporter.write_sep("_", f"tried again: {report.nodeid}")
        terminalreporter.write_line(report.longreprtext)


@pytest.fixture(autouse=True, scope="module")
def nothing_to_look_through_again() -> Iterator[None]:
    """The modules of every framework are millions of objects: a test that collects garbage took a second each
    time."""
    yield
    gc.collect()
    gc.freeze()


@pytest.fixture(autouse=True)
def patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """Give each test the patience of a new process with the copy that looks for a NaN, and more of it.

    What a run waits counts for its whole process, so tests would take it from each other on a busy machine.
    """
    if "torch" in sys.modules:
        inquiry = importlib.import_module("tb_netdebug.frameworks.torch.numerics.inquiry")
        monkeypatch.setattr(inquiry.Inquiry, "waited_secs", 0.0)
        monkeypatch.setattr(inquiry, "MOST_WAITED_SECS", PATIENCE_SECS)
        monkeypatch.setattr(inquiry.Inquiry, "patience_secs", PATIENCE_SECS)


@pytest.fixture
def little_patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """Wait for the copy as a run does, where it is never to answer."""
    from tb_netdebug.frameworks.torch.numerics.inquiry import Inquiry

    monkeypatch.setattr(Inquiry, "patience_secs", 2.0)


@pytest.fixture(autouse=True)
def nothing_left_running() -> Iterator[None]:
    """Fails a test that leaves a thread of ours or any child process behind."""
    earlier_threads = set(threading.enumerate())
    earlier_children = set(psutil.Process().children(recursive=True))
    yield
    threads = [thread.name for thread in {*threading.enumerate()} - earlier_threads if still_running(thread)]
    children = {*psutil.Process().children(recursive=True)} - earlier_children
    processes = [told for process in children if (told := command(process))]
    assert ([], []) == (threads, processes), "the test left threads or child processes running"


def still_running(thread: threading.Thread) -> bool:
    """Whether a thread of ours outlives its test; one that is about to end may do so."""
    if not thread.name.startswith("netdebug-"):
        return False
    thread.join(timeout=GRACE_SECS)
    return thread.is_alive()


def command(process: psutil.Process) -> str:
    """The command line of a child that counts and does not end by itself, else nothing."""
    try:
        words = " ".join(process.cmdline())
        if any(name in words for name in NOT_OURS) or process.status() == psutil.STATUS_ZOMBIE:
            return ""
        process.wait(timeout=GRACE_SECS)
    except psutil.NoSuchProcess:
        return ""
    except psutil.TimeoutExpired:
        return words or f"process {process.pid}"
    return ""


@pytest.fixture
def logdir(tmp_path: Path) -> Path:
    """An empty folder for the event files of one test."""
    folder = tmp_path / "logs"
    folder.mkdir()
    return folder


@pytest.fixture(scope="session", params=["native", "twin"])
def kernel(request: pytest.FixtureRequest) -> ModuleType:
    """The C kernel, then its twin in NumPy: what a test asks of one holds for the other."""
    module = {"native": "_kernel", "twin": "twin"}[request.param]
    try:
        return importlib.import_module(f"tb_netdebug.core.stats.{module}")
    except ImportError as error:
        pytest.fail(
            f"There is no {request.param} kernel ({error}): see build/logs/wheel.log after `make test`"
        )


@pytest.fixture
def run_python(tmp_path: Path) -> Callable[..., str]:
    """Runs a piece of Python in a fresh interpreter, far from the checkout, and returns what it printed."""

    def run(code: str, *, env: dict[str, str] | None = None) -> str:
        path = "" if sys.flags.isolated else str(ROOT)  # in an isolated run the installed wheel is tested
        ran = subprocess.run(
            [sys.executable, "-c", code],
            cwd=tmp_path,
            env={**os.environ, "PYTHONPATH": path, **(env or {})},
            capture_output=True,
            text=True,
            check=False,
        )
        assert ran.returncode == 0, ran.stderr
        return ran.stdout

    return run
