"""Layers that get nothing but zeros: how a dead layer shows where the activation is a function, no module."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ..finding import Evidence, Severity, Sign
from ..history import History
from .activation_layers import MAPS


def starved(history: History, looks: int) -> Iterator[Sign]:
    """The gradient of a weight is 0 in all places while that of the bias beside it is not: then every input
    of the layer was 0. Not the first layers: what they get is data."""
    gradients = history.gradients
    if gradients.now is None or gradients.looks < looks or len(gradients.now.zeros) < 2:
        return
    all_zero = (gradients.past("zero_share", looks) == 1.0).all(axis=0)
    for place in np.flatnonzero(all_zero):
        weight = gradients.names[place]
        layer, _, own = weight.rpartition(".")
        bias = gradients.place.get(f"{layer}.bias")
        if own != "weight" or bias is None or not _is_inner(history, weight):
            continue
        if (gradients.past("zero_share", looks)[:, bias] < 1.0).all():
            yield _sign(layer, looks, gradients.steps[-looks])


def _is_inner(history: History, weight: str) -> bool:
    """Whether a linear map ran before it that learns as well."""
    node = history.layers.module(weight)
    if node is None or node.order is None or not MAPS.fullmatch(node.class_name):
        return False
    return any(
        other.order is not None and other.order < node.order and MAPS.fullmatch(other.class_name)
        for other in history.layers.nodes.values()
    )


def _sign(layer: str, looks: int, since: int) -> Sign:
    return Sign(
        Severity.ERROR,
        f"Everything that goes into {layer} is 0, in {looks} samples in a row ({looks} are enough): the "
        "gradient of its weight is exactly 0 while that of its bias is not. The layers before it do not "
        "learn any more.",
        "Lower the learning rate (10 times to begin with), and use `F.leaky_relu` or `F.gelu` in the place "
        "of `F.relu` before this layer; large negative biases before it make everything 0.",
        {
            "share of zeros in the gradient": Evidence(1.0, 1.0),
            "samples": Evidence(float(looks), float(looks)),
        },
        where=(layer,),
        since=since,
        sureness=0.95,
    )
