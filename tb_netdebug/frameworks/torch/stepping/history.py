"""Decides which values of the previous batch are kept, and when they are copied."""

from __future__ import annotations

import torch

from tb_netdebug.debugger.workbench import WorkbenchError
from tb_netdebug.frameworks.torch.optimizers import OptimizerHooks
from tb_netdebug.frameworks.torch.stepping.layers import SteppedLayers
from tb_netdebug.frameworks.torch.stepping.previous import PreviousValues
from tb_netdebug.frameworks.torch.stepping.tensors import ReachableTensors


class ValueHistory:
    """Copies the wanted tensors at the end of each batch."""

    def __init__(
        self,
        layers: SteppedLayers,
        tensors: ReachableTensors,
        previous: PreviousValues,
        optimizers: OptimizerHooks,
    ) -> None:
        self._layers = layers
        self._tensors = tensors
        self._previous = previous
        self._optimizers = optimizers
        self._wanted: frozenset[str] = frozenset()
        self._steps_before = 0  # steps of optimizers up to the end of the previous batch

    def want(self, names: frozenset[str]) -> None:
        """Keep these names from now on; an update needs the weight from before it.

        If no optimizer has stepped in this batch, the weights are still those of the previous batch. They are
        then copied at once.
        """
        self._wanted = names | {f"weight:{each[7:]}" for each in names if each.startswith("update:")}
        self._previous.keep_only(self._wanted)
        if self._optimizers.steps != self._steps_before or not self._optimizers.known():
            return
        self._layers.look()
        for name in self._wanted:
            weight = self._layers.weights.get(name.removeprefix("weight:"))
            if weight is not None and self._previous.get(name) is None:
                self._previous.take(name, weight)

    def end_batch(self) -> None:
        """Copy what is wanted. Updates come first, as they are made from the previous batch's weights."""
        self._steps_before = self._optimizers.steps
        for name in sorted(self._wanted, key=lambda name: not name.startswith("update:")):
            try:
                if name.startswith("update:"):
                    self._take_update(name)
                else:
                    self._previous.take(name, self._tensors.find(name).tensor)
            except WorkbenchError:
                self._previous.forget(name)

    def _take_update(self, name: str) -> None:
        update = self._tensors.readable(name)
        if update.entry.bytes <= self._previous.most_bytes_each:
            whole = update.part(tuple(slice(None) for _ in update.entry.shape))
            self._previous.take(name, torch.as_tensor(whole))
