"""How what a graph has counted of its tensors is laid out."""

from __future__ import annotations

# The name of what `health_of` gives, where it travels among scalars; it is none itself.
HEALTH = "health"
# TensorFlow's own count of values that are no numbers: place, size, -infinity, +infinity, NaN.
COLUMNS = 5
NEGATIVE, POSITIVE, NAN = 2, 3, 4
