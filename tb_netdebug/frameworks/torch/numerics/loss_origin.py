"""Reads from a loss's graph which operation made it non-finite, before the backward pass frees the graph."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import torch

from tb_netdebug.frameworks.torch.numerics.flags import flags_of
from tb_netdebug.frameworks.torch.numerics.graph_nodes import MOST_OPERATIONS, name_of, nodes_of, number_of
from tb_netdebug.frameworks.torch.numerics.loss_lines import line_of
from tb_netdebug.frameworks.torch.numerics.nonfinite_operands import (
    Operand,
    is_nan_or_infinite,
    kept_inputs,
    operand_of,
)

MOST_NAMED = 8

Test = Callable[[torch.Tensor], torch.Tensor]


def is_bad(values: torch.Tensor) -> torch.Tensor:
    return ~torch.isfinite(values)


def is_infinite(values: torch.Tensor) -> torch.Tensor:
    """Return where values are infinite; a NaN does not count, since such an operation was given it."""
    return torch.isinf(values)


# Per operation: the tensor that it saves for backward, and the test by which that tensor proves the operation
# made a NaN or an infinity.
CULPRITS: dict[str, tuple[str, Test]] = {
    **dict.fromkeys(("Log", "Log2", "Log10"), ("self", lambda values: values <= 0)),
    "Log1P": ("self", lambda values: values <= -1),
    "Div": ("other", lambda values: values == 0),
    **dict.fromkeys(("Acos", "Asin", "Atanh"), ("self", lambda values: values.abs() > 1)),
    **dict.fromkeys(
        ("Sqrt", "Rsqrt", "Softmax", "LogSoftmax", "Tan"),
        ("result", is_bad),
    ),
    **dict.fromkeys(("Exp", "Exp2", "Expm1", "Reciprocal"), ("result", is_infinite)),
    **dict.fromkeys(
        ("MseLoss", "SmoothL1Loss", "HuberLoss", "BinaryCrossEntropy", "BinaryCrossEntropyWithLogits"),
        ("target", is_bad),
    ),
}


def operations_of(root: torch.Tensor) -> list[str]:
    """Return the last few operations between the models' outputs and the loss, roughly in order."""
    return [name_of(node) for node in nodes_of(root, MOST_NAMED)][::-1]


class Culprit(NamedTuple):
    """An operation that made a NaN or an infinity ("Log"), its bad tensor ("self") and its line.

    The part "operand" is a tensor without a graph that the operation was given; `variable` held it.
    """

    operation: str = ""
    part: str = ""
    line: str = ""
    variable: str = ""


def culprit_of(root: torch.Tensor) -> Culprit:
    """Return the first operation known to be to blame, or an empty culprit. Waits for the device."""
    is_nan = flags_of(root).nan
    for node in sorted(nodes_of(root, MOST_OPERATIONS), key=number_of):
        part = part_of(node)
        if part == "target":
            return Culprit(name_of(node), part, line_of(node))
        was_given = any(map(is_nan_or_infinite, kept_inputs(node).values()))
        if was_given or part == "result":  # a bad result may also come from a bad operand
            operand = operand_of(node, is_nan=is_nan, is_maker=not was_given)
            if operand is not None:
                return of_operand(operand)
        if part:
            return Culprit(name_of(node), part, line_of(node))
    operand = operand_of(root.grad_fn, is_nan=is_nan, is_maker=False)
    return Culprit() if operand is None else of_operand(operand)


def of_operand(operand: Operand) -> Culprit:
    """Return a culprit for an operand, naming the operation and the line only if there is just one."""
    names = {name_of(each) for each in operand.nodes}
    lines = {line_of(each) for each in operand.nodes}
    return Culprit(
        names.pop() if len(names) == 1 else "",
        "operand",
        lines.pop() if len(lines) == 1 else "",
        operand.variable,
    )


def part_of(node: Any) -> str:
    """Return which saved tensor proves that this operation made a non-finite value; empty when none does."""
    part, test = CULPRITS.get(name_of(node), ("", is_bad))
    try:
        kept = getattr(node, f"_saved_{part}", None) if part else None
    except RuntimeError:  # freed by an earlier backward pass
        return ""
    return part if isinstance(kept, torch.Tensor) and bool(test(kept.detach()).any()) else ""
