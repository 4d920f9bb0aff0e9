"""A set of steps stored as ranges without overlaps: a million steps without a gap are one range."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator


class StepRanges:
    """Step ranges in ascending order, both ends included; ranges that touch or overlap are joined.

    `count` is the number of steps in them.
    """

    def __init__(self) -> None:
        self._firsts: list[int] = []
        self._lasts: list[int] = []
        self.count = 0

    def __iter__(self) -> Iterator[tuple[int, int]]:
        return zip(self._firsts, self._lasts, strict=True)

    def __len__(self) -> int:
        return len(self._firsts)

    def overlaps(self, first: int, last: int) -> bool:
        """Return whether any step from `first` to `last` is in the set."""
        at = bisect_left(self._lasts, first)
        return at < len(self._firsts) and self._firsts[at] <= last

    def outside(self, first: int, last: int) -> Iterator[tuple[int, int]]:
        """Yield the parts of the range from `first` to `last` that are not in the set."""
        for at in range(bisect_left(self._lasts, first), len(self._firsts)):
            if self._firsts[at] > last:
                break
            if self._firsts[at] > first:
                yield first, self._firsts[at] - 1
            first = self._lasts[at] + 1
        if first <= last:
            yield first, last

    def add(self, first: int, last: int) -> None:
        """Add the steps from `first` to `last`."""
        if self._lasts and first == self._lasts[-1] + 1:  # the usual case: the next step
            self._lasts[-1] = last
            self.count += last - first + 1
            return
        # Ranges that touch the new one are absorbed as well, hence one step beyond either end.
        start = bisect_left(self._lasts, first - 1)
        stop = bisect_right(self._firsts, last + 1)
        if start < stop:
            first = min(first, self._firsts[start])
            last = max(last, self._lasts[stop - 1])
        known = sum(self._lasts[at] - self._firsts[at] + 1 for at in range(start, stop))
        self._firsts[start:stop] = [first]
        self._lasts[start:stop] = [last]
        self.count += last - first + 1 - known
