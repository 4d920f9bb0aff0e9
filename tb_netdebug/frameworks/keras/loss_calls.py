"""Describe a call of a loss, and find the tensor that it really computes from."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import keras

from tb_netdebug.frameworks.keras.layers import class_of_output

OPERATIONS = {
    "Softmax": "Softmax", "Sigmoid": "Sigmoid", "BiasAdd": "Linear", "MatMul": "Linear", "Relu": "ReLU",
    "Tanh": "Tanh", "LogSoftmax": "LogSoftmax", "Softplus": "Softplus", "Elu": "ELU", "Selu": "SELU",
}  # fmt: skip
# The class that adds up the losses of a compiled model, which Keras does not export.
COMPILED = tuple(kind for kind in keras.losses.Loss.__subclasses__() if kind.__name__ == "CompileLoss")
SOFTMAXED = ("sparse_categorical_crossentropy", "categorical_crossentropy")

# Tensors and the innermost layers that made them, by tensor id.
Makers = dict[int, tuple[Any, Any]]


@dataclass(slots=True, eq=False)
class LossSeen:
    """One computed loss; `given` is the tensor that it computes from."""

    loss: Any
    target: Any
    given: Any
    output: Any
    with_logits: bool
    last_layer: str | None
    asked_logits: bool = False
    """The user's `from_logits`, which Keras sometimes overrides."""
    softmax_of_one: bool = False
    """Whether the output is a softmax over a single unit, which is always 1."""
    behind: Any = None
    """The layer output from which an unseen operation may have computed the scores; otherwise `given`."""


def loss_seen(loss: Any, target: Any, given: Any, output: Any, makers: Makers) -> LossSeen | None:
    """Return what a call of a loss shows; None if it is Keras's sum of other losses."""
    if isinstance(loss, COMPILED):
        return None
    asked = bool((getattr(loss, "_fn_kwargs", None) or {}).get("from_logits", False))
    asked = asked or bool(getattr(loss, "from_logits", False))
    logits = logits_behind(loss, given)
    last_layer = kind_of_maker(given if logits is None else logits, makers)
    if logits is not None and last_layer is None:
        last_layer = "Linear"
    return LossSeen(
        loss,
        target,
        given if logits is None else logits,
        output,
        asked or logits is not None,
        last_layer,
        asked_logits=asked,
        softmax_of_one=is_softmax_of_one(given, makers),
        behind=output_behind(given, makers) if asked and last_layer is None else given,
    )


def output_behind(given: Any, makers: Makers) -> Any:
    """Return the last layer output that has the shape of `given`; in a graph, return `given` itself.

    A graph names the operation that made the scores; an eager step does not, so that output stands in.
    """
    if hasattr(given, "graph"):
        return given
    return next((each for each, _ in reversed(makers.values()) if each.shape == given.shape), given)


def is_softmax_of_one(given: Any, makers: Makers) -> bool:
    """Return whether the prediction itself is a softmax over one unit.

    Ask this of the prediction, not of the logits: Keras may compute from the logits, and the loss then falls.
    """
    _, layer = makers.get(id(given), (None, None))
    is_last = getattr(layer, "axis", -1) == -1  # only layer Softmax has an axis; others use the last
    return is_last and tuple(given.shape)[-1:] == (1,) and kind_of_maker(given, makers) == "Softmax"


def kind_of_maker(tensor: Any, makers: Makers) -> str | None:
    """Return the checks' name for the layer, or else the graph operation, that made a tensor."""
    made = makers.get(id(tensor))
    if made is not None:
        return class_of_output(made[1])
    return OPERATIONS.get(tensor.op.type) if hasattr(tensor, "graph") else None


def logits_behind(loss: Any, given: Any) -> Any:
    """Return the logits that Keras uses in place of a softmax or sigmoid output; None if it uses none.

    Keras does so wherever it knows the logits, whatever `from_logits` says.
    """
    name = getattr(getattr(loss, "fn", None), "__name__", "")
    wanted = "Softmax" if name in SOFTMAXED else "Sigmoid" if name == "binary_crossentropy" else ""
    if not wanted:
        return None
    known = getattr(given, "_keras_logits", None)
    if known is not None:
        return known
    if hasattr(given, "graph") and given.op.type == wanted:
        return given.op.inputs[0]
    return None
