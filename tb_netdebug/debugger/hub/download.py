"""Sends a tensor to a client as a `.npy` file: it fetches the next piece while the client gets the last."""

from __future__ import annotations

import logging
import re
from collections.abc import Generator
from typing import Any

from tb_netdebug.core.records.visible import visible
from tb_netdebug.debugger.hub.calls import REFUSED, Call, CallError
from tb_netdebug.debugger.hub.hub import Sessions

logger = logging.getLogger(__name__)

PIECE_BYTES = 1 << 20
MOST_BYTES = 1 << 50
_UNSAFE = re.compile(r"[^A-Za-z0-9._-]+")
_LONGEST_NAME = 100


class Download:
    """A tensor on its way to a client. The constructor raises CallError.

    It fetches the first piece, so a wrong name is known before the reply begins.
    """

    def __init__(self, sessions: Sessions, client: str, key: str, name: str, slice_text: str | None) -> None:
        self._sessions = sessions
        self._client = client
        self._wanted = {"name": name, "slice": slice_text, "most": PIECE_BYTES}
        self._entry = sessions.claim(client, key, steers=False)[0]
        self.file_name = file_name_of(name)
        call = self._ask(0)
        first = sessions.answer(self._entry, call)
        self.size = int(first["size"])
        if not 0 < self.size <= MOST_BYTES:
            raise CallError(REFUSED, "The run reported an impossible size for the tensor.")
        self._first = self._piece(call, first, 0)

    def pieces(self) -> Generator[bytes, None, None]:
        """Yield the pieces.

        They end early if the run ends or the tensor changes: then fewer bytes come than `size`.
        """
        try:
            yield from self._pieces()
        except CallError as error:
            logger.warning("NetDebug could not send all of %s: %s", self.file_name, visible(str(error)))

    def _pieces(self) -> Generator[bytes, None, None]:
        piece, offset = self._first, 0
        self._first = b""
        while True:
            offset += len(piece)
            following = self._ask(offset) if offset < self.size else None
            try:
                yield piece
                if following is None:
                    return
                value = self._sessions.answer(self._entry, following)
                piece = self._piece(following, value, offset)
            # The client may have left while the next piece is on its way.
            finally:
                if following is not None:
                    self._sessions.forget(self._entry, following)

    def _ask(self, offset: int) -> Call:
        return self._sessions.ask(self._entry, self._client, "bytes", {**self._wanted, "offset": offset})

    def _piece(self, call: Call, value: Any, offset: int) -> bytes:
        piece = call.attachment
        is_last = offset + len(piece) == self.size
        if (
            not piece
            or value["size"] != self.size
            or value["offset"] != offset
            or value["is_last"] != is_last
        ):
            raise CallError(REFUSED, "The tensor changed in the meantime.")
        return piece


def file_name_of(name: str) -> str:
    """Return a file name that is harmless in a header and in any folder."""
    kept = _UNSAFE.sub("_", name).strip("._")[:_LONGEST_NAME]
    return f"{kept or 'tensor'}.npy"
