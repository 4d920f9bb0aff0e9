"""The record of one training step: its scalars, tensor samples and facts.

The collectors in `frameworks/` fill it, the writer packs it into blocks, and the checks judge it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any


class Kind(IntEnum):
    """The role of a sampled tensor; the numbers are part of the stored format."""

    WEIGHT = 1
    GRADIENT = 2
    UPDATE = 3
    ACTIVATION = 4
    TENSOR = 5


@dataclass(frozen=True, slots=True)
class Series:
    """A tensor that is sampled repeatedly: the key under which its samples are stored."""

    kind: Kind
    name: str


@dataclass(frozen=True, slots=True)
class Units:
    """A bitmap of the channels that were active, least significant bit first."""

    count: int
    active: bytes


@dataclass(slots=True)
class Sample:
    """One tensor at one step; `summary` is packed (see `core.stats.packed`)."""

    series: Series
    summary: bytes
    units: Units | None = None


@dataclass(frozen=True, slots=True)
class Fact:
    """An observation about the training that is not a number, recorded when first seen and on every change.

    This is how it is stored: `kind` names it, such as "loss-call", and `data` holds plain values as in JSON.
    What each kind says is declared in `facts`; `fact_codec` turns one into the other.
    """

    kind: str
    data: dict[str, Any]


@dataclass(slots=True)
class StepRecord:
    """The record of one batch. A scalar that was not measured is absent; NaN means that it was NaN."""

    step: int
    wall_time: float
    scalars: dict[str, float] = field(default_factory=dict)
    samples: list[Sample] = field(default_factory=list)
    facts: list[Fact] = field(default_factory=list)
