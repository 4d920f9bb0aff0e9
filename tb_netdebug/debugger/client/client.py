"""The interface of a debugger's client: to a hub, or to a session in its own process."""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

Json = Mapping[str, Any]


class ClientError(Exception):
    """The request failed; the text is a sentence for the user."""


class TrainingGoneError(ClientError):
    """The run no longer exists."""


class NotHeldError(ClientError):
    """Another client has the controls; the text names it."""


class UnreachableError(ClientError):
    """Nothing answers at this address, or nothing with a debugger. It may be worth another try."""


@dataclass(frozen=True, slots=True)
class ListedTraining:
    """An entry in the hub's list of sessions; README.md describes `session` and `state`."""

    key: str
    session: Json
    state: Json
    holder: Json | None = None
    clients: int = 0
    is_connected: bool = True

    @classmethod
    def of(cls, told: Any) -> ListedTraining:
        """Parse an entry of the hub; raise ClientError if it is malformed."""
        try:
            return cls(
                key=str(told["key"]),
                session=dict(told["session"]),
                state=dict(told["state"]),
                holder=dict(told["holder"]) if told.get("holder") else None,
                clients=int(told.get("clients", 0)),
                is_connected=bool(told.get("is_connected", True)),
            )
        except (KeyError, TypeError, ValueError, AttributeError):
            raise ClientError(
                "The hub describes a run in a format that this version does not know."
            ) from None

    @property
    def run(self) -> str:
        names = self.session.get("run") or ()
        return names if isinstance(names, str) else "/".join(map(str, names))

    @property
    def rank(self) -> int:
        return int(self.session.get("rank") or 0)

    @property
    def is_paused(self) -> bool:
        return self.state.get("status") == "paused"

    @property
    def is_over(self) -> bool:
        return self.state.get("status") == "over"


class Client(Protocol):
    """A client of the debugger. All methods raise ClientError and are safe from several threads."""

    @property
    def id(self) -> str: ...

    @property
    def epoch(self) -> str:
        """The epoch of the list that came last; each start of the hub has a new one."""

    def sessions(self) -> list[ListedTraining]:
        """Return the sessions that can be debugged here."""

    def attend(
        self, sessions: Sequence[str], *, take: str | None = None, release: str | None = None
    ) -> list[ListedTraining]:
        """Attend these sessions, and no others; must be repeated within ten seconds.

        `take` names a session whose controls the client takes over, `release` one that it gives back.
        """

    def call(self, session: str, verb: str, /, **arguments: Any) -> Any:
        """Call a verb of the session and return its value."""

    def download(self, session: str, name: str, *, slice_text: str | None = None) -> Iterator[bytes]:
        """Yield a tensor as the bytes of a `.npy` file, piece by piece."""


def new_id() -> str:
    """Return a new client id in the form that a hub accepts."""
    return secrets.token_hex(16)
