"""`make demo`: three trainings and a TensorBoard that shows them, and how all of it ends."""

from __future__ import annotations

import json
import math
import os
import re
import signal
import socket
import subprocess
import sys
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import numpy as np
import psutil
import pytest

from tb_netdebug.core.eventlog.reader.followed_run import FollowedRun
from tb_netdebug.core.eventlog.reader.logdir import LogDir
from tb_netdebug.core.records.step import Kind
from tests.support.tensorboard_process import TensorBoard, search_path
from tests.support.terminal import Terminal, environment

ROOT = Path(__file__).resolve().parents[2]
DEMO = ROOT / "demo"
NAMES = ("healthy", "learning-rate-too-high", "deep-sigmoid")
PROGRAMS = {
    "tensorboard.main": "TensorBoard",
    "healthy/digits.py": "healthy",
    "sick/learning_rate_high.py": "learning-rate-too-high",
    "sick/vanishing_gradients.py": "deep-sigmoid",
}
LIMIT_SECS = 10.0
WITHOUT_PAUSES = ROOT / "tests/support/without_pauses.py"


@pytest.fixture
def env(tmp_path: Path) -> dict[str, str]:
    """Of a program that finds the package, and TensorBoard our entry point."""
    return {**environment(), **search_path(tmp_path)}


@pytest.fixture
def demo(logdir: Path, env: dict[str, str]) -> Iterator[Callable[..., Terminal]]:
    """Starts the demo in a terminal; whatever a test leaves of it is killed."""
    with ExitStack() as started:
        yield lambda *words: started.enter_context(
            Terminal([sys.executable, DEMO, "--no-browser", "--logdir", logdir, *words], env, width=100)
        )


def children_of(terminal: Terminal) -> dict[str, psutil.Process]:
    """TensorBoard and the trainings, by what they run."""
    found = {}
    for child in psutil.Process(terminal.process.pid).children():
        words = " ".join(child.cmdline())  # until it runs a program of its own, those of the demo
        found.update({name: child for text, name in PROGRAMS.items() if text in words})
    return found


def assert_gone(children: dict[str, psutil.Process]) -> None:
    _, alive = psutil.wait_procs(list(children.values()), timeout=LIMIT_SECS)
    assert [] == alive


def wait_for_trainings(terminal: Terminal) -> None:
    """Until each has a step with a loss on the screen."""
    terminal.wait_for_output(*(rf"{name} +step \d+  loss" for name in NAMES))


def url_in(terminal: Terminal) -> str:
    found = re.search(r"page +(http://localhost:\d+)/#netdebug", terminal.written)
    assert found is not None
    return found[1]


# ---- the trainings ---------------------------------------------------------------------------------------


def trained(script: str, name: str, logdir: Path, env: dict[str, str], *, batches: int) -> FollowedRun:
    """The run that a script of the demo leaves, without its pauses; it says what is wrong, and no more."""
    words = [str(batches), str(DEMO / script), "--logdir", str(logdir)]
    ran = subprocess.run(
        [sys.executable, WITHOUT_PAUSES, *words], env=env, capture_output=True, text=True, check=False
    )
    assert 0 == ran.returncode
    assert ("sick" in script) == ran.stderr.startswith(("NetDebug: WARNING", "NetDebug: ERROR"))
    assert "Traceback" not in ran.stderr
    runs = LogDir([("", str(logdir))])
    runs.refresh()
    run = runs.open(name)
    run.refresh()
    return run


def means(run: FollowedRun, scalar: str) -> list[float]:
    """The scalar in ten parts of the run; NaN where one of its values was."""
    values = run.scalars([scalar], points=10_000).scalars[scalar].end
    return [float(part.mean()) for part in np.array_split(values, 10)]


def test_the_healthy_network_learns(logdir: Path, env: dict[str, str]) -> None:
    """Its loss falls and its accuracy rises, as everybody expects."""
    run = trained("healthy/digits.py", "healthy", logdir, env, batches=600)
    losses, accuracies = means(run, "loss"), means(run, "scalar/accuracy")
    assert losses[0] > 2.0 > 0.6 > losses[-1]
    assert accuracies[0] < 0.4 < 0.8 < accuracies[-1]


