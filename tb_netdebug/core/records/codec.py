"""The sketch codec in use: the C module where it was compiled, otherwise its Python twin."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Protocol

from tb_netdebug.core.records import codec_twin


class Codec(Protocol):
    """The interface of both codecs; `codec_twin` is its specification."""

    def encode(self, summaries: Sequence[bytes], fresh: bytes, /) -> tuple[bytes, bytes, bytes]: ...

    def decode(
        self, headers: bytes, lengths: bytes, fresh: bytes, stream: bytes, limit: int, /
    ) -> list[bytes]: ...


def _chosen() -> Codec:
    if os.environ.get("NETDEBUG_KERNEL") == "twin":
        return codec_twin
    try:
        from tb_netdebug.core.records import _codec
    except ImportError:
        return codec_twin
    native: Codec = _codec
    return native


codec: Codec = _chosen()
