"""Rules over the machine: memory, time, and other processes of the same training."""

from __future__ import annotations

from ..rule import Rule
from .memories import MemoryGrowth, MemoryPressure
from .ranks import StragglerRank
from .timing import Stalled, StepTimeOutlier

RULES: tuple[type[Rule], ...] = (MemoryGrowth, MemoryPressure, StepTimeOutlier, StragglerRank, Stalled)
