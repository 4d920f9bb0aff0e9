"""The client of a session in the same process: exchanges frames with it, without a hub between."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

from tb_netdebug.debugger.client.client import ClientError, ListedTraining, TrainingGoneError, new_id
from tb_netdebug.debugger.hub.calls import Call, CallError
from tb_netdebug.debugger.protocol.messages import Frame, FrameError, decoded, encoded
from tb_netdebug.debugger.protocol.verbs import VERBS

KEY = "local"
# There is no connection that could be lost, and a process that was stopped by Ctrl-Z comes back.
LEASE_SECS = 120.0
ANSWER_SECS = 30.0
# Beyond the wait of a verb that waits.
SLACK_SECS = 1.0
PIECE_BYTES = 1 << 20


class LocalClient:
    """A client without a hub. Sessions may follow each other; the newest is the one that is there.

    `take` is the session's `send`; `listen` sets where frames go.
    """

    def __init__(self) -> None:
        self.id = new_id()
        self.epoch = "local"
        self._news = threading.Condition()
        self._receive: Callable[[bytes], None] | None = None
        self._training: ListedTraining | None = None
        self._calls: dict[int, Call] = {}
        self._numbers = itertools.count(1)

    # ---- the session's side --------------------------------------------------------------------------------

    def listen(self, receive: Callable[[bytes], None]) -> None:
        with self._news:
            self._receive = receive

    def take(self, data: bytes) -> bool:
        """Take a frame of the session, from any thread; return whether it was one."""
        try:
            frame = decoded(data)
        except FrameError:
            return False
        with self._news:
            self._taken(frame)
            self._news.notify_all()
        return True

    def wait_for_session(self, secs: float) -> bool:
        """Wait for a session; return whether one has come in time."""
        with self._news:
            return self._news.wait_for(lambda: self._training is not None, secs)

    def _taken(self, frame: Frame) -> None:
        if frame.type == "hello":
            holder = {"client": self.id, "label": "here"}
            self._training = ListedTraining(
                KEY, frame.head["session"], frame.head["state"], holder, clients=1
            )
        elif frame.type == "state" and self._training is not None:
            self._training = replace(self._training, state=frame.head["state"])
        elif frame.type == "answer":
            self._answered(frame)
        elif frame.type == "bye" and self._training is not None:
            self._training = replace(self._training, state={**self._training.state, "status": "over"})

    def _answered(self, frame: Frame) -> None:
        call = self._calls.pop(frame.head["id"], None)
        if call is None:
            return
        if frame.head.get("error") is not None:
            call.fail(str(frame.head.get("kind")), str(frame.head["error"]))
        else:
            call.succeed(frame.head.get("value"), frame.attachment)

    # ---- the client's side ---------------------------------------------------------------------------------

    def sessions(self) -> list[ListedTraining]:
        with self._news:
            return [] if self._training is None else [self._training]

    def attend(
        self, sessions: Sequence[str], *, take: str | None = None, release: str | None = None
    ) -> list[ListedTraining]:
        self._send(encoded("lease", clients=len(sessions), secs=LEASE_SECS))
        return self.sessions()

    def call(self, session: str, verb: str, /, **arguments: Any) -> Any:
        return self._ask(verb, arguments).value

    def download(self, session: str, name: str, *, slice_text: str | None = None) -> Iterator[bytes]:
        offset, is_last = 0, False
        while not is_last:
            wanted = {"name": name, "slice": slice_text, "offset": offset, "most": PIECE_BYTES}
            answer = self._ask("bytes", wanted)
            yield answer.attachment
            offset += len(answer.attachment)
            is_last = bool(answer.value["is_last"])

    def _ask(self, verb: str, arguments: dict[str, Any]) -> Call:
        with self._news:
            call = Call(next(self._numbers), verb)
            self._calls[call.number] = call
        self._send(encoded("call", id=call.number, client=self.id, verb=verb, arguments=arguments))
        is_waiting = verb in VERBS and VERBS[verb].waits
        secs = float(arguments.get("wait", 1.0)) + SLACK_SECS if is_waiting else ANSWER_SECS
        if not call.wait(secs):
            self._calls.pop(call.number, None)
            if not is_waiting or self._training is None:
                raise ClientError("The run did not answer in time.")
            # As the hub does: without an answer in time, the newest state is the answer.
            call.succeed(self._training.state)
        try:
            call.result()
        except CallError as error:
            raise (TrainingGoneError if error.kind == "gone" else ClientError)(str(error)) from None
        return call

    def _send(self, data: bytes) -> None:
        if self._receive is None:
            raise TrainingGoneError("Nothing was started yet.")
        self._receive(data)
