"""Of what the values of the batch before are kept, and when they are taken."""

from __future__ import annotations

import torch

from tb_netdebug.debugger.workbench import WorkbenchError
from tb_netdebug.frameworks.torch.optimizers import OptimizerHooks
from tb_netdebug.frameworks.torch.stepping.layers import SteppedLayers
from tb_netdebug.frameworks.torch.stepping.previous import PreviousValues
from tb_netdebug.frameworks.torch.stepping.tensors import ReachableTensors


class ValueHistory:
    """At the end of each batch, of the names that are wanted."""

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
        self._steps_before = 0  # of optimizers, until the end of the batch before

    def want(self, names: frozenset[str]) -> None:
        """Weights that nothing has moved in this batch are those of the batch before, and taken at once."""
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
        """Updates first: they are made from the weights of the batch before."""
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
