"""Which layer has made the first value that is no number."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from tb_netdebug.capture.collector import Collector
from tb_netdebug.capture.keras.operations import Counts, Followed, word_of
from tb_netdebug.capture.keras.values import Array, array_of, is_float

if TYPE_CHECKING:
    from tb_netdebug.capture.keras.tap import Call, Tap
    from tb_netdebug.capture.keras.traced import Shown

MOST_TELLINGS = 4

# Operations that can make NaN or infinity of ordinary numbers, by the names that TensorFlow gives them.
RISKY = (
    "Log", "Log1p", "Sqrt", "Rsqrt", "RealDiv", "Div", "DivNoNan", "Reciprocal", "Pow", "Exp", "Expm1",
    "Acos", "Asin", "Atanh", "Xlogy", "Lgamma", "Square", "Mul", "Cast", "MatMul", "Conv2D", "Sum", "Mean",
)  # fmt: skip
MOST_OPERATIONS = 200

# In the order in which the layers were done.
Outputs = list[tuple["Call", Counts]]
Gradients = Sequence[tuple[Any, int]]


class Origin:
    """The fact `first-nonfinite`: at the first step with such a value after one without."""

    def __init__(self, collector: Collector) -> None:
        self._collector = collector
        self._told = 0
        self._last_told = -2

    def look(
        self,
        tap: Tap,
        shown: Shown,
        outputs: Outputs,
        gradients: Gradients,
        scalars: Mapping[str, float],
        before: Callable[[Any], Array | None],
        followed: Followed | None,
    ) -> None:
        """`outputs` and `gradients`: with the number of values that are no numbers; -infinity alone is how
        scores are masked."""
        is_loss_bad = not np.isfinite(scalars.get("loss", 0.0))
        is_bad = is_loss_bad or scalars.get("nonfinite_gradients") or any(map(is_wrong, outputs))
        step = self._collector.step
        if not is_bad:
            return
        if self._last_told in (step - 1, step):  # still the same trouble
            self._last_told = step
            return
        if self._told >= MOST_TELLINGS:
            return
        fact = of_state(tap, shown, before)
        if fact is None and followed is not None:
            fact = followed.as_fact()
        if fact is None:
            fact = of_layers(tap, outputs, gradients, is_loss_bad=is_loss_bad)
        if fact is not None:
            self._told += 1
            self._last_told = step
            self._collector.fact("first-nonfinite", **fact)


def of_state(tap: Tap, shown: Shown, before: Callable[[Any], Array | None]) -> dict[str, Any] | None:
    """Of what was there before the step: its inputs, and the weights where they were kept."""
    for number, tensor in enumerate(shown.get("inputs", [])):
        if is_float(tensor) and not np.isfinite(array_of(tensor)).all():
            kind = kind_of(array_of(tensor))
            return fact_of(f"input/{number}", "", "input", kind, inputs_finite=False)
    for watched in tap.network.weights.values():
        values = before(watched)
        if values is not None and not np.isfinite(values).all():
            return fact_of(watched.name, "", "parameter", kind_of(values), parameters_finite=False)
    return None


def of_layers(
    tap: Tap, outputs: Outputs, gradients: Gradients, *, is_loss_bad: bool
) -> dict[str, Any] | None:
    bad = [each for each in outputs if is_wrong(each)]
    if is_loss_bad and not bad:
        bad = [each for each in outputs if any(each[1])]
    if bad:
        call, counts = bad[0]
        found = call.layer
        operation = risky_operation(call)
        return fact_of(found.name, type(found.layer).__name__, "output", word_of(counts), operation=operation)
    if is_loss_bad:
        loss = tap.losses[0].loss if tap.losses else None
        return fact_of("loss", type(loss).__name__ if loss is not None else "", "loss", "NaN")
    for watched, count in reversed(gradients):  # the backward pass comes from behind
        if count:
            return fact_of(watched.name, "", "gradient", "NaN")
    return None


def fact_of(
    where: str,
    class_name: str,
    what: str,
    kind: str,
    *,
    inputs_finite: bool = True,
    parameters_finite: bool = True,
    operation: str | None = None,
) -> dict[str, Any]:
    return {
        "where": where,
        "class_name": class_name,
        "what": what,
        "inputs_finite": inputs_finite,
        "parameters_finite": parameters_finite,
        "kind": kind,
        "masked_only": False,
        "capsule": None,
        "operation": operation,
    }


def is_wrong(output: tuple[Call, Counts]) -> bool:
    _, positive, nan = output[1]
    return bool(positive or nan)


def kind_of(values: Array) -> str:
    return word_of((0, int(np.isposinf(values).any()), int(np.isnan(values).any())))


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
