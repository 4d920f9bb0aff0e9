"""Collects the rules over the machine: memory, time, and other processes of the same run."""

from __future__ import annotations

from tb_netdebug.checks.rule import Rule
from tb_netdebug.checks.rules.memories import MemoryGrowth, MemoryPressure
from tb_netdebug.checks.rules.ranks import StragglerRank
from tb_netdebug.checks.rules.timing import Stalled, StepTimeOutlier

RULES: tuple[type[Rule], ...] = (MemoryGrowth, MemoryPressure, StepTimeOutlier, StragglerRank, Stalled)
