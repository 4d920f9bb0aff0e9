"""What our page does with the debugger's routes, without a browser."""

from __future__ import annotations

import http.client
import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from tests.support.streamed import wait_for
from tests.support.tensorboard_process import OURS, Reply, TensorBoard

TOKEN = re.compile(r'<meta name="netdebug-token" content="([\w-]{43})" />')


def token_of(board: TensorBoard) -> str:
    (found,) = TOKEN.findall(board.get("index.html").body.decode())
    return str(found)


class HubPage:
    """A client of that TensorBoard's hub; `call` and `attend` fail for what is refused, `post` does not."""

    def __init__(self, board: TensorBoard, client: str = "a" * 16, label: str = "Anna") -> None:
        self.board = board
        self.client = client
        self.label = label
        self._token = token_of(board)

    def post(self, route: str, **body: Any) -> Reply:
        with self.posted(route, **body) as response:
            headers = {name.lower(): value for name, value in response.getheaders()}
            return Reply(response.status, headers, response.read())

    @contextmanager
    def posted(self, route: str, **body: Any) -> Iterator[http.client.HTTPResponse]:
        """The answer, before it is read."""
        host = f"localhost:{self.board.port}"
        connection = http.client.HTTPConnection(self.board.host, self.board.port, timeout=60)
        headers = {
            "Host": host,
            "Origin": f"http://{host}",
            "Content-Type": "application/json",
            "X-NetDebug-Token": self._token,
        }
        try:
            connection.request("POST", OURS + route, json.dumps({"client": self.client, **body}), headers)
            with connection.getresponse() as response:
                yield response
        finally:
            connection.close()

    def sessions(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self.board.json("debugger/sessions")["sessions"]
        return found

    def key(self, count: int = 1) -> str:
        """That of the first session by rank, once so many are connected."""
        wait_for(lambda: sum(each["is_connected"] for each in self.sessions()) == count)
        return str(min(self.sessions(), key=lambda each: each["session"]["rank"])["key"])

    def entry(self, key: str) -> dict[str, Any]:
        (found,) = [each for each in self.sessions() if each["key"] == key]
        return found

    def attend(self, *keys: str, **wishes: Any) -> list[dict[str, Any]]:
        reply = self.post("debugger/attend", label=self.label, sessions=list(keys), **wishes)
        assert 200 == reply.status, reply.body
        found: list[dict[str, Any]] = reply.json()["sessions"]
        return found

    def call(self, key: str, verb: str, **arguments: Any) -> Any:
        reply = self.post("debugger/call", session=key, verb=verb, arguments=arguments)
        assert 200 == reply.status, reply.body
        return reply.json()["value"]
