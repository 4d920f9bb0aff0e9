"""Name the layers and weights of the watched models, and say how to read a layer's output."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import keras

from tb_netdebug.core.records.step import Kind, Series

# Their output is their input in another shape, or they are never called.
SKIPPED = (
    keras.layers.InputLayer,
    keras.layers.Flatten,
    keras.layers.Reshape,
    keras.layers.Identity,
)
# Their cells run in a TensorFlow loop, from which no tensor gets out.
WHOLE = (keras.layers.RNN,)

INFINITY = math.inf
# The slope at these edges is one hundredth of its maximum; a unit that stays beyond them does not learn.
TANH_EDGE = math.tanh(3.0)
SIGMOID_EDGE = 1.0 / (1.0 + math.exp(-4.6))
BANDS: dict[str, tuple[float, float]] = {
    "relu": (0.0, INFINITY),
    "relu6": (0.0, 6.0),
    "tanh": (-TANH_EDGE, TANH_EDGE),
    "sigmoid": (1.0 - SIGMOID_EDGE, SIGMOID_EDGE),
    "hard_sigmoid": (0.0, 1.0),
    "hard_tanh": (-1.0, 1.0),
}
# Keras names mapped to the class names that the checks use.
ACTIVATIONS = {
    "relu": "ReLU", "relu6": "ReLU6", "tanh": "Tanh", "sigmoid": "Sigmoid", "softmax": "Softmax",
    "hard_sigmoid": "Hardsigmoid", "hard_tanh": "Hardtanh", "softplus": "Softplus", "softsign": "Softsign",
    "elu": "ELU", "selu": "SELU", "gelu": "GELU", "silu": "SiLU", "leaky_relu": "LeakyReLU",
    "log_softmax": "LogSoftmax", "log_sigmoid": "LogSigmoid",
}  # fmt: skip
OF_CLASS = {
    keras.layers.ReLU: "relu", keras.layers.ELU: "elu", keras.layers.LeakyReLU: "leaky_relu",
    keras.layers.Softmax: "softmax",
}  # fmt: skip

# Beyond this, units mean nothing useful (a flattened picture, a vocabulary of logits).
MOST_UNITS = 65536


class KerasLayer:
    """A layer of a watched model, with its full name and its parent."""

    __slots__ = ("_series", "is_watched", "layer", "name", "parent")

    def __init__(self, name: str, layer: Any, parent: KerasLayer | None, *, is_watched: bool) -> None:
        self.name = name
        self.layer = layer
        self.parent = parent
        self.is_watched = is_watched
        self._series: dict[str, Series] = {}

    def is_inside(self, layer: Any) -> bool:
        """Return whether it is this layer or lies in it; a layer may even contain itself."""
        return self.layer is layer or (self.parent is not None and self.parent.is_inside(layer))

    def series_of(self, place: str) -> Series:
        known = self._series.get(place)
        if known is None:
            known = self._series[place] = Series(Kind.ACTIVATION, self.name + place)
        return known


class WatchedWeight:
    """One weight and the three series that it feeds."""

    __slots__ = ("gradient", "name", "update", "variable", "weight")

    def __init__(self, name: str, variable: Any) -> None:
        self.name = name
        self.variable = variable
        self.weight = Series(Kind.WEIGHT, name)
        self.gradient = Series(Kind.GRADIENT, name)
        self.update = Series(Kind.UPDATE, name)


class Network:
    """All layers and weights of the watched models, refreshed when a model has grown."""

    def __init__(self, models: Mapping[str, Any], wants: Callable[[str], bool]) -> None:
        self.models = dict(models)
        self._wants = wants
        self.layers: dict[int, KerasLayer] = {}
        self.weights: dict[int, WatchedWeight] = {}
        self.changes = 0

    def refresh(self) -> None:
        """Search the models again: layers may be created, and weights built, as late as in the first call."""
        layers: dict[int, KerasLayer] = {}
        weights: dict[int, WatchedWeight] = {}
        for prefix, model in self.models.items():
            root = KerasLayer(prefix or type(model).__name__, model, None, is_watched=False)
            names: set[str] = {root.name}
            for found in self._below(root, prefix, names):
                if id(found.layer) not in layers:
                    # Keep known objects: taps and series refer to them.
                    layers[id(found.layer)] = self.layers.get(id(found.layer)) or found
            for found in layers.values():
                self._collect(found, weights)
        if weights.keys() != self.weights.keys() or layers.keys() != self.layers.keys():
            self.changes += 1
        self.layers, self.weights = layers, weights

    def forget(self) -> None:
        """Release the models."""
        for each in (self.models, self.layers, self.weights):
            each.clear()

    def is_complete(self) -> bool:
        """Return whether all weights are known; a model may be built as late as in its first step."""
        for model in self.models.values():
            trained = getattr(model, "trainable_weights", [])
            if any(id(native(each)) not in self.weights and self._wants(each.name) for each in trained):
                return False
        return True

    def weight_of(self, variable: Any) -> WatchedWeight | None:
        return self.weights.get(id(native(variable)))

    def _below(self, above: KerasLayer, prefix: str, names: set[str]) -> Iterator[KerasLayer]:
        yield above
        for child in getattr(above.layer, "_layers", None) or []:
            if not isinstance(child, keras.layers.Layer) or above.is_inside(child):
                continue
            full = unused(f"{prefix}.{child.name}" if prefix else child.name, names)
            names.add(full)
            is_watched = is_layer(child) and not isinstance(above.layer, WHOLE) and self._wants(full)
            yield from self._below(KerasLayer(full, child, above, is_watched=is_watched), full, names)

    def _collect(self, found: KerasLayer, weights: dict[int, WatchedWeight]) -> None:
        for name, variable in own_weights(found.layer):
            full = f"{found.name}.{name}" if found.parent is not None else name
            key = id(native(variable))
            if key not in weights and self._wants(full):
                weights[key] = self.weights.get(key) or WatchedWeight(full, variable)


def own_weights(layer: Any) -> list[tuple[str, Any]]:
    """Return a layer's own trainable weights, frozen or not, by name; no moving averages or counters."""
    found: dict[str, Any] = {}
    for variable in getattr(layer, "_trainable_variables", None) or []:
        found[unused(variable.name, found)] = variable
    return list(found.items())


