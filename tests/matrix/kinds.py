"""All kinds of models that are trained, by name."""

from __future__ import annotations

# Each module lists its kinds when it is imported.
from tests.matrix import (
    kinds_autograd,
    kinds_blocking,
    kinds_compiled,
    kinds_containers,
    kinds_counters,
    kinds_files,
    kinds_loops,
    kinds_modes,
    kinds_modules,
    kinds_random,
    kinds_weights,
)
from tests.matrix.subjects import FAMILIES, KINDS

__all__ = ["FAMILIES", "KINDS"]
MODULES = (
    kinds_random,
    kinds_counters,
    kinds_blocking,
    kinds_files,
    kinds_weights,
    kinds_autograd,
    kinds_compiled,
    kinds_modules,
    kinds_loops,
    kinds_containers,
    kinds_modes,
)
