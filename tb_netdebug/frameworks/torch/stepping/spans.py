"""Finds the layer of an operation in the backward pass, by the sequence numbers that autograd records."""

from __future__ import annotations

from typing import Any

import torch

from tb_netdebug.frameworks.torch.stepping.layers import SteppedLayer, SteppedLayers

next_number = getattr(torch._C._autograd, "_get_sequence_nr", None)
current_node = getattr(torch._C, "_current_autograd_node", None)


class Spans:
    """The sequence numbers that each call of a layer recorded; empty where torch exposes none."""

    def __init__(self, layers: SteppedLayers) -> None:
        self._layers = layers
        self._began: list[tuple[SteppedLayer, int]] = []  # calls in progress
        self._spans: list[tuple[int, int, SteppedLayer]] = []  # inner calls come before enclosing ones

    def enter(self, layer: SteppedLayer) -> None:
        """Note that a call of the layer begins."""
        if next_number is not None:
            self._began.append((layer, next_number()))

    def leave(self, layer: SteppedLayer) -> None:
        """End a call, and drop inner calls that an exception ended."""
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
        """Return the layer of the operation that the backward pass is executing."""
        node: Any = None if current_node is None else current_node()
        if node is None:
            return None
        variable = getattr(node, "variable", None)
        if variable is not None:  # an AccumulateGrad node: it belongs to its parameter's layer
            return self._layers.named(self._layers.owner(variable))
        number = node._sequence_nr()
        return next((layer for first, end, layer in self._spans if first <= number < end), None)
