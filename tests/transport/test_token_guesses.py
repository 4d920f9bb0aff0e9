"""Wrong tokens by the hundred at a real collector and at the page's routes.

They cost their sender time and leave nothing behind, no line tells of each, and the right one works at once.
"""

from __future__ import annotations

import json
import secrets
import select
import socket
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import psutil
import pytest

from tb_netdebug.viewer.plugin.application import MOST_GUESSES
from tests.support.collector_process import TOKEN, CollectorProcess
from tests.support.stream_peer import Agent, Peer, Stream
from tests.support.tensorboard_process import OURS, TensorBoard
from tests.viewer.test_plugin_control import SECRET, token_of

# Tries tokens on several connections at a time, and says how often each answer came.
GUESSER = """
import collections, json, secrets, sys, threading
import grpc
address, count, connections = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
codes = collections.Counter()
def guess():
    options = [("grpc.use_local_subchannel_pool", 1)]
    with grpc.secure_channel(address, grpc.local_channel_credentials(), options=options) as channel:
        call = channel.stream_stream("/netdebug.Stream/Connect")
        for _ in range(count // connections):
            token = secrets.token_urlsafe(32)
            try:
                next(call(iter(()), metadata=[("authorization", f"Bearer {token}")]))
                codes["let in"] += 1
            except grpc.RpcError as error:
                codes[error.code().name] += 1
threads = [threading.Thread(target=guess) for _ in range(connections)]
for each in threads: each.start()
for each in threads: each.join()
print(json.dumps(codes))
"""
ROUNDS, GUESSES = 3, 400
MOST_GROWTH_BYTES = 4 << 20
# Guesses that wait do so to the end of the test.
PATIENT = "from tb_netdebug.viewer.plugin import application\napplication.GUESS_SECS = 3600.0\n"
QUICK = "from tb_netdebug.viewer.plugin import application\napplication.GUESS_SECS = 0.0\n"


def guessed(address: str, count: int) -> Counter[str]:
    ran = subprocess.run(
        [sys.executable, "-c", GUESSER, address, str(count), "8"], capture_output=True, text=True, check=True
    )
    return Counter(json.loads(ran.stdout))


def is_over(stream: Stream) -> bool:
    return isinstance(stream._peer.do("receive", stream._number, 0.0), list)


@pytest.fixture
def peer() -> Iterator[Peer]:
    with Peer() as process:
        yield process


def test_guesses_at_a_collector_leave_nothing_behind(
    tmp_path: Path, peer: Peer, capfd: pytest.CaptureFixture[str]
) -> None:
    """No line and no memory, and an agent that is connected notices nothing; then comes the right token."""
    with CollectorProcess(tmp_path / "root", refused_secs=0.0) as collector:
        before = Agent(peer.stream(collector.address))
        assert 1 == before.greet().version
        sizes = []
        for _ in range(ROUNDS):
            assert {"UNAUTHENTICATED": GUESSES} == guessed(collector.address, GUESSES)
            sizes.append(psutil.Process(collector.process.pid).memory_info().rss)
        assert sizes[-1] - sizes[0] < MOST_GROWTH_BYTES
        assert [] == collector.notices()
        after = Agent(peer.stream(collector.address), "f" * 32)
        assert 1 == after.greet().version
    assert "" == capfd.readouterr().err


def test_guesses_at_a_collector_wait_apart(tmp_path: Path, peer: Peer) -> None:
    """So many are held back, the next is refused at once, and the right token is let in beside them."""
    with CollectorProcess(tmp_path / "root", refused_secs=3600.0, refused_streams=6, streams=2) as collector:
        guesses = [peer.stream(collector.address, token=secrets.token_urlsafe()) for _ in range(7)]
        while not any(map(is_over, guesses)):
            pass  # whichever comes last is
        for agent in ("d" * 32, "e" * 32):
            assert 1 == Agent(peer.stream(collector.address), agent).greet().version
        assert "UNAUTHENTICATED" == peer.stream(collector.address, token=f"{TOKEN}x").end()[0]
        assert "RESOURCE_EXHAUSTED" == peer.stream(collector.address).end()[0]
        assert [False] * 6 + [True] == sorted(map(is_over, guesses))


@pytest.fixture(scope="module")
def token_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("keys") / "token"
    file.write_text(SECRET)
    file.chmod(0o600)
    return file


def post(board: TensorBoard, token: str, *, scheme: str = "http") -> socket.socket:
    """A request with everything right but perhaps the token, of which nothing was read yet."""
    body = b'{"client": "0123456789abcdef", "sessions": []}'
    host = f"localhost:{board.port}"
    lines = (
        f"POST {OURS}debugger/attend HTTP/1.1", f"Host: {host}", f"Origin: {scheme}://{host}",
        "Content-Type: application/json", f"Content-Length: {len(body)}", f"X-NetDebug-Token: {token}",
    )  # fmt: skip
    connection = socket.create_connection((board.host, board.port), timeout=60)
    connection.sendall("\r\n".join([*lines, "", ""]).encode() + body)
    return connection


def status(connection: socket.socket) -> int:
    with connection:
        return int(connection.makefile("rb").readline().split()[1])


def test_guesses_at_the_page_leave_nothing_behind(tmp_path: Path, token_file: Path) -> None:
    """On loopback with the page's token, on the network with that of the file; no line for any of them."""
    flags = ("--logdir", str(tmp_path), "--netdebug_token_file", str(token_file))
    with (
        TensorBoard(*flags, preamble=QUICK) as board,
        TensorBoard(*flags, "--bind_all", preamble=QUICK, host=None) as network,
    ):
        for each, scheme, right in ((board, "http", token_of(board)), (network, "https", SECRET)):
            assert 200 == status(post(each, right, scheme=scheme))
            each.wait_for_log("takes the records of trainings")  # since somebody attends
            log, sizes = each.log, []
            for _ in range(ROUNDS):
                answers = Counter(
                    status(post(each, secrets.token_urlsafe(), scheme=scheme)) for _ in range(GUESSES // 4)
                )
                assert {403: GUESSES // 4} == answers
                sizes.append(psutil.Process(each.process.pid).memory_info().rss)
            assert 200 == status(post(each, right, scheme=scheme))
            assert log == each.log
            assert sizes[-1] - sizes[0] < MOST_GROWTH_BYTES


def test_guesses_at_the_page_wait_apart(tmp_path: Path) -> None:
    """So many are held back, the next is refused at once, and the right token works beside them."""
    with TensorBoard("--logdir", str(tmp_path), preamble=PATIENT) as board, ExitStack() as stack:
        right = token_of(board)
        guesses = [stack.enter_context(post(board, secrets.token_urlsafe())) for _ in range(MOST_GUESSES + 1)]
        answered = select.select(guesses, [], [])[0]
        assert [403] == [status(each) for each in answered]
        assert 403 == status(post(board, secrets.token_urlsafe()))
        assert 200 == status(post(board, right))
        assert 200 == board.get("runs").status
        board.kill()
