"""Looks into the state that an optimizer derives from gradients, such as Adam's averages."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch.optim import Optimizer

from tb_netdebug.frameworks.torch.numerics.flags import flags_of

# What optimizers divide by, as they keep it: Adam and its kin, RMSprop and Adadelta, Adagrad, Adamax.
DIVISORS = ("exp_avg_sq", "square_avg", "sum", "exp_inf")


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


def divided_by_zero(optimizers: Iterable[Optimizer]) -> str:
    """Return the class of an optimizer whose own division by 0 made weights non-finite; empty if none did.

    With eps=0 nothing is added to the root of its average, which is 0 where all gradients were.
    """
    for optimizer in optimizers:
        for group in optimizer.param_groups:
            if group.get("eps") == 0 and any(was_divided(each, optimizer) for each in group["params"]):
                return type(optimizer).__name__
    return ""


def was_divided(weight: torch.Tensor, optimizer: Optimizer) -> bool:
    """Return whether the weight is non-finite where the optimizer has divided by 0."""
    kept = optimizer.state.get(weight, {})
    divisors = [kept[name] for name in DIVISORS if isinstance(kept.get(name), torch.Tensor)]
    if not flags_of(weight).any:
        return False
    is_bad = ~torch.isfinite(weight.detach())
    return any(each.shape == weight.shape and bool((is_bad & (each == 0)).any()) for each in divisors)
