"""The layout of the counts that a graph computes of its tensors."""

from __future__ import annotations

# The key under which the result of `health_of` travels among the scalars; it is not recorded as one.
HEALTH = "health"
# One row of TensorFlow's numeric summary: tensor id, size, and counts of -infinity, +infinity and NaN.
COLUMNS = 5
NEGATIVE, POSITIVE, NAN = 2, 3, 4
