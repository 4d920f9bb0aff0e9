"""A session of the debugger in this process: a thread passes the places of its batches, a client asks."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from tb_netdebug.debugger.client.local_client import KEY, LocalClient
from tb_netdebug.debugger.place import BACKWARD, Place
from tb_netdebug.debugger.trainer.session import Session
from tb_netdebug.debugger.workbench import NOTHING
from tests.support.debugger_bench import ArrayBench, batch, bench_of
from tests.support.streamed import wait_for

LAYERS = ("encoder.0", "encoder.1", "head")


class Clock:
    """Time that passes when it is told to."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


class Debugged:
    """`passed` are all places so far; the training's thread ends with `stop`."""

    def __init__(
        self, bench: ArrayBench | None = None, *, layers: Sequence[str] = LAYERS, **about: Any
    ) -> None:
        self.client = LocalClient()
        self.clock = Clock()
        self.step = 0
        self.batch_secs = 0.0
        self.said: list[str] = []
        self.held: list[float] = []
        self.passed: list[tuple[int, str, str | None]] = []
        self.bench = bench or bench_of(
            weight={"head.weight": [[1.0, -2.0], [3.0, 0.0]]},
            gradient={"encoder.0.weight": [0.5, 0.25], "head.weight": [[4.0, 1.0], [0.0, 2.0]]},
        )
        self.session = Session(
            {"run": ["r"], "rank": 0, "world_size": 1, "group": "g", **about},
            send=self.client.take,
            step_of=lambda: self.step,
            notice=self.said.append,
            resumed=self.held.append,
            snapshot=lambda: "capsules/step.pt",
            clock=self.clock,
        )
        self.client.listen(self.session.receive)
        self._layers = layers
        self._enough = threading.Event()
        self._gate = threading.Semaphore(0)
        self._thread = threading.Thread(target=self._train, name="training")

    def start(self, *, pauses: bool = False) -> None:
        self.session.open(self.bench)
        self.session.connected()
        self._pauses_at_start = pauses
        self._thread.start()

    def stop(self) -> None:
        self._enough.set()
        self.session.lease.end()
        self.session.close()
        self.session._inbox.rouse()
        self._thread.join(20)
        assert not self._thread.is_alive()

    def attend(self) -> None:
        self.client.attend([KEY])

    def leave(self) -> None:
        self.client.attend([])

    def ask(self, verb: str, **arguments: Any) -> Any:
        return self.client.call(KEY, verb, **arguments)

    @property
    def state(self) -> dict[str, Any]:
        (training,) = self.client.sessions()
        return dict(training.state)

    def wait_until(self, status: str) -> dict[str, Any]:
        wait_for(lambda: self.state["status"] == status)
        return self.state

    def _train(self) -> None:
        if self._pauses_at_start:
            self.session.begin()
        while not self._enough.wait(0.0005):
            for place in batch(self._layers)[:-1]:
                self.passed.append((self.step, place.phase, place.module))
                if self.session.is_alert and self._is_heard(place):
                    self.session.visit(place)
            if self.session.is_alert:
                self.session.end_batch()
            self.step += 1
            self.clock.now += self.batch_secs

    def _is_heard(self, place: Place) -> bool:
        """As hooks are on for what is needed."""
        needs = self.bench.needs or NOTHING
        if place.module is None:
            return needs.phases
        return needs.backward if place.phase == BACKWARD else needs.layers


@contextmanager
def debugged(bench: ArrayBench | None = None, **about: Any) -> Iterator[Debugged]:
    """One that runs and is attended."""
    rig = Debugged(bench, **about)
    rig.start()
    try:
        rig.attend()
        yield rig
    finally:
        rig.stop()


def where(state: dict[str, Any]) -> tuple[str, str | None, str]:
    place = state["place"]
    return place["phase"], place["module"], place["edge"]
