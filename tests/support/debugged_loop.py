"""A training loop on a thread of this process, with a monitor and its debugger; the client needs no hub."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import tb_netdebug as nd
from tb_netdebug.debugger.client.local_client import KEY, LocalClient
from tests.support.loops import no_warnings
from tests.support.streamed import wait_for

BATCHES = 3


@dataclass
class Loop:
    """`batch` trains one, and returns its loss."""

    models: Mapping[str, nn.Module]
    optimizers: Sequence[torch.optim.Optimizer]
    batch: Callable[[], torch.Tensor]

    def weights(self) -> list[torch.Tensor]:
        return [each for model in self.models.values() for each in model.state_dict().values()]


class Here:
    """In the place of the line to a TensorBoard."""

    def __init__(self, client: LocalClient) -> None:
        self.send = client.take

    def close(self) -> None:
        pass


class DebuggedLoop:
    """Waits before its first batch; what goes wrong in it is in `errors`."""

    def __init__(self, loop: Loop, logdir: Path) -> None:
        self._loop = loop
        self._logdir = logdir
        self._client = LocalClient()
        self.errors: list[BaseException] = []
        self.monitor: Any
        self.thread = threading.Thread(target=self._run, name="training")

    @property
    def state(self) -> dict[str, Any]:
        return dict(self._client.sessions()[0].state)

    def ask(self, verb: str, **arguments: Any) -> Any:
        return self._client.call(KEY, verb, **arguments)

    def step(self, by: str) -> str:
        """Where it is then: "forward head", or "end"."""
        self.ask("step", by=by, wait=0.0)
        self.wait_for_pause()
        place = self.state["place"]
        return " ".join(filter(None, (place["phase"], place["module"])))

    def wait_for_pause(self) -> None:
        wait_for(lambda: self.errors or self.state["status"] == "paused")
        assert [] == self.errors

    def attend(self) -> None:
        assert self._client.wait_for_session(60)
        self._client.attend([KEY])
        self.wait_for_pause()

    def _run(self) -> None:
        try:
            with no_warnings():
                self._train()
        except BaseException as error:
            self.errors.append(error)

    def _train(self) -> None:
        options: dict[str, Any] = {"every": 1, "strict": True, "memory": False, "on_finding": "ignore"}
        loop = self._loop
        with nd.watch(
            loop.models, loop.optimizers, logdir=self._logdir, run="run", debugger=True, **options
        ) as monitor:
            self.monitor = monitor
            debugging: Any = monitor._debugging
            debugging._line.close()
            debugging._line = Here(self._client)
            self._client.listen(debugging.session.receive)
            debugging.session.connected()
            debugging.session.begin()
            for _ in range(BATCHES):
                monitor.step(loss=loop.batch())


@contextmanager
def debugged_loop(loop: Loop, logdir: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[DebuggedLoop]:
    """Paused before its first batch. At the end it has trained all of them."""
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(logdir))  # no TensorBoard is there
    found = DebuggedLoop(loop, logdir)
    found.thread.start()
    try:
        found.attend()
        yield found
    finally:
        found.ask("detach")
        found.thread.join(60)
    assert [] == found.errors
