"""A real training with its debugger, behind each of the doors that strangers can reach.

`PageDoors` has a TensorBoard: requests come to its routes, and streams to its collector. `AgentDoor` has an
agent that is led to a collector whose answers make no sense. Both check that nobody was hurt: the training
goes on and can be steered, an honest agent is served, memory is bounded, and nothing has raised.
"""

from __future__ import annotations

import json
import random
import re
import socket
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from pathlib import Path
from types import TracebackType

from tb_netdebug.core.records.visible import visible_lines
from tests.support.collector_process import TOKEN, CollectorProcess
from tests.support.crowd import cost
from tests.support.door_fuzz import agent_stream, page_request
from tests.support.hostile_collector import HostileCollector
from tests.support.hub_page import HubPage, token_of
from tests.support.stream_peer import Agent, Peer
from tests.support.streamed import Home, wait_for
from tests.support.tensorboard_process import TensorBoard
from tests.support.told_training import ToldTraining

AT_ONCE = 4
# Sentences that the routes have; everything else is a fault of ours.
ANSWERS = frozenset({200, 400, 403, 404, 405, 409, 411, 413, 415, 422, 431, 501, 503, 504})
CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"
ENDS = frozenset({"OK", "INVALID_ARGUMENT", "RESOURCE_EXHAUSTED", "UNAVAILABLE"})
SURPRISE = re.compile(r"Traceback|Error on request|Exception")
# Both are far below what is sent, and far above what any number of strangers costs that come one by one.
MOST_GROWTH_BYTES, MOST_AGENT_GROWTH_BYTES = 256 << 20, 80 << 20


class PageDoors:
    def __init__(self, folder: Path) -> None:
        self._stack = ExitStack()
        self._folder = folder
        token = folder / "token"
        token.write_text(TOKEN)
        token.chmod(0o600)
        home = self._stack.enter_context(Home())
        flags = ("--logdir", str(folder / "there"), "--netdebug_listen", ":0", "--netdebug_token_file")
        self.board = self._stack.enter_context(TensorBoard(*flags, str(token), env=home.env))
        self.training = self._stack.enter_context(ToldTraining(home, folder / "far"))
        self.page = HubPage(self.board)
        self.key = self.page.key()
        self.address = self.board.wait_for_log(r"takes the records of trainings at (\S+?)[.,]?\s")[1]
        self._peer = self._stack.enter_context(Peer())
        self.check()
        self._bytes = cost(self.board.process.pid)[0]

    def __enter__(self) -> PageDoors:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.__exit__(kind, error, trace)

    def ask(self, seed: int, requests: int) -> Counter[int]:
        """Send so many requests, and count the answers; 0 is none, which only half a request gets."""
        token, host = token_of(self.board), f"localhost:{self.board.port}"
        with ThreadPoolExecutor(AT_ONCE) as asking:
            rngs = [random.Random(seed * AT_ONCE + number) for number in range(AT_ONCE)]
            sent = [
                asking.submit(self._answer, page_request(rngs[at % AT_ONCE], host, token, self.key))
                for at in range(requests)
            ]
            return Counter(each.result() for each in sent)

    def stream(self, seed: int, streams: int) -> Counter[str]:
        """Be so many agents, one after the other, and count how each stream ends."""
        rng, ends = random.Random(seed), Counter[str]()
        for _ in range(streams):
            stream = self._peer.stream(self.address)
            stream.send(*agent_stream(rng))
            stream.say_nothing_more()
            ends[stream.end()[0]] += 1
        assert ends.keys() <= ENDS, ends
        return ends

    def check(self) -> None:
        """Raises AssertionError when somebody was hurt."""
        assert None is self.training.process.poll()
        self._steer()
        self._send_honestly()
        for row in self.page.sessions():
            json.dumps(row, allow_nan=False)

    def finish(self) -> None:
        """The training ends well, and neither it nor TensorBoard was surprised by anything."""
        self.check()
        assert self.training.end()
        assert not SURPRISE.search(self.training.said), self.training.said
        assert not SURPRISE.search(self.board.log), self.board.log
        assert self.growth < MOST_GROWTH_BYTES

    @property
    def growth(self) -> int:
        """By how many bytes TensorBoard has grown, at its biggest."""
        return cost(self.board.process.pid)[0] - self._bytes

    # ---- parts

    def _answer(self, request: bytes) -> int:
        with socket.create_connection((self.board.host, self.board.port), timeout=60) as connection:
            found = b""
            with suppress(ConnectionError):  # it may be refused before all of it was sent
                connection.sendall(request)
                connection.shutdown(socket.SHUT_WR)
                while piece := connection.recv(1 << 16):
                    found += piece
        if not found:
            return 0
        head, _, body = found.replace(CONTINUE, b"").partition(b"\r\n\r\n")
        status = int(head.split()[1]) if head.startswith(b"HTTP/") else 400  # as HTTP/0.9 is answered
        assert status in ANSWERS, (request, found)
        if b"application/json" in head:
            json.loads(body)
        return status

    def _steer(self) -> None:
        """As somebody at the page does who wants the training to go on."""
        self.page.attend(self.key, take=self.key)
        state = self.page.entry(self.key)["state"]
        for each in state["breakpoints"]:
            self.page.call(self.key, "remove_breakpoint", id=each["id"])
        for each in state["watchpoints"]:
            self.page.call(self.key, "remove_watchpoint", id=each["id"])
        assert "paused" == self.page.call(self.key, "pause")["status"]
        assert "running" == self.page.call(self.key, "continue")["status"]
        self.training.wait_for_more()

    def _send_honestly(self) -> None:
        agent = Agent(self._peer.stream(self.address), random.randbytes(16).hex())
        agent.greet()
        agent.begin("honest", agent.name)
        agent.offer()
        agent.chunk(b"as it should be", at=0)
        agent.acknowledged(15)
        agent.stream.say_nothing_more()
        assert "OK" == agent.stream.end()[0]


