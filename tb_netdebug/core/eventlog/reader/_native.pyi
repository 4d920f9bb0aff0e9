"""The C reader; `scan_twin` and `columns_twin` document it."""

from collections.abc import Sequence

def scan(
    data: bytes, at: int, base: int, beyond: int, lost: int, reason: int, patience: int, ours: bool, /
) -> tuple[bytes, bytes, bytes, list[bytes], int, int, int, int, int]: ...
def step_rows(
    blocks: Sequence[bytes], rows: Sequence[int], names: Sequence[bytes], /
) -> tuple[bytes, bytes, bytes, bytes, bytes, bytes, list[int]]: ...
def detail_rows(
    blocks: Sequence[bytes], rows: Sequence[int], names: Sequence[bytes], /
) -> tuple[bytes, bytes, bytes, bytes, list[int]]: ...
def sample_rows(
    blocks: Sequence[bytes],
    rows: Sequence[int],
    samples: Sequence[int],
    sketches: Sequence[int],
    details: bool,
    kinds: int,
    name: bytes | None,
    /,
) -> tuple[bytes, list[tuple[int, bytes]], list[int]]: ...
def names_of(blocks: Sequence[bytes], details: bool, /) -> tuple[list[bytes], list[tuple[int, bytes]]]: ...
def tally(packed: Sequence[bytes | None], places: bytes, rows: int, /) -> bytes: ...
