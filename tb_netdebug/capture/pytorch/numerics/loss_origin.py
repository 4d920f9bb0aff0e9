"""What a loss was computed with after the models, read off its graph before that is used and gone."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import torch

from tb_netdebug.capture.pytorch.numerics.loss_lines import line_of

# Left on the operation that made a model's output: there the loss begins. It keeps nothing alive.
MARK = "netdebug_output"
MOST_OPERATIONS = 64
MOST_NAMED = 8

Test = Callable[[torch.Tensor], torch.Tensor]


def is_bad(values: torch.Tensor) -> torch.Tensor:
    return ~torch.isfinite(values)


# Of an operation: what it has kept for its backward pass, and when that makes a NaN or an infinity.
CULPRITS: dict[str, tuple[str, Test]] = {
    **dict.fromkeys(("Log", "Log2", "Log10"), ("self", lambda values: values <= 0)),
    "Log1P": ("self", lambda values: values <= -1),
    "Div": ("other", lambda values: values == 0),
    **dict.fromkeys(("Acos", "Asin", "Atanh"), ("self", lambda values: values.abs() > 1)),
    **dict.fromkeys(
        ("Exp", "Exp2", "Expm1", "Sqrt", "Rsqrt", "Reciprocal", "Softmax", "LogSoftmax", "Tan"),
        ("result", is_bad),
    ),
    **dict.fromkeys(
        ("MseLoss", "SmoothL1Loss", "HuberLoss", "BinaryCrossEntropy", "BinaryCrossEntropyWithLogits"),
        ("target", is_bad),
    ),
}


def mark_output(output: torch.Tensor) -> None:
    """Called when a model puts it out."""
    node: Any = output.grad_fn
    if node is not None:
        node.metadata[MARK] = True


def operations_of(root: torch.Tensor) -> list[str]:
    """The operations between the outputs of the models and the loss, in about their order; the last few."""
    return [name_of(node) for node in nodes_of(root, MOST_NAMED)][::-1]


class Culprit(NamedTuple):
    """An operation that made a NaN or an infinity: "Log", what of it was bad: "self", and its line."""

    operation: str = ""
    part: str = ""
    line: str = ""


def culprit_of(root: torch.Tensor) -> Culprit:
    """Return the first operation that is known to be one; empty when none is. Waits for a device."""
    for node in reversed(list(nodes_of(root, MOST_OPERATIONS))):
        part, test = CULPRITS.get(name_of(node), ("", is_bad))
        try:
            kept = getattr(node, f"_saved_{part}", None) if part else None
        except RuntimeError:  # it is gone, after an earlier backward pass
            continue
        if isinstance(kept, torch.Tensor) and bool(test(kept.detach()).any()):
            return Culprit(name_of(node), part, line_of(node))
    return Culprit()


def nodes_of(root: torch.Tensor, most: int) -> Iterator[Any]:
    """From the loss backwards, as far as the outputs of models and as parameters."""
    waiting: deque[Any] = deque([root.grad_fn])
    seen: set[Any] = set()
    while waiting and len(seen) < most:
        node = waiting.popleft()
        if node is None or node in seen or name_of(node) == "AccumulateGrad" or MARK in node.metadata:
            continue
        seen.add(node)
        yield node
        waiting.extend(following for following, _ in node.next_functions)


def name_of(node: Any) -> str:
    """As `Log` of LogBackward0."""
    name: str = node.name().rpartition("::")[2]
    return name.partition("Backward")[0]
