"""Reads from a loss's graph which parameters it depends on, before the backward pass frees the graph."""

from __future__ import annotations

from collections.abc import Container, Sequence
from dataclasses import dataclass
from typing import Any

from torch import Tensor, nn

MOST_NODES = 20_000
LEAF = "torch::autograd::AccumulateGrad"
# Operations through which a layer may use a parameter; an embedding looks up its rows.
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

    `is_before`: results made with it go into layers of the watched models. `is_behind`: it meets results of
    those layers. A parameter between two such layers is both.
    """

    tensor: nn.Parameter
    is_before: bool = False
    is_behind: bool = False


def reached_by(
    roots: Sequence[Tensor], members: Container[int], *, most: int = MOST_NODES
) -> dict[int, Reached]:
    """Return the parameters that the roots depend on, by id, except the members.

    A graph with more than `most` nodes is searched in part. No value is read and no gradient touched.
    """
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
    """Return where each parameter is used, walking from the roots to the leaves.

    `feeding` are the operations whose results go into a layer of the models.
    """
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
    """Return the operations, each after those that it depends on."""
    ordered: list[Any] = []
    seen: set[Any] = set()
    waiting: list[tuple[Any, bool]] = [(root, False) for root in roots if root is not None]
    while waiting:
        node, is_done = waiting.pop()
        # Depth first without recursion: a node is pushed again below its children, and is done when it comes
        # back.
        if is_done:
            ordered.append(node)
        elif node not in seen and len(seen) < most:
            seen.add(node)
            waiting.append((node, True))
            waiting.extend((child, False) for child in children_of(node))
    return ordered


def leaves_of(nodes: Sequence[Any]) -> dict[Any, Tensor]:
    """Return the tensor of each node that is a leaf, or only a view of one."""
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
