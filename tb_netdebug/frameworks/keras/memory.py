"""What TensorFlow's own allocators say."""

from __future__ import annotations

import tensorflow as tf


def answers_late() -> bool:
    """Whether TensorFlow comes back from a step before its results are there, as from an accelerator."""
    return bool(tf.config.list_logical_devices("GPU"))


def device_memory() -> dict[str, float]:
    """Of each accelerator; empty where there is none, for the allocator of the CPU does not tell."""
    readings: dict[str, float] = {}
    for device in tf.config.list_logical_devices("GPU"):
        number = device.name.rpartition(":")[2]
        try:
            info = tf.config.experimental.get_memory_info(f"GPU:{number}")
        except (ValueError, tf.errors.OpError):
            continue
        if info["peak"]:
            readings[f"memory/cuda{number}/allocated"] = float(info["current"])
            readings[f"memory/cuda{number}/peak_allocated"] = float(info["peak"])
    return readings
