"""Operations of autograd's graph: names, order, and those between a loss and the models' outputs."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import Any

import torch

# Metadata key set on the operation that made a model's output: the loss begins there. The value is a plain
# True, so it keeps nothing alive.
MARK = "netdebug_output"
MOST_OPERATIONS = 64


def mark_output(output: torch.Tensor) -> None:
    """Mark the operation that made this output of a model, as the beginning of the loss."""
    node: Any = output.grad_fn
    if node is not None:
        node.metadata[MARK] = True


def nodes_of(root: torch.Tensor, most: int) -> Iterator[Any]:
    """Yield up to `most` operations from the loss backwards, stopping at model outputs and at parameters."""
    waiting: deque[Any] = deque([root.grad_fn])
    seen: set[Any] = set()
    while waiting and len(seen) < most:
        node = waiting.popleft()
        if node is None or node in seen or name_of(node) == "AccumulateGrad" or MARK in node.metadata:
            continue
        seen.add(node)
        yield node
        waiting.extend(following for following, _ in node.next_functions)


def number_of(node: Any) -> int:
    """Return the operation's sequence number; numbers rise in the order in which operations ran."""
    return int(node._sequence_nr())


def name_of(node: Any) -> str:
    """Return the operation's short name, such as "Log" for LogBackward0."""
    name: str = node.name().rpartition("::")[2]
    return name.partition("Backward")[0]
