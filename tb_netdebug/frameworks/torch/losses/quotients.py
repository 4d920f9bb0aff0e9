"""Measures what a program's own losses are divided by, where the network computes the divisor, too."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from torch import Tensor

from tb_netdebug.frameworks.torch.losses.scalar_sink import ScalarSink, is_recorded, measuring
from tb_netdebug.frameworks.torch.numerics.graph_nodes import MARK, name_of

MOST_OPERATIONS = 24
MOST_QUOTIENTS = 4
# Divisors are read up to this size: one for each row of a batch, or for each row and class.
MOST_VALUES = 4096
# May lie between a quotient and the loss: the loss is then unbounded wherever the quotient is.
PASSING = frozenset({"Rsub", "Sub", "Add", "Neg", "Mul", "Mean", "Sum"})
# The divisor has to be a sum over outputs: an overlap is divided by sums, a coordinate is not.
SUMS = frozenset({"Sum", "Mean"})
SUMMED = frozenset({"Add", "Sub", "Rsub", "Clamp", "ClampMin", "Squeeze", "View"})


class Quotients:
    """Searches the graph of the loss at the beginning of a backward pass; nothing waits for a device."""

    def __init__(self, sink: ScalarSink) -> None:
        self._sink = sink
        self._count = 0  # quotients in this step, over all of its backward passes

    def end_step(self) -> None:
        self._count = 0

    def look(self, roots: Any) -> None:
        """Measure the divisors in the graphs of the losses, at the beginning of a backward pass."""
        for root in (roots,) if isinstance(roots, Tensor) else tuple(roots):
            if isinstance(root, Tensor) and root.numel() == 1 and not is_recorded(root.device):
                for divisor in divisors_of(root):
                    self._measure(divisor)

    def _measure(self, divisor: Tensor) -> None:
        if self._count < MOST_QUOTIENTS:
            with measuring(divisor.device):
                low, high = divisor.detach().float().aminmax()
            self._sink.put_all(f"probe/divisor/{self._count}/", {"min": low, "max": high})
            self._count += 1


def divisors_of(root: Tensor) -> Iterator[Tensor]:
    """Yield the sums over outputs of a network by which a loss, or a part of it, is divided."""
    waiting: list[Any] = [root.grad_fn]
    for _ in range(MOST_OPERATIONS):
        node = waiting.pop(0) if waiting else None
        if node is None or MARK in node.metadata:
            continue
        children = [child for child, _ in node.next_functions]
        name = name_of(node)
        if name in PASSING:
            waiting.extend(children)
        elif name == "Div":
            waiting.append(children[0])
            divisor = kept(node) if any(map(is_sum, children[1:])) else None
            if divisor is not None and divisor.is_floating_point() and 0 < divisor.numel() <= MOST_VALUES:
                yield divisor


def is_sum(node: Any) -> bool:
    """Return whether a node is a sum, perhaps with a constant added."""
    waiting = [node]
    for _ in range(MOST_OPERATIONS):
        node = waiting.pop(0) if waiting else None
        if node is None:
            continue
        name = name_of(node)
        if name in SUMS:
            return True
        if name in SUMMED:
            waiting.extend(child for child, _ in node.next_functions)
    return False


def kept(node: Any) -> Tensor | None:
    """Return the divisor that the graph has saved; None if it had no need to, or has released it."""
    try:
        divisor = node._saved_other
    except RuntimeError:  # after an earlier backward pass
        return None
    return divisor if isinstance(divisor, Tensor) else None
