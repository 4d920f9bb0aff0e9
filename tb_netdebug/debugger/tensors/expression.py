"""Evaluates expressions over tensors, such as ``norm(`gradient:fc.weight`) / norm(`weight:fc.weight`)``.

They look like NumPy, but they are not Python: the text is parsed, and each kind of node has a function here
that computes it; every other kind is refused. Nothing is compiled or run, no attribute is looked up, and
`expression_limits` bounds the cost.
"""

from __future__ import annotations

import ast
import math
import operator
import re
from collections.abc import Callable
from typing import Any, NoReturn

import numpy as np

from tb_netdebug.debugger.tensors.array_readable import readable_of
from tb_netdebug.debugger.tensors.expression_functions import FUNCTIONS, Function, array_of
from tb_netdebug.debugger.tensors.expression_limits import MOST_LETTERS, Budget, refuse_big
from tb_netdebug.debugger.tensors.expression_values import (
    Array,
    Number,
    Value,
    Whole,
    item_bytes,
    number,
    plain,
    widened,
)
from tb_netdebug.debugger.tensors.slices import resolved, shape_of
from tb_netdebug.debugger.workbench import KINDS, Readable, Workbench, WorkbenchError

NAMES = {"pi": math.pi, "e": math.e, "inf": math.inf, "nan": math.nan}
HOW_TO_NAME = "Write names of tensors in backticks or quotes: `weight:encoder.0.weight`."
# Backticks become quotes, so that Python's parser reads the names as strings.
_QUOTED = re.compile(r"`([^`\"\\]*)`")

_ARITHMETIC: dict[type[ast.operator], tuple[Callable[[Any, Any], Any], Callable[[Any, Any], Any]]] = {
    ast.Add: (operator.add, np.add),
    ast.Sub: (operator.sub, np.subtract),
    ast.Mult: (operator.mul, np.multiply),
    ast.Div: (np.true_divide, np.true_divide),
    ast.FloorDiv: (np.floor_divide, np.floor_divide),
    ast.Mod: (np.mod, np.mod),
    ast.Pow: (np.float_power, np.float_power),  # integer powers would overflow
}
_LOGIC: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.BitAnd: np.bitwise_and,
    ast.BitOr: np.bitwise_or,
    ast.BitXor: np.bitwise_xor,
}
_COMPARED: dict[type[ast.cmpop], Callable[[Any, Any], Any]] = {
    ast.Lt: np.less,
    ast.LtE: np.less_equal,
    ast.Gt: np.greater,
    ast.GtE: np.greater_equal,
    ast.Eq: np.equal,
    ast.NotEq: np.not_equal,
}
# What people try first, and what to write instead.
_INSTEAD: dict[type[ast.AST], str] = {
    ast.Attribute: "there are no attributes and methods: write mean(x), T(x)",
    ast.BoolOp: "write & and | with brackets, (a > 0) & (a < 1)",
    ast.IfExp: "write where(condition, a, b)",
    ast.Not: "write ~",
    ast.JoinedStr: HOW_TO_NAME,
}
_MISTAKES = (
    TypeError, ValueError, IndexError, OverflowError, ZeroDivisionError, MemoryError, RecursionError,
    Warning,  # where the program has turned them into errors
)  # fmt: skip


def evaluate(text: str, workbench: Workbench) -> Readable:
    """Return the result as a tensor; raise WorkbenchError that points at what cannot be computed."""
    tree, source = _parsed(text)
    with np.errstate(all="ignore"):
        value = _Evaluation(workbench, source).value(tree.body)
    if isinstance(value, Whole):
        return value.readable
    if isinstance(value, tuple):
        raise WorkbenchError("A list is not a tensor: write concatenate([A, B]) or stack([A, B]).")
    return readable_of(np.asarray(value), text.strip(), "expression")


def _parsed(text: str) -> tuple[ast.Expression, str]:
    if len(text) > MOST_LETTERS:
        raise WorkbenchError(
            f"An expression of {len(text)} characters is too long; the limit is {MOST_LETTERS}."
        )
    source = _QUOTED.sub(r'"\1"', text.strip())
    if "\\" in source or "`" in source or not source.isprintable():
        raise WorkbenchError(
            "An expression must be one line, without backslashes and with backticks in pairs."
        )
    try:
        tree = ast.parse(source, mode="eval")
    except SyntaxError as error:
        raise WorkbenchError(
            f"At character {error.offset or 1}: this is not an expression ({error.msg}). {HOW_TO_NAME}"
        ) from None
    except (ValueError, MemoryError, RecursionError):
        raise WorkbenchError("This is not an expression, or it is too deeply nested.") from None
    refuse_big(tree)
    return tree, source


