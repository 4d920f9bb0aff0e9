"""Finds differences in a program's own losses in which each prediction meets every target."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from torch import Tensor

from tb_netdebug.core.records.facts import DifferenceFact
from tb_netdebug.frameworks.torch.numerics.graph_nodes import MOST_OPERATIONS, name_of, nodes_of
from tb_netdebug.frameworks.torch.probe import ProbeContext

# One look would do, but the first backward pass may be of something else.
STEPS_LOOKED_AT = 4
DIFFERENCES = ("Sub", "Rsub")
# A program that adds a dimension on purpose wants to compare all with all.
STRETCHES = ("Unsqueeze", "Expand", "Index")
VIEWS = ("View", "UnsafeView", "ReshapeAlias")


class Differences:
    """Searches the graph of the loss in the first steps; a difference of one kind is reported once."""

    def __init__(self, context: ProbeContext) -> None:
        self._collector = context.collector
        self._told: set[tuple[int, ...]] = set()

    @property
    def is_open(self) -> bool:
        """Whether the graph is still searched: only in the first steps."""
        return self._collector.step < STEPS_LOOKED_AT

    def look(self, roots: Any) -> None:
        """Search the graph of each loss, at the beginning of a backward pass."""
        for root in (roots,) if isinstance(roots, Tensor) else tuple(roots):
            if isinstance(root, Tensor) and root.numel() == 1:
                self._look(root)

    def _look(self, root: Tensor) -> None:
        for given, made in crossed_in(root):
            if given not in self._told:
                self._told.add(given)
                number = f"difference{len(self._told)}"
                self._collector.fact(DifferenceFact(number, given, made))


def crossed_in(root: Tensor) -> Iterator[tuple[tuple[int, ...], tuple[int, ...]]]:
    """Yield the shapes of predictions, (n, 1) or (n,), and of their differences with targets, (n, n)."""
    for node in nodes_of(root, MOST_OPERATIONS):
        if name_of(node) not in DIFFERENCES:
            continue
        operands = [(child, place) for child, place in node.next_functions if child is not None]
        made = shape_of(node, 0)
        # Two operands in the graph: both are computed, so neither is a target.
        if len(operands) != 1 or made is None or len(made) != 2 or made[0] != made[1] or made[0] == 1:
            continue
        given = shape_of(*operands[0])
        if given in ((made[0], 1), (made[0],)) and not is_stretched(operands[0][0], given):
            yield given, made


def is_stretched(node: Any, made: tuple[int, ...]) -> bool:
    """Return whether an operation only adds a dimension."""
    if name_of(node) in STRETCHES:
        return True
    child, place = next(iter(node.next_functions), (None, 0))
    before = shape_of(child, place) if child is not None and name_of(node) in VIEWS else None
    return before is not None and len(before) < len(made)


def shape_of(node: Any, place: int) -> tuple[int, ...] | None:
    """Return the shape of an operation's output, or None where this version of torch does not store it."""
    outputs = getattr(node, "_input_metadata", ())
    return tuple(outputs[place].shape) if place < len(outputs) else None
