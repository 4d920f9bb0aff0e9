"""What an optimizer keeps of the gradients that it was given, such as Adam's averages."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch.optim import Optimizer

from tb_netdebug.frameworks.torch.numerics.flags import flags_of


def are_bad(optimizers: Iterable[Optimizer]) -> bool:
    """Whether one of them holds NaN or infinity: then a gradient did, and no code wrote it by hand."""
    return any(
        isinstance(value, torch.Tensor) and flags_of(value).any
        for optimizer in optimizers
        for kept in dict(optimizer.state).values()
        if isinstance(kept, dict)
        for value in kept.values()
    )
