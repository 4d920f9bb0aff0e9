"""Readings of torch's own allocator on CUDA devices. Called by the adapter."""

from __future__ import annotations

from types import ModuleType
from typing import Any


def torch_allocator(torch: ModuleType) -> dict[str, float]:
    """Return allocated, reserved and peak bytes of each CUDA device, such as `memory/cuda0/allocated`.

    Devices have torch's numbers (after CUDA_VISIBLE_DEVICES), unlike NVML's `gpu0`. The result is empty while
    CUDA is not initialized, which this never changes. It waits for no device. The peak is that of
    `torch.cuda.max_memory_allocated`.
    """
    if not torch.cuda.is_initialized():
        return {}
    readings: dict[str, float] = {}
    for device in range(torch.cuda.device_count()):
        readings |= device_readings(torch, device)
    return readings


def device_readings(torch: ModuleType, device: int) -> dict[str, float]:
    try:
        # The nested form: the flat one sorts and flattens a hundred numbers at each call.
        stats: dict[str, Any] = torch.cuda.memory.memory_stats_as_nested_dict(device)
    except RuntimeError:  # the user's own allocator may keep no statistics
        return {}
    try:
        allocated, reserved = (stats[name]["all"] for name in ("allocated_bytes", "reserved_bytes"))
    except KeyError:
        return {}
    if not reserved["peak"]:  # never used by this process
        return {}
    prefix = f"memory/cuda{device}"
    return {
        f"{prefix}/allocated": float(allocated["current"]),
        f"{prefix}/reserved": float(reserved["current"]),
        f"{prefix}/peak_allocated": float(allocated["peak"]),
    }
