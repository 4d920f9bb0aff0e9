"""TensorBoard stays as it was with our tab in it: broken in every way, under all flags, several at once."""

from __future__ import annotations

from pathlib import Path

import pytest

from tb_netdebug.core.eventlog.writer import EventWriter
from tb_netdebug.core.records.step import StepRecord
from tests.support.tensorboard_process import TensorBoard

MISSING = "import sys; sys.modules[{!r}] = None\n"
TAB = "import tb_netdebug.viewer.plugin.tab as tab\n"
RAISE = "def broken(*arguments, **more): raise RuntimeError('broken on purpose')\n"
NO_METADATA = """
from tensorboard.plugins import base_plugin
original = base_plugin.FrontendMetadata
def made(**fields):
    if fields.get("tab_name") == "NetDebug":
        raise TypeError("no such metadata")
    return original(**fields)
base_plugin.FrontendMetadata = made
"""
# What is broken, and what the tab says then: an error of our routes, or nothing because there is no tab.
SAYS, NO_TAB, NO_ROUTES = "says why", "no tab", "no routes"
BROKEN = {
    "a package is not installed": (MISSING.format("zstandard"), SAYS),
    "the generated code does not fit": (MISSING.format("tb_netdebug.core.records.netdebug_pb2"), SAYS),
    "the reader cannot be imported": (MISSING.format("tb_netdebug.core.eventlog.reader.logdir"), SAYS),
    "the routes cannot be imported": (MISSING.format("tb_netdebug.viewer.plugin.routes"), SAYS),
    "the tab cannot be imported": (MISSING.format("tb_netdebug.viewer.plugin.tab"), SAYS),
    "nothing of it can be imported": (
        MISSING.format("tb_netdebug.viewer.plugin.tab")
        + MISSING.format("tb_netdebug.viewer.plugin.stand_in"),
        NO_TAB,
    ),
    "the constructor fails": (TAB + RAISE + "tab.NetDebugPlugin.__init__ = broken\n", SAYS),
    "the routes cannot be listed": (TAB + RAISE + "tab.NetDebugPlugin.get_plugin_apps = broken\n", NO_ROUTES),
    "the metadata have changed": (NO_METADATA, NO_TAB),
    "it does not know whether it is active": (TAB + RAISE + "tab.NetDebugPlugin.is_active = broken\n", None),
}


def record(folder: Path, *, steps: int = 3, loss: float = 0.5) -> None:
    writer = EventWriter(folder)
    for step in range(steps):
        writer.put(StepRecord(step, 1.7e9 + step, {"loss": loss, "batch_size": 8.0}))
    writer.close()


@pytest.fixture
def runs(logdir: Path) -> Path:
    """Two short runs."""
    record(logdir / "first", loss=0.25)
    record(logdir / "second", steps=5)
    return logdir


def names(board: TensorBoard) -> list[str]:
    return [row["name"] for row in board.json("runs")["runs"]]


def assert_others_work(board: TensorBoard) -> None:
    """TensorBoard's own page and routes answer as ever."""
    listing = board.json("/data/plugins_listing")
    assert {"scalars", "timeseries", "histograms"} <= set(listing)
    for path in ("/", "/index.js", "/data/environment", "/data/runs", "/data/plugin/scalars/tags"):
        assert 200 == board.get(path).status


@pytest.mark.parametrize("what", BROKEN)
def test_whatever_breaks_the_other_tabs_work(runs: Path, what: str) -> None:
    """TensorBoard starts, lists its tabs and serves them; ours says what is wrong, or is not there."""
    preamble, outcome = BROKEN[what]
    with TensorBoard("--logdir", str(runs), preamble=preamble) as board:
        assert_others_work(board)
        tab = board.json("/data/plugins_listing").get("netdebug")
        assert (outcome is NO_TAB) == (tab is None)
        if outcome is SAYS:
            assert tab["enabled"]
            reply = board.get("runs")
            assert 503 == reply.status
            assert "could not be started" in reply.json()["error"]
            assert b"could not be started" in board.get("index.html").body
            assert b"render" in board.get("index.js").body
        elif outcome is not None:
            assert 404 == board.get("runs").status


@pytest.mark.parametrize(
    ("flags", "prefix"),
    [
        ((), ""),
        (("--load_fast=false",), ""),
        (("--path_prefix", "/a/b"), "/a/b"),
        (("--load_fast=false", "--path_prefix", "/deep/er/", "--reload_multifile=true"), "/deep/er"),
    ],
    ids=["data server", "Python loader", "prefix", "Python loader with prefix"],
)
def test_it_works_under_the_flags_of_tensorboard(runs: Path, flags: tuple[str, ...], prefix: str) -> None:
    """Our routes lie below the prefix, whichever loader TensorBoard has."""
    with TensorBoard("--logdir", str(runs), *flags) as board:
        assert prefix == board.prefix
        assert_others_work(board)
        tab = board.json("/data/plugins_listing")["netdebug"]
        assert tab["enabled"]
        assert f"{prefix}/data/plugin/netdebug/index.js" == tab["loading_mechanism"]["module_path"]
        assert ["first", "second"] == names(board)
        assert 0.25 == board.json("run", run="first")["loss"]


