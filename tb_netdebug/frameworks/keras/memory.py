"""Read TensorFlow's own memory allocators."""

from __future__ import annotations

import tensorflow as tf


def answers_late() -> bool:
    """Return whether TensorFlow returns from a step before its results are there, as on an accelerator."""
    return bool(tf.config.list_logical_devices("GPU"))


def device_memory() -> dict[str, float]:
    """Return the memory readings of each accelerator; empty without one, as the CPU allocator has none."""
    readings: dict[str, float] = {}
    for device in tf.config.list_logical_devices("GPU"):
        number = device.name.rpartition(":")[2]
        try:
            info = tf.config.experimental.get_memory_info(f"GPU:{number}")
        except (ValueError, tf.errors.OpError):
            continue
        # A device with a peak of 0 is one that this process does not use.
        if info["peak"]:
            readings[f"memory/cuda{number}/allocated"] = float(info["current"])
            readings[f"memory/cuda{number}/peak_allocated"] = float(info["peak"])
    return readings
