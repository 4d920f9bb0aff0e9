"""Dead units and layers whose activation is a function, not a module: seen in gradients of exactly 0."""

from __future__ import annotations

import re
from collections.abc import Iterator

import numpy as np

from tb_netdebug.checks.evidence.activation_layers import MAPS, is_rectifier
from tb_netdebug.checks.finding import Evidence, Severity, Sign
from tb_netdebug.checks.history import History
from tb_netdebug.checks.wording.idioms import Idiom
from tb_netdebug.checks.wording.phrases import named

NORMS = re.compile(r"BatchNorm")
LEAST_UNITS = 8


def starved(history: History, looks: int) -> Iterator[Sign]:
    """Yield a sign for each layer whose input was always 0.

    The gradient of its weight is 0 everywhere while that of the bias beside it is not. First layers are left
    out: their input is data.
    """
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


def idle(history: History, looks: int, share: float, variation: float) -> Iterator[tuple[str, float, int]]:
    """Yield (layer, share, units) for layers with many biases whose gradient is exactly 0.

    The same large share is 0 in each of the last samples, while the others are not. Units that are active now
    and then make the share vary.
    """
    gradients = history.gradients
    if gradients.now is None or gradients.looks < looks:
        return
    zeros = gradients.past("zero_share", looks)
    with np.errstate(invalid="ignore"):
        is_idle = (zeros > share).all(axis=0) & (zeros < 1.0).all(axis=0)
        is_idle &= np.ptp(zeros, axis=0) <= variation
    for place in np.flatnonzero(is_idle):
        layer, _, own = gradients.names[place].rpartition(".")
        if own == "bias" and gradients.now.count[place] >= LEAST_UNITS and _is_followed(history, layer):
            yield layer, float(zeros[:, place].min()), int(gradients.now.count[place])


def _is_followed(history: History, layer: str) -> bool:
    """Return whether a linear map runs after the layer, and no activation module right behind it."""
    nodes = history.layers.nodes
    node = nodes.get(layer)
    if (
        node is None
        or node.order is None
        or not (MAPS.fullmatch(node.class_name) or NORMS.match(node.class_name))
    ):
        return False
    later = [each for each in nodes.values() if each.order is not None and each.order > node.order]
    behind = min(later, key=lambda each: each.order or 0, default=None)
    if behind is None or is_rectifier(behind.class_name):
        return False
    return any(MAPS.fullmatch(each.class_name) for each in later)


def _is_inner(history: History, weight: str) -> bool:
    """Return whether a linear map that learns as well ran before it."""
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
        f"All inputs of {named(layer)} are 0, in {looks} sampled steps in a row ({looks} are enough): the "
        "gradient of its weight is exactly 0 while that of its bias is not. The layers before it no longer "
        "learn.",
        f"Lower the learning rate (10 times to begin with), and {Idiom.USE_LEAKY_FUNCTION} before this "
        "layer; large negative biases before it make everything 0.",
        {
            "share of zeros in the gradient": Evidence(1.0, 1.0),
            "sampled steps": Evidence(float(looks), float(looks)),
        },
        where=(layer,),
        since=since,
        sureness=0.95,
    )
