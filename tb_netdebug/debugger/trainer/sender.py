"""Sends a session's messages and answers, some of which are owed until the run stops."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from tb_netdebug.debugger.protocol.messages import FrameError, encoded

# A hub makes a few calls at a time; they are gone through at each place that the run passes.
MOST_OWED = 256


@dataclass(slots=True)
class Owed:
    """The answer to a call that waits for the run to stop."""

    id: int
    until: float


class MessageSender:
    """Sends messages. `send` takes frames; `notice` gets a sentence about what could not be sent."""

    def __init__(
        self, send: Callable[[bytes], bool], notice: Callable[[str], None], clock: Callable[[], float]
    ) -> None:
        self._send = send
        self._notice = notice
        self._clock = clock
        self._owed: list[Owed] = []

    def tell(self, message: str, /, **fields: Any) -> None:
        try:
            self._send(encoded(message, **fields))
        except (FrameError, TypeError, ValueError) as error:
            self._notice(f"the debugger's message could not be sent: {error}")

    def answer(self, id: int, answer: Any) -> None:
        """Send an answer: a value, or a pair of a value and its attachment."""
        value, attachment = answer if isinstance(answer, tuple) else (answer, b"")
        try:
            self._send(encoded("answer", id=id, value=value, attachment=attachment))
        except (FrameError, TypeError, ValueError) as error:
            self.fail(id, "failed", f"The answer cannot be sent: {error}.")

    def fail(self, id: int, kind: str, sentence: str) -> None:
        self.tell("answer", id=id, error=sentence, kind=kind)

    # ---- owed answers ------------------------------------------------------------------------------------

    def owe(self, id: int, secs: float) -> None:
        """Owe an answer: it is the state, once the run stops or this time has passed."""
        if len(self._owed) >= MOST_OWED:
            self.fail(id, "busy", "Too many answers are waiting to be sent.")
        else:
            self._owed.append(Owed(id, self._clock() + secs))

    def settle(self, state: Callable[[], Mapping[str, Any]], *, at_once: bool = False) -> None:
        """Send the owed answers that are due; with `at_once`, all of them."""
        if not self._owed:
            return
        now, owed = self._clock(), self._owed
        due = [each for each in owed if at_once or now >= each.until]
        self._owed = [] if at_once else [each for each in owed if now < each.until]
        for each in due:
            self.answer(each.id, state())

    def refuse(self, sentence: str) -> None:
        """Fail all owed answers."""
        owed, self._owed = self._owed, []
        for each in owed:
            self.fail(each.id, "gone", sentence)