class _Evaluation:
    def __init__(self, workbench: Workbench, source: str) -> None:
        self._workbench = workbench
        self._source = source
        self._budget = Budget()
        self._tensors: dict[str, Whole] = {}

    def value(self, node: ast.expr) -> Value:
        self._budget.take_time()
        found = _KINDS.get(type(node))
        if found is None:
            self._refuse(node, _INSTEAD.get(type(node), f"{type(node).__name__} is not known here"))
        try:
            return found(self, node)
        except _MISTAKES as error:
            self._refuse(node, str(error).partition("\n")[0] or type(error).__name__)

    def _refuse(self, node: ast.expr, why: str) -> NoReturn:
        before = self._source.encode()[: node.col_offset].decode(errors="replace")
        raise WorkbenchError(f"At character {len(before) + 1}: {why.rstrip('.')}.") from None

    def _array(self, node: ast.expr) -> Array:
        return array_of(self.value(node), self._budget)

    # ---- leaves -------------------------------------------------------------------------------------------

    def _constant(self, node: ast.Constant) -> Value:
        if isinstance(node.value, str):
            return self._tensor(node.value)
        if isinstance(node.value, bool | int | float):
            return number(node.value)
        self._refuse(node, "a number or the name of a tensor is needed here")

    def _name(self, node: ast.Name) -> Value:
        if node.id in NAMES:
            return NAMES[node.id]
        if node.id in FUNCTIONS or node.id in KINDS:
            self._refuse(node, f"{node.id} is a function: write {node.id}(…)")
        self._refuse(node, f"{node.id[:40]} is not known. {HOW_TO_NAME}")

    def _tensor(self, name: str) -> Whole:
        if name not in self._tensors:
            self._tensors[name] = Whole(self._workbench.tensor(name))
        return self._tensors[name]

    def _list(self, node: ast.Tuple | ast.List) -> Value:
        return tuple(self.value(each) for each in node.elts)

    # ---- operators ----------------------------------------------------------------------------------------

    def _unary(self, node: ast.UnaryOp) -> Value:
        if isinstance(node.op, ast.Not):
            self._refuse(node, _INSTEAD[ast.Not])
        array = self._array(node.operand)
        self._budget.take_values(array.shape, array.itemsize)
        if isinstance(node.op, ast.Invert):
            return plain(np.invert(array))
        return plain(_to_count_with(array) * (-1 if isinstance(node.op, ast.USub) else 1))

    def _binary(self, node: ast.BinOp) -> Value:
        one, other = self.value(node.left), self.value(node.right)
        if isinstance(node.op, ast.MatMult):
            return self._product(array_of(one, self._budget), array_of(other, self._budget))
        if type(node.op) in _LOGIC:
            return self._broadcast(_LOGIC[type(node.op)], one, other)
        if type(node.op) not in _ARITHMETIC:
            self._refuse(node, f"the operator {type(node.op).__name__} is not known here")
        of_numbers, of_arrays = _ARITHMETIC[type(node.op)]
        if _is_number(one) and _is_number(other):
            return plain(of_numbers(one, other))
        return self._broadcast(of_arrays, one, other, counts=True)

    def _broadcast(
        self, action: Callable[[Any, Any], Any], one: Value, other: Value, *, counts: bool = False
    ) -> Value:
        """Apply an operator; numbers stay numbers, so that they do not widen the tensors' type."""
        pair = [each if _is_number(each) else array_of(each, self._budget) for each in (one, other)]
        self._budget.take_values(np.broadcast_shapes(*(np.shape(each) for each in pair)), item_bytes(*pair))
        if counts:
            pair = [_to_count_with(each) for each in pair]
        return plain(action(*pair))

    def _compare(self, node: ast.Compare) -> Value:
        if len(node.ops) != 1 or type(node.ops[0]) not in _COMPARED:
            self._refuse(node, "compare two values with < <= > >= == !=, and join comparisons with & and |")
        return self._broadcast(
            _COMPARED[type(node.ops[0])], self.value(node.left), self.value(node.comparators[0])
        )

    def _product(self, one: Array, other: Array) -> Value:
        if not one.ndim or not other.ndim:
            raise WorkbenchError("@ multiplies matrices, not single numbers.")
        batch = np.broadcast_shapes(one.shape[:-2], other.shape[:-2])
        rows = one.shape[-2] if one.ndim > 1 else 1
        columns = other.shape[-1] if other.ndim > 1 else 1
        self._budget.take_values((*batch, rows, columns), item_bytes(one, other))
        self._budget.take_products(math.prod(batch) * rows * columns * one.shape[-1])
        # Integer products are slow, and overflow silently.
        pair = [each if each.dtype.kind in "fc" else each.astype(np.float64) for each in (one, other)]
        return plain(np.matmul(*pair))

    # ---- parts --------------------------------------------------------------------------------------------

    def _subscript(self, node: ast.Subscript) -> Value:
        owner = self.value(node.value)
        if not isinstance(owner, Whole | np.ndarray):
            self._refuse(node, "a number cannot be indexed")
        parts = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
        items = [self._item(each) for each in parts]
        if isinstance(items[0], np.ndarray):
            return self._masked(array_of(owner, self._budget), items[0], alone=len(items) == 1)
        index = resolved(items, owner.shape)
        # Only this part is read, not the whole tensor.
        if isinstance(owner, Whole):
            self._budget.take_values(shape_of(index), 16 if owner.is_complex else 8)
            return plain(widened(owner.readable.part(index)))
        return plain(owner[index])

    def _item(self, node: ast.expr) -> Any:
        if isinstance(node, ast.Slice):
            return slice(*(each and self._whole_number(each) for each in (node.lower, node.upper, node.step)))
        if isinstance(node, ast.Constant) and node.value is Ellipsis:
            return Ellipsis
        if isinstance(node, ast.Constant) and node.value is None:
            self._refuse(node, "None makes a new dimension: write reshape(x, shape)")
        found = self.value(node)
        if isinstance(found, Whole):
            found = found.array(self._budget)
        return found if isinstance(found, np.ndarray) else self._whole_number(node, found)

    def _whole_number(self, node: ast.expr, known: Value | None = None) -> int:
        found = self.value(node) if known is None else known
        if isinstance(found, bool) or not isinstance(found, int):
            self._refuse(node, "an index is whole numbers, ranges such as 3:10, or one condition")
        return found

    def _masked(self, array: Array, mask: Array, *, alone: bool) -> Value:
        if mask.dtype != np.bool_ or not alone:
            raise WorkbenchError("An index is either one condition, x[x > 0], or numbers and ranges.")
        self._budget.take_values(array.shape, array.itemsize)
        return plain(array[mask])

    # ---- calls --------------------------------------------------------------------------------------------

    def _call(self, node: ast.Call) -> Value:
        if not isinstance(node.func, ast.Name):
            self._refuse(node, _INSTEAD[ast.Attribute])
        name = node.func.id
        if name in KINDS:
            return self._of_kind(name, node)
        if name not in FUNCTIONS:
            self._refuse(
                node, f"there is no function {name[:40]}. The functions are {', '.join(sorted(FUNCTIONS))}"
            )
        function = FUNCTIONS[name]
        if not function.least <= len(node.args) <= function.most:
            self._refuse(node, f"{name} takes {function.least} to {function.most} arguments")
        arguments = [self.value(each) for each in node.args]
        return plain(function.call(self._budget, *arguments, **self._keywords(node, name, function)))

    def _keywords(self, node: ast.Call, name: str, function: Function) -> dict[str, Value]:
        found = {}
        for each in node.keywords:
            if each.arg not in function.keywords:
                known = ", ".join(function.keywords) or "none"
                self._refuse(node, f"{name} has no argument {str(each.arg)[:40]}; by name it has {known}")
            found[str(each.arg)] = self.value(each.value)
        return found

    def _of_kind(self, kind: str, node: ast.Call) -> Value:
        first = node.args[0] if len(node.args) == 1 and not node.keywords else None
        if not isinstance(first, ast.Constant) or not isinstance(first.value, str):
            self._refuse(node, f'{kind} takes the name of a tensor in quotes: {kind}("NAME")')
        return self._tensor(f"{kind}:{first.value}")


# Kept outside of the evaluation: an object that refers to itself stays in memory with all its arrays until
# the garbage collector runs.
_KINDS: dict[type[ast.AST], Callable[[_Evaluation, Any], Value]] = {
    ast.Constant: _Evaluation._constant,
    ast.Name: _Evaluation._name,
    ast.UnaryOp: _Evaluation._unary,
    ast.BinOp: _Evaluation._binary,
    ast.Compare: _Evaluation._compare,
    ast.Subscript: _Evaluation._subscript,
    ast.Call: _Evaluation._call,
    ast.Tuple: _Evaluation._list,
    ast.List: _Evaluation._list,
}


def _is_number(value: Any) -> bool:
    return isinstance(value, Number)


def _to_count_with(value: Any) -> Any:
    """Return truth values and small integers as int64: 8 bits, common in images, would overflow."""
    if isinstance(value, np.ndarray) and value.dtype.kind in "biu" and value.dtype.itemsize < 8:
        return value.astype(np.int64)
    return value
