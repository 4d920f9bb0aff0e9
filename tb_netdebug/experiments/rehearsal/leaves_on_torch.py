"""The leaves of backward passes (parameters and plain tensors), and whether somebody has changed them.

`steps_on_torch.py` detects optimizer steps made by hand with it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import torch
from torch import nn
from torch.utils._python_dispatch import is_traceable_wrapper_subclass

# The most bytes of values that are kept. If there are more, evenly spread samples have to do.
MOST_KEPT_BYTES = 1 << 30
# The most nodes visited in a graph. Bigger graphs are of unrolled loops, which reach the same leaves
# repeatedly.
MOST_NODES = 100_000


def leaves_of(roots: Iterable[Any]) -> dict[int, torch.Tensor]:
    """Return the leaf tensors that a backward pass from these roots reaches, by id."""
    found: dict[int, torch.Tensor] = {}
    nodes = []
    for root in roots:
        node = getattr(root, "node", None) or getattr(root, "grad_fn", None)
        if node is not None:
            nodes.append(node)
        elif isinstance(root, torch.Tensor) and root.requires_grad:
            found[id(root)] = root
    seen = set(nodes)
    while nodes and len(seen) < MOST_NODES:
        node = nodes.pop()
        leaf = getattr(node, "variable", None)  # set on AccumulateGrad nodes
        if isinstance(leaf, torch.Tensor):
            found[id(leaf)] = leaf
        for following, _ in node.next_functions:
            if following is not None and following not in seen:
                seen.add(following)
                nodes.append(following)
    return found


class Kept:
    """The recorded values of a tensor."""

    def __init__(self, tensor: torch.Tensor, stride: int) -> None:
        self.tensor = tensor
        self._stride = stride
        self._version = tensor._version
        self._values = values_of(tensor, stride)

    def has_changed(self) -> bool:
        """Return whether the tensor has changed since.

        The version counter alone is not enough: writes to `.data` or to a NumPy view leave it as it is.
        """
        if self.tensor._version != self._version:
            return True
        now = values_of(self.tensor, self._stride)
        if now is None or self._values is None or now.shape != self._values.shape:
            return False  # a sharded parameter releases its memory and gets it back
        return not torch.equal(now, self._values)


def values_of(tensor: torch.Tensor, stride: int) -> torch.Tensor | None:
    """Return every stride-th value as bytes, or None if the tensor has no values of its own."""
    if tensor.layout is not torch.strided or tensor.is_meta or is_traceable_wrapper_subclass(tensor):
        return None
    if tensor.untyped_storage().nbytes() == 0:
        return None
    # Compared as bytes, because NaN is not equal to itself.
    return tensor.detach().reshape(-1)[::stride].clone().view(torch.uint8)


class Leaves:
    """The leaves of the backward passes since the last step."""

    def __init__(self) -> None:
        self._kept: dict[int, Kept] = {}
        self._places: list[tuple[nn.Module, str, nn.Parameter]] = []

    def keep(self, tensors: Iterable[torch.Tensor], models: Iterable[nn.Module]) -> None:
        """Keep these tensors and no others from now on. Call it when none has changed."""
        self._places = list(places_of(models))
        wanted = {id(each): each for each in tensors} | {id(each): each for _, _, each in self._places}
        stride = 1 + sum(each.nbytes for each in wanted.values()) // MOST_KEPT_BYTES
        self._kept = {
            number: self._kept.get(number) or Kept(tensor, stride) for number, tensor in wanted.items()
        }

    def have_changed(self) -> bool:
        """Return whether a kept tensor was changed, or a parameter replaced."""
        return any(was_replaced(*each) for each in self._places) or any(
            each.has_changed() for each in self._kept.values()
        )

    def forget(self) -> None:
        self._kept.clear()
        self._places.clear()


def places_of(models: Iterable[nn.Module]) -> Iterator[tuple[nn.Module, str, nn.Parameter]]:
    """Yield the trainable parameters with their module and name.

    Frozen ones are left out, such as a slowly following copy (EMA).
    """
    for model in models:
        for part in model.modules():
            for name, parameter in part._parameters.items():
                if parameter is not None and parameter.requires_grad:
                    yield part, name, parameter


def was_replaced(part: nn.Module, name: str, parameter: nn.Parameter) -> bool:
    """Return whether another parameter is in this place.

    A place without a parameter does not count: pruning moves the parameter to another name.
    """
    now = part._parameters.get(name)
    return now is not None and now is not parameter
