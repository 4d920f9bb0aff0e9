"""Which layer has made the first value that is no number."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tb_netdebug.capture.collector import Collector
from tb_netdebug.capture.keras.reader import squares_in
from tb_netdebug.capture.keras.tap import Call, Tap
from tb_netdebug.capture.keras.values import Array, array_of, is_float

MOST_TELLINGS = 4

# Operations that can make NaN or infinity of ordinary numbers, by the names that TensorFlow gives them.
RISKY = (
    "Log", "Log1p", "Sqrt", "Rsqrt", "RealDiv", "Div", "DivNoNan", "Reciprocal", "Pow", "Exp", "Expm1",
    "Acos", "Asin", "Atanh", "Xlogy", "Lgamma", "Square", "Mul", "Cast", "MatMul", "Conv2D", "Sum", "Mean",
)  # fmt: skip
MOST_OPERATIONS = 200


class Origin:
    """The fact `first-nonfinite`: at the first step with such a value after one without."""

    def __init__(self, collector: Collector) -> None:
        self._collector = collector
        self._told = 0
        self._was_finite = True

    def look(
        self,
        tap: Tap,
        outputs: Sequence[tuple[Call, int]],
        gradients: Sequence[tuple[Any, bytes]],
        shown: dict[str, Any],
        before: Callable[[Any], Array | None],
    ) -> None:
        """`outputs`: how many values of each are not finite."""
        scalars = self._collector.scalars
        is_finite = (
            bool(np.isfinite(scalars.get("loss", 0.0)))
            and not scalars.get("nonfinite_gradients")
            and not any(count for _, count in outputs)
        )
        was_finite, self._was_finite = self._was_finite, is_finite
        if is_finite or not was_finite or self._told >= MOST_TELLINGS:
            return
        fact = self._first(tap, outputs, gradients, shown, before)
        if fact is not None:
            self._told += 1
            self._collector.fact("first-nonfinite", **fact)

    def _first(
        self,
        tap: Tap,
        outputs: Sequence[tuple[Call, int]],
        gradients: Sequence[tuple[Any, bytes]],
        shown: dict[str, Any],
        before: Callable[[Any], Array | None],
    ) -> dict[str, Any] | None:
        for number, tensor in enumerate(shown["inputs"]):
            if is_float(tensor) and not np.isfinite(array_of(tensor)).all():
                return fact_of(f"input/{number}", "", "input", inputs_finite=False, kind=array_of(tensor))
        for watched in tap.network.weights.values():
            values = before(watched)
            if values is not None and not np.isfinite(values).all():
                return fact_of(watched.name, "", "parameter", parameters_finite=False, kind=values)
        bad = sorted((call.order, place) for place, (call, count) in enumerate(outputs) if count)
        if bad:
            call = outputs[bad[0][1]][0]
            return fact_of(
                call.layer.name, type(call.layer.layer).__name__, "output", operation=risky_operation(call)
            )
        if not np.isfinite(self._collector.scalars.get("loss", 0.0)):
            loss = tap.losses[0].loss if tap.losses else None
            return fact_of("loss", type(loss).__name__ if loss is not None else "", "loss")
        for watched, summary in reversed(gradients):  # the backward pass comes from behind
            if squares_in(summary)[1]:
                return fact_of(watched.name, "", "gradient")
        return None


def fact_of(
    where: str,
    class_name: str,
    what: str,
    *,
    inputs_finite: bool = True,
    parameters_finite: bool = True,
    kind: Array | None = None,
    operation: str | None = None,
) -> dict[str, Any]:
    word = "NaN"
    if kind is not None and not np.isnan(kind).any():
        word = "Inf" if np.isposinf(kind).any() else "-Inf"
    return {
        "where": where,
        "class_name": class_name,
        "what": what,
        "inputs_finite": inputs_finite,
        "parameters_finite": parameters_finite,
        "kind": word,
        "masked_only": False,
        "capsule": None,
        "operation": operation,
    }


def risky_operation(call: Call) -> str | None:
    """Of the operations inside of a layer the one that most likely did it; None when it ran eagerly."""
    inputs = {id(tensor) for _, tensor in call.inputs}
    waiting = [tensor for _, tensor in call.outputs if hasattr(tensor, "graph")]
    seen: set[int] = set()
    found: set[str] = set()
    while waiting and len(seen) < MOST_OPERATIONS:
        tensor = waiting.pop()
        if id(tensor) in seen or id(tensor) in inputs:
            continue
        seen.add(id(tensor))
        found.add(tensor.op.type)
        waiting.extend(tensor.op.inputs)
    return next((name for name in RISKY if name in found), None)
