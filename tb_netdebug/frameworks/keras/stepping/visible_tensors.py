"""The tensors that a paused run can show, by name."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import keras
import numpy as np

from tb_netdebug.debugger.workbench import KINDS, TensorEntry, WorkbenchError
from tb_netdebug.frameworks.keras.layers import Network, WatchedWeight
from tb_netdebug.frameworks.keras.stepping.source import Array, TensorSource, inner

# Outputs, and the weights before a step, are kept alive only for the debugger.
MOST_BYTES = 512 << 20
WIDENED = ("bfloat16", "float8_e4m3fn", "float8_e5m2")


@dataclass(frozen=True, slots=True, eq=False)
class ReachableArray:
    """A tensor that can be read now; `array` returns its values, without a copy where possible."""

    entry: TensorEntry
    array: Callable[[], Array]


class VisibleTensors:
    """The tensors kept of this batch, and those that always exist: weights and optimizer state."""

    def __init__(self, network: Network, source: TensorSource) -> None:
        self._network = network
        self._source = source
        self._kept: dict[str, ReachableArray] = {}
        self._before: dict[str, Any] = {}
        self._bytes = 0
        self.keeps = False

    # ---- of this batch -----------------------------------------------------------------------------------

    def put(self, kind: str, of: str, value: Any, *, module: str | None = None) -> None:
        """Keep all tensors in a value; of two with one name in a batch the last one counts.

        Gradients are always kept: watchpoints look at them at the end of a batch, and request nothing else.
        """
        if not self.keeps and kind != "gradient":
            return
        for name, tensor in self._source.tensors_in(value, of):
            found = self._found(kind, name, tensor, module)
            old = self._kept.pop(found.entry.name, None)
            self._bytes -= old.entry.bytes if old is not None else 0
            if self._bytes + found.entry.bytes <= MOST_BYTES:
                self._bytes += found.entry.bytes
                self._kept[found.entry.name] = found

    def keep_weights(self) -> None:
        """Keep the weights as they are before an optimizer changes them."""
        weights = self._network.weights.values()
        tensors = [(each.name, self._source.value_of(each)) for each in weights]
        if sum(bytes_of(tensor) for _, tensor in tensors) <= MOST_BYTES:
            self._before = {each.name: self._source.held(each) for each in weights}

    def forget_weights(self) -> None:
        self._before = {}

    def clear(self) -> None:
        self._kept = {}
        self._bytes = 0

    # ---- by name -----------------------------------------------------------------------------------------

    def all(self, kind: str | None = None) -> Iterator[ReachableArray]:
        """Yield all tensors, in the order in which a batch produces them."""
        for each in KINDS if kind is None else (kind,):
            yield from self._of_kind(each)

    def find(self, name: str) -> ReachableArray:
        """Return the tensor of this name; raise WorkbenchError if it cannot be reached."""
        kind = name.partition(":")[0]
        found = self._kept.get(name) or next(
            (each for each in self._of_kind(kind) if each.entry.name == name), None
        )
        if found is None:
            raise WorkbenchError(self._why_missing(name, kind))
        return found

    def _of_kind(self, kind: str) -> Iterator[ReachableArray]:
        if kind == "weight":
            for each in self._network.weights.values():
                yield self._found(kind, each.name, self._source.value_of(each), owner(each))
        elif kind == "update":
            yield from self._updates()
        elif kind == "state":
            yield from self._states()
        else:
            kept = [each for each in self._kept.values() if each.entry.kind == kind]
            yield from kept
            yield from self._given_back(kind, {each.entry.name for each in kept})

    def _given_back(self, kind: str, known: set[str]) -> Iterator[ReachableArray]:
        """Yield the tensors that a compiled step has returned, which reports nothing until it is over."""
        for of_kind, of, module, tensor in self._source.shown():
            if of_kind == kind and f"{kind}:{of}" not in known:
                for name, each in self._source.tensors_in(tensor, of):
                    yield self._found(kind, name, each, module)

    def _updates(self) -> Iterator[ReachableArray]:
        for each in self._network.weights.values():
            before = self._before.get(each.name)
            if before is not None:
                now = self._source.value_of(each)
                found = self._found("update", each.name, now, owner(each))
                yield ReachableArray(found.entry, partial(self._difference, now, before))

    def _states(self) -> Iterator[ReachableArray]:
        for optimizer in self._source.optimizers():
            for weight, slot, variable in slots_of(optimizer):
                watched = self._network.weight_of(weight)
                if watched is not None:
                    tensor = self._source.present(variable)
                    yield self._found("state", f"{watched.name}/{slot}", tensor, owner(watched))

    def _difference(self, now: Any, before: Any) -> Array:
        with np.errstate(all="ignore"):
            return np.asarray(plain(self._source.array(now)) - plain(self._source.array(before)))

    def _found(self, kind: str, of: str, tensor: Any, module: str | None) -> ReachableArray:
        entry = TensorEntry(
            f"{kind}:{of}", kind, of, shape_of(tensor), dtype_of(tensor), self._source.device(tensor),
            bytes_of(tensor), module,
        )  # fmt: skip
        return ReachableArray(entry, lambda: plain(self._source.array(tensor)))

    def _why_missing(self, name: str, kind: str) -> str:
        if kind not in KINDS:
            return f"{name} is not the name of a tensor: names begin with {', '.join(KINDS)} and a colon"
        if kind in ("weight", "state"):
            return f"there is no {name}; see the list of tensors"
        return (
            f"{name} is not available here: step to the end of the next batch, or past the place that "
            "computes it"
        )


def slots_of(optimizer: Any) -> Iterator[tuple[Any, str, Any]]:
    """Yield weight, name and variable of an optimizer's state per weight: momenta, velocities and so on."""
    own = inner(optimizer)
    trained = list(getattr(own, "_trainable_variables", None) or [])
    for name, value in vars(own).items():
        # Names that end in "_variables" are Keras's own lists, not slots.
        is_slots = isinstance(value, list) and len(value) == len(trained) and not name.endswith("_variables")
        for weight, slot in zip(trained, value, strict=True) if is_slots else ():
            if isinstance(slot, keras.Variable):
                prefix = f"{weight.path.replace('/', '_')}_"
                yield weight, slot.name.removeprefix(prefix), slot