def test_the_learning_rate_is_too_high(logdir: Path, env: dict[str, str]) -> None:
    """It learns at first, and then the loss is no number any more."""
    run = trained("sick/learning_rate_high.py", "learning-rate-too-high", logdir, env, batches=800)
    losses = means(run, "loss")
    assert min(losses[:3]) < 1.5
    assert math.isnan(losses[-1])


def test_the_gradients_vanish(logdir: Path, env: dict[str, str]) -> None:
    """The loss stays where guessing is, and next to nothing of it reaches the first layers."""
    run = trained("sick/vanishing_gradients.py", "deep-sigmoid", logdir, env, batches=300)
    assert all(abs(loss - math.log(10)) < 0.2 for loss in means(run, "loss"))
    gradients = run.statistics_at(Kind.GRADIENT)
    norms = dict(zip(gradients.names, gradients.statistics["norm"].tolist(), strict=True))
    assert norms["layer1.weight"] < 1e-6 * norms["output.weight"]


def test_the_picture_of_a_run(logdir: Path, env: dict[str, str]) -> None:
    """Tables of its scalars and of its tensors; without a run, the way to one is told."""
    trained("healthy/digits.py", "healthy", logdir, env, batches=20)
    command: list[str | Path] = [sys.executable, DEMO / "picture.py"]
    drawn = subprocess.check_output([*command, logdir / "healthy"], env=env, text=True, encoding="utf-8")
    assert {"loss", "scalar/accuracy", "weight conv1.weight"} <= set(
        re.findall(r"^[\w/]+(?: [\w.]+)?", drawn, re.M)
    )
    missing = subprocess.run(
        [*command, logdir / "nobody"], env=env, capture_output=True, text=True, check=False
    )
    assert (1, True) == (missing.returncode, "Give the folder of a run" in missing.stderr)


# ---- the whole -------------------------------------------------------------------------------------------


def test_the_smoke_test_of_the_demo(logdir: Path, env: dict[str, str]) -> None:
    """The page is served, a browser draws all three runs while they grow, and everything ends."""
    ran = subprocess.run(
        [sys.executable, DEMO, "--smoke", "--logdir", logdir],
        env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False,
    )  # fmt: skip
    assert 0 == ran.returncode, ran.stdout
    assert "the page draws them, live" in ran.stdout or not os.environ.get("CI")
    assert "All that the demo started has ended." == ran.stdout.splitlines()[-1]
    [folder] = logdir.iterdir()
    assert set(NAMES) <= {path.name for path in folder.iterdir()}


def test_ctrl_c_ends_everything(demo: Callable[..., Terminal]) -> None:
    """Pressed when all of it runs, it ends in good order, and that is no failure."""
    terminal = demo()
    wait_for_trainings(terminal)
    children = children_of(terminal)
    assert {"TensorBoard", *NAMES} == set(children)
    terminal.press("\x03")
    assert 0 == terminal.end()
    assert_gone(children)
    assert "All that the demo started has ended." in terminal.written
    assert "Traceback" not in terminal.written


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGKILL])
def test_whatever_ends_the_demo_ends_its_children(
    number: signal.Signals, demo: Callable[..., Terminal]
) -> None:
    """Even when it has no time to ask them, and although they have only just been started."""
    terminal = demo()
    terminal.wait_until(lambda: len(children_of(terminal)) == 4, "four children")
    children = children_of(terminal)
    terminal.send(number)
    assert (-signal.SIGKILL if number == signal.SIGKILL else 143) == terminal.end()
    assert_gone(children)


def test_children_that_die_are_reported(demo: Callable[..., Terminal]) -> None:
    """A training that is killed is named, and the others go on; without TensorBoard the demo ends."""
    terminal = demo()
    wait_for_trainings(terminal)
    children = children_of(terminal)
    children["deep-sigmoid"].kill()
    terminal.wait_for_output("deep-sigmoid was killed by SIGKILL, perhaps because the memory ran out")
    assert children["healthy"].is_running()
    children["TensorBoard"].kill()
    assert 1 == terminal.end()
    assert "TensorBoard was killed by SIGKILL" in terminal.written
    assert_gone(children)


