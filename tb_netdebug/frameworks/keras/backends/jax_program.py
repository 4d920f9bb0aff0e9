"""The training step on JAX: traced once, like Keras's own, and compiled into two programs.

Tracing runs the user's Python. JAX caches the trace of an inner function, so two outer functions can share
it. One is the step itself, which is Keras's to the last bit. The other, the look, runs before it in sampled
steps, on the same batch, the same weights and the same random state, which JAX keeps explicit. A look only
computes and changes no state; a step that calls back into Python gets no look.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any

import jax
import keras
import numpy as np

from tb_netdebug.frameworks.keras.backends.standins import Shown, data_type
from tb_netdebug.frameworks.keras.backends.tap import EagerTap
from tb_netdebug.frameworks.keras.calls import heard, listening
from tb_netdebug.frameworks.keras.values import is_float

# The training state as Keras passes it: trainable variables, others, the optimizer's, the metrics'.
State = tuple[list[Any], list[Any], list[Any], list[Any]]
MakeTap = Callable[[Callable[[Any], bool]], EagerTap]


@dataclass(slots=True, eq=False)
class StepValues:
    """The values of a step: activations and losses as in the tap, gradients as passed to the optimizer."""

    loss: Any
    scale: Any
    gradients: list[Any]
    activations: list[Any]
    entries: list[Any]
    """For each layer call, whether the inputs that no layer produced are finite; None if unknown."""
    losses: dict[str, list[Any]]


class JaxProgram:
    """The compiled step of a model; `make_tap` is None after watching has ended."""

    def __init__(self, model: Any, make_tap: MakeTap) -> None:
        self.make_tap: MakeTap | None = make_tap
        self.has_run = False
        self.taps: dict[str, EagerTap] = {}
        self.raised: Exception | None = None
        """The exception that the user's own code raised while it was traced."""
        self._calls_python: dict[str, bool] = {}
        numbers = iter(range(1 << 62))

        def traced(state: State, batch: Any) -> Any:
            number = str(next(numbers))
            looking = None if self.make_tap is None else Looking(model, self.make_tap, state)
            try:
                with looking or nullcontext():
                    logs, after = model.train_step(state, batch)
            except Exception as error:
                self.raised = error
                raise
            if looking is not None:
                self.taps[number] = looking.tap
            return logs, after, {number: None if looking is None else looking.shown()}

        inner = jax.jit(traced, inline=True)
        self._inner = inner
        # Donated as in Keras's own step: the buffers of the old state take up the new one.
        self._step = jax.jit(lambda state, batch: inner(state, batch)[:2], donate_argnums=0)
        self._look = jax.jit(lambda state, batch: inner(state, batch)[2])

    def step(self, state: State, batch: Any) -> Any:
        """Return Keras's results and the new state; the state passed in is donated and becomes unusable."""
        return self._step(state, batch)

    def look(self, state: State, batch: Any) -> tuple[EagerTap, StepValues] | None:
        """Return what the step would compute, and wait for the values; None if it cannot be looked into.

        `state` stays usable.
        """
        # Without computing anything, find the trace that this batch uses.
        ((number, kinds),) = jax.eval_shape(self._inner, state, batch)[2].items()
        if kinds is None or number not in self.taps or self._calls_python_in(number, state, batch):
            return None
        ((_, shown),) = jax.block_until_ready(self._look(state, batch)).items()
        return self.taps[number], StepValues(**shown)

    def calls_python(self) -> bool:
        return any(self._calls_python.values())

    def _calls_python_in(self, number: str, state: State, batch: Any) -> bool:
        known = self._calls_python.get(number)
        if known is None:
            closed = jax.make_jaxpr(self._inner)(state, batch)  # reuses the cached trace
            known = self._calls_python[number] = bool(closed.effects) or has_callback(closed.jaxpr)
        return known


class JaxLeftBehind:
    """A model's train function after watching ends: it runs what was traced."""

    def __init__(self, program: JaxProgram) -> None:
        self.program = program

    def __call__(self, state: State, iterator: Any) -> Any:
        return self.program.step(state, next(iterator))


