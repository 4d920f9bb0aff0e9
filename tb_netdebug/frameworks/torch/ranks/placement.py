"""Which tensors lie in parts on several processes."""

from __future__ import annotations

from typing import Any

import torch


def is_part(tensor: torch.Tensor) -> bool:
    """Whether other processes hold other parts of it, as FSDP2 and tensor parallelism make them."""
    placements = getattr(tensor, "placements", None)
    if placements is None or any(each.is_partial() for each in placements):
        return False  # partial: sums that are still to be made, of which no statistics could be merged
    return any(not each.is_replicate() for each in placements)


def speaks(tensor: torch.Tensor) -> bool:
    """Of processes that hold the same part, the first alone gives it away: each value counts once. Of several
    groups with a whole tensor each (copies, if they train together) that of the first process of all does."""
    part: Any = tensor
    place = part.device_mesh.get_coordinate()
    if place is None or 0 not in part.device_mesh.mesh.flatten().tolist():
        return False
    is_copy = (each.is_replicate() and where > 0 for each, where in zip(part.placements, place, strict=True))
    return not any(is_copy)
