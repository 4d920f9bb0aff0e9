"""What a version of the training step gives back beside Keras's own results.

One flat list of tensors that are there anyway, which TensorFlow hands over faster than anything nested; the
trace keeps where each stands.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import tensorflow as tf

from tb_netdebug.capture.keras.following import Following
from tb_netdebug.capture.keras.health import flags_of, health_of
from tb_netdebug.capture.keras.layers import Watched, native
from tb_netdebug.capture.keras.tap import MOST_INPUTS, Tap
from tb_netdebug.capture.keras.tensors import dense, tensors_in
from tb_netdebug.capture.keras.variables import moved
from tb_netdebug.capture.keras.weights import Held

Shown = dict[str, list[Any]]


@dataclass(frozen=True, slots=True)
class Wanted:
    """What a version of the step shows. `always_flags`: not only when the loss is no number."""

    full: bool
    gradients: bool
    always_flags: bool = False
    is_eager: bool = False


@dataclass(slots=True, eq=False)
class Trace:
    """What tracing a step has found; it stands for every run of this graph."""

    tap: Tap
    places: dict[str, slice]
    length: int
    replicas: int
    following: Following | None = None
    weights: list[Watched] = field(default_factory=list)
    """Those that the step gives back as it leaves them."""


@dataclass(slots=True, eq=False)
class Ran:
    """A step that has run: its trace, and the tensors of this run."""

    trace: Trace
    flat: Sequence[Any]

    @property
    def tap(self) -> Tap:
        return self.trace.tap

    def of(self, name: str) -> list[Any]:
        found = self.trace.places.get(name)
        return [] if found is None else list(self.flat[found])

    def first(self, name: str) -> Any:
        """The first tensor of this name; None when the step has none."""
        found = self.trace.places.get(name)
        return None if found is None else self.flat[found.start]

    @property
    def loss(self) -> Any:
        value = self.first("loss")
        return value if value is None or self.trace.replicas == 1 else value * self.trace.replicas

    @property
    def wait_secs(self) -> Any:
        """How long the batch was waited for, where the graph has fetched it."""
        return self.flat[-1] if len(self.flat) > self.trace.length else None

    def shown(self) -> Shown:
        return {name: list(self.flat[place]) for name, place in self.trace.places.items()}

    def weights(self) -> Held:
        return list(zip(self.trace.weights, self.of("weights"), strict=True))


def laid_out(tap: Tap, data: Any, wanted: Wanted, replicas: int) -> tuple[Trace, list[Any]]:
    """The trace, and the tensors that this step is to give back."""
    weights = moved(tap.network) if wanted.full and not wanted.is_eager and replicas == 1 else []
    parts = parts_of(tap, data, wanted)
    # what the step has made of them: TensorFlow reads a variable after whatever has changed it
    parts["weights"] = [native(each.variable).read_value() for each in weights]
    parts = {name: tensors for name, tensors in parts.items() if tensors}
    flat: list[Any] = []
    places = {}
    for name, tensors in parts.items():
        places[name] = slice(len(flat), len(flat) + len(tensors))
        flat += tensors
    is_sum = tap.whole_loss is not None
    return Trace(tap, places, len(flat), replicas if is_sum else 1, weights=weights), flat


def parts_of(tap: Tap, data: Any, wanted: Wanted) -> Shown:
    given = [dense(each) for _, each in tensors_in(data)][:MOST_INPUTS]
    gradients = tap.gradients() if wanted.gradients else []
    tensors = [gradient for _, gradient, _ in gradients]
    activations = [tensor for _, _, tensor in tap.activations()]
    loss = loss_of(tap)
    parts: Shown = {
        "loss": loss,
        "scale": [scale for _, _, scale in gradients if scale is not None][:1],
        "rates": tap.rates,
        "health": [] if wanted.is_eager else health_of(tensors),
        "inputs": given[: len(list(tensors_in(first_of(data))))],
        "gradients": tensors,
    }
    if wanted.full or wanted.is_eager:
        parts |= {
            "descended": descended_by(tap, loss),
            "targets": [dense(loss.target) for loss in tap.losses],
            "given": [loss.given for loss in tap.losses],
            "values": [loss.output for loss in tap.losses],
            "behind": [loss.behind for loss in tap.losses] if wanted.is_eager else [],
            "activations": activations,
        }
    if not wanted.is_eager and (wanted.always_flags or not wanted.full):
        parts["flags"] = flags_of(activations, loss, always=wanted.always_flags)
    return parts


def loss_of(tap: Tap) -> list[Any]:
    """That of the whole step; where nobody has asked the model for it, the first that was computed, or else
    what the step calls so, or takes its gradients of, unless it is scaled for them."""
    if tap.whole_loss is not None:
        return [tf.convert_to_tensor(tap.whole_loss)]
    if tap.losses:
        return [tf.convert_to_tensor(tap.losses[0].output)]
    is_scaled = any(each.scale is not None for each in tap.applied_to)
    other = tap.reported_loss if tap.reported_loss is not None or is_scaled else tap.descended()
    return [] if other is None else [other]


def descended_by(tap: Tap, loss: list[Any]) -> list[Any]:
    """What the gradients are taken of, where that is another number than the loss that is recorded."""
    target = tap.descended()
    return [] if target is None or any(target is each for each in loss) else [target]


def first_of(data: Any) -> Any:
    """The inputs of the model, in what the data gives."""
    return data[0] if isinstance(data, tuple | list) and data else data
