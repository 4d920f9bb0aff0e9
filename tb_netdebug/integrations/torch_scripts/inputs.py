"""Recognises optimizers that update the inputs of a network.

Adversarial examples, style transfer and DeepDream do so.
"""

from __future__ import annotations

import weakref
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import Any

import torch
from torch.optim import Optimizer

from tb_netdebug.frameworks.torch.values import tensors_in
from tb_netdebug.integrations.torch_scripts.names import Place
from tb_netdebug.integrations.torch_scripts.owners import tensors_of

# An input is computed from the optimized tensor in a few operations: a sum, a clamp, a tanh.
MOST_NODES = 200
MOST_INPUTS = 10_000


class Inputs:
    """The tensors of waiting optimizers that were seen in the inputs of modules.

    Such optimizers train no network: its weights stay fixed on purpose, and no rule of training applies.
    """

    def __init__(self) -> None:
        self._seen: dict[int, weakref.ref[torch.Tensor]] = {}
        self._told = ""

    def note(self, given: Sequence[Any], wanted: Collection[int]) -> None:
        """Look for optimized tensors in the arguments of a call; `wanted` holds the ids of those tensors."""
        for argument in given:
            for _, tensor in tensors_in(argument):
                for leaf in leaves_of(tensor):
                    if id(leaf) in wanted and len(self._seen) < MOST_INPUTS:
                        self._seen[id(leaf)] = weakref.ref(leaf)

    def are_all_of(self, optimizer: Optimizer) -> bool:
        """Return whether the optimizer updates nothing but inputs."""
        tensors = tensors_of(optimizer)
        return bool(tensors) and all(self._has(tensor) for tensor in tensors)

    def let_go(self, optimizer: Optimizer, place: Place | None) -> None:
        """Remember the optimizer for `unrecorded`, and forget its tensors."""
        where = f" ({Path(place[0]).name}:{place[1]})" if place is not None else ""
        self._told = self._told or f"{type(optimizer).__name__}{where}"
        for tensor in tensors_of(optimizer):
            self._seen.pop(id(tensor), None)

    def unrecorded(self) -> str:
        """Return a sentence about the optimizers of inputs; empty when there were none."""
        if not self._told:
            return ""
        return (
            f"nothing was trained: {self._told} holds no parameter of a model. It changes the input of a "
            "model, as for adversarial examples or style transfer. Nothing was recorded."
        )

    def _has(self, tensor: Any) -> bool:
        seen = self._seen.get(id(tensor))
        return seen is not None and seen() is tensor


def leaves_of(tensor: torch.Tensor) -> Iterator[torch.Tensor]:
    """Yield the leaves that a tensor was computed from and that get gradients through it, nearest first."""
    if not tensor.requires_grad:
        return
    if tensor.grad_fn is None:
        yield tensor
        return
    waiting: list[Any] = [tensor.grad_fn]
    seen = set(waiting)
    # The list grows while it is walked: breadth first.
    for node in waiting:
        variable = getattr(node, "variable", None)
        if variable is not None:
            yield variable
        for following, _ in node.next_functions:
            if following is not None and following not in seen and len(seen) < MOST_NODES:
                seen.add(following)
                waiting.append(following)