def test_trainings_that_cannot_start(
    demo: Callable[..., Terminal], env: dict[str, str], tmp_path: Path
) -> None:
    """What each of them said last is told, and the demo does not stay for nothing."""
    broken = tmp_path / "broken"
    broken.mkdir()
    (broken / "sklearn.py").write_text("raise ImportError('half of it is missing')")
    env["PYTHONPATH"] = f"{broken}{os.pathsep}{env['PYTHONPATH']}"
    terminal = demo()
    assert 1 == terminal.end()
    told = " ".join(terminal.written.split())
    assert "healthy failed with exit code 1: ImportError: half of it is missing" in told
    assert "No training is left" in told


def test_tensorboard_stays_when_the_trainings_have_ended(demo: Callable[..., Terminal]) -> None:
    """There is still something to look at then."""
    terminal = demo("--seconds", "1")
    terminal.wait_for_output("All trainings have ended")
    address = f"{url_in(terminal)}/data/plugin/netdebug/runs"
    with urllib.request.urlopen(urllib.request.Request(address, headers={"X-NetDebug": "1"})) as reply:
        assert set(NAMES) == {run["name"] for run in json.load(reply)["runs"]}


# ---- what cannot be --------------------------------------------------------------------------------------


def test_a_port_in_use(demo: Callable[..., Terminal]) -> None:
    """The sentence names it and the way out."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        terminal = demo("--port", str(taken.getsockname()[1]))
        assert 1 == terminal.end()
        assert f"Port {taken.getsockname()[1]} is in use. Choose another one" in terminal.written


def test_a_folder_that_cannot_be_made(demo: Callable[..., Terminal], logdir: Path) -> None:
    """No stack trace, but the path."""
    logdir.rmdir()
    logdir.touch()
    terminal = demo()
    assert 1 == terminal.end()
    assert str(logdir) in terminal.written.replace("\n", "")
    assert "Traceback" not in terminal.written


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["--seconds", "0"], "no length of time"),
        (["--seconds", "inf"], "no length of time"),
        (["--port", "70000"], "no port"),
        (["--nonsense"], "unrecognized"),
    ],
)
def test_wrong_options(words: list[str], expected: str, demo: Callable[..., Terminal], logdir: Path) -> None:
    """Are told before anything is started."""
    terminal = demo(*words)
    assert 2 == terminal.end()
    assert expected in terminal.written
    assert [] == list(logdir.iterdir())


def test_the_help_tells_every_option(demo: Callable[..., Terminal]) -> None:
    """And what the whole is about."""
    terminal = demo("--help")
    assert 0 == terminal.end()
    for text in ("three networks", "--seconds", "--port", "--no-browser", "--logdir", "--smoke"):
        assert text in terminal.written


CHECK_PAGE = """
import sys
sys.path.insert(0, sys.argv[1])
from board import Board, BoardError
try:
    Board(None, sys.argv[2]).check_page()
except BoardError as error:
    print(error)
"""
NOT_BUILT = """
from pathlib import Path
from tb_netdebug.viewer.plugin import page
page.load.__defaults__ = (Path("/nowhere"),)
"""


def test_a_page_that_was_not_built(logdir: Path, env: dict[str, str]) -> None:
    """The demo says so, and what to do, instead of showing an empty tab."""
    with TensorBoard("--logdir", str(logdir), preamble=NOT_BUILT) as board:
        command = [sys.executable, "-c", CHECK_PAGE, DEMO, board.url]
        told = subprocess.check_output(command, env=env, text=True)
    assert "the page was not built into this installation" in told


HAS_DESKTOP = "import sys; sys.path.insert(0, sys.argv[1]); import browser, os;"


@pytest.mark.parametrize(
    ("known", "platform", "expected"),
    [
        ({"DISPLAY": ":0"}, "linux", True),
        ({"WAYLAND_DISPLAY": "wayland-0"}, "linux", True),
        ({}, "linux", False),
        ({}, "darwin", True),
        ({"DISPLAY": ":0", "SSH_CONNECTION": "10.0.0.1 1 10.0.0.2 22"}, "linux", False),
        ({"DISPLAY": ":0", "CI": "1"}, "linux", False),
    ],
)
def test_a_browser_is_opened_on_a_desktop_only(known: dict[str, str], platform: str, expected: bool) -> None:
    """Not on a machine without a screen, and not on one that is reached from afar."""
    asked = f"{HAS_DESKTOP} print(browser.has_desktop({known!r}, {platform!r}))"
    assert f"{expected}" == subprocess.check_output([sys.executable, "-c", asked, DEMO], text=True).strip()
