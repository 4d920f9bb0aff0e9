"""The debugger's tensor source for a Keras run on JAX, which stops between batches only."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import jax
import keras
import numpy as np

from tb_netdebug.frameworks.keras.backends.adapter import BackendAdapter, Run
from tb_netdebug.frameworks.keras.backends.jax_steps import JaxSteps
from tb_netdebug.frameworks.keras.backends.standins import tensors_in
from tb_netdebug.frameworks.keras.layers import WatchedWeight
from tb_netdebug.frameworks.keras.stepping.source import Array, Shown, TensorSource, rate_variable
from tb_netdebug.frameworks.keras.stepping.visible_tensors import owner

WHOLE = "JAX runs the training step as a whole, so the run cannot stop within it."
NAMES = {"inputs": "batch", "targets": "label", "values": "loss"}


class OnJax(TensorSource):
    """Shows inner values of a step as a look at the same batch has computed them."""

    can = ("batch",)
    cannot = [WHOLE]  # noqa: RUF012

    def __init__(self, adapter: BackendAdapter, steps: Sequence[JaxSteps]) -> None:
        self._adapter = adapter
        self._steps = steps
        self._runs: Sequence[Run] = ()

    # ---- tensors -----------------------------------------------------------------------------------------

    def tensors_in(self, value: Any, name: str = "") -> Iterator[tuple[str, Any]]:
        if isinstance(value, np.ndarray):
            yield name, value
        for place, tensor in tensors_in(value, name):
            if not isinstance(tensor, jax.core.Tracer):  # a tracer has no values: a step is being compiled
                yield place, tensor

    def array(self, tensor: Any) -> Array:
        return self._adapter.read(tensor)

    def device(self, tensor: Any) -> str:
        if not isinstance(tensor, jax.Array):
            return "cpu"
        device = next(iter(tensor.devices()))
        return "cpu" if device.platform == "cpu" else f"{device.platform}:{device.id}"

    def present(self, variable: Any) -> Any:
        return self._adapter.tensor_of(variable)

    def value_of(self, watched: WatchedWeight) -> Any:
        return self.present(watched.variable.variable)

    def held(self, watched: WatchedWeight) -> Any:
        """Return a copy, because a step consumes its inputs."""
        return np.array(self.array(self.value_of(watched)))

    # ---- steps -------------------------------------------------------------------------------------------

    def show_all(self, wanted: bool) -> None:
        for each in self._steps:
            each.looks_always = wanted

    def has_run(self, runs: Sequence[Run]) -> None:
        self._runs = runs

    def shown(self) -> Shown:
        for tap, shown in self._runs:
            for name, kind in NAMES.items():
                for number, each in enumerate(shown.get(name, [])):
                    yield kind, str(number), None, each.tensor
            for (call, place, _), each in zip(tap.activations(), shown.get("activations", []), strict=False):
                yield "output", call.layer.name + place, call.layer.name, each.tensor
            for (watched, _, _), each in zip(tap.gradients(), shown.get("gradients", []), strict=False):
                yield "gradient", watched.name, owner(watched), each.tensor

    def end_batch(self) -> None:
        self._runs = ()

    # ---- optimizers --------------------------------------------------------------------------------------

    def optimizers(self) -> list[Any]:
        return self._adapter.known_optimizers()

    def rate_of(self, optimizer: Any) -> float | None:
        rate = rate_variable(optimizer)
        if not isinstance(rate, keras.Variable):
            return None
        return float(self.array(self.present(rate)))

    def set_rate(self, optimizer: Any, value: float) -> None:
        """Set the rate in the state of the next step while `fit` holds that, else in the variable."""
        rate = rate_variable(optimizer)
        if not isinstance(rate, keras.Variable) or rate._value is not None:
            super().set_rate(optimizer, value)
            return
        for each in self._steps:
            each.put(rate, jax.numpy.asarray(value, rate.dtype))
