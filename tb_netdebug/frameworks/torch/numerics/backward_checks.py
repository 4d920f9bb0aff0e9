"""Follows a backward pass from operation to operation to find the one that made a NaN from finite gradients.

Used by `check_numerics="ops"` and by replays only: a hook on each operation of the graph reads its gradients.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import torch

from tb_netdebug.frameworks.torch.interception import Unintercepted
from tb_netdebug.frameworks.torch.numerics.flags import CLEAN, NonFiniteFlags, flags_of
from tb_netdebug.frameworks.torch.numerics.graph_evidence import forward_order
from tb_netdebug.frameworks.torch.numerics.graph_nodes import name_of, number_of
from tb_netdebug.frameworks.torch.numerics.loss_lines import TRACE, user_line
from tb_netdebug.frameworks.torch.numerics.origin_report import Origin, Place

# Destinations of a gradient that are not operations: a parameter, and an input that needs no gradient.
PARAMETER, NOBODY = -1, -2


class Slope(NamedTuple):
    """An operation of the backward pass, such as "SqrtBackward0", and what is known of its forward one.

    `number` is the sequence number of the forward operation. `line` is empty if no trace was recorded.
    """

    operation: str
    number: int
    line: str


class Node(NamedTuple):
    """What the hook keeps of an operation: never the operation itself, which already holds the hook."""

    name: str
    number: int
    trace: Any
    following: tuple[int, ...]  # sequence numbers of the operations that receive its gradients


class BackwardChecks:
    """Hooks for a backward pass; `found` is the first operation whose NaN or infinity reached a parameter."""

    def __init__(self, on_fault: Callable[[Exception], None] | None = None) -> None:
        self.found: Slope | None = None
        self._on_fault = on_fault
        self._causes: dict[int, Slope] = {}  # keyed by the operation that receives the bad gradient
        self._hooks: list[Any] = []

    def begin(self, roots: Iterable[torch.Tensor]) -> None:
        """Hook all operations behind the roots. Call it before the pass."""
        self.end()
        for node in forward_order(*roots):
            following = tuple(target_of(each) for each, _ in node.next_functions)
            kept = Node(node.name(), number_of(node), node.metadata.get(TRACE), following)
            self._hooks.append(node.register_hook(partial(self._look, kept)))

    def end(self) -> None:
        """Remove the hooks, after the pass or without one.

        The graph may be traversed again later, unobserved.
        """
        for hook in self._hooks:
            hook.remove()
        self._hooks.clear()
        self._causes.clear()

    def end_pass(self, _: Any) -> None:
        """Remove the hooks; takes the argument that a backward watch passes."""
        self.end()

    def forget(self) -> None:
        """Remove the hooks and drop what was found."""
        self.end()
        self.found = None

    def _look(self, node: Node, made: Any, given: Any) -> None:
        if self.found is not None:
            return
        try:
            with Unintercepted():
                self._follow(node, [flags(each) for each in made or ()], given)
        except Exception as error:
            if self._on_fault is None:
                raise
            self._on_fault(error)

    def _follow(self, node: Node, made: Sequence[NonFiniteFlags], given: Any) -> None:
        if not any(each.any for each in made):
            return
        cause = self._causes.get(node.number)
        if cause is None:
            if any(flags(each).any for each in given or ()):
                return  # it came from outside: the pass was started with it
            line = user_line(node.trace) if isinstance(node.trace, list) else ""
            cause = Slope(node.name.rpartition("::")[2], node.number, line)
        for each, number in zip(made, node.following, strict=False):
            if each.any and number == PARAMETER:
                self.found = cause
                return
            if each.any:
                # The first cause wins: later gradients only add to a sum that is bad already.
                self._causes.setdefault(number, cause)


def target_of(node: Any) -> int:
    if node is None:
        return NOBODY
    return PARAMETER if name_of(node) == "AccumulateGrad" else number_of(node)


def of_slope(slope: Slope, seen: Origin, place: Place | None) -> Origin:
    """Return the origin of bad gradients with the operation that made them.

    `place` is given for an operation inside a model; None leaves the origin's module as it was.
    """
    told = replace(seen, operation=slope.operation, site=slope.line)
    if place is None:
        return told
    return replace(told, where=place.where, class_name=place.class_name, site=place.line or slope.line)


def flags(gradient: Any) -> NonFiniteFlags:
    """Return the flags of a gradient; clean for None, as many operations have no gradient for some inputs."""
    return flags_of(gradient) if isinstance(gradient, torch.Tensor) else CLEAN
