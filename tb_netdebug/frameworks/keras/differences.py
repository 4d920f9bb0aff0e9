"""Detect a subtraction in a custom train_step that compares each prediction with every target."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from tb_netdebug.frameworks.keras.tensors import tensors_in

SUBTRACTIONS = ("Sub", "SquaredDifference")
PASSED_ON = ("Identity", "Cast")


def crosses(data: Any, is_prediction: Callable[[Any], bool]) -> bool:
    """Return whether the step's graph computes (n, n) from targets (n,) and predictions (n, 1).

    Code that wants all pairs expands the targets itself and does not match.
    """
    given = data[1:] if isinstance(data, tuple | list) else ()
    targets = [
        tensor for _, tensor in tensors_in(given) if hasattr(tensor, "graph") and tensor.shape.rank == 1
    ]
    return any(
        is_column(other) and is_prediction(other) and made.shape.rank == 2 and made.shape[-1] != 1
        for target in targets
        for other, made in subtracted(target)
    )


def is_column(tensor: Any) -> bool:
    return bool(tensor.shape.rank == 2 and tensor.shape[-1] == 1)


def subtracted(tensor: Any) -> Iterator[tuple[Any, Any]]:
    """Yield the other operand and the result of each subtraction that a tensor takes part in."""
    for operation in tensor.consumers():
        if operation.type in SUBTRACTIONS:
            for other in operation.inputs:
                if other is not tensor:
                    yield other, operation.outputs[0]
        elif operation.type in PASSED_ON:
            yield from subtracted(operation.outputs[0])