def native(variable: Any) -> Any:
    """Return the TensorFlow variable behind a Keras variable."""
    return variable.value if isinstance(variable, keras.Variable) else variable


def unused(name: str, names: Any) -> str:
    number = 1
    while (name if number == 1 else f"{name}_{number}") in names:
        number += 1
    return name if number == 1 else f"{name}_{number}"


def is_layer(layer: Any) -> bool:
    """Return whether a layer computes something itself: it is a leaf, or it has weights of its own."""
    if isinstance(layer, SKIPPED):
        return False
    return isinstance(layer, WHOLE) or not getattr(layer, "_layers", None) or bool(own_weights(layer))


def activation_of(layer: Any) -> str:
    """Return the name of the activation function applied to the layer's output; "" if there is none."""
    for kind, name in OF_CLASS.items():
        if isinstance(layer, kind):
            return name
    function = getattr(layer, "activation", None)
    name = getattr(function, "__name__", "")
    return "" if isinstance(layer, WHOLE) or name == "linear" else name


def class_of_output(layer: Any) -> str:
    """Return the checks' name for what made an output: "Softmax" for `Dense(3, activation="softmax")`."""
    name = activation_of(layer)
    if name:
        return ACTIVATIONS.get(name, name)
    return "Linear" if isinstance(layer, keras.layers.Dense) else type(layer).__name__


def band(layer: Any) -> tuple[float, float]:
    """Return the interval in which a value makes its unit active, if the value is not zero."""
    if isinstance(layer, keras.layers.ReLU) and layer.max_value is not None:
        return 0.0, float(layer.max_value)
    return BANDS.get(activation_of(layer), (-INFINITY, INFINITY))


def unit_dim(layer: Any, shape: tuple[int, ...]) -> int | None:
    """Return the dimension that counts units; None if there is none or it is too large."""
    if len(shape) < 2:
        return None
    is_first = getattr(layer, "data_format", None) == "channels_first" and len(shape) > 2
    dim = 1 if is_first else len(shape) - 1
    return dim if 0 < shape[dim] <= MOST_UNITS else None
