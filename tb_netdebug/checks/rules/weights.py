"""Collects the rules over weights: whether they move, how far, from where, and whether processes agree."""

from __future__ import annotations

from tb_netdebug.checks.rule import Rule
from tb_netdebug.checks.rules.weights_decay import WeightDecayHigh
from tb_netdebug.checks.rules.weights_optimizer import NotOptimized
from tb_netdebug.checks.rules.weights_pace import UpdateRatioHigh, UpdateRatioLow
from tb_netdebug.checks.rules.weights_replicas import ReplicaDivergence
from tb_netdebug.checks.rules.weights_size import WeightCollapse, WeightGrowth
from tb_netdebug.checks.rules.weights_start import InitConstant, InitScale
from tb_netdebug.checks.rules.weights_still import FrozenWeights, UnchangedWeights

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
