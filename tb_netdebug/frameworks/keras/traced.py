"""The tensors that a version of the training step returns beside Keras's own results.

They exist anyway, and form one flat list, because TensorFlow returns that faster than a nested structure. The
trace keeps where each stands.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import tensorflow as tf

from tb_netdebug.frameworks.keras.following import Following
from tb_netdebug.frameworks.keras.health import flags_of, health_of
from tb_netdebug.frameworks.keras.layers import Network, WatchedWeight, native
from tb_netdebug.frameworks.keras.tap import MOST_INPUTS, StepTap
from tb_netdebug.frameworks.keras.tensors import dense, tensors_in
from tb_netdebug.frameworks.keras.variables import moved
from tb_netdebug.frameworks.keras.weights import Held
from tb_netdebug.recording.guard import Guard

Shown = dict[str, list[Any]]


# The parts that the light version returns. The full version leaves out IN_TROUBLE unless it is always wanted.
LIGHT = frozenset({"loss", "scale", "rates", "health", "inputs", "labels", "gradients", "flags"})
IN_TROUBLE = "flags"


@dataclass(frozen=True, slots=True)
class Wanted:
    """Selects what a step shows. `always_flags` counts non-finite values even when the loss is finite."""

    gradients: bool
    always_flags: bool = False
    is_eager: bool = False


@dataclass(slots=True, eq=False)
class StepTrace:
    """The result of tracing a step; it stands for every run of this graph."""

    tap: StepTap
    sizes: dict[str, int]
    replicas: int
    always_flags: bool = False
    weights: list[WatchedWeight] = field(default_factory=list)
    """The weights whose values at the end of the step are returned."""
    _places: dict[bool, dict[str, slice]] = field(default_factory=dict)

    def chosen(self, tensors: Sequence[Any], *, full: bool) -> list[Any]:
        """Return, of all tensors that the step shows, those of the full or the light version."""
        found: list[Any] = []
        start = 0
        for name, size in self.sizes.items():
            if self._takes(name, full=full):
                found += tensors[start : start + size]
            start += size
        return found

    def places(self, *, full: bool) -> dict[str, slice]:
        """Return where each part stands in the list that `chosen` returns."""
        places = self._places.get(full)
        if places is None:
            places, start = {}, 0
            for name, size in self.sizes.items():
                if self._takes(name, full=full):
                    places[name] = slice(start, start + size)
                    start += size
            self._places[full] = places
        return places

    def _takes(self, name: str, *, full: bool) -> bool:
        return (name != IN_TROUBLE or self.always_flags) if full else name in LIGHT

    def move(self, network: Network, guard: Guard) -> None:
        """Attach to another monitor, which continues with what was traced for an earlier one."""
        self.tap.move(network, guard)
        self.weights = [network.weight_of(each.variable) or each for each in self.weights]


@dataclass(slots=True, eq=False)
class TracedRun:
    """A step that has run: its trace, and the tensors of this run."""

    trace: StepTrace
    flat: Sequence[Any]
    places: dict[str, slice]

    @property
    def tap(self) -> StepTap:
        return self.trace.tap

    def of(self, name: str) -> list[Any]:
        found = self.places.get(name)
        return [] if found is None else list(self.flat[found])

    def first(self, name: str) -> Any:
        """Return the first tensor of this name; None if the step has none."""
        found = self.places.get(name)
        return None if found is None else self.flat[found.start]

    @property
    def loss(self) -> Any:
        value = self.first("loss")
        # Keras divides the loss of each replica by the number of replicas.
        return value if value is None or self.trace.replicas == 1 else value * self.trace.replicas

    @property
    def wait_secs(self) -> Any:
        """How long the step waited for its batch, if the graph fetched the batch itself."""
        # `BatchRunner` appends the wait behind the parts.
        length = max((place.stop for place in self.places.values()), default=0)
        return self.flat[-1] if len(self.flat) > length else None

    def shown(self) -> Shown:
        return {name: list(self.flat[place]) for name, place in self.places.items()}

    def weights(self) -> Held:
        shown = self.of("weights")
        return list(zip(self.trace.weights, shown, strict=True)) if shown else []


def laid_out(
    tap: StepTap, data: Any, wanted: Wanted, replicas: int, following: Following | None
) -> tuple[StepTrace, list[Any]]:
    """Return the trace, and the tensors that this step is to return."""
    weights = moved(tap.network) if not wanted.is_eager and replicas == 1 else []
    parts = parts_of(tap, data, wanted)
    tap.following, tap.shown = following, parts
    # The values after the step: TensorFlow reads a variable after whatever has changed it.
    parts["weights"] = [native(each.variable).read_value() for each in weights]
    parts = {name: tensors for name, tensors in parts.items() if tensors}
    flat = [each for tensors in parts.values() for each in tensors]
    sizes = {name: len(tensors) for name, tensors in parts.items()}
    count = 1 if tap.whole_loss is None else replicas
    return StepTrace(tap, sizes, count, wanted.always_flags, weights), flat


def parts_of(tap: StepTap, data: Any, wanted: Wanted) -> Shown:
    given = [dense(each) for _, each in tensors_in(data)][:MOST_INPUTS]
    inputs = len(list(tensors_in(first_of(data))))
    gradients = tap.gradients() if wanted.gradients else []
    tensors = [gradient for _, gradient, _ in gradients]
    activations = [tensor for _, _, tensor in tap.activations()]
    loss = loss_of(tap)
    parts: Shown = {
        "loss": loss,
        "scale": [scale for _, _, scale in gradients if scale is not None][:1],
        "rates": tap.rates,
        "health": [] if wanted.is_eager else health_of(tensors),
        "inputs": given[:inputs],
        "labels": given[inputs:],
        "gradients": tensors,
        "descended": descended_by(tap, loss),
        "targets": [dense(loss.target) for loss in tap.losses],
        "given": [loss.given for loss in tap.losses],
        "values": [loss.output for loss in tap.losses],
        "behind": [loss.behind for loss in tap.losses] if wanted.is_eager else [],
        "activations": activations,
    }
    if not wanted.is_eager:
        parts["flags"] = flags_of(activations, loss, always=wanted.always_flags)
    return parts


def loss_of(tap: StepTap) -> list[Any]:
    """Return the loss of the whole step, as a list of at most one tensor.

    If the model was not asked for it, that is the first loss that was computed, or else what the step reports
    as "loss", or takes its gradients of, unless that is scaled for them.
    """
    if tap.whole_loss is not None:
        return [tf.convert_to_tensor(tap.whole_loss)]
    if tap.losses:
        return [tf.convert_to_tensor(tap.losses[0].output)]
    is_scaled = any(each.scale is not None for each in tap.applied_to)
    other = tap.reported_loss if tap.reported_loss is not None or is_scaled else tap.descended()
    return [] if other is None else [other]


def descended_by(tap: StepTap, loss: list[Any]) -> list[Any]:
    """Return the tensor that the gradients are taken of, if it is not the recorded loss."""
    target = tap.descended()
    return [] if target is None or any(target is each for each in loss) else [target]


def first_of(data: Any) -> Any:
    """Return the inputs of the model from a batch."""
    return data[0] if isinstance(data, tuple | list) and data else data
