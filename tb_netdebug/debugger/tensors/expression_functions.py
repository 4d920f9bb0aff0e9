"""The functions that an expression may call; they mean what they mean in NumPy."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tb_netdebug.core.stats.packed import Summary
from tb_netdebug.debugger.tensors.expression_limits import Budget
from tb_netdebug.debugger.tensors.expression_values import Array, Value, Whole, item_bytes
from tb_netdebug.debugger.workbench import WorkbenchError


@dataclass(frozen=True, slots=True)
class Function:
    """A function; `call` takes the budget, then the arguments of the expression."""

    call: Callable[..., Any]
    least: int
    most: int
    keywords: tuple[str, ...] = ()


def array_of(value: Value, budget: Budget) -> Array:
    """Return an argument as an array: a tensor is read here, if it is not too large."""
    if isinstance(value, Whole):
        return value.array(budget)
    if isinstance(value, tuple):
        raise WorkbenchError("A list is allowed only as a shape, an axis or several tensors.")
    return np.asarray(value)


def axis_of(value: Value | None) -> int | tuple[int, ...] | None:
    if value is None:
        return None
    if isinstance(value, tuple):
        return whole_numbers(value)
    return whole_numbers((value,))[0]


def whole_numbers(values: Sequence[Any]) -> tuple[int, ...]:
    for value in values:
        if isinstance(value, bool) or not isinstance(value, int):
            raise WorkbenchError("Shapes, axes and positions must be whole numbers.")
    return tuple(values)


# ---- elementwise functions --------------------------------------------------------------------------------


def _each(action: Callable[[Array], Any]) -> Function:
    def call(budget: Budget, value: Value) -> Any:
        array = array_of(value, budget)
        budget.take_values(array.shape, item_bytes(array))
        return action(array)

    return Function(call, 1, 1)


def _sigmoid(array: Array) -> Array:
    # By tanh, because exp(-x) overflows for large negative x.
    return np.asarray(0.5 * (np.tanh(array / 2) + 1))


# ---- reductions -------------------------------------------------------------------------------------------


def _reduced(action: Callable[..., Any], of_summary: Callable[[Summary], Any] | None = None) -> Function:
    """Return a reduction; that of a whole tensor without axes is taken from its summary, at any size."""

    def call(budget: Budget, value: Value, axis: Value | None = None, keepdims: Any = False) -> Any:
        where = axis_of(axis)
        if (
            isinstance(value, Whole)
            and of_summary
            and where is None
            and not keepdims
            and not value.is_complex
        ):
            return of_summary(value.summary())
        array = array_of(value, budget)
        return action(array, axis=where, keepdims=bool(keepdims))

    return Function(call, 1, 2, ("axis", "keepdims"))


def _sum(summary: Summary) -> float:
    """Return the sum as NumPy defines it: Inf and NaN count."""
    if summary.nan or (summary.pos_inf and summary.neg_inf):
        return math.nan
    return math.inf if summary.pos_inf else -math.inf if summary.neg_inf else summary.sum


def _least(summary: Summary) -> float:
    if summary.nan or not summary.count:
        return math.nan
    return -math.inf if summary.neg_inf else summary.min if summary.finite else math.inf


def _most(summary: Summary) -> float:
    if summary.nan or not summary.count:
        return math.nan
    return math.inf if summary.pos_inf else summary.max if summary.finite else -math.inf


def _std(summary: Summary) -> float:
    return math.nan if summary.nonfinite else summary.std


def _size(summary: Summary) -> float:
    return math.nan if summary.nan else math.inf if summary.nonfinite else summary.norm


def _norm(array: Array, *, axis: Any, keepdims: bool) -> Any:
    squares = np.square(np.abs(array).astype(np.float64))
    return np.sqrt(np.sum(squares, axis=axis, keepdims=keepdims))


def _nonfinite(array: Array, *, axis: Any, keepdims: bool) -> Any:
    return np.sum(~np.isfinite(array), axis=axis, keepdims=keepdims)


def _zeros(array: Array, *, axis: Any, keepdims: bool) -> Any:
    return np.sum(array == 0, axis=axis, keepdims=keepdims)


def _place(sign: int) -> Function:
    def call(budget: Budget, value: Value, axis: Value | None = None) -> Any:
        where = axis_of(axis)
        if isinstance(where, tuple):
            raise WorkbenchError("argmax and argmin take one axis.")
        if isinstance(value, Whole) and where is None and not value.is_complex and 0 not in value.shape:
            return value.farthest(sign, budget)
        array = array_of(value, budget)
        return np.argmax(array, axis=where) if sign > 0 else np.argmin(array, axis=where)

    return Function(call, 1, 2, ("axis",))


def _quantile(budget: Budget, value: Value, share: Value, axis: Value | None = None) -> Any:
    array, shares = array_of(value, budget), np.asarray(share, np.float64)
    budget.take_values(array.shape if axis is None else (shares.size, *array.shape))
    return np.quantile(array, shares, axis=axis_of(axis))


# ---- shapes -----------------------------------------------------------------------------------------------


def _transpose(budget: Budget, value: Value, axes: Value | None = None) -> Any:
    order = axis_of(axes)
    return np.transpose(array_of(value, budget), (order,) if isinstance(order, int) else order)


def _reshape(budget: Budget, value: Value, *shape: Any) -> Any:
    lengths = shape[0] if len(shape) == 1 and isinstance(shape[0], tuple) else shape
    return array_of(value, budget).reshape(whole_numbers(lengths))


def _several(value: Value, budget: Budget) -> list[Array]:
    if not isinstance(value, tuple) or not value:
        raise WorkbenchError("Give several tensors as a list: [A, B].")
    arrays = [array_of(each, budget) for each in value]
    budget.take_values((sum(array.size for array in arrays),))
    return arrays


def _concatenate(budget: Budget, values: Value, axis: Value = 0) -> Any:
    where = axis_of(axis)
    return np.concatenate(_several(values, budget), axis=where if isinstance(where, int) else 0)


def _stack(budget: Budget, values: Value, axis: Value = 0) -> Any:
    where = axis_of(axis)
    return np.stack(_several(values, budget), axis=where if isinstance(where, int) else 0)


def _sorted(budget: Budget, value: Value, axis: Value = -1) -> Any:
    array = array_of(value, budget)
    budget.take_values(array.shape)
    where = axis_of(axis)
    return np.sort(array, axis=where if isinstance(where, int) else -1)


def _unique(budget: Budget, value: Value) -> Any:
    array = array_of(value, budget)
    budget.take_values(array.shape)
    return np.unique(array)


def _shape(budget: Budget, value: Value) -> Any:
    return np.array(value.shape if isinstance(value, Whole) else np.shape(array_of(value, budget)), np.int64)


def _count_of(budget: Budget, value: Value) -> Any:
    return math.prod(value.shape) if isinstance(value, Whole) else array_of(value, budget).size


# ---- functions of several arguments -----------------------------------------------------------------------


def _where(budget: Budget, condition: Value, yes: Value, no: Value) -> Any:
    arrays = [array_of(each, budget) for each in (condition, yes, no)]
    budget.take_values(np.broadcast_shapes(*(array.shape for array in arrays)), item_bytes(*arrays))
    return np.where(*arrays)


def _clip(budget: Budget, value: Value, least: Value, most: Value) -> Any:
    arrays = [array_of(each, budget) for each in (value, least, most)]
    budget.take_values(np.broadcast_shapes(*(array.shape for array in arrays)), item_bytes(*arrays))
    return np.minimum(np.maximum(arrays[0], arrays[1]), arrays[2])


def _pairwise(action: Callable[[Array, Array], Any]) -> Function:
    def call(budget: Budget, one: Value, other: Value) -> Any:
        arrays = array_of(one, budget), array_of(other, budget)
        budget.take_values(np.broadcast_shapes(*(array.shape for array in arrays)), item_bytes(*arrays))
        return action(*arrays)

    return Function(call, 2, 2)


def _softmax(budget: Budget, value: Value, axis: Value = -1) -> Any:
    array = array_of(value, budget)
    budget.take_values(array.shape, item_bytes(array))
    where = axis_of(axis)
    powers = np.exp(array - np.max(array, axis=where, keepdims=True))
    return powers / np.sum(powers, axis=where, keepdims=True)


def _flat_pair(one: Value, other: Value, budget: Budget) -> tuple[Array, Array]:
    first, second = (array_of(each, budget).reshape(-1) for each in (one, other))
    if first.size != second.size:
        raise WorkbenchError(
            f"They have {first.size} and {second.size} values; both must have the same number."
        )
    if np.iscomplexobj(first) or np.iscomplexobj(second):
        raise WorkbenchError("This takes real values, not complex ones: write abs(x) or real(x).")
    budget.take_values((first.size,), 16)  # both as doubles
    return first.astype(np.float64), second.astype(np.float64)


def _cosine(budget: Budget, one: Value, other: Value) -> Any:
    first, second = _flat_pair(one, other, budget)
    return first @ second / (np.sqrt(first @ first) * np.sqrt(second @ second))


def _corr(budget: Budget, one: Value, other: Value | None = None) -> Any:
    """Return one number for two tensors, or a matrix for the rows of one matrix."""
    if other is not None:
        first, second = _flat_pair(one, other, budget)
        return _cosine(budget, first - first.mean(), second - second.mean())
    rows = array_of(one, budget)
    if rows.ndim != 2:
        raise WorkbenchError(f"corr takes two tensors or a matrix, not the shape {list(rows.shape)}.")
    budget.take_values((len(rows), len(rows)), 16)
    budget.take_products(len(rows) * rows.size)
    return np.corrcoef(rows)


def _svdvals(budget: Budget, value: Value) -> Any:
    matrix = array_of(value, budget)
    if matrix.ndim != 2:
        raise WorkbenchError(f"svdvals takes a matrix, not the shape {list(matrix.shape)}.")
    budget.take_products(matrix.size * min(matrix.shape, default=0))
    if not np.isfinite(matrix).all():
        raise WorkbenchError("The matrix holds NaN or infinite values, so it has no singular values.")
    return np.linalg.svd(matrix, compute_uv=False)


def _round(budget: Budget, value: Value, digits: Value = 0) -> Any:
    array = array_of(value, budget)
    budget.take_values(array.shape)
    return np.round(array, min(max(whole_numbers((digits,))[0], -300), 300))


_EACH: dict[str, Callable[[Array], Any]] = {
    "abs": np.abs, "sqrt": np.sqrt, "exp": np.exp, "log": np.log, "log2": np.log2, "log10": np.log10,
    "log1p": np.log1p, "sin": np.sin, "cos": np.cos, "tanh": np.tanh, "floor": np.floor, "ceil": np.ceil,
    "sign": np.sign, "square": np.square, "isnan": np.isnan, "isinf": np.isinf, "isfinite": np.isfinite,
    "sigmoid": _sigmoid, "relu": lambda array: np.maximum(array, 0), "real": np.real, "imag": np.imag,
}  # fmt: skip
_REDUCED: dict[str, Function] = {
    "sum": _reduced(np.sum, _sum),
    "mean": _reduced(np.mean, lambda summary: _sum(summary) / summary.count if summary.count else math.nan),
    "std": _reduced(np.std, _std),
    "var": _reduced(np.var, lambda summary: _std(summary) ** 2),
    "min": _reduced(np.min, _least),
    "max": _reduced(np.max, _most),
    "norm": _reduced(_norm, _size),
    "any": _reduced(np.any, lambda summary: summary.zeros < summary.count),
    "all": _reduced(np.all, lambda summary: summary.zeros == 0),
    "count": _reduced(np.count_nonzero, lambda summary: summary.count - summary.zeros),
    "zeros": _reduced(_zeros, lambda summary: summary.zeros),
    "nonfinite": _reduced(_nonfinite, lambda summary: summary.nonfinite),
    "median": _reduced(np.median),
    "prod": _reduced(np.prod),
}
FUNCTIONS: dict[str, Function] = {
    **{name: _each(action) for name, action in _EACH.items()},
    **_REDUCED,
    "argmax": _place(1),
    "argmin": _place(-1),
    "quantile": Function(_quantile, 2, 2, ("axis",)),
    "transpose": Function(_transpose, 1, 2),
    "T": Function(_transpose, 1, 1),
    "reshape": Function(_reshape, 2, 9),
    "flatten": Function(lambda budget, value: array_of(value, budget).reshape(-1), 1, 1),
    "squeeze": Function(lambda budget, value: np.squeeze(array_of(value, budget)), 1, 1),
    "concatenate": Function(_concatenate, 1, 2, ("axis",)),
    "stack": Function(_stack, 1, 2, ("axis",)),
    "sort": Function(_sorted, 1, 2, ("axis",)),
    "unique": Function(_unique, 1, 1),
    "shape": Function(_shape, 1, 1),
    "size": Function(_count_of, 1, 1),
    "where": Function(_where, 3, 3),
    "clip": Function(_clip, 3, 3),
    "maximum": _pairwise(np.maximum),
    "minimum": _pairwise(np.minimum),
    "softmax": Function(_softmax, 1, 2, ("axis",)),
    "cosine": Function(_cosine, 2, 2),
    "corr": Function(_corr, 1, 2),
    "svdvals": Function(_svdvals, 1, 1),
    "round": Function(_round, 1, 2),
}
