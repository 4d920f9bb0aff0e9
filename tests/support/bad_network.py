"""A way to a collector on which things happen: a relay, a process of its own, cuts, holds up and damages."""

from __future__ import annotations

import random
import selectors
import socket
import threading
import time
from collections.abc import Mapping

from tests.support.spoken_to import SpokenTo, listen

READ_BYTES = 1 << 16


class BadNetwork(SpokenTo):
    """`address` leads to `target` for as long as nothing else is said."""

    def __init__(self, target: str, env: Mapping[str, str] | None = None) -> None:
        super().__init__(__file__, env=env)
        self.address: str = self.do("start", target)

    def cut(self) -> int:
        """Ends all connections; how many there were. New ones are taken."""
        return int(self.do("cut"))

    def hold(self, secs: float) -> None:
        """For so long nothing is carried, in neither direction, and nobody is told."""
        self.do("hold", secs)

    def slow(self, bytes_per_sec: float) -> None:
        self.do("slow", bytes_per_sec)

    def damage(self, every_bytes: int) -> None:
        """On the way to the collector a bit is turned in about every so many bytes; 0 stops it."""
        self.do("damage", every_bytes)

    @property
    def connections(self) -> int:
        """So far."""
        return int(self.do("count"))


class _Program:
    """The other side."""

    def __init__(self) -> None:
        self.pairs: dict[socket.socket, socket.socket] = {}
        self.taken = 0
        self.held_until = 0.0
        self.bytes_per_sec = 0.0
        self.every_bytes = 0
        self.lock = threading.Lock()
        self.random = random.Random(1)

    def start(self, target: str) -> str:
        host, _, port = target.rpartition(":")
        self.target = (host, int(port))
        self.server = socket.create_server(("127.0.0.1", 0))
        threading.Thread(target=self._accept, daemon=True).start()
        threading.Thread(target=self._carry, daemon=True).start()
        return "{}:{}".format(*self.server.getsockname())

    def cut(self) -> int:
        with self.lock:
            ends, self.pairs = list(self.pairs), {}
            for end in ends:
                end.close()
        return len(ends) // 2

    def hold(self, secs: float) -> None:
        self.held_until = time.monotonic() + secs

    def slow(self, bytes_per_sec: float) -> None:
        self.bytes_per_sec = bytes_per_sec

    def damage(self, every_bytes: int) -> None:
        self.every_bytes = every_bytes

    def count(self) -> int:
        return self.taken

    def _accept(self) -> None:
        while True:
            agent, _ = self.server.accept()
            try:
                collector = socket.create_connection(self.target)
            except OSError:
                agent.close()
                continue
            with self.lock:
                self.taken += 1
                self.pairs[agent], self.pairs[collector] = collector, agent
                self.outward = {end for end in self.pairs if end.getsockname() == self.server.getsockname()}

    def _carry(self) -> None:
        while True:
            if time.monotonic() < self.held_until:
                time.sleep(0.01)
                continue
            with self.lock:
                ready = readable(list(self.pairs))
                for end in ready:
                    self._pass_on(end)
            time.sleep(0.0005)

    def _pass_on(self, end: socket.socket) -> None:
        other = self.pairs.get(end)
        if other is None:
            return
        try:
            data = end.recv(READ_BYTES if not self.bytes_per_sec else 4096)
            if data:
                other.sendall(self._damaged(data) if end in self.outward else data)
                if self.bytes_per_sec:
                    time.sleep(len(data) / self.bytes_per_sec)
                return
        except OSError:
            pass  # one of the two is gone; so both are
        for each in (end, other):
            self.pairs.pop(each, None)
            each.close()

    def _damaged(self, data: bytes) -> bytes:
        if not self.every_bytes or self.random.random() > len(data) / self.every_bytes:
            return data
        place = self.random.randrange(len(data))
        return data[:place] + bytes([data[place] ^ 1 << self.random.randrange(8)]) + data[place + 1 :]


def readable(ends: list[socket.socket]) -> list[socket.socket]:
    with selectors.DefaultSelector() as selector:
        for end in ends:
            selector.register(end, selectors.EVENT_READ)
        return [key.fileobj for key, _ in selector.select(0.01)] if ends else []  # type: ignore[misc]


if __name__ == "__main__":
    listen(_Program())
