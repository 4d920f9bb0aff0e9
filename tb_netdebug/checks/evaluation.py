"""Tells losses on evaluation data from training losses, by their names."""

from __future__ import annotations

import re

EVALUATION = frozenset({"val", "valid", "validation", "eval", "evaluation", "test", "dev"})


def is_evaluation(name: str) -> bool:
    """Return whether the name is that of a loss on data that is not trained on, as people usually name it."""
    # valLoss and val_loss have the same words.
    words = set(re.split(r"[^a-z0-9]+|_", re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).lower()))
    return "loss" in words and not words.isdisjoint(EVALUATION)
