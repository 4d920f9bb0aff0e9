"""Reads and changes the learning rates of all optimizers of a run."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch.optim import Optimizer

from tb_netdebug.debugger.workbench import WorkbenchError


def learning_rates(optimizers: Sequence[Optimizer], *, may_wait: bool) -> list[dict[str, Any]]:
    """Return the rate of each group; None for one on a device, unless waiting is allowed."""
    return [
        {
            "optimizer": number,
            "group": place,
            "name": name_of(optimizer, group),
            "value": value_of(group.get("lr"), may_wait=may_wait),
        }
        for number, optimizer in enumerate(optimizers)
        for place, group in enumerate(optimizer.param_groups)
    ]


def set_learning_rate(
    optimizers: Sequence[Optimizer], optimizer: int, group: int | None, value: float
) -> None:
    """Set the rate of a group, or of all groups of an optimizer.

    A scheduler may overwrite it at its next step. Raises WorkbenchError before anything is changed.
    """
    if not math.isfinite(value) or value < 0:
        raise WorkbenchError(f"a learning rate must be a number that is not negative, not {value}")
    if not 0 <= optimizer < len(optimizers):
        raise WorkbenchError(
            f"there is no optimizer {optimizer}; there are {len(optimizers)}, numbered from 0"
        )
    groups = optimizers[optimizer].param_groups
    if group is not None and not 0 <= group < len(groups):
        raise WorkbenchError(
            f"optimizer {optimizer} has no group {group}; it has {len(groups)}, numbered from 0"
        )
    chosen = groups if group is None else [groups[group]]
    if any("lr" not in each for each in chosen):
        raise WorkbenchError(f"optimizer {optimizer} has no learning rate")
    for each in chosen:
        if isinstance(each["lr"], torch.Tensor):
            with torch.no_grad():
                each["lr"].fill_(value)  # compiled or captured code holds this very tensor
        else:
            each["lr"] = value


def name_of(optimizer: Optimizer, group: dict[str, Any]) -> str:
    """Return the optimizer's class, with the name of the group if the user has given it one."""
    given = group.get("name")
    return f"{type(optimizer).__name__} {given}" if isinstance(given, str) else type(optimizer).__name__


def value_of(rate: Any, *, may_wait: bool) -> float | None:
    """Return a rate as a float; None when it is no number, or on a device that may not be waited for."""
    if isinstance(rate, torch.Tensor):
        return float(rate) if rate.numel() == 1 and (rate.is_cpu or may_wait) else None
    return float(rate) if isinstance(rate, int | float) else None
