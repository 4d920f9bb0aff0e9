"""A server of gRPC in the place of a collector, whose answers make no sense; in a process of its own.

with HostileCollector(seed) as hostile:
    hostile.address       # agents come again and again
    hostile.facts()       # how many streams they have opened
"""

from __future__ import annotations

import random
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from tests.support.door_fuzz import collector_stream
from tests.support.spoken_to import SpokenTo, listen

MOST_AT_ONCE = 8


class HostileCollector(SpokenTo):
    def __init__(self, seed: int, at: str = "127.0.0.1:0") -> None:
        super().__init__(__file__)
        self.address: str = self.do("start", seed, at)

    def facts(self) -> dict[str, int]:
        found: dict[str, int] = self.do("facts")
        return found


class _Program:
    """The other side."""

    def __init__(self) -> None:
        self.streams = self.messages = 0

    def start(self, seed: int, at: str) -> str:
        import grpc

        self.random = random.Random(seed)
        self.ends = list(grpc.StatusCode)[1:6]  # none by which a token is refused
        handler = grpc.stream_stream_rpc_method_handler(self._talk)
        self.server = grpc.server(
            ThreadPoolExecutor(MOST_AT_ONCE),
            handlers=[grpc.method_handlers_generic_handler("netdebug.Stream", {"Connect": handler})],
        )
        port = self.server.add_secure_port(at, grpc.local_server_credentials())
        self.server.start()
        return f"127.0.0.1:{port}"

    def _talk(self, messages: Any, context: Any) -> Any:
        """Ends in any way, after a while or at once, if the agent does not end it."""
        self.streams += 1
        for data in collector_stream(self.random):
            self.messages += 1
            yield data
        if self.random.random() < 0.5:
            threading.Event().wait(self.random.uniform(0.0, 0.5))
        if self.random.random() < 0.4:
            context.abort(self.random.choice(self.ends), "\u202e\x1b[2J no " * 20)

    def facts(self) -> dict[str, int]:
        return {"streams": self.streams, "messages": self.messages}


if __name__ == "__main__":
    listen(_Program())
