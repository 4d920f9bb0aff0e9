"""Traces a loss's NaN that none of its operations made back to the operand that brought it along.

That is a tensor without a graph, mostly the labels. An operation that saves its operand shows it directly.
Other operations are conclusive if they make no NaN from finite values and all their other operands are
finite.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from itertools import islice
from typing import Any, NamedTuple

import torch

from tb_netdebug.frameworks.torch.frames import user_frame
from tb_netdebug.frameworks.torch.numerics.flags import flags_of
from tb_netdebug.frameworks.torch.numerics.graph_nodes import MARK, MOST_OPERATIONS, name_of

# The operand position of each tensor that an operation saves.
PLACES = {"self": 0, "input": 0, "other": 1, "target": 1, "mat2": 1, "exponent": 1}
# Operations that make no NaN from finite values. A sum that overflows to both infinities is not considered.
PASSING_ON = frozenset({
    "Add", "Sub", "Rsub", "Mul", "Neg", "Abs", "Sum", "Mean", "Pow", "Dist", "Norm", "LinalgVectorNorm",
    "View", "Reshape", "UnsafeView", "ReshapeAlias", "Squeeze", "Unsqueeze", "Expand", "Clone", "ToCopy",
    "T", "Transpose", "Permute", "Slice", "Select", "Index", "Gather", "Where", "MaskedFill", "Stack", "Cat",
    "Relu", "Sigmoid", "Tanh", "Clamp", "ClampMin", "ClampMax", "Maximum", "Minimum", "Max", "Min",
    "Softplus", "LogSigmoid", "Exp", "Expm1", "Exp2",
})  # fmt: skip
MOST_FRAMES = 4  # so many frames outwards are searched for variables
MOST_VARIABLES = 256


class Operand(NamedTuple):
    """The operations of which one was given the operand, and the variable that held it, if one is known."""

    nodes: tuple[Any, ...]
    variable: str


def operand_of(node: Any, *, is_nan: bool, is_maker: bool = True) -> Operand | None:
    """Return the operand that made this operation's result bad; None when that is not certain.

    If an operation may have made it from finite values, as one that `is_maker`, only an operand held by a
    variable is certain. An infinity can come from large numbers anywhere, so its operand must be seen, too.
    """
    found = list(paths(node, set(), is_nan=is_nan, is_maker=is_maker))
    given = [each.node for each in found if each.is_given]
    seen = list(in_sight())
    named = {each: name for each in given if (name := variable_of(each, seen))}
    is_sure = bool(given) and len(given) == len(found) and not is_maker
    if len(set(named.values())) == 1 and (is_sure or is_nan):
        return Operand(tuple(named), next(iter(named.values())))
    return Operand(tuple(given), "") if is_sure else None


class End(NamedTuple):
    """The end of a way back from a bad result: an operation that was given it, or may have made it."""

    node: Any
    is_given: bool


def paths(node: Any, seen: set[Any], *, is_nan: bool, is_maker: bool = False) -> Iterator[End]:
    """Yield where the ways back from a bad result end."""
    if node in seen:
        return
    seen.add(node)
    kept = kept_inputs(node)
    bad = [place for place, tensor in kept.items() if is_nan_or_infinite(tensor)]
    if not bad and not is_maker and (name_of(node) not in PASSING_ON or len(seen) > MOST_OPERATIONS):
        yield End(node, is_given=False)
        return
    if not bad and not is_nan:
        yield End(node, is_given=False)
    for place, (given, _) in enumerate(node.next_functions):
        if (place in bad) if bad else (place not in kept and not is_finite_source(given)):
            if given is None:
                yield End(node, is_given=True)
            else:
                yield from paths(given, seen, is_nan=is_nan)


def kept_inputs(node: Any) -> dict[int, torch.Tensor]:
    """Return the saved operands of an operation, by position."""
    kept = {}
    for part, place in PLACES.items():
        try:
            value = getattr(node, f"_saved_{part}", None)
        except RuntimeError:  # freed by an earlier backward pass
            continue
        if isinstance(value, torch.Tensor):
            kept[place] = value.detach()
    return kept


def is_finite_source(node: Any) -> bool:
    """Return whether the node is a model's output, all of which were finite, or a finite weight."""
    if node is None:
        return False
    return MARK in node.metadata or (
        name_of(node) == "AccumulateGrad" and not is_nan_or_infinite(node.variable.detach())
    )


def is_nan_or_infinite(tensor: torch.Tensor) -> bool:
    """Return whether the tensor holds NaN or +inf; -inf is what masks are made of."""
    found = flags_of(tensor)
    return found.nan or found.pos_inf


# ---- variables of the program ----------------------------------------------------------------------------


def in_sight() -> Iterator[tuple[str, torch.Tensor]]:
    """Yield non-finite tensors without a graph, with the names of the variables that hold them.

    Only the innermost running function with such a variable is searched.
    """
    frame = user_frame(sys._getframe(1))
    for _ in range(MOST_FRAMES):
        if frame is None:
            return
        found = [
            (name, value)
            for name, value in islice(frame.f_locals.items(), MOST_VARIABLES)
            if type(value) is torch.Tensor
            and value.numel() > 1  # a single number may be anything, such as the best loss so far
            and value.grad_fn is None
            and is_nan_or_infinite(value)
        ]
        if found:
            yield from found
            return
        frame = user_frame(frame.f_back)


def variable_of(node: Any, seen: list[tuple[str, torch.Tensor]]) -> str:
    """Return the variable that the operation may have been given; empty unless exactly one tensor fits."""
    shapes = [tuple(each.shape) for each in getattr(node, "_input_metadata", None) or ()]
    fitting = {
        each.data_ptr(): name
        for name, each in reversed(seen)
        if any(fits(tuple(each.shape), shape) for shape in shapes)
    }
    return next(iter(fitting.values())) if len(fitting) == 1 else ""


def fits(given: tuple[int, ...], result: tuple[int, ...]) -> bool:
    """Return whether an operand of this shape broadcasts to a result of that one."""
    try:
        return tuple(torch.broadcast_shapes(given, result)) == result
    except RuntimeError:
        return False
