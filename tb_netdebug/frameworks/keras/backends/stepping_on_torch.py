"""The debugger's tensor source for a Keras run on torch."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch

from tb_netdebug.frameworks.keras.backends.adapter import BackendAdapter
from tb_netdebug.frameworks.keras.backends.standins import tensors_in
from tb_netdebug.frameworks.keras.layers import WatchedWeight
from tb_netdebug.frameworks.keras.stepping.source import Array, TensorSource
from tb_netdebug.frameworks.torch.taps import Handle, listen

COMPILED = "With jit_compile=True, torch compiles the training step, so the run cannot stop within it."
CALLS = "Keras reports layers and optimizers, but not operations or the backward pass of single layers."

is_grad_enabled = torch.is_grad_enabled
current_backward = torch._C._current_graph_task_id


class OnTorch(TensorSource):
    def __init__(self, adapter: BackendAdapter) -> None:
        self._adapter = adapter
        self._handle: Handle | None = None

    @property
    def can(self) -> tuple[str, ...]:
        return ("batch",) if self._adapter.is_blind else ("batch", "layer", "optimizer")

    @property
    def cannot(self) -> list[str]:
        return [COMPILED] if self._adapter.is_blind else [CALLS]

    # ---- tensors -----------------------------------------------------------------------------------------

    def tensors_in(self, value: Any, name: str = "") -> Iterator[tuple[str, Any]]:
        if isinstance(value, np.ndarray):  # from `train_on_batch`
            yield name, value
        for place, tensor in tensors_in(value, name):
            if isinstance(tensor, torch.Tensor) and not tensor.is_meta:
                yield place, tensor.detach()

    def array(self, tensor: Any) -> Array:
        return self._adapter.read(tensor)

    def device(self, tensor: Any) -> str:
        return str(getattr(tensor, "device", "cpu"))

    def present(self, variable: Any) -> Any:
        return variable.value.detach()

    def value_of(self, watched: WatchedWeight) -> Any:
        return self.present(watched.variable.variable)

    def held(self, watched: WatchedWeight) -> Any:
        return self.value_of(watched).clone()

    # ---- steps -------------------------------------------------------------------------------------------

    def is_training(self) -> bool:
        return is_grad_enabled() and current_backward() == -1

    def follow_backward(self, begins: Callable[[], None] | None) -> None:
        if self._handle is not None:
            self._handle.close()
            self._handle = None
        if begins is not None:
            self._handle = listen(torch.autograd.backward, before=lambda _: begins())

    def optimizers(self) -> list[Any]:
        return self._adapter.known_optimizers()

    def rate_of(self, optimizer: Any) -> float | None:
        return self._adapter.rate_of(optimizer)
