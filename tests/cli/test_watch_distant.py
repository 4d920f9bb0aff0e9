"""`netdebug watch HOST:PORT`: the runs of a TensorBoard, as they look on the machine that it is on."""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tb_netdebug.cli import main
from tb_netdebug.cli.distant_columns import answer_of
from tests.support.run_cases import RecordedRun, layer
from tests.support.tensorboard_process import TensorBoard
from tests.support.watching import live, shown, written

LEAVE_OUT = """
from tensorboard import default
all_of_them = default._iter_entry_points
default._iter_entry_points = lambda group: [one for one in all_of_them(group) if one.name != "netdebug"]
"""


@pytest.fixture
def write(logdir: Path) -> Iterator[Callable[..., RecordedRun]]:
    """Makes a run of this name; all of them are closed at the end."""
    yield from written(logdir)


@pytest.fixture
def board(logdir: Path) -> Iterator[TensorBoard]:
    with TensorBoard("--logdir", str(logdir)) as started:
        yield started


def refused(capsys: pytest.CaptureFixture[str], place: str) -> str:
    """What the command says when it cannot do as asked."""
    assert 2 == main(["watch", place])
    told = capsys.readouterr()
    assert ("", False) == (told.out, "Traceback" in told.err)
    return " ".join(told.err.split())


def address(board: TensorBoard) -> str:
    return f"{board.host}:{board.port}"


def test_it_looks_as_it_does_there(
    logdir: Path, board: TensorBoard, write: Callable[..., RecordedRun], capsys: pytest.CaptureFixture[str]
) -> None:
    """Vital signs, layers and other runs: only the place has another name."""
    write("group/a", 40, samples=[*layer("one", 1.0, 1.0, 1e-3), *layer("two", 1.0, float("nan"), 1e-9)])
    write("group/b", 7, scalars={"scalar/accuracy": 0.5})
    for run in ("group/a", "b"):
        for path in logdir.rglob("*.netdebug"):
            os.utime(path, (1e9, 1e9))  # what was written just now would be called live, for a while
        here = shown(capsys, logdir, "--once", "--run", run).splitlines()
        there = shown(capsys, address(board), "--once", "--run", run).splitlines()
        assert f"NetDebug  {address(board)}/group/" == there[0].partition("   ")[0]
        # Who has recorded these runs has not judged them, and our plugin does it for whoever asks.
        assert any("not judged yet" in line for line in here)
        assert here[1:] == [
            each
            for line in there[1:]
            for each in (unjudged(here) if line == "no sign of trouble" else [line])
        ]


def unjudged(lines: list[str]) -> list[str]:
    """Those that say how to have the run judged."""
    first = next(at for at, line in enumerate(lines) if line.startswith("This run is not judged yet"))
    last = next(at for at, line in enumerate(lines) if line.endswith("judges it."))
    return lines[first : last + 1]


def test_new_steps_appear(board: TensorBoard, write: Callable[..., RecordedRun]) -> None:
    """And that TensorBoard has gone, while what was there stays on the screen."""
    run = write("a", 3)
    with live(Path(address(board))) as terminal:
        terminal.wait_for("step 2", "0.3333")
        run.add(4, samples=layer("fresh", 1.0, 1.0, 1e-3))
        terminal.wait_for("step 6", "0.1429", "fresh")
        board.kill()
        terminal.wait_for("Nothing listens at", "Trying again")
        terminal.press("q")
        assert 0 == terminal.end()


def test_it_waits_for_the_first_run(board: TensorBoard, write: Callable[..., RecordedRun]) -> None:
    """As with a folder, a training may begin later."""
    with live(Path(address(board))) as terminal:
        terminal.wait_for("There is no run in", "Waiting")
        write("early", 2)
        terminal.wait_for("early", "step 1", without="Waiting")


def test_addresses_as_people_have_them(
    board: TensorBoard, write: Callable[..., RecordedRun], capsys: pytest.CaptureFixture[str]
) -> None:
    """Without a host, and as copied from a browser."""
    write("a")
    for place in (f":{board.port}", f"http://localhost:{board.port}/", f"{board.url}/#netdebug"):
        assert "step 2" in shown(capsys, place, "--once")


# ---- mistakes --------------------------------------------------------------------------------------------


def test_nobody_listens(capsys: pytest.CaptureFixture[str]) -> None:
    """It is said at once, and what to start."""
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        told = refused(capsys, f"127.0.0.1:{held.getsockname()[1]}")
    assert "netdebug: Nothing listens at http://127.0.0.1:" in told
    assert "tensorboard --logdir" in told


def test_a_tensorboard_without_netdebug(logdir: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """It says what to install where."""
    with TensorBoard("--logdir", str(logdir), preamble=LEAVE_OUT) as board:
        assert "has no NetDebug: install it into TensorBoard's Python" in refused(capsys, address(board))


class Other(BaseHTTPRequestHandler):
    """Some other program, which answers everything with the same."""

    answer = b""

    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Length", str(len(self.answer)))
        self.end_headers()
        self.wfile.write(self.answer)

    def log_message(self, *_: object) -> None:
        pass


@pytest.mark.parametrize("answer", [b"<html>", b"[]", b"{}", b'{"runs": [7], "complaints": []}', b"\xff"])
def test_another_program(capsys: pytest.CaptureFixture[str], answer: bytes) -> None:
    """Whatever it says, that is a sentence here."""
    handler = type("Answering", (Other,), {"answer": answer})
    with HTTPServer(("127.0.0.1", 0), handler) as server:
        thread = Thread(target=server.serve_forever)
        thread.start()
        try:
            assert refused(capsys, f"127.0.0.1:{server.server_port}").endswith(".")
        finally:
            server.shutdown()
            thread.join()


@pytest.mark.parametrize("place", ["host:99999", "http://", "http://host:x/"])
def test_what_is_no_address(capsys: pytest.CaptureFixture[str], place: str) -> None:
    assert f"{place!r} is not " in refused(capsys, place)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-10, 10) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4),
    max_leaves=8,
)
PLACES = st.lists(st.sampled_from(["f64", "f32", "u8", "x"]) | st.integers(-5, 50) | JSON, max_size=5)
ANSWERS = st.fixed_dictionaries({"columns": st.dictionaries(st.text(max_size=3), PLACES, max_size=3)}) | JSON


@given(
    st.one_of(st.lists(ANSWERS, max_size=2).map(lambda each: {"answers": each}), JSON), st.binary(max_size=60)
)
def test_no_answer_makes_it_fail(header: object, arrays: bytes) -> None:
    """What is none is a ValueError, whoever has sent it."""
    text = json.dumps(header).encode()
    for body in (len(text).to_bytes(4, "little") + text + arrays, arrays):
        try:
            answer_of(body)
        except ValueError:
            continue
