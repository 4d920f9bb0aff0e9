"""Somebody who debugs trainings by HTTP, as `netdebug debug` does, without a terminal."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tb_netdebug.debugger.client.client import ClientError, ListedTraining
from tb_netdebug.debugger.client.http_client import HttpClient
from tb_netdebug.debugger.client.hub_address import HubAddress
from tests.support.streamed import wait_for
from tests.support.tensorboard_process import TensorBoard


class Asker:
    """Attends a training whenever it asks anything of it."""

    def __init__(self, board: TensorBoard) -> None:
        self.client = HttpClient(HubAddress.of(f"127.0.0.1:{board.port}"), label="tests", environ={})

    def meet(self) -> str:
        """Waits for the only training, and attends it."""
        (key,) = self.meet_ranks(1)
        return key

    def meet_ranks(self, count: int) -> list[str]:
        """The same for a training of so many."""
        wait_for(lambda: len(self.connected()) == count)
        keys = [each.key for each in sorted(self.connected(), key=lambda each: each.rank)]
        self.client.attend(keys)
        return keys

    def connected(self) -> list[ListedTraining]:
        return [each for each in self.client.sessions() if each.is_connected]

    def states(self, keys: Sequence[str]) -> list[dict[str, Any]]:
        """Also says that somebody is there."""
        found = {each.key: dict(each.state) for each in self.client.attend(keys)}
        return [found[key] for key in keys]

    def state(self, key: str) -> dict[str, Any]:
        return self.states([key])[0]

    def ask(self, key: str, verb: str, **arguments: Any) -> Any:
        self.client.attend([key])
        return self.client.call(key, verb, **arguments)

    def answers(self, key: str) -> bool:
        try:
            self.ask(key, "hits")
        except ClientError:
            return False
        return True

    def pause(self, key: str) -> dict[str, Any]:
        self.ask(key, "pause", wait=0.0)
        return self.wait_for_pause(key)

    def step(self, key: str, by: str, **arguments: Any) -> dict[str, Any]:
        self.ask(key, "step", by=by, wait=0.0, **arguments)
        return self.wait_for_pause(key)

    def wait_for_pause(self, *keys: str) -> dict[str, Any]:
        """Of all of these; the state of the first."""
        wait_for(lambda: all(each["status"] == "paused" for each in self.states(keys)))
        return self.states(keys)[0]

    def wait_for_reason(self, key: str, text: str) -> dict[str, Any]:
        """Whatever else it pauses for is passed."""

        def is_there() -> bool:
            state = self.state(key)
            if state["status"] == "paused" and text not in state["reason"]["text"]:
                self.ask(key, "continue")
            return state["status"] == "paused" and text in state["reason"]["text"]

        wait_for(is_there)
        return self.state(key)
