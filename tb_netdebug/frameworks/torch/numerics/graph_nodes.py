"""Operations of autograd's graph: their names, and those between a loss and the outputs of models."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import Any

import torch

# Left on the operation that made a model's output: there the loss begins. It keeps nothing alive.
MARK = "netdebug_output"
MOST_OPERATIONS = 64


def mark_output(output: torch.Tensor) -> None:
    """Called when a model puts it out."""
    node: Any = output.grad_fn
    if node is not None:
        node.metadata[MARK] = True


def nodes_of(root: torch.Tensor, most: int) -> Iterator[Any]:
    """From the loss backwards, as far as the outputs of models and as parameters."""
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
    """In the order in which they ran."""
    return int(node._sequence_nr())


def name_of(node: Any) -> str:
    """As `Log` of LogBackward0."""
    name: str = node.name().rpartition("::")[2]
    return name.partition("Backward")[0]
