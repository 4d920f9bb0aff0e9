"""Puts the blocks of a file in the order in which they were recorded, and finds missing steps."""

from __future__ import annotations

from bisect import bisect_right, insort
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from tb_netdebug.core.records.step_ranges import StepRanges

Range = tuple[int, int]
Integers = NDArray[np.int64]

MOST_MISSING = 1000


def in_order(ranges: Sequence[Range]) -> list[int]:
    """Return the places of the blocks, given the first and last step of each, in the order of recording.

    A resumed run goes back to steps that are there already, and its blocks stay behind the others. A block
    that goes back to steps that are not there has only changed its place in the file, and is put where its
    steps belong.
    """
    known = StepRanges()
    stretches: list[list[tuple[int, int, int]]] = []
    tops: list[int] = []  # the highest step of each stretch and those before it
    for at, (first, last) in enumerate(ranges):
        if not stretches or (first <= stretches[-1][-1][1] and known.overlaps(first, last)):
            stretches.append([])
            tops.append(max(last, tops[-1] if tops else last))
        if not stretches[-1] or first > stretches[-1][-1][1]:
            stretches[-1].append((first, last, at))
            tops[-1] = max(tops[-1], last)
        else:
            # A stray goes into the first stretch that reaches beyond it.
            insort(stretches[bisect_right(tops, last)], (first, last, at))
        known.add(first, last)
    return [at for stretch in stretches for _, _, at in stretch]


def missing_between(first: Integers, last: Integers, rows: Integers) -> list[tuple[int, int, int, int]]:
    """Return ranges of steps that no block has between two blocks, with the places of the two.

    Only where steps are numbered one by one and both blocks have all of theirs: elsewhere nobody knows which
    numbers there should be.
    """
    order = np.argsort(first, kind="stable")
    first, last, rows = first[order], last[order], rows[order]
    dense = rows == last - first + 1
    reached = np.maximum.accumulate(last)
    jumps = first[1:] > reached[:-1] + 1
    # Single rows with a jump before at least half of them: steps are not numbered one by one.
    in_tens = len(jumps) > 0 and not (rows > 1).any() and np.count_nonzero(jumps) * 2 >= len(jumps)
    # Where most blocks skip steps themselves, a jump between two of them means nothing either.
    if in_tens or np.count_nonzero(dense) * 2 <= len(dense):
        return []
    at = np.flatnonzero(jumps & dense[1:] & dense[:-1])[:MOST_MISSING]
    columns = (reached[at] + 1, first[at + 1] - 1, order[at], order[at + 1])
    return list(zip(*(column.tolist() for column in columns), strict=True))


def missing_text(first: int, last: int) -> str:
    steps = f"step {first} is" if first == last else f"steps {first} to {last} are"
    return f"{steps} missing: no block of the file has recorded them"
