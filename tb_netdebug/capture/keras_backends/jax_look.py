"""A program beside the training's own: the same forward and backward pass of one batch, looked into.

JAX compiles a training step as one function of the state, and to look into that function would be to change
how it computes. So it is left alone. In sampled steps the same batch goes through a second function, from the
same weights and the same state of random numbers, which JAX keeps in the open: dropout drops the same. Its
numbers are those of the step, but for what another order of additions makes of the last bits.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import keras

from tb_netdebug.capture.keras.calls import listening
from tb_netdebug.capture.keras_backends.standins import data_type
from tb_netdebug.capture.keras_backends.tap import Tap

# The state of a training, as Keras passes it: trained variables, others, the optimizer's, the metrics'.
State = tuple[list[Any], list[Any], list[Any], list[Any]]


@dataclass(slots=True, eq=False)
class Seen:
    """The values of one look: activations and losses as in the tap, gradients as in the model."""

    loss: Any
    scale: Any
    gradients: list[Any]
    activations: list[Any]
    losses: dict[str, list[Any]]


class Look:
    """For one kind of batch; compiled when it is called for the first time."""

    def __init__(self, model: Any, make_tap: Callable[[Callable[[Any], bool]], Tap]) -> None:
        self.has_run = False
        self.tap = make_tap(self._gets_out)
        self._model = model
        self._traces: set[int] = set()
        self._compiled = jax.jit(self._trace)

    def __call__(self, state: State, batch: Any) -> Seen:
        """Waits for the values. `state` can be used afterwards."""
        found = jax.block_until_ready(self._compiled(state, batch))
        self.has_run = True
        return Seen(**found)

    def _trace(self, state: State, batch: Any) -> dict[str, Any]:
        trained, others, optimizer, metrics = state
        inputs, targets, weights = keras.utils.unpack_x_y_sample_weight(batch)
        self.tap.begin(wants_layers=True, wants_losses=True)

        def loss_of(trained: list[Any]) -> Any:
            self._traces = {id(trace_of(each)) for each in jax.tree_util.tree_leaves((state, trained))}
            with listening(self.tap):
                scaled, aux = self._model.compute_loss_and_updates(
                    trained, others, metrics, inputs, targets, weights,
                    training=True, optimizer_variables=optimizer,
                )  # fmt: skip
            return scaled, (aux[0], self._shown())

        (scaled, (loss, shown)), gradients = jax.value_and_grad(loss_of, has_aux=True)(trained)
        return {"loss": loss, "scale": scaled / loss, "gradients": gradients, **shown}

    def _shown(self) -> dict[str, Any]:
        losses = self.tap.losses_shown()
        return {
            "activations": [shown.tensor for _, _, shown in self.tap.activations()],
            "losses": {name: [each.tensor for each in some] for name, some in losses.items()},
        }

    def _gets_out(self, tensor: Any) -> bool:
        """Not out of a loop or branch inside of the step."""
        return not isinstance(tensor, jax.core.Tracer) or id(trace_of(tensor)) in self._traces


def trace_of(tensor: Any) -> Any:
    """What is being traced; None for a tensor that has values."""
    return getattr(tensor, "_trace", None)


def kind_of(batch: Any) -> tuple[Any, ...]:
    """Batches of the same kind need one program."""
    leaves, structure = jax.tree_util.tree_flatten(batch)
    return structure, tuple((tuple(each.shape), data_type(each.dtype).name) for each in leaves)


def size_of(batch: Any) -> float | None:
    """The number of examples."""
    for leaf in jax.tree_util.tree_leaves(batch):
        if getattr(leaf, "ndim", 0):
            return float(leaf.shape[0])
    return None


def inputs_of(batch: Any) -> tuple[list[Any], list[Any]]:
    """Inputs of the model, and targets."""
    inputs, targets, _ = keras.utils.unpack_x_y_sample_weight(batch)
    return jax.tree_util.tree_leaves(inputs), jax.tree_util.tree_leaves(targets)
