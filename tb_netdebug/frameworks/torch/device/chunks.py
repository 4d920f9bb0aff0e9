"""Summarizes many tensors at once: side by side in one matrix, with about a dozen operations.

Every segment (a stretch of a tensor) begins on a row of its own. The rest of its last row is filled with
+Inf, which no sum and no extreme includes; the host knows how many there are and subtracts them from the
counts. Nothing here waits for the device: every shape follows from shapes, and no value is read.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence

import numpy as np
import torch

from tb_netdebug.frameworks.torch.device.results import Chunk, Segment
from tb_netdebug.frameworks.torch.device.values import (
    Precision,
    ValueRange,
    complex_difference,
    magnitude,
    widest_float,
)

ROW = 2048
MOST_ROWS_ALONE = 64
# A stretch of at least 1/4 of a chunk goes alone: its counts fit in the fast memory of a GPU's processors.
ALONE_SHARE = 4
MOST_SEGMENTS = 512
INF = math.inf

Edges = Callable[[Precision], torch.Tensor]


def chunks_of(stretches: Iterable[ValueRange], *, most_values: int) -> Iterator[list[ValueRange]]:
    """Yield chunks, filled in the order given; a big stretch gets a chunk to itself."""
    chunk: list[ValueRange] = []
    used = 0
    for stretch in stretches:
        if stretch.values * ALONE_SHARE >= most_values:
            yield [stretch]
            continue
        room = -(-stretch.values // ROW) * ROW
        if chunk and (used + room > most_values or len(chunk) == MOST_SEGMENTS):
            yield chunk
            chunk, used = [], 0
        chunk.append(stretch)
        used += room
    if chunk:
        yield chunk


def summarize(
    stretches: Sequence[ValueRange], precision: Precision, edges: Edges
) -> tuple[Chunk, list[torch.Tensor]]:
    """Return what the results mean, and the results. Sets previous values, if any, to the current ones."""
    row, rows = _rows([stretch.values for stretch in stretches])
    updates = len(stretches[0].views) == 2
    segments = [
        Segment(stretch.tensor, stretch.values, high * row - stretch.values, high, precision.magnitude)
        for stretch, high in zip(stretches, rows, strict=True)
    ]
    if updates:
        segments = [_numbered(segment, 0) for segment in segments] + [
            _numbered(segment, 1) for segment in segments
        ]
        staged = _staged_updates(stretches, precision, row, rows)
    else:
        staged = _staged(stretches, precision, row, rows)
    results = _results(staged, [segment.rows for segment in segments], precision, edges(precision))
    totals = widest_float(staged.device)
    return Chunk(precision.buckets, tuple(segments), _numpy(precision.staged), _numpy(totals)), results


def _rows(sizes: Sequence[int]) -> tuple[int, list[int]]:
    """Return the length of a row and the number of rows of each segment; a single segment gets long rows."""
    row = ROW * -(-sizes[0] // (ROW * MOST_ROWS_ALONE)) if len(sizes) == 1 else ROW
    return row, [-(-size // row) for size in sizes]


def _numbered(segment: Segment, update: int) -> Segment:
    """Return the segment numbered for a pair: current values have the even number, the update the odd one."""
    # The sign and payload of a NaN that a subtraction makes depend on the machine.
    one_nan = segment.one_nan or bool(update)
    return Segment(2 * segment.tensor + update, segment.values, segment.padded, segment.rows, one_nan)


def _staged(stretches: Sequence[ValueRange], precision: Precision, row: int, rows: list[int]) -> torch.Tensor:
    device = stretches[0].views[0].device
    staged = torch.full((sum(rows), row), INF, dtype=precision.staged, device=device)
    sources = [stretch.views[0] for stretch in stretches]
    if precision.magnitude:
        sources = [magnitude(source, precision.staged) for source in sources]
    _lay(staged, rows, sources)
    return staged


def _staged_updates(
    stretches: Sequence[ValueRange], precision: Precision, row: int, rows: list[int]
) -> torch.Tensor:
    """Return a matrix with the current values above, and what was added to the previous ones below."""
    current, previous = zip(*(stretch.views for stretch in stretches), strict=True)
    high = sum(rows)
    staged = torch.full((2 * high, row), INF, dtype=precision.staged, device=current[0].device)
    upper, lower = staged.view(2, high, row).unbind(0)
    if precision.magnitude:
        _lay(upper, rows, [magnitude(now, precision.staged) for now in current])
        pairs = zip(current, previous, strict=True)
        _lay(lower, rows, [magnitude(complex_difference(now, then), precision.staged) for now, then in pairs])
    else:
        _lay(upper, rows, current)
        lower.zero_()  # the padding stays +Inf, as +Inf less zero
        _lay(lower, rows, previous)
        torch.sub(upper, lower, out=lower)
    _copy(previous, current)
    return staged


def _lay(staged: torch.Tensor, rows: list[int], sources: Sequence[torch.Tensor]) -> None:
    """Copy each source to the beginning of its rows, converted to the type of `staged`."""
    room = [high * staged.shape[1] for high in rows]
    sizes = [source.numel() for source in sources]
    cuts = [cut for size, all_ in zip(sizes, room, strict=True) for cut in (size, all_ - size)]
    slots = staged.view(-1).split_with_sizes(cuts)[::2]
    _copy(
        [
            slot if source.dim() == 1 else slot.view(source.shape)
            for slot, source in zip(slots, sources, strict=True)
        ],
        sources,
    )


def _copy(targets: Sequence[torch.Tensor], sources: Sequence[torch.Tensor]) -> None:
    """Copy with one operation for each type; mixed types or gaps would make torch copy one by one."""
    pairs: dict[tuple[torch.dtype, bool], tuple[list[torch.Tensor], list[torch.Tensor]]] = {}
    for target, source in zip(targets, sources, strict=True):
        alike = pairs.setdefault((source.dtype, source.is_contiguous()), ([], []))
        alike[0].append(target)
        alike[1].append(source)
    for into, out_of in pairs.values():
        torch._foreach_copy_(into, out_of)


def _results(
    staged: torch.Tensor, rows: list[int], precision: Precision, edges: torch.Tensor
) -> list[torch.Tensor]:
    """Return bucket counts per segment, and low, high, sum and sum of squares per row. Consumes `staged`."""
    counts = _counted(staged, rows, precision, edges)
    # Extremes are taken over finite values: all others become the neutral element.
    low = torch.nan_to_num(staged, nan=INF, posinf=INF, neginf=INF).amin(1)
    high = torch.nan_to_num(staged, nan=-INF, posinf=-INF, neginf=-INF).amax(1)
    wide = staged.nan_to_num_(nan=0.0, posinf=0.0, neginf=0.0).to(widest_float(staged.device))
    total = wide.sum(1)
    return [counts, low, high, total, wide.mul_(wide).sum(1)]


def _counted(
    staged: torch.Tensor, rows: list[int], precision: Precision, edges: torch.Tensor
) -> torch.Tensor:
    buckets = precision.buckets.size
    index = torch.bucketize(staged.view(precision.bits), edges, out_int32=True, right=True)
    flat = index.view(-1)
    # Each segment counts in a range of its own, so that one histogram does for all.
    if len(rows) > 1:
        own = flat.split_with_sizes([high * staged.shape[1] for high in rows])
        torch._foreach_add_(own, [buckets * number for number in range(len(rows))])
    size = buckets * len(rows)
    if staged.device.type == "cuda":
        # The only counting operation that neither waits for the device to learn the largest index nor sorts
        # all of them under use_deterministic_algorithms. Exact for integers.
        return torch.histc(flat, bins=size, min=0, max=size)
    one = torch.ones(1, dtype=torch.int32, device=staged.device)
    return torch.zeros(size, dtype=torch.int32, device=staged.device).index_add_(
        0, flat, one.expand(len(flat))
    )


def _numpy(dtype: torch.dtype) -> np.dtype[np.float32] | np.dtype[np.float64]:
    return np.dtype(np.float32) if dtype == torch.float32 else np.dtype(np.float64)
