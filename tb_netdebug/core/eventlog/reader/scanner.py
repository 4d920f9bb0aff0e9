"""Chooses the reader of files and blocks: the C module if it was compiled, else its Python twins.

NETDEBUG_KERNEL=twin forces the twins. All of the reader calls them through `native`.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Protocol

import numpy as np

from tb_netdebug.core.eventlog.reader import columns_twin, scan_twin

ENTRY = np.dtype(
    [
        ("offset", "<i8"), ("first", "<i8"), ("last", "<i8"), ("length", "<u4"), ("rows", "<u4"),
        ("samples", "<u4"), ("ahead", "<u4"), ("sketches", "<u4"), ("rank", "<u2"), ("kind", "u1"),
        ("version", "u1"),
    ]
)  # fmt: skip
POINT = np.dtype(
    [("step", "<i8"), ("time", "<f8"), ("value", "<f8"), ("offset", "<i8"), ("length", "<u4"), ("tag", "<u4")]
)
GAP = np.dtype([("start", "<i8"), ("end", "<i8"), ("reason", "<i8")])
SAMPLE = columns_twin.SAMPLE

Key = tuple[int, bytes]
Numbers = Sequence[int]
Blobs = Sequence[bytes]


class Native(Protocol):
    """The functions that `scan_twin` and `columns_twin` specify."""

    def scan(
        self, data: bytes, at: int, base: int, beyond: int, lost: int, reason: int, patience: int,
        ours: bool, /,
    ) -> tuple[bytes, bytes, bytes, list[bytes], int, int, int, int, int]: ...  # fmt: skip
    def step_rows(
        self, blocks: Blobs, rows: Numbers, names: Blobs, /
    ) -> tuple[bytes, bytes, bytes, bytes, bytes, bytes, list[int]]: ...
    def detail_rows(
        self, blocks: Blobs, rows: Numbers, names: Blobs, /
    ) -> tuple[bytes, bytes, bytes, bytes, list[int]]: ...
    def sample_rows(
        self, blocks: Blobs, rows: Numbers, samples: Numbers, sketches: Numbers, details: bool, kinds: int,
        name: bytes | None, /,
    ) -> tuple[bytes, list[Key], list[int]]: ...  # fmt: skip
    def names_of(self, blocks: Blobs, details: bool, /) -> tuple[list[bytes], list[Key]]: ...
    def tally(self, packed: Sequence[bytes | None], places: bytes, rows: int, /) -> bytes: ...


class Twin:
    """The same functions in Python."""

    scan = staticmethod(scan_twin.scan)
    step_rows = staticmethod(columns_twin.step_rows)
    detail_rows = staticmethod(columns_twin.detail_rows)
    sample_rows = staticmethod(columns_twin.sample_rows)
    names_of = staticmethod(columns_twin.names_of)
    tally = staticmethod(columns_twin.tally)


def _chosen() -> Native:
    if os.environ.get("NETDEBUG_KERNEL") == "twin":
        return Twin()
    try:
        from tb_netdebug.core.eventlog.reader import _native
    except ImportError:
        return Twin()
    native: Native = _native
    return native


native: Native = _chosen()
