"""A session of the debugger without a training: it speaks as one should, and its batches are counted by
whoever has it, or by a thread of its own.

    session = ScriptedSession(send, run="a")     # frames go out by `send`, and come in by `receive`
    session.advance(3)                            # so many batches later

As a program (`DebuggedTraining`) it has a real line to a real hub.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tb_netdebug.debugger.hub.statements import session_of, state_of
from tb_netdebug.debugger.protocol.messages import decoded, encoded
from tb_netdebug.debugger.protocol.verbs import VERBS
from tests.support.spoken_to import SpokenTo, listen
from tests.support.streamed import Home, wait_for

PIECE = 1 << 20


class ScriptedSession:
    """`silent` are verbs that it never answers; `asked` has all calls, `leases` all leases."""

    def __init__(
        self, send: Callable[[bytes], object], *, run: str = "run", rank: int = 0, world_size: int = 1,
        group: str = "", pid: int = 1, size: int = 0, silent: tuple[str, ...] = (),
    ) -> None:  # fmt: skip
        self.about: dict[str, Any] = {
            **session_of({}), "run": run.split("/"), "run_dir": f"/far/{run}", "rank": rank,
            "world_size": world_size, "group": group, "pid": pid, "host": "box", "program": "train.py",
            "framework": "pytorch", "models": {"model": "Net"}, "can": ["batch", "layer"],
        }  # fmt: skip
        self.step = 0
        self.is_paused = False
        self.goal: int | None = None
        self.breakpoints: dict[int, dict[str, Any]] = {}
        self.rate = 0.1
        self.asked: list[dict[str, Any]] = []
        self.leases: list[int] = []
        self.greetings = 0
        self.size = size
        self.silent = silent
        self._next_id = 1
        self._version = 0
        self._send = send
        self._lock = threading.RLock()

    # ---- frames

    def connected(self) -> None:
        self.greetings += 1
        self._send(encoded("hello", protocol=1, session=self.about, state=self.state()))

    def receive(self, data: bytes) -> None:
        head = decoded(data).head
        with self._lock:
            if head["type"] == "lease":
                self.leases.append(head["clients"])
            else:
                self.asked.append(dict(head))
                if head["verb"] not in self.silent:
                    self._answer(dict(head))

    def tell(self) -> None:
        self._send(encoded("state", state=self.state()))

    def leave(self) -> None:
        self._send(encoded("bye"))

    def state(self) -> dict[str, Any]:
        self._version += 1
        return {
            **state_of({}), "version": self._version, "status": "paused" if self.is_paused else "running",
            "is_attached": bool(self.leases and self.leases[-1]), "step": self.step, "lease_secs": 15.0,
            "is_waiting": self.goal is not None, "loss": "NaN",
            "breakpoints": list(self.breakpoints.values()),
            "learning_rates": [{"optimizer": 0, "group": 0, "name": "SGD", "value": self.rate}],
        }  # fmt: skip

    # ---- the training

    def advance(self, batches: int = 1) -> None:
        """Up to the batch at whose end it is to stop."""
        with self._lock:
            for _ in range(batches):
                if self.is_paused:
                    break
                self.is_paused = self.goal is not None and self.step >= self.goal
                self.step += not self.is_paused
                self.goal = None if self.is_paused else self.goal
            self.tell()

    # ---- verbs

    def _answer(self, head: dict[str, Any]) -> None:
        if head["verb"] == "bytes":
            self._send(self._bytes(head["id"], **head["arguments"]))
            return
        try:
            value = getattr(self, f"_{head['verb']}", self._anything)(**head["arguments"])
        except LookupError as error:
            self._send(encoded("answer", id=head["id"], error=str(error.args[0]), kind=_kind(error)))
            return
        if VERBS[head["verb"]].steers:
            self.tell()
        self._send(encoded("answer", id=head["id"], value=value))

    def _anything(self, **arguments: Any) -> Any:
        return {"heard": arguments}

    def _pause(self, step: int | None, wait: float) -> Any:
        if step is not None and step < self.step:
            raise TooLate(f"Batch {step} is over.")
        self.goal = step if not self.is_paused else None
        self.is_paused |= step is None
        return self.state()

    def _continue(self) -> Any:
        self.is_paused, self.goal = False, None
        return self.state()

    def _step(self, **arguments: Any) -> Any:
        return self.state()

    _run_to = _step

    def _detach(self) -> Any:
        return self._continue()

    def _set_breakpoint(self, id: int | None, **wanted: Any) -> Any:
        if id is None:
            id, self._next_id = self._next_id, self._next_id + 1
        elif id not in self.breakpoints:
            raise KeyError(f"There is no breakpoint {id}.")
        self.breakpoints[id] = {"id": id, **wanted, "hits": 0}
        return self.breakpoints[id]

    def _remove_breakpoint(self, id: int) -> None:
        if self.breakpoints.pop(id, None) is None:
            raise KeyError(f"There is no breakpoint {id}.")

    def _set_learning_rate(self, optimizer: int, group: int | None, value: float) -> Any:
        self.rate = value
        return self.state()["learning_rates"]

    def _hits(self, since: int, most: int) -> Any:
        return []

    def _bytes(self, number: int, name: str, slice: str | None, offset: int, most: int) -> bytes:
        """Each piece is of one letter, made when it is wanted."""
        count = min(most, self.size - offset)
        value = {
            "size": self.size, "dtype": "uint8", "shape": [self.size], "offset": offset,
            "is_last": offset + count == self.size,
        }  # fmt: skip
        return encoded("answer", id=number, value=value, attachment=bytes([offset // PIECE % 251]) * count)


class TooLate(LookupError):  # noqa: N818  # it says what happened
    """A batch that is over."""


def _kind(error: LookupError) -> str:
    return "gone" if isinstance(error, TooLate) else "refused"


class DebuggedTraining(SpokenTo):
    """In a process of its own, with a line to a hub; without a `target` it finds the one of this machine.
    `rate` batches a second. It `shares` a link by which its records go to the target."""

    def __init__(
        self, home: Home, run_dir: Path, target: str | None = None, *, rate: float = 0.0,
        shares: bool = False, **about: Any,
    ) -> None:  # fmt: skip
        super().__init__(__file__, env=home.env)
        self.do("open", target, str(run_dir), rate, shares, about)

    def facts(self) -> dict[str, Any]:
        found: dict[str, Any] = self.do("facts")
        return found

    def wait_until_connected(self, times: int = 1) -> None:
        wait_for(lambda: self.facts()["greetings"] >= times)


class _Program:
    """The other side."""

    def __init__(self) -> None:
        self.told: list[str] = []
        self.ending = threading.Event()
        self.line: Any = None

    def open(
        self, target: str | None, run_dir: str, rate: float, shares: bool, about: dict[str, Any]
    ) -> None:
        from tb_netdebug.transport.control_line import ControlLine

        self.session = ScriptedSession(lambda data: self.line.send(data), pid=os.getpid(), **about)
        self.session.about["run_dir"] = run_dir
        starting = threading.RLock()  # the thread of a link waits; one that is connected already says so here
        early: list[bool] = []

        def connected() -> None:
            with starting:
                if self.line is None:
                    early.append(True)
                else:
                    self.session.connected()

        with starting:
            self.line = ControlLine.start(
                target,
                run_dir=Path(run_dir),
                run=self.session.about["run"],
                rank=self.session.about["rank"],
                notice=self.told.append,
                on_control=self.session.receive,
                on_connected=connected,
                link=self._link(target, run_dir) if shares and target else None,
            )
            if early:
                self.session.connected()
        if rate:
            threading.Thread(target=self._run, args=(rate,), daemon=True).start()

    def _link(self, target: str, run_dir: str) -> Any:
        from tb_netdebug.transport.link import Link

        return Link.start(
            remote=target,
            run_dir=Path(run_dir),
            run=self.session.about["run"],
            rank=0,
            is_spool=False,
            takes_control=True,
            notice=self.told.append,
        )

    def _run(self, rate: float) -> None:
        began = time.monotonic()
        while not self.ending.wait(0.05):
            due = int(rate * (time.monotonic() - began))
            began += due / rate
            self.session.advance(due)

    def facts(self) -> dict[str, Any]:
        session = self.session
        return {
            "step": session.step,
            "is_paused": session.is_paused,
            "leases": session.leases,
            "asked": [each["verb"] for each in session.asked],
            "arguments": [each["arguments"] for each in session.asked],
            "greetings": session.greetings,
            "breakpoints": session.breakpoints,
            "told": self.told,
            "threads": [each.name for each in threading.enumerate()],
            "imports": [name for name in ("grpc", "asyncio") if name in sys.modules],
        }

    def leave(self) -> None:
        self.session.leave()
        self.line.close()

    def fork(self) -> bool:
        """Whether a forked child can say something, and close what is not its own."""
        child = os.fork()
        if child == 0:
            heard = self.line.send(b"from a child")
            self.line.close()
            os._exit(int(heard))
        return bool(os.waitpid(child, 0)[1])


if __name__ == "__main__":
    listen(_Program())
