"""Connections to a real TensorBoard that are slow on purpose: what is ours is given back, others go on."""

from __future__ import annotations

import re
import socket
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from tb_netdebug.viewer.plugin.event_stream import MOST_STREAMS
from tb_netdebug.viewer.plugin.pacing import PIECE_BYTES, PacedBody, has_hung_up, has_room
from tb_netdebug.viewer.plugin.service import MOST_BIG_ANSWERS
from tests.support.run_cases import RecordedRun
from tests.support.tensorboard_process import OURS, PROGRAM, TensorBoard
from tests.viewer.test_plugin_control import token_of

MANY = 100
HUGE = "test/big?mib=16"
# As in the product, but with less patience; and routes whose answers are big, and more than all buffers hold.
IMPATIENT = """
from tb_netdebug.viewer.plugin import application, pacing, replies
pacing.PATIENCE_SECS, pacing.BODY_SECS = 1.0, 0.5
def big(service, request):
    return replies.reply(bytes(int(request.args["mib"]) << 20), replies.BINARY, headers={})
application.ROUTES["test/big"] = application.Route(big)
"""


@pytest.fixture(scope="module")
def logdir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """With many runs, so that the beginning of a stream is more than the buffers of a connection hold."""
    folder = tmp_path_factory.mktemp("logs")
    for number in range(MANY):
        run = RecordedRun(folder / f"{number}-{'x' * 200}")
        run.add(1)
        run.close()
    return folder


@pytest.fixture(scope="module")
def board(logdir: Path) -> Iterator[TensorBoard]:
    with TensorBoard("--logdir", str(logdir), preamble=IMPATIENT) as started:
        yield started


@contextmanager
def asked(board: TensorBoard, route: str, *headers: str, method: str = "GET") -> Iterator[socket.socket]:
    """A connection with the smallest of buffers on which a request was sent, and nothing is read."""
    with socket.socket() as connection:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
        connection.settimeout(60)
        connection.connect((board.host, board.port))
        lines = [
            f"{method} {OURS}{route} HTTP/1.1",
            f"Host: localhost:{board.port}",
            "X-NetDebug: 1",
            *headers,
        ]
        connection.sendall("\r\n".join([*lines, "", ""]).encode())
        yield connection


def head_of(connection: socket.socket) -> bytes:
    """What comes of an answer up to the end of its headers."""
    found = b""
    while b"\r\n\r\n" not in found:
        piece = connection.recv(1)
        assert piece, found
        found += piece
    return found


def read_to_the_end(connection: socket.socket) -> int:
    """How many bytes come."""
    total = 0
    while piece := connection.recv(1 << 16):
        total += len(piece)
    return total


def everything(board: TensorBoard) -> str:
    """The address of a stream that begins with all runs."""
    listed = board.json("runs")
    while not all(run["steps"] for run in listed["runs"]):
        listed = board.json("runs")
    return f"live?last_event_id={listed['epoch']}-0"


@pytest.mark.parametrize("dripped", [b"", b"more"])
def test_a_stream_that_nobody_reads_frees_its_seat(board: TensorBoard, dripped: bytes) -> None:
    """Also when the reader goes on to send; the next one gets the place, though the first stays connected."""
    route = everything(board)
    with ExitStack() as stack:
        deaf: list[socket.socket] = []
        while len(deaf) < MOST_STREAMS:  # those of an earlier test may not have been missed yet
            connection = stack.enter_context(asked(board, route))
            if head_of(connection).startswith(b"HTTP/1.1 200 "):
                deaf.append(connection)
        assert 503 == board.get("live").status
        for each in deaf:
            each.sendall(dripped)
        for _ in range(MOST_STREAMS):
            while True:
                with board.stream() as stream:
                    if stream.status == 200:
                        break
        assert "Error on request" not in board.log


def test_a_reader_that_is_slow_is_served(board: TensorBoard) -> None:
    """It gets every byte, at whatever pace."""
    with asked(board, "test/big?mib=2") as connection:
        head = head_of(connection)
        size = int(re.findall(rb"Content-Length: (\d+)", head)[0])
        assert 2 << 20 == size == read_to_the_end(connection)


