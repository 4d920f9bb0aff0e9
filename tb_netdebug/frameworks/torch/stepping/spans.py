"""Which layer an operation of the backward pass belongs to: autograd numbers what it records."""

from __future__ import annotations

from typing import Any

import torch

from tb_netdebug.frameworks.torch.stepping.layers import SteppedLayer, SteppedLayers

next_number = getattr(torch._C._autograd, "_get_sequence_nr", None)
current_node = getattr(torch._C, "_current_autograd_node", None)


class Spans:
    """The numbers of the operations that each call of a layer has recorded; empty where torch tells none."""

    def __init__(self, layers: SteppedLayers) -> None:
        self._layers = layers
        self._began: list[tuple[SteppedLayer, int]] = []  # calls that are going on
        self._spans: list[tuple[int, int, SteppedLayer]] = []  # inner calls come before those around them

    def enter(self, layer: SteppedLayer) -> None:
        if next_number is not None:
            self._began.append((layer, next_number()))

    def leave(self, layer: SteppedLayer) -> None:
        """Calls that have ended with an exception were never left."""
        while self._began:
            entered, first = self._began.pop()
            if entered is layer:
                assert next_number is not None
                self._spans.append((first, next_number(), layer))
                return

    def clear(self) -> None:
        self._began.clear()
        self._spans.clear()

    def running(self) -> SteppedLayer | None:
        """In the backward pass: whose operation it is."""
        node: Any = None if current_node is None else current_node()
        if node is None:
            return None
        variable = getattr(node, "variable", None)
        if variable is not None:  # its gradient is added to what is there
            return self._layers.named(self._layers.owner(variable))
        number = node._sequence_nr()
        return next((layer for first, end, layer in self._spans if first <= number < end), None)
