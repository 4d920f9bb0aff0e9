"""Stand-ins for TensorFlow's objects, in the shape in which the parts of `frameworks/keras/` use them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache
from typing import Any

import keras
from numpy.typing import NDArray

from tb_netdebug.frameworks.keras.layers import KerasLayer, Network, WatchedWeight, own_weights
from tb_netdebug.recording.containers import (
    MOST_DEPTH,
    MOST_LEAVES,
    MOST_PARTS,
    key_text,
    parts_of,
    share_of,
)

Array = NDArray[Any]

# Reads the values of a tensor; those in host memory are not copied.
Read = Callable[[Any], Array]


class Shape(tuple[int, ...]):
    """The shape of a tensor, with the part of TensorFlow's interface that is used."""

    __slots__ = ()

    @property
    def rank(self) -> int:
        return len(self)

    def as_list(self) -> list[int]:
        return list(self)


class DataType:
    """The data type of a tensor, identified by its name."""

    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        self.name = name


@lru_cache(maxsize=64)
def data_type(dtype: Any) -> DataType:
    return DataType(keras.backend.standardize_dtype(dtype))


class Shown:
    """Wraps a tensor of any backend in the part of TensorFlow's interface that is used."""

    __slots__ = ("_read", "dtype", "shape", "tensor")

    def __init__(self, tensor: Any, read: Read) -> None:
        self._read = read
        self.tensor = tensor
        self.shape = Shape(tensor.shape)
        self.dtype = data_type(tensor.dtype)

    def _numpy(self) -> Array:
        return self._read(self.tensor)


class Weight:
    """A Keras variable; `source` returns its current tensor."""

    __slots__ = ("_read", "source", "variable")

    def __init__(self, variable: Any, source: Callable[[Any], Any], read: Read) -> None:
        self.variable = variable
        self.source = source
        self._read = read

    @property
    def name(self) -> str:
        return str(self.variable.name)

    @property
    def trainable(self) -> bool:
        return bool(self.variable.trainable)

    def read_value(self) -> Shown:
        return Shown(self.source(self.variable), self._read)


class Optimizer:
    """A Keras optimizer, with stand-ins for the weights that it holds."""

    def __init__(self, optimizer: Any, rate: float | None) -> None:
        self.inner_optimizer = getattr(optimizer, "inner_optimizer", optimizer)
        self.weight_decay = getattr(self.inner_optimizer, "weight_decay", None)
        self.learning_rate = rate
        self._trainable_variables: list[Weight] = []

    def hold(self, weights: list[Weight]) -> None:
        """Take the weights; the optimizer is built, and holds them, as late as in its first step."""
        self._trainable_variables = weights


class BackendNetwork(Network):
    """Layers by their Keras names, and stand-ins for their weights."""

    def __init__(
        self,
        models: Mapping[str, Any],
        wants: Callable[[str], bool],
        source: Callable[[Any], Any],
        read: Read,
    ) -> None:
        super().__init__(models, wants)
        self._source = source
        self._read = read
        self._stand_ins: dict[int, Weight] = {}

    def forget(self) -> None:
        super().forget()
        self._stand_ins.clear()

    def stand_in(self, variable: Any) -> Weight:
        """Return the stand-in of a variable, always the same one; it keeps the variable."""
        found = self._stand_ins.get(id(variable))
        if found is None:
            found = self._stand_ins[id(variable)] = Weight(variable, self._source, self._read)
        return found

    def weight_of(self, variable: Any) -> WatchedWeight | None:
        found = variable if isinstance(variable, Weight) else self.stand_in(variable)
        return self.weights.get(id(found))

    def is_complete(self) -> bool:
        trained = [each for model in self.models.values() for each in model.trainable_variables]
        return all(self.weight_of(each) is not None or not self._wants(each.name) for each in trained)

    def _collect(self, found: KerasLayer, weights: dict[int, WatchedWeight]) -> None:
        for name, variable in own_weights(found.layer):
            full = f"{found.name}.{name}" if found.parent is not None else name
            weight = self.stand_in(variable)
            if id(weight) not in weights and self._wants(full):
                weights[id(weight)] = self.weights.get(id(weight)) or WatchedWeight(full, weight)


def tensors_in(
    value: Any, name: str = "", depth: int = 0, most: int = MOST_LEAVES
) -> Iterator[tuple[str, Any]]:
    """Yield the tensors of a nested value, each with its place in it: "", "[0]", "[hidden]", "[0][1]" …"""
    if keras.ops.is_tensor(value):
        yield name, value
    elif depth < MOST_DEPTH:
        parts = parts_of(value, min(most, MOST_PARTS)) or []
        for place, (key, part) in enumerate(parts):
            inside = f"{name}[{key_text(key, place)}]"
            yield from tensors_in(part, inside, depth + 1, share_of(most, parts))
