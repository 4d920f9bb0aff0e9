"""Keeps a client's attendance alive at the hub: a paused run resumes when no client attends."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from types import TracebackType

from tb_netdebug.debugger.client.client import Client, ClientError, ListedTraining

# The hub drops a client that has not attended for ten seconds.
EVERY_SECS = 2.0
CLOSE_SECS = 5.0


class Attendance:
    """Attends from a thread of its own; a context manager for clients.

    `complain` is called on that thread: with a sentence when the hub is lost, and with None when it is back.
    """

    def __init__(self, client: Client, complain: Callable[[str | None], None]) -> None:
        self._client = client
        self._complain = complain
        self._keys: tuple[str, ...] = ()
        self._trouble: str | None = None
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._run, name="netdebug-attending", daemon=True)

    def attend(
        self, keys: Sequence[str], *, take: str | None = None, release: str | None = None
    ) -> list[ListedTraining]:
        """Attend these sessions from now on; raise ClientError if the hub refuses."""
        self._keys = tuple(keys)
        return self._client.attend(self._keys, take=take, release=release)

    def __enter__(self) -> Attendance:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop attending at once, so that the hub does not wait for a client that is gone."""
        self._closing.set()
        self._thread.join(CLOSE_SECS)
        if self._keys and self._trouble is None:
            try:
                self._client.attend(())
            except ClientError as refused:
                self._complain(str(refused))

    def _run(self) -> None:
        while not self._closing.wait(EVERY_SECS):
            if self._keys:
                self._renew()

    def _renew(self) -> None:
        before, self._trouble = self._trouble, None
        try:
            self._client.attend(self._keys)
        except ClientError as error:
            self._trouble = str(error)
        if (before is None) != (self._trouble is None) and not self._closing.is_set():
            self._complain(self._trouble)
