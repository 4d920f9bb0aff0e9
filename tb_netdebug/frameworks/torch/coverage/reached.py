"""Parameters that a loss depends on, read off its graph before a backward pass uses that up."""

from __future__ import annotations

from collections.abc import Container, Sequence
from dataclasses import dataclass
from typing import Any

from torch import Tensor, nn

MOST_NODES = 20_000
LEAF = "torch::autograd::AccumulateGrad"
# What a layer may do to a parameter before it uses it; an embedding looks up rows of it.
VIEWS = tuple(
    f"{name}Backward"
    for name in (
        "Alias", "Clone", "Embedding", "Expand", "Permute", "Select", "Slice", "Squeeze", "T", "ToCopy",
        "Transpose", "UnsafeView", "Unsqueeze", "View",
    )
)  # fmt: skip


@dataclass(slots=True)
class Reached:
    """A parameter of no watched model, and where it is used.

    `is_before`: what is made with it goes into layers of the watched models. `is_behind`: what those have
    made meets it. Between two such layers it is both.
    """

    tensor: nn.Parameter
    is_before: bool = False
    is_behind: bool = False


def reached_by(
    roots: Sequence[Tensor], members: Container[int], *, most: int = MOST_NODES
) -> dict[int, Reached]:
    """By id. Of a graph with more nodes a part is looked at. No value is read, and no gradient is touched."""
    nodes = in_order([root.grad_fn for root in roots], most)
    leaves = leaves_of(nodes)
    operations = {node: children_of(node) for node in nodes if node not in leaves}
    depending = {node for node, leaf in leaves.items() if id(leaf) in members}
    for node, children in operations.items():
        if not depending.isdisjoint(children):
            depending.add(node)
    return placed(operations, leaves, depending)


def placed(
    operations: dict[Any, list[Any]], leaves: dict[Any, Tensor], depending: set[Any]
) -> dict[int, Reached]:
    """From the roots on: `feeding` are the operations whose results go into a layer of the models."""
    found: dict[int, Reached] = {}
    feeding: set[Any] = set()
    for node in reversed(operations):
        children = operations[node]
        feeds = node in feeding
        is_layer = any(child in leaves and child in depending for child in children)
        for child in children:
            leaf = leaves.get(child)
            if leaf is None:
                if feeds or is_layer:
                    feeding.add(child)
            elif child not in depending and isinstance(leaf, nn.Parameter):
                reached = found.setdefault(id(leaf), Reached(leaf))
                reached.is_before |= feeds
                reached.is_behind |= any(other in depending for other in children)
    return found


def in_order(roots: Sequence[Any], most: int) -> list[Any]:
    """Every operation after those that it is made from."""
    ordered: list[Any] = []
    seen: set[Any] = set()
    waiting: list[tuple[Any, bool]] = [(root, False) for root in roots if root is not None]
    while waiting:
        node, is_done = waiting.pop()
        if is_done:
            ordered.append(node)
        elif node not in seen and len(seen) < most:
            seen.add(node)
            waiting.append((node, True))
            waiting.extend((child, False) for child in children_of(node))
    return ordered


def leaves_of(nodes: Sequence[Any]) -> dict[Any, Tensor]:
    """The tensor of each node that is a leaf, or nothing but a view of one."""
    leaves: dict[Any, Tensor] = {}
    for node in nodes:
        name = node.name()
        if name == LEAF:
            leaves[node] = node.variable
        elif name.startswith(VIEWS):
            children = children_of(node)
            if len(children) == 1 and children[0] in leaves:
                leaves[node] = leaves[children[0]]
    return leaves


def children_of(node: Any) -> list[Any]:
    return [child for child, _ in node.next_functions if child is not None]
