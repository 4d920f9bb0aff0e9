"""Weights: whether they move, how far, from where, and whether all processes have the same."""

from __future__ import annotations

from ..rule import Rule
from .weights_decay import WeightDecayHigh
from .weights_optimizer import NotOptimized
from .weights_pace import UpdateRatioHigh, UpdateRatioLow
from .weights_replicas import ReplicaDivergence
from .weights_size import WeightCollapse, WeightGrowth
from .weights_start import InitConstant, InitScale
from .weights_still import FrozenWeights, UnchangedWeights

RULES: tuple[type[Rule], ...] = (
    UnchangedWeights,
    FrozenWeights,
    NotOptimized,
    UpdateRatioHigh,
    UpdateRatioLow,
    WeightGrowth,
    WeightCollapse,
    WeightDecayHigh,
    InitConstant,
    InitScale,
    ReplicaDivergence,
)
