"""Tells which tensors are sharded over several processes."""

from __future__ import annotations

from typing import Any

import torch


def is_part(tensor: torch.Tensor) -> bool:
    """Return whether other processes hold other parts of the tensor, as with FSDP2 and tensor parallelism."""
    placements = getattr(tensor, "placements", None)
    if placements is None or any(each.is_partial() for each in placements):
        return False  # partial: sums still to be added up, whose statistics cannot be merged
    return any(not each.is_replicate() for each in placements)


def speaks(tensor: torch.Tensor) -> bool:
    """Return whether this process is the one that contributes its part, so that each value counts once.

    Of processes that hold the same part, only the first contributes. Of several groups that each hold a whole
    tensor (replicas, if they train together), the group of the very first process does.
    """
    part: Any = tensor
    place = part.device_mesh.get_coordinate()
    if place is None or 0 not in part.device_mesh.mesh.flatten().tolist():
        return False
    is_copy = (each.is_replicate() and where > 0 for each, where in zip(part.placements, place, strict=True))
    return not any(is_copy)