class Looking:
    """Collects the calls of one run of a model's own train_step, traced or eager."""

    def __init__(self, model: Any, make_tap: MakeTap, state: State) -> None:
        self.tap = make_tap(self._gets_out)
        self.tap.begin(wants_layers=True, wants_losses=True)
        self._model = model
        # The traces of the step itself: tensors of any other trace cannot leave it.
        self._outer = {id(trace_of(each)) for each in jax.tree_util.tree_leaves(state) if is_traced(each)}
        self._stack = ExitStack()
        self._loss: Any = None
        self._scale: Any = 1.0
        self._gradients: list[Any] = []

    def __enter__(self) -> Looking:
        self._stack.enter_context(listening(self.tap))
        self._stack.enter_context(heard(self._model, self._take_loss))
        self._stack.enter_context(given(self._model.optimizer, self._take_gradients))
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def shown(self) -> dict[str, Any] | None:
        """Return the fields of `StepValues`; None if the step did not go through Keras's usual calls."""
        try:
            return None if self._loss is None or not self._gradients else self._found()
        except Exception as error:
            self.tap.guard.fault("looking at a training step", error)
            return None

    def _found(self) -> dict[str, Any]:
        return {
            "loss": self._loss,
            "scale": self._scale,
            "gradients": self._gradients,
            "activations": [below(shown.tensor) for _, _, shown in self.tap.activations()],
            "entries": self._entries(),
            "losses": {
                name: [below(each.tensor) for each in some] for name, some in self.tap.losses_shown().items()
            },
        }

    def _entries(self) -> list[Any]:
        calls = self.tap.calls
        # Only inputs that no layer produced: the others are checked as outputs.
        made = {id(shown) for call in calls for _, shown in call.outputs}
        return [
            self._are_finite([each for _, each in call.inputs if is_float(each) and id(each) not in made])
            for call in calls
        ]

    def _are_finite(self, inputs: list[Shown]) -> Any:
        if not all(self._gets_out(each.tensor) for each in inputs):
            return None
        found = [jax.numpy.isfinite(below(each.tensor)).all() for each in inputs]
        return jax.numpy.stack(found).all() if found else np.True_

    def _take_loss(self, loss: Any) -> None:
        if self._gets_out(loss):
            self._loss = below(loss)

    def _take_gradients(self, optimizer: Any, state: Any, gradients: Any) -> None:
        if not all(map(self._gets_out, gradients)):
            return
        self._gradients = [below(each) for each in gradients]
        scale = getattr(optimizer, "dynamic_scale", None)
        if scale is None:
            self._scale = float(getattr(optimizer, "loss_scale_factor", None) or 1.0)
            return
        # On JAX the scale is a part of the optimizer's state, at the position of its variable.
        place = next(place for place, each in enumerate(optimizer.variables) if each is scale)
        self._scale = below(state[place])

    def _gets_out(self, tensor: Any) -> bool:
        """Return whether a tensor can leave the step: none gets out of a loop or branch inside it."""
        found = below(tensor)
        return not is_traced(found) or id(trace_of(found)) in self._outer


@contextmanager
def given(optimizer: Any, taken: Callable[[Any, Any, Any], None]) -> Iterator[None]:
    """Report what Keras on JAX passes to an optimizer of the model, for the duration of the block."""
    original = optimizer.stateless_apply

    def stateless_apply(state: Any, gradients: Any, variables: Any) -> Any:
        taken(optimizer, state, gradients)
        return original(state, gradients, variables)

    before = optimizer.__dict__.get("stateless_apply")
    optimizer.__dict__["stateless_apply"] = stateless_apply
    try:
        yield
    finally:
        if before is None:
            optimizer.__dict__.pop("stateless_apply", None)
        else:
            optimizer.__dict__["stateless_apply"] = before


def below(tensor: Any) -> Any:
    """Return what a derivative's tracers wrap: a value, or a tracer of the step itself."""
    while is_traced(tensor) and hasattr(tensor, "primal"):
        tensor = tensor.primal
    return tensor


def is_traced(tensor: Any) -> bool:
    return isinstance(tensor, jax.core.Tracer)


def has_callback(jaxpr: Any) -> bool:
    """Return whether a traced program calls back into Python."""
    for equation in jaxpr.eqns:
        if "callback" in equation.primitive.name:
            return True
        for value in equation.params.values():
            for each in value if isinstance(value, list | tuple) else [value]:
                inner = getattr(each, "jaxpr", each)
                if hasattr(inner, "eqns") and has_callback(inner):
                    return True
    return False


def trace_of(tensor: Any) -> Any:
    """Return the trace that a tensor belongs to; None if it has values."""
    return getattr(tensor, "_trace", None)


def kind_of(batch: Any) -> tuple[Any, ...]:
    """Return a key; batches with equal keys share a program."""
    leaves, structure = jax.tree_util.tree_flatten(batch)
    return structure, tuple((tuple(each.shape), data_type(each.dtype).name) for each in leaves)


def size_of(batch: Any) -> float | None:
    """Return the number of examples; None if no array of the batch has a dimension."""
    for leaf in jax.tree_util.tree_leaves(batch):
        if getattr(leaf, "ndim", 0):
            return float(leaf.shape[0])
    return None


def inputs_of(batch: Any) -> tuple[list[Any], list[Any]]:
    """Return the model's inputs and the targets."""
    inputs, targets, _ = keras.utils.unpack_x_y_sample_weight(batch)
    return jax.tree_util.tree_leaves(inputs), jax.tree_util.tree_leaves(targets)
