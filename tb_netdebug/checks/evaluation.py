"""Which scalars are losses on data that is not trained on."""

from __future__ import annotations

import re

EVALUATION = frozenset({"val", "valid", "validation", "eval", "evaluation", "test", "dev"})


def is_evaluation(name: str) -> bool:
    """A loss on other data than those trained on, by the names that people give it."""
    words = set(re.split(r"[^a-z0-9]+|_", re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).lower()))
    return "loss" in words and not words.isdisjoint(EVALUATION)
