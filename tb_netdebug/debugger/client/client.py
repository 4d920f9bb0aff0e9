"""The side that asks: what a terminal needs of a hub, or of a session in its own process."""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

Json = Mapping[str, Any]


class ClientError(Exception):
    """What was asked for could not be had; a sentence for the person who asked."""


class TrainingGoneError(ClientError):
    """There is no such training any more."""


class NotHeldError(ClientError):
    """Another client has the controls; says who."""


class UnreachableError(ClientError):
    """Nobody answers at this address, or nobody who has a debugger. It may be worth another try."""


@dataclass(frozen=True, slots=True)
class ListedTraining:
    """An entry in the list of a hub; `session` and `state` are as README.md says."""

    key: str
    session: Json
    state: Json
    holder: Json | None = None
    clients: int = 0
    is_connected: bool = True

    @classmethod
    def of(cls, told: Any) -> ListedTraining:
        """Raises ClientError for what is no such entry."""
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
                "The hub tells of a training in words that this version does not know."
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
    """All methods raise ClientError. Safe from several threads."""

    @property
    def id(self) -> str: ...

    @property
    def epoch(self) -> str:
        """Of the list that came last; another one after each start of the hub."""

    def sessions(self) -> list[ListedTraining]:
        """Those that can be debugged here."""

    def attend(
        self, sessions: Sequence[str], *, take: str | None = None, release: str | None = None
    ) -> list[ListedTraining]:
        """Somebody is there for these; to be said again within ten seconds, else it counts as gone."""

    def call(self, session: str, verb: str, /, **arguments: Any) -> Any:
        """The value of the verb."""

    def download(self, session: str, name: str, *, slice_text: str | None = None) -> Iterator[bytes]:
        """A tensor as the bytes of a `.npy` file, piece by piece."""


def new_id() -> str:
    """As a hub wants clients to be called."""
    return secrets.token_hex(16)
