"""All tensors of one kind, as the rules see them: a column for each quantity, a place for each tensor."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tb_netdebug.core.records.step import Sample, Units
from tb_netdebug.core.stats.packed import HEADER, Summary

Doubles = NDArray[np.float64]
Flags = NDArray[np.bool_]

# A few more than the samples in a row that any rule asks for.
LOOKS_KEPT = 16
# In a network with more tensors than this, only the first ones are judged.
MOST_TENSORS = 20_000
# What is remembered of each sample; of the newest one there is more, see `Numbers`.
REMEMBERED = ("mean", "rms", "std", "min", "max", "zero_share", "nonfinite")


@dataclass(frozen=True, slots=True, eq=False)
class Numbers:
    """The samples of one step: an array for each quantity, NaN at the places of tensors not sampled.

    `mean`, `rms`, `std`, `min`, `max` are those of the finite values; `nonfinite` counts the others.
    """

    step: int
    count: Doubles
    nan: Doubles
    infinite: Doubles
    zeros: Doubles
    min: Doubles
    max: Doubles
    mean: Doubles
    rms: Doubles
    std: Doubles

    @property
    def nonfinite(self) -> Doubles:
        return self.nan + self.infinite

    @property
    def zero_share(self) -> Doubles:
        with np.errstate(all="ignore"):
            return self.zeros / self.count

    @property
    def abs_max(self) -> Doubles:
        return np.maximum(np.abs(self.min), np.abs(self.max))

    @property
    def norm(self) -> Doubles:
        with np.errstate(all="ignore"):
            return self.rms * np.sqrt(self.count - self.nonfinite)


class TensorTable:
    """The tensors of one kind and their last samples; `names[i]` stands at place i of every array.

    Names are only ever added. `now` holds the numbers of the step that is being judged, or None if it has no
    sample of this kind. `looks` counts the steps that had samples; `past` goes back over the last of them.
    `has_values` is True once any sample had a value other than zero.
    """

    def __init__(self) -> None:
        self.names: list[str] = []
        self.place: dict[str, int] = {}
        self.now: Numbers | None = None
        self.looks = 0
        self.has_values = False
        self.first: Numbers | None = None
        self._steps: deque[int] = deque(maxlen=LOOKS_KEPT)
        self._past: dict[str, deque[Doubles]] = {name: deque(maxlen=LOOKS_KEPT) for name in REMEMBERED}
        self._units: dict[str, deque[Units]] = {}
        self._packed: dict[str, bytes] = {}

    def take(self, step: int, samples: Sequence[Sample]) -> None:
        """Take the samples of this kind in one step; none of them may be malformed."""
        self.now, self._packed = None, {}
        places, known = [], []
        for sample in samples:
            place = self._place(sample.series.name)
            if place is not None:
                places.append(place)
                known.append(sample)
                self._packed[sample.series.name] = sample.summary
                if sample.units is not None:
                    self._units.setdefault(sample.series.name, deque(maxlen=LOOKS_KEPT)).append(sample.units)
        if not known:
            return
        self.now = numbers_of(step, known, np.array(places), len(self.names))
        self.looks += 1
        self.has_values = self.has_values or bool((self.now.zeros < self.now.count).any())
        self._steps.append(step)
        for name, kept in self._past.items():
            kept.append(getattr(self.now, name))
        if self.first is None:
            self.first = self.now

    def rest(self) -> None:
        """Note a step without samples of this kind."""
        self.now, self._packed = None, {}

    @property
    def steps(self) -> list[int]:
        """The steps of the samples that are remembered, oldest first."""
        return list(self._steps)

    def past(self, quantity: str, looks: int = LOOKS_KEPT) -> Doubles:
        """Return a row for each of the last samples, the newest last; NaN where a tensor was not sampled."""
        kept = list(self._past[quantity])[-looks:]
        rows = np.full((len(kept), len(self.names)), np.nan)
        for row, values in zip(rows, kept, strict=True):
            row[: len(values)] = values  # older samples know fewer tensors
        return rows

    def units(self, name: str) -> list[Units]:
        """Return which units were active in each of the last samples, oldest first.

        The list is empty if the tensor has no units.
        """
        return list(self._units.get(name, ()))

    def summary(self, name: str) -> Summary | None:
        """Return this step's summary with its bins, or None; raise ValueError if it is damaged."""
        packed = self._packed.get(name)
        return None if packed is None else Summary.unpack(packed)

    def _place(self, name: str) -> int | None:
        place = self.place.get(name)
        if place is None and len(self.names) < MOST_TENSORS:
            place = self.place[name] = len(self.names)
            self.names.append(name)
        return place


def numbers_of(step: int, samples: Sequence[Sample], places: NDArray[np.int64], size: int) -> Numbers:
    # The header holds six counts (all, NaN, Inf, -Inf, zeros, overflow), then min, max, sum and sum of
    # squares.
    packed = b"".join([sample.summary[: HEADER.size] for sample in samples])
    whole = np.frombuffer(packed, np.uint64).reshape(len(samples), -1)
    real = whole.view(np.float64)
    columns = np.full((9, size), np.nan)
    count, nan, infinite = whole[:, 0].astype(float), whole[:, 1].astype(float), whole[:, 2] + whole[:, 3]
    with np.errstate(all="ignore"):
        finite = count - nan - infinite
        mean = real[:, 8] / finite
        square = real[:, 9] / finite
        std = np.sqrt(np.maximum(square - mean * mean, 0.0))
        rms = np.sqrt(square)
    columns[:, places] = (count, nan, infinite, whole[:, 4], real[:, 6], real[:, 7], mean, rms, std)
    return Numbers(step, *columns)
