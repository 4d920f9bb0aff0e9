"""Finds which channels of a tensor were active, without waiting for the device."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch

from tb_netdebug.frameworks.torch.device.values import magnitude, precision_of


@dataclass(frozen=True, slots=True)
class UnitRange:
    """The range of active values: a unit is a slice across `dim`, active if a nonzero value lies inside."""

    dim: int
    low: float
    high: float


def active_units(tensor: torch.Tensor, wanted: UnitRange, *, room_bytes: int) -> torch.Tensor:
    """Return one bool for each unit, computed in pieces that take at most about `room_bytes`."""
    dim = wanted.dim % tensor.dim()
    units = tensor.shape[dim]
    most_values = max(room_bytes // precision_of(tensor.dtype, tensor.device).value_bytes, units)
    if not tensor.numel() or not wanted.low < wanted.high:
        return torch.zeros(units, dtype=torch.bool, device=tensor.device)
    first, *others = (_active(piece, dim, wanted) for piece in _pieces(tensor, dim, most_values))
    for other in others:
        first.logical_or_(other)
    return first


def _pieces(tensor: torch.Tensor, dim: int, most_values: int) -> Iterator[torch.Tensor]:
    """Yield pieces that are cut across the other dimensions only, so that each has all units."""
    others = [other for other in range(tensor.dim()) if other != dim and tensor.shape[other] > 1]
    if tensor.numel() <= most_values or not others:
        yield tensor
        return
    across = max(others, key=lambda other: tensor.shape[other])
    middle = tensor.shape[across] // 2
    for start, length in ((0, middle), (middle, tensor.shape[across] - middle)):
        yield from _pieces(tensor.narrow(across, start, length), dim, most_values)


def _active(piece: torch.Tensor, dim: int, wanted: UnitRange) -> torch.Tensor:
    precision = precision_of(piece.dtype, piece.device)
    values = magnitude(piece, precision.staged) if precision.magnitude else piece.to(precision.staged)
    low, high = _comparable(wanted, precision.staged)
    # Above the low end and not at or above the high one. Exclusive-or, because a NaN is neither.
    active = torch.gt(values, low).logical_xor_(torch.ge(values, high))
    # 0 lies within the range, but is no activity.
    if wanted.low < 0 < wanted.high:
        active.logical_xor_(torch.eq(values, 0.0))
    others = [other for other in range(piece.dim()) if other != dim]
    return torch.any(active, dim=others) if others else active


def _comparable(wanted: UnitRange, dtype: torch.dtype) -> tuple[float, float]:
    """Return the same open range for `dtype`: torch rounds a limit to the type that it is compared with."""
    if dtype == torch.float64:
        return wanted.low, wanted.high
    with np.errstate(over="ignore"):
        low, high = np.float32(wanted.low), np.float32(wanted.high)
    if float(low) > wanted.low:
        low = np.nextafter(low, np.float32(-math.inf))
    if float(high) < wanted.high:
        high = np.nextafter(high, np.float32(math.inf))
    return float(low), float(high)
