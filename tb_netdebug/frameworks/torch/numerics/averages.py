"""Looks into the state that an optimizer derives from gradients, such as Adam's averages."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch.optim import Optimizer

from tb_netdebug.frameworks.torch.numerics.flags import flags_of


def are_bad(optimizers: Iterable[Optimizer]) -> bool:
    """Return whether any optimizer state holds NaN or infinity.

    If so, an earlier step was taken with a non-finite gradient: no user code writes to this state by hand.
    """
    return any(
        isinstance(value, torch.Tensor) and flags_of(value).any
        for optimizer in optimizers
        for kept in dict(optimizer.state).values()
        if isinstance(kept, dict)
        for value in kept.values()
    )