@pytest.mark.parametrize("has_tensorflow", [True, False], ids=["with TensorFlow", "without"])
def test_it_works_with_and_without_tensorflow(runs: Path, has_tensorflow: bool) -> None:
    """TensorBoard's Python loader reads through TensorFlow where there is one."""
    preamble = "import tensorflow\n" if has_tensorflow else ""
    flags = ("--logdir", str(runs), "--load_fast=false")
    with TensorBoard(*flags, preamble=preamble, tensorflow=has_tensorflow) as board:
        assert_others_work(board)
        assert ["first", "second"] == names(board)
        assert 0.25 == board.json("run", run="first")["loss"]
        libraries = Path(f"/proc/{board.process.pid}/maps").read_text()
        assert has_tensorflow == ("libtensorflow" in libraries)


def test_a_logdir_spec_gives_names_to_runs(runs: Path, tmp_path: Path) -> None:
    """`--logdir` is absent then, and names go before the folders of each part."""
    record(tmp_path / "other")
    with TensorBoard("--logdir_spec", f"mine:{runs},{tmp_path / 'other'}") as board:
        assert_others_work(board)
        assert {"mine/first", "mine/second", "."} == set(names(board))


def test_a_home_folder_is_found(runs: Path) -> None:
    """TensorBoard expands `~` itself, and so do we."""
    with TensorBoard("--logdir", "~/logs", env={"HOME": str(runs.parent)}) as board:
        assert ["first", "second"] == names(board)


def test_without_a_logdir_that_exists_it_waits_for_one(tmp_path: Path) -> None:
    """A training that starts later makes the folder."""
    with TensorBoard("--logdir", str(tmp_path / "later")) as board:
        assert_others_work(board)
        assert [] == names(board)
        with board.stream() as stream:
            stream.until("hello")
            record(tmp_path / "later/run")
            stream.until("runs")
        assert ["run"] == names(board)


def test_several_tensorboards_share_a_logdir(runs: Path) -> None:
    """They write nothing until a trainer sends something, so they do not notice each other."""
    before = sorted(path for path in runs.rglob("*"))
    with TensorBoard("--logdir", str(runs)) as one, TensorBoard("--logdir", str(runs)) as other:
        assert ["first", "second"] == names(one) == names(other)
        assert one.json("runs")["epoch"] != other.json("runs")["epoch"]
    assert before == sorted(path for path in runs.rglob("*"))


@pytest.mark.parametrize(("flag", "status"), [((), 403), (("--bind_all",), 200)], ids=["loopback", "network"])
def test_a_foreign_name_is_refused_on_loopback_alone(runs: Path, flag: tuple[str, ...], status: int) -> None:
    """The address to which TensorBoard listens decides; its own routes answer as they always did."""
    headers = {"Host": "rebind.example:6006"}
    with TensorBoard("--logdir", str(runs), *flag, host=None) as board:
        assert status == board.get("runs", headers=headers).status
        assert 200 == board.get("runs").status
        assert 200 == board.get("/data/runs", headers=headers).status
        assert 403 == board.get("runs", headers={"Origin": "http://evil.example"}).status
        assert 405 == board.request("OPTIONS", "runs").status


def test_nothing_of_ours_runs_before_the_first_request(runs: Path) -> None:
    """Without a look at our tab there are no threads of ours and none of our modules."""
    with TensorBoard("--logdir", str(runs), preamble=SPY) as board:
        board.json("/data/plugins_listing")
        told = board.get("/data/plugin/scalars/tags", headers={"X-Spy": "1"})
        assert {"modules": EARLY_MODULES, "threads": []} == told.json()
        board.json("runs")
        told = board.get("/data/plugin/scalars/tags", headers={"X-Spy": "1"})
        assert {"netdebug-reader", "netdebug-first-reads"} <= set(told.json()["threads"])


EARLY_MODULES = [
    "tb_netdebug",
    "tb_netdebug.core",
    "tb_netdebug.core.start_folder",
    "tb_netdebug.version",
    "tb_netdebug.viewer",
    "tb_netdebug.viewer.plugin",
    "tb_netdebug.viewer.plugin.loader",
    "tb_netdebug.viewer.plugin.tab",
]
# Tells what is loaded in the process of TensorBoard, instead of the answer of its route.
SPY = """
import json, sys, threading
from tensorboard.backend import application
original = application.TensorBoardWSGI.__call__
def spying(self, environ, start_response):
    if "HTTP_X_SPY" not in environ:
        return original(self, environ, start_response)
    modules = sorted(name for name in sys.modules if name.partition(".")[0] == "tb_netdebug")
    threads = [thread.name for thread in threading.enumerate() if thread.name.startswith("netdebug")]
    body = json.dumps({"modules": modules, "threads": threads}).encode()
    start_response("200 OK", [("Content-Length", str(len(body)))])
    return [body]
application.TensorBoardWSGI.__call__ = spying
"""
