"""Tells scalars of evaluation data, and losses among them, from those of the training, by their names."""

from __future__ import annotations

import re

EVALUATION = frozenset({"val", "valid", "validation", "eval", "evaluation", "test", "dev"})


def is_evaluation(name: str) -> bool:
    """Return whether the name is that of a loss on data that is not trained on, as people usually name it."""
    return "loss" in words_of(name) and is_evaluation_number(name)


def is_evaluation_number(name: str) -> bool:
    """Return whether the name is that of any number about such data, such as an accuracy."""
    return not words_of(name).isdisjoint(EVALUATION)


def words_of(name: str) -> set[str]:
    """Return the words of a name; valLoss and val_loss have the same."""
    return set(re.split(r"[^a-z0-9]+|_", re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).lower()))