class AgentDoor:
    """`suffer`, then `finish`."""

    def __init__(self, folder: Path, seed: int) -> None:
        self._stack = ExitStack()
        self._folder = folder
        self._home = self._stack.enter_context(Home())
        self._hostile = self._stack.enter_context(HostileCollector(seed))
        address = self._hostile.address
        self.training = self._stack.enter_context(
            ToldTraining(self._home, folder / "far", debugger=address, remote=address)
        )
        self.agent = self._home.agent()
        self.suffer(1)  # with gRPC it is there
        self._bytes = cost(self.agent)[0]

    def __enter__(self) -> AgentDoor:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.__exit__(kind, error, trace)

    def suffer(self, streams: int) -> dict[str, int]:
        """Until the agent has come so often."""
        wait_for(lambda: self._hostile.facts()["streams"] >= streams, secs=60.0 + streams)
        return self._hostile.facts()

    def finish(self) -> None:
        """An honest collector gets all of it from the same agent, and the training ends well."""
        assert self.growth < MOST_AGENT_GROWTH_BYTES
        self._hostile.kill()
        there = self._folder / "there"
        with CollectorProcess(there, at=self._hostile.address) as collector:
            wait_for(collector.trainers)
            self.training.wait_for_more()
            assert [self.agent] == self._home.agents()
            assert self.training.end()
            wait_for(lambda: not self._home.notes())
        told = self.training.said + self._home.logs()
        assert not SURPRISE.search(told), told
        assert visible_lines(told) == told
        (original,) = (self.training.logdir / "run").glob("events.*.netdebug")
        assert original.read_bytes() == (there / "run" / original.name).read_bytes()

    @property
    def growth(self) -> int:
        """By how many bytes the agent has grown, at its biggest."""
        return cost(self.agent)[0] - self._bytes
