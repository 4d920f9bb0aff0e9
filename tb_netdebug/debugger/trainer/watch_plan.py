"""Evaluates watchpoints in columns: a hundred of them on hundreds of tensors take no nested loop."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tb_netdebug.core.stats import kernel
from tb_netdebug.core.stats.dtypes import DType
from tb_netdebug.core.stats.packed import Summary
from tb_netdebug.debugger.tensors.name_pattern import NamePattern
from tb_netdebug.debugger.tensors.statistics import ABS_MEAN, CHANGE, OF_SUMMARY
from tb_netdebug.debugger.workbench import Workbench, WorkbenchError

SCALAR = "scalar"
# Pairs of a watchpoint and a tensor; beyond this they are left out, and the watchpoints say so.
MOST_PAIRS = 1 << 18

Mask = NDArray[np.bool_]
Integers = NDArray[np.int64]
Doubles = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Condition:
    """What a watchpoint asks of each of its tensors; `key` changes with each edit of the watchpoint."""

    key: int
    kind: str
    tensors: NamePattern
    statistic: str
    sign: float  # 1 for above, -1 for below
    bound: float

    def finds(self, name: str) -> bool:
        kind, _, rest = name.partition(":")
        return kind == self.kind and self.tensors.finds(rest)


class Truths:
    """Which conditions held at the last reading: a hit is one that holds now and did not then."""

    def __init__(self) -> None:
        self._slots: dict[tuple[int, str], int] = {}
        self.held: Mask = np.zeros(64, np.bool_)

    def slot(self, key: int, name: str) -> int | None:
        """Return the slot of a pair, or None if there are too many."""
        found = self._slots.get((key, name))
        if found is None and len(self._slots) < MOST_PAIRS:
            found = self._slots[key, name] = len(self._slots)
            if found >= len(self.held):
                self.held = np.concatenate([self.held, np.zeros_like(self.held)])
        return found

    def keep(self, keys: Collection[int]) -> None:
        """Keep the pairs of these conditions alone; all slots change."""
        held = [pair for pair, slot in self._slots.items() if self.held[slot] and pair[0] in keys]
        self._slots = {}
        self.held = np.zeros(64, np.bool_)
        for key, name in held:
            self.held[self.slot(key, name)] = True


@dataclass(frozen=True, slots=True)
class Measurement:
    """A reading of a plan: each pair's value, whether it was there, and whether the condition holds."""

    values: Doubles
    is_there: Mask
    holds: Mask


class Plan:
    """The pairs of conditions and names that match; each pair is a place in the columns."""

    def __init__(self, names: Sequence[str], conditions: Sequence[Condition], truths: Truths) -> None:
        self.pairs: list[tuple[Condition, str]] = []
        self.names = tuple(names)
        self.is_stale = False  # whether some tensor was not there at the last read
        self.crowded_out: set[int] = set()
        statistics = list(dict.fromkeys(each.statistic for each in conditions))
        rows, columns, slots = [], [], []
        for row, name in enumerate(names):
            for condition in conditions:
                if not condition.finds(name):
                    continue
                slot = truths.slot(condition.key, name)
                if slot is None:
                    self.crowded_out.add(condition.key)
                    continue
                self.pairs.append((condition, name))
                rows.append(row)
                columns.append(statistics.index(condition.statistic))
                slots.append(slot)
        self.slots: Integers = np.array(slots, np.int64)
        self._statistics = statistics
        self._rows, self._columns = np.array(rows, np.int64), np.array(columns, np.int64)
        # Both sides are multiplied by the sign, so that one comparison serves > and <.
        self._signs = np.array([condition.sign for condition, _ in self.pairs])
        self._bounds = self._signs * [condition.bound for condition, _ in self.pairs]
        self.changing = frozenset(name for one, name in self.pairs if one.statistic == CHANGE)
        self.change_pairs = np.flatnonzero([one.statistic == CHANGE for one, _ in self.pairs])
        used = dict.fromkeys(name for one, name in self.pairs if one.statistic != CHANGE)
        tensors = [name for name in used if not name.startswith(f"{SCALAR}:")]
        self._has_scalars = len(used) > len(tensors)
        in_bins = {name for one, name in self.pairs if one.statistic == ABS_MEAN}
        self._in_bins = [name for name in tensors if name in in_bins]
        self._summarised = [name for name in tensors if name not in in_bins]

    def read(self, workbench: Workbench) -> Measurement:
        """Read all pairs, with one summary per tensor, however many conditions it has."""
        summaries: dict[str, Summary] = (
            dict(workbench.summaries(self._summarised)) if self._summarised else {}
        )
        summaries.update(self._with_bins(workbench))
        self.is_stale = len(summaries) < len(self._summarised) + len(self._in_bins)
        if self._has_scalars:
            summaries.update(summaries_of(workbench.scalars()))
        changes = workbench.changes(sorted(self.changing)) if self.changing else {}
        table = np.array(list(self._table(summaries, changes)), np.float64)
        table = table.reshape(len(self.names), len(self._statistics), 2)
        cells = table[self._rows, self._columns]
        values, is_there = cells[:, 0], cells[:, 1] > 0
        return Measurement(values, is_there, is_there & (values * self._signs > self._bounds))

    def _with_bins(self, workbench: Workbench) -> Iterator[tuple[str, Summary]]:
        """Yield summaries with bins: a workbench may omit the bins when it makes many summaries at once."""
        for name in self._in_bins:
            with suppress(WorkbenchError):  # it is not within reach, and left out as in `summaries`
                yield name, workbench.tensor(name).summary()

    def _table(self, summaries: Mapping[str, Summary], changes: Mapping[str, float]) -> Iterator[float]:
        """Yield a value, and 1 if it is known, for each name and each statistic."""
        for name in self.names:
            summary, change = summaries.get(name), changes.get(name)
            for statistic in self._statistics:
                if statistic == CHANGE:
                    yield from (np.nan, 0.0) if change is None else (change, 1.0)
                elif summary is None:
                    yield from (np.nan, 0.0)
                else:
                    yield OF_SUMMARY[statistic](summary)
                    yield 1.0


def summaries_of(scalars: Mapping[str, float]) -> Mapping[str, Summary]:
    """Return each number as the summary of a tensor `scalar:NAME` with one value."""
    values = np.array(list(scalars.values()), np.float64)
    items = [(values.ctypes.data + 8 * place, 1, DType.FLOAT64) for place in range(len(values))]
    packed = kernel.summarize(items, 1)
    return {f"{SCALAR}:{name}": Summary.unpack(each) for name, each in zip(scalars, packed, strict=True)}
