"""What is known of one training step: scalars, and samples of tensors."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any


class Kind(IntEnum):
    """What a sampled tensor is; the numbers are part of the stored format."""

    WEIGHT = 1
    GRADIENT = 2
    UPDATE = 3
    ACTIVATION = 4
    TENSOR = 5


@dataclass(frozen=True, slots=True)
class Series:
    """A tensor that is sampled again and again."""

    kind: Kind
    name: str


@dataclass(frozen=True, slots=True)
class Units:
    """Which channels were active: a bitmap, least significant bit first."""

    count: int
    active: bytes


@dataclass(slots=True)
class Sample:
    """One look at one tensor; `summary` is a packed summary (see `core.stats.packed`)."""

    series: Series
    summary: bytes
    units: Units | None = None


@dataclass(frozen=True, slots=True)
class Fact:
    """Something about the training that is no number, told when it is first seen and when it changes.

    `kind` says what it is, such as "loss-call"; `data` are plain values as in JSON.
    """

    kind: str
    data: dict[str, Any]


@dataclass(slots=True)
class StepRecord:
    """One batch. A scalar that was not measured is absent; NaN means that it was NaN."""

    step: int
    wall_time: float
    scalars: dict[str, float] = field(default_factory=dict)
    samples: list[Sample] = field(default_factory=list)
    facts: list[Fact] = field(default_factory=list)
