"""Follows a backward pass from operation to operation: which of them made a NaN of finite gradients.

For `check_numerics="ops"` and replays only: a hook on each operation of the graph reads its gradients.
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
from tb_netdebug.frameworks.torch.numerics.origin_told import Origin, Place

# Gradients go to these, too, not only to operations.
PARAMETER, NOBODY = -1, -2


class Slope(NamedTuple):
    """An operation of the backward pass, such as "SqrtBackward0", and what is known of its forward one.

    `number` is that of the forward operation; its line is empty where nobody has traced it.
    """

    operation: str
    number: int
    line: str


class Node(NamedTuple):
    """What is kept of an operation: nothing that holds it, for it holds our hook."""

    name: str
    number: int
    trace: Any
    following: tuple[int, ...]  # the numbers of those that its gradients go to


class BackwardChecks:
    """`found` is the first operation on the way back whose NaN or infinity got to a parameter."""

    def __init__(self, on_fault: Callable[[Exception], None] | None = None) -> None:
        self.found: Slope | None = None
        self._on_fault = on_fault
        self._causes: dict[int, Slope] = {}  # by the number of the operation that is given such gradients
        self._hooks: list[Any] = []

    def begin(self, roots: Iterable[torch.Tensor]) -> None:
        """Called before the pass."""
        self.end()
        for node in forward_order(*roots):
            following = tuple(target_of(each) for each, _ in node.next_functions)
            kept = Node(node.name(), number_of(node), node.metadata.get(TRACE), following)
            self._hooks.append(node.register_hook(partial(self._look, kept)))

    def end(self) -> None:
        """After the pass, or when there is none; a graph may be gone through again without us."""
        for hook in self._hooks:
            hook.remove()
        self._hooks.clear()
        self._causes.clear()

    def end_pass(self, _: Any) -> None:
        """As `end`, for who says which pass has ended."""
        self.end()

    def forget(self) -> None:
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
                return  # it was given to the whole pass
            line = user_line(node.trace) if isinstance(node.trace, list) else ""
            cause = Slope(node.name.rpartition("::")[2], node.number, line)
        for each, number in zip(made, node.following, strict=False):
            if each.any and number == PARAMETER:
                self.found = cause
                return
            if each.any:
                self._causes.setdefault(number, cause)


def target_of(node: Any) -> int:
    if node is None:
        return NOBODY
    return PARAMETER if name_of(node) == "AccumulateGrad" else number_of(node)


def of_slope(slope: Slope, seen: Origin, place: Place | None) -> Origin:
    """The origin of gradients, with the operation that made them; `place` is known of one in a model."""
    told = replace(seen, operation=slope.operation, site=slope.line)
    if place is None:
        return told
    return replace(told, where=place.where, class_name=place.class_name, site=place.line or slope.line)


def flags(gradient: Any) -> NonFiniteFlags:
    """Of none, too: many an operation has no gradient for some of what it was given."""
    return flags_of(gradient) if isinstance(gradient, torch.Tensor) else CLEAN