def test_big_answers_that_nobody_reads_are_let_go(board: TensorBoard) -> None:
    """So many wait in memory and no more; then they are cut, and there is room again."""
    with ExitStack() as stack:
        deaf = [stack.enter_context(asked(board, HUGE)) for _ in range(MOST_BIG_ANSWERS)]
        assert {b"HTTP/1.1 200 OK"} == {head_of(each).partition(b"\r\n")[0] for each in deaf}
        with asked(board, HUGE) as another:
            assert head_of(another).startswith(b"HTTP/1.1 503 ")
        assert 200 == board.get("index.html").status
        while board.get(HUGE).status != 200:
            pass
        # Whoever begins to read in time gets all of it, and nobody did whose place became free.
        assert any(read_to_the_end(each) < 16 << 20 for each in deaf)


@pytest.mark.parametrize("sent", [b"", b"{", b'{"client": '])
def test_a_body_that_does_not_come_is_given_up(board: TensorBoard, sent: bytes) -> None:
    """With everything right but its end; the connection gets a sentence."""
    right = (
        f"Origin: http://localhost:{board.port}", "Content-Type: application/json",
        f"X-NetDebug-Token: {token_of(board)}", "Content-Length: 4000",
    )  # fmt: skip
    with asked(board, "debugger/attend", *right, method="POST") as connection:
        connection.sendall(sent)
        assert head_of(connection).startswith(b"HTTP/1.1 408 ")
    assert "Error on request" not in board.log


def test_a_body_that_comes_in_pieces_is_taken(board: TensorBoard) -> None:
    """Of a byte each, and with the first of them beside the headers."""
    body = b'{"client": "0123456789abcdef", "sessions": []}'
    right = (
        f"Origin: http://localhost:{board.port}", "Content-Type: application/json",
        f"X-NetDebug-Token: {token_of(board)}", f"Content-Length: {len(body)}",
    )  # fmt: skip
    with asked(board, "debugger/attend", *right, method="POST") as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for byte in body:
            connection.sendall(bytes([byte]))
        assert head_of(connection).startswith(b"HTTP/1.1 200 ")


def test_half_a_request_holds_nobody_up(board: TensorBoard) -> None:
    """Two hundred connections that never say what they want, and as many that went away in the middle."""
    with ExitStack() as stack:
        for number in range(200):
            half = stack.enter_context(socket.create_connection((board.host, board.port), timeout=60))
            half.sendall(f"GET {OURS}live HTTP/1.1\r\nHost: local".encode()[: 10 + number % 40])
            gone = socket.create_connection((board.host, board.port), timeout=60)
            gone.sendall(f"GET {OURS}runs HTTP/1.1\r\n".encode())
            gone.close()
        assert 200 == board.get("runs").status
        with board.stream(headers=PROGRAM) as stream:
            assert "hello" == stream.next().name


@pytest.fixture
def ends() -> Iterator[tuple[socket.socket, socket.socket]]:
    """Both ends of a connection of loopback."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        near = socket.create_connection(server.getsockname())
        far, _ = server.accept()
    with near, far:
        yield near, far


def test_a_connection_has_room_until_nobody_reads(ends: tuple[socket.socket, socket.socket]) -> None:
    """Each piece that it has room for goes out at once; reading makes room, and closing ends it."""
    near, far = ends
    near.setblocking(False)
    sent = 0
    while has_room(near, 0.05):
        assert PIECE_BYTES == near.send(bytes(PIECE_BYTES))
        sent += PIECE_BYTES
    assert sent > 0
    far.settimeout(60)
    taken = 0
    while taken < sent:
        taken += len(far.recv(1 << 20))
    assert has_room(near, 60)
    assert not has_hung_up(near)
    far.sendall(b"x")
    assert not has_hung_up(near)
    near.recv(1)
    far.close()
    while not has_hung_up(near):
        pass


def test_a_reader_who_takes_a_little_is_waited_for(ends: tuple[socket.socket, socket.socket]) -> None:
    """As long as something is taken between two looks, however little room that makes."""
    near, far = ends
    body = PacedBody([bytes(16 << 20)], near)
    got = bytearray()

    def read() -> None:
        while piece := far.recv(1 << 14):
            got.extend(piece)

    reader = threading.Thread(target=read)
    reader.start()
    for piece in body:
        near.sendall(piece)
    near.shutdown(socket.SHUT_WR)
    reader.join()
    assert bytes(16 << 20) == got
