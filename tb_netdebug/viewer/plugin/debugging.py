"""The debugger's routes: JSON from our page in, calls to training processes out. See debugger/README.md."""

from __future__ import annotations

import re
from collections.abc import Generator, Iterator
from typing import Any

from werkzeug.wrappers import Request, Response

from tb_netdebug.debugger.hub.calls import BUSY, HELD, LATE, UNKNOWN, CallError
from tb_netdebug.debugger.hub.download import Download
from tb_netdebug.debugger.hub.ranks import called
from tb_netdebug.viewer.plugin.live import Seat
from tb_netdebug.viewer.plugin.pacing import body_of
from tb_netdebug.viewer.plugin.queries import QueryError, json_object
from tb_netdebug.viewer.plugin.replies import BINARY, error_reply, json_reply, reply
from tb_netdebug.viewer.plugin.service import Service

STATUSES = {UNKNOWN: 404, HELD: 409, BUSY: 503, LATE: 504}
NO_ANSWER = 422
RETRY_SECS = 2
MOST_KEYS = 1000
MOST_LABEL_LETTERS = 80
LONGEST_NAME = 2000
_CLIENT = re.compile(r"[A-Za-z0-9-]{16,64}", re.ASCII)


def sessions(service: Service, request: Request) -> Response:
    service.attend()
    return json_reply(request, _listed(service, service.sessions.rows()))


def attend(service: Service, request: Request) -> Response:
    service.attend()
    asked = _asked(request, "label", "sessions", "take", "release")
    rows = service.sessions.attend(
        _client(asked),
        _label(asked.get("label", "")),
        _keys(asked.get("sessions")),
        take=_maybe_text(asked, "take"),
        release=_maybe_text(asked, "release"),
    )
    return json_reply(request, _listed(service, rows))


def call(service: Service, request: Request) -> Response:
    asked = _asked(request, "session", "verb", "arguments")
    arguments = asked.get("arguments", {})
    if not isinstance(arguments, dict):
        raise QueryError("`arguments` must be an object.")
    value = called(service.sessions, _client(asked), _text(asked, "session"), _text(asked, "verb"), arguments)
    return json_reply(request, {"value": value})


def tensor(service: Service, request: Request) -> Response:
    asked = _asked(request, "session", "name", "slice")
    client, key, name = _client(asked), _text(asked, "session"), _text(asked, "name")
    seat = service.downloads.take()
    if seat is None:
        raise CallError(BUSY, "Other tensors are being downloaded. Try again when one of them is finished.")
    try:
        download = Download(service.sessions, client, key, name, _maybe_text(asked, "slice"))
    except BaseException:
        seat.give_back()
        raise
    headers = {
        "Cache-Control": "no-store",
        "Content-Length": str(download.size),
        "Content-Disposition": f'attachment; filename="{download.file_name}"',
    }
    return reply(Pieces(download, seat), BINARY, headers=headers)


def refusal(error: CallError) -> Response:
    headers = {"Retry-After": str(RETRY_SECS)} if error.kind == BUSY else {}
    return error_reply(str(error), status=STATUSES.get(error.kind, NO_ANSWER), headers=headers)


class Pieces:
    """The body of a download.

    The server always calls `close`, even if the client has hung up, or before the first piece.
    """

    def __init__(self, download: Download, seat: Seat) -> None:
        self._pieces: Generator[bytes, None, None] = download.pieces()
        self._seat = seat

    def __iter__(self) -> Iterator[bytes]:
        return self._pieces

    def close(self) -> None:
        self._pieces.close()
        self._seat.give_back()


def _listed(service: Service, rows: list[dict[str, Any]]) -> dict[str, object]:
    return {"epoch": service.hub.epoch, "sessions": rows}


# ---- what was asked


def _asked(request: Request, *names: str) -> dict[str, Any]:
    """Return the fields of the body that are not null. Raises QueryError."""
    found = json_object(body_of(request))
    unknown = sorted(found.keys() - {"client", *names})
    if unknown:
        raise QueryError(f"This request takes no `{unknown[0][:40]}`.")
    return {name: value for name, value in found.items() if value is not None}


def _client(asked: dict[str, Any]) -> str:
    client = asked.get("client")
    if not isinstance(client, str) or not _CLIENT.fullmatch(client):
        raise QueryError("`client` must be 16 to 64 letters, digits or dashes.")
    return client


def _text(asked: dict[str, Any], name: str) -> str:
    value = asked.get(name)
    if not isinstance(value, str) or not 0 < len(value) <= LONGEST_NAME:
        raise QueryError(f"`{name}` must be text of at most {LONGEST_NAME} characters.")
    return value


def _maybe_text(asked: dict[str, Any], name: str) -> str | None:
    return _text(asked, name) if name in asked else None


def _label(value: object) -> str:
    if not isinstance(value, str):
        raise QueryError("`label` must be text.")
    return "".join(each for each in value if each.isprintable())[:MOST_LABEL_LETTERS]


def _keys(value: object) -> list[str]:
    if (
        not isinstance(value, list)
        or len(value) > MOST_KEYS
        or not all(isinstance(each, str) for each in value)
    ):
        raise QueryError(f"`sessions` must be a list of at most {MOST_KEYS} keys.")
    return value