def owner(watched: WatchedWeight) -> str | None:
    """Return the layer that owns a weight: a weight's name is its layer's plus one more part."""
    return watched.name.rpartition(".")[0] or None


def plain(array: Array) -> Array:
    """Return the array in a type that NumPy has."""
    return array.astype(np.float32) if array.dtype.name in WIDENED else array


def shape_of(tensor: Any) -> tuple[int, ...]:
    return tuple(int(size) for size in tensor.shape)


def dtype_of(tensor: Any) -> str:
    return str(keras.backend.standardize_dtype(tensor.dtype))


def bytes_of(tensor: Any) -> int:
    name = dtype_of(tensor)
    size = 2 if name == "bfloat16" else 1 if name.startswith("float8") else np.dtype(name).itemsize
    return math.prod(shape_of(tensor)) * size


def changes_of(found: Mapping[str, Array], before: Mapping[str, Array]) -> dict[str, float]:
    """Return the norm of each difference relative to the norm before, of those that can be compared."""
    changes = {}
    for name, array in found.items():
        old = before.get(name)
        if old is not None and old.shape == array.shape:
            moved, size = norm(array - old), norm(old)
            changes[name] = moved / size if size else math.inf if moved else 0.0
    return changes


def norm(array: Array) -> float:
    finite = np.nan_to_num(np.abs(array.astype(np.complex128 if array.dtype.kind == "c" else np.float64)),
                           nan=0.0, posinf=0.0, neginf=0.0)  # fmt: skip
    return float(np.sqrt(np.sum(np.square(finite))))
