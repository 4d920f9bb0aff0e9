"""Expressions over tensors: what they compute, and what they can never do."""

from __future__ import annotations

import ast
import contextlib
import gc
import math
import re
import sys
import weakref
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from numpy.typing import NDArray

from tb_netdebug.debugger.tensors import expression_limits, expression_values
from tb_netdebug.debugger.tensors.array_readable import ArrayReadable
from tb_netdebug.debugger.tensors.expression import evaluate
from tb_netdebug.debugger.tensors.expression_functions import FUNCTIONS
from tb_netdebug.debugger.tensors.expression_limits import MOST_BYTES
from tb_netdebug.debugger.workbench import WorkbenchError
from tests.support.debugger_bench import ArrayBench, bench_of

Array = NDArray[Any]

RNG = np.random.default_rng(0)
W, G = RNG.standard_normal((4, 3)).astype(np.float32), RNG.standard_normal((4, 3)).astype(np.float32)
X = np.arange(24.0).reshape(2, 3, 4)
PIXELS = np.array([[250, 10], [20, 255]], np.uint8)
BENCH = bench_of(
    weight={"fc.0.weight": W},
    gradient={"fc.0.weight": G},
    output={"fc": X},
    batch={"pixels": PIXELS},
    user={"mask": np.array([True, False, True]), "z": np.array([1 + 1j, 2.0])},
)


def value(text: str, bench: ArrayBench = BENCH) -> Any:
    readable = evaluate(text, bench)
    return readable.part(tuple(slice(0, length, 1) for length in readable.entry.shape))


def softmax(values: Array) -> Array:
    powers = np.exp(values - values.max(axis=-1, keepdims=True))
    return np.asarray(powers / powers.sum(axis=-1, keepdims=True))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("`weight:fc.0.weight`", W),
        ("'weight:fc.0.weight'", W),
        ('weight("fc.0.weight")', W),
        ("norm(`gradient:fc.0.weight`) / norm(`weight:fc.0.weight`)", np.linalg.norm(G) / np.linalg.norm(W)),
        ("weight('fc.0.weight') - 0.1 * gradient('fc.0.weight')", W - np.float32(0.1) * G),
        ("-`output:fc`[1, ..., ::2]", -X[1, ..., ::2]),
        ("`output:fc`[-1][0, 1:3]", X[-1][0, 1:3]),
        ("mean(`output:fc`, axis=(0, 2))", X.mean(axis=(0, 2))),
        ("sum(`output:fc`, 1, keepdims=True)", X.sum(1, keepdims=True)),
        ("std(`output:fc`)", X.std()),
        ("var(`output:fc`[0], 0)", X[0].var(0)),
        ("min(`output:fc`) + max(`output:fc`)", 23.0),
        ("median(`output:fc`)", 11.5),
        ("`output:fc`[0] @ T(`output:fc`[1])", X[0] @ X[1].T),
        ("T(`weight:fc.0.weight`) @ `weight:fc.0.weight`[:, 0]", W.T @ W[:, 0]),
        ("`output:fc`[`output:fc` > 20]", [21.0, 22.0, 23.0]),
        ("count((`output:fc` > 1) & (`output:fc` <= 3))", 2),
        ("count(`output:fc`)", 23),
        ("any(`user:mask`)", True),
        ("all(`user:mask`)", False),
        ("sum(`user:mask`)", 2),
        ("`output:fc`[0][`user:mask`]", X[0, [0, 2]]),
        ("~`user:mask`", [False, True, False]),
        ("`user:mask` + `user:mask`", [2, 0, 2]),
        ("`batch:pixels` + `batch:pixels`", PIXELS.astype(int) * 2),
        ("`batch:pixels` - 255", PIXELS.astype(int) - 255),
        ("mean(`batch:pixels` == 255)", 0.25),
        ("abs(`user:z`)", np.abs([1 + 1j, 2])),
        ("sum(`user:z`)", 3 + 1j),
        ("argmax(`output:fc`)", 23),
        ("argmin(`weight:fc.0.weight`)", W.argmin()),
        ("argmax(`weight:fc.0.weight`, axis=1)", W.argmax(1)),
        ("sort(`weight:fc.0.weight`)", np.sort(W)),
        ("unique([`batch:pixels`, 3][0])", None),
        ("unique(`output:fc` // 10)", [0.0, 1.0, 2.0]),
        ("softmax(`weight:fc.0.weight`)", softmax(W)),
        ("sigmoid(1000) + sigmoid(-1000)", 1.0),
        ("relu(-3) + tanh(0) + exp(0) + log(e) + sqrt(4)", 4.0),
        ("where(`weight:fc.0.weight` > 0, 1, -1)", np.where(W > 0, 1, -1)),
        ("clip(`output:fc`, 2, 5)", X.clip(2, 5)),
        ("maximum(`output:fc`, 7)", np.maximum(X, 7)),
        ("reshape(`output:fc`, 4, -1)", X.reshape(4, -1)),
        ("reshape(`output:fc`, (6, 4))", X.reshape(6, 4)),
        ("transpose(`output:fc`, (2, 0, 1))", X.transpose(2, 0, 1)),
        ("flatten(`output:fc`)[5]", 5.0),
        ("quantile(`output:fc`, 0.5)", 11.5),
        ("quantile(`output:fc`, [0, 1], axis=2)", np.quantile(X, [0, 1], axis=2)),
        ("cosine(`weight:fc.0.weight`, `weight:fc.0.weight`)", 1.0),
        ("corr(`weight:fc.0.weight`, -`weight:fc.0.weight`)", -1.0),
        ("corr(`weight:fc.0.weight`)", np.corrcoef(W)),
        ("svdvals(`weight:fc.0.weight`)", np.linalg.svd(W, compute_uv=False)),
        ("concatenate([`weight:fc.0.weight`, `gradient:fc.0.weight`], axis=1)", np.concatenate([W, G], 1)),
        ("stack([`weight:fc.0.weight`, `gradient:fc.0.weight`])", np.stack([W, G])),
        ("round(`weight:fc.0.weight`, 2)", W.round(2)),
        ("shape(`output:fc`)", [2, 3, 4]),
        ("size(`output:fc`)", 24),
        ("1 / 0", math.inf),
        ("2 ** 0.5 + 7 // 2 - 7 % 4", 2**0.5),
        ("pi > 3", True),
        ("-inf", -math.inf),
    ],
)
def test_what_it_computes(text: str, expected: Any) -> None:
    """What NumPy computes; whole numbers of a few bits do not overflow."""
    if expected is None:
        with pytest.raises(WorkbenchError):
            value(text)
    else:
        np.testing.assert_allclose(expected, value(text), rtol=1e-5)


ODD = st.floats(width=32) | st.sampled_from([0.0, math.nan, math.inf, -math.inf])


@given(array=arrays.arrays(np.float32, st.integers(1, 60), elements=ODD))
@pytest.mark.parametrize(
    "name", ["sum", "mean", "min", "max", "std", "norm", "any", "all", "count", "argmax", "argmin"]
)
def test_of_a_whole_tensor_without_its_values(name: str, array: Array) -> None:
    """The summary says the same as NumPy about all values, NaN and infinities included."""
    with pytest.MonkeyPatch.context() as patch, np.errstate(all="ignore"):
        patch.setattr(expression_values, "CHUNK_VALUES", 7)
        found = value(f"{name}(`user:x`)", bench_of(user={"x": array}))
        function = {"norm": np.linalg.norm, "count": np.count_nonzero}.get(name) or getattr(np, name)
        expected = function(array.astype(np.float64))
    scale = float(np.nanmax(np.abs(array[np.isfinite(array)]), initial=0))
    np.testing.assert_allclose(
        expected, found, rtol=1e-5, atol=1e-4 * scale if name == "std" else 1e-6 * scale
    )


def test_whole_tensors_of_any_size() -> None:
    """Numbers about all of it cost no memory; a slice is read alone; all of it is refused."""
    huge = np.broadcast_to(np.arange(1000.0), (100_000, 1000))
    bench = bench_of(user={"x": huge})
    assert (999.0, 100_000_000) == (value("max(`user:x`)", bench), value("size(`user:x`)", bench))
    assert 999 == value("argmax(`user:x`[:1000])", bench)
    assert (2, 1000) == value("`user:x`[7:9] * 2", bench).shape
    assert huge.shape == evaluate("`user:x`", bench).entry.shape
    with pytest.raises(WorkbenchError, match="take a slice first"):
        value("`user:x` * 2", bench)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("", "At character 1: this is not an expression"),
        ("1 +", "this is not an expression"),
        ("weight:fc.0.weight", "Write names of tensors in backticks"),
        ("fc", "At character 1: fc is not known. Write names of tensors in backticks"),
        ("1 + `weight:nothing`", "There is no tensor 'weight:nothing'"),
        ("norm", "norm is a function"),
        ("1 + frobnicate(2)", "At character 5: there is no function frobnicate"),
        ("mean()", "mean takes 1 to 2 arguments"),
        ("mean(1, axiz=2)", "mean has no argument axiz"),
        ("mean(*[1])", "Starred is not known"),
        ("mean(1, **{'a': 1})", "has no argument None"),
        ("`output:fc`.mean()", "At character 1: there are no attributes"),
        ("`output:fc` and 1", "write & and |"),
        ("not `user:mask`", "write ~"),
        ("1 if 2 else 3", "write where"),
        ("1 < 2 < 3", "compare two values"),
        ("1 in [1]", "compare two values"),
        ("1 << 2", "LShift is not known"),
        ("`output:fc` + `weight:fc.0.weight`", "At character 1: shape mismatch"),
        ("`output:fc` @ 3", "@ multiplies matrices"),
        ("`output:fc`[9]", "no index 9 in dimension 0"),
        ("`output:fc`[None]", "write reshape"),
        ("`output:fc`[1.5]", "an index is whole numbers"),
        ("`output:fc`[::-1]", "must be positive"),
        ("`output:fc`[`weight:fc.0.weight`]", "either one condition"),
        ("`output:fc`[`user:mask`, 0]", "either one condition"),
        ("3[0]", "a number cannot be indexed"),
        ("mean(`output:fc`, axis=7)", "axis 7 is out of bounds"),
        ("mean(`output:fc`, axis=0.5)", "whole numbers"),
        ("reshape(`output:fc`, 5, 5)", "cannot reshape"),
        ("max(`output:fc`[0:0])", "zero-size array"),
        ("[1, 2]", "A list is not a tensor"),
        ("(1, 2) + 1", "A list is allowed only"),
        ("concatenate(`output:fc`)", "tensors as a list"),
        ("svdvals(`output:fc`)", "takes a matrix"),
        ("svdvals(`weight:fc.0.weight` / 0)", "no singular values"),
        ("cosine(`output:fc`, 1)", "24 and 1 values"),
        ("cosine(`user:z`, `user:z`)", "This takes real values"),
        ("'ä' + b'x'", "There is no tensor 'ä'"),
        ("weight(1)", "takes the name of a tensor in quotes"),
        ("None", "a number or the name of a tensor"),
        ("...", "a number or the name of a tensor"),
        ("1j", "a number or the name of a tensor"),
        ("{}", "Dict is not known"),
        ("f'{1}'", "Write names of tensors in"),
        ("lambda: 1", "Lambda is not known"),
        ("(x := 1)", "NamedExpr is not known"),
        ("[x for x in 1]", "ListComp is not known"),
        ("await x", "Await is not known"),
        ("import os", "this is not an expression"),
        ("x = 1", "this is not an expression"),
        ("1\n2", "must be one line"),
        ("'\\x41'", "without backslashes"),
        ("`a", "backticks in pairs"),
        ("1" * 3000, "too long"),
    ],
)
def test_what_it_refuses(text: str, sentence: str) -> None:
    """A sentence each, with the place where there is one."""
    with pytest.raises(WorkbenchError, match=re.escape(sentence)):
        evaluate(text, BENCH)


@pytest.mark.parametrize(
    "text",
    [
        "__import__('os').system('touch /tmp/x')",
        "eval('1')",
        "open('/etc/passwd')",
        "().__class__.__bases__[0].__subclasses__()",
        "mean.__globals__",
        "(1).__class__",
        "`output:fc`.__array_interface__",
        "mean(`output:fc`).__init__",
        "FUNCTIONS['mean']",
        "[c for c in ().__class__.__base__.__subclasses__()]",
        "(lambda: (yield))()",
        "globals()['x']",
        "getattr(1, 'real')",
        "weight.__call__('x')",
        "mean(`output:fc`, axis=__import__)",
        "`output:fc`['__class__']",
        "'{0.__class__}'.format(1)",
        "print(1)",
        "f'{__import__(\"os\")}'",
    ],
)
def test_no_code_is_run(text: str) -> None:
    """Names of Python mean nothing here, and nothing has attributes."""
    with pytest.raises(WorkbenchError):
        evaluate(text, BENCH)


BIG = ArrayBench({"user:x": np.broadcast_to(np.float64(1.5), (8_000_000,))})


@pytest.mark.parametrize(
    "text",
    [
        "`user:x`[:, 0] * 1",
        "reshape(`user:x`, -1, 1) * reshape(`user:x`, 1, -1)",
        "where(reshape(`user:x`, -1, 1) > 0, reshape(`user:x`, 1, -1), 0)",
        "maximum(reshape(`user:x`, -1, 1), reshape(`user:x`, 1, -1))",
        "clip(reshape(`user:x`, -1, 1), reshape(`user:x`, 1, -1), 2)",
        "reshape(`user:x`, -1, 1) @ reshape(`user:x`, 1, -1)",
        "reshape(`user:x`, 2828, -1) @ reshape(`user:x`, -1, 2828)",
        "corr(reshape(`user:x`, -1, 1))",
        "corr(reshape(`user:x`, 8000, 1000))",
        "svdvals(reshape(`user:x`, 2000, 4000))",
        "quantile(`user:x`, `user:x`)",
        "quantile(reshape(`user:x`, -1, 1), [0.1, 0.2, 0.3], axis=1)",
        "concatenate([`user:x`, `user:x`])",
        "stack([`user:x`, `user:x`, `user:x`])",
        "+".join(["`user:x`"] * 40),
        "sort(" * 12 + "`user:x`" + ")" * 12,
        "reshape(1, 10 ** 18)",
        "reshape(1, " + "1, " * 80 + "1)",
        "**".join(["`user:x`"] * 10),
        "(" * 150 + "1" + ")" * 150 + "+" + "-" * 60 + "1",
        "-" * 1900 + "1",
        "(" * 1000 + "1" + ")" * 1000,
        "[" * 900 + "]" * 900,
        "+".join(["1"] * 900),
        "1" + "[0]" * 600,
        "round(1, 10 ** 15)",
        "exp(" * 100 + "1" + ")" * 100,
    ],
)
def test_it_cannot_fill_the_memory_or_take_for_ever(text: str) -> None:
    """Before anything large is made it is refused."""
    with pytest.raises(WorkbenchError):
        evaluate(text, BIG)


@pytest.mark.parametrize(
    ("text", "expected"),
    [("9**9**9**9", math.inf), ("-9**9**9", -math.inf), ("9" * 1000, math.inf), ("2**63 * 2**63", 2.0**126),
     ("9223372036854775807 * 9223372036854775807 * 2", 2.0**127), ("9223372036854775807 + 1", 2.0**63),
     ("1e999", math.inf), ("(-8) ** (1 / 3)", math.nan), ("0 ** -1", math.inf), ("exp(1e9)", math.inf)],
)  # fmt: skip
def test_numbers_stay_small(text: str, expected: float) -> None:
    """What has no room in a double is infinite, at once."""
    np.testing.assert_equal(expected, value(text))


def test_nothing_stays_in_memory() -> None:
    """What was read is let go of at once, not when Python looks for circles: it may be large."""
    parts = []

    class Watched(ArrayReadable):
        def part(self, index: Any) -> Array:
            part = super().part(index)
            parts.append(weakref.ref(part))
            return part

    class Bench(ArrayBench):
        def tensor(self, name: str) -> Watched:
            return Watched(self._entry(name), self.arrays[name])

    bench = Bench({"user:x": X})
    gc.collect()
    gc.disable()
    try:
        value("std(`user:x` + `user:x`[0])", bench)
        with pytest.raises(WorkbenchError, match="cannot reshape"):
            value("reshape(`user:x` * 2, 5)", bench)
        assert [None] * 3 == [part() for part in parts]
    finally:
        gc.enable()


def test_time_is_bounded() -> None:
    """By a clock that is looked at before each part."""
    now = iter(range(0, 1000, 2))
    budget = expression_limits.Budget(lambda: float(next(now)))
    budget.take_time()
    with pytest.raises(WorkbenchError, match="takes longer than"):
        budget.take_time()


def test_an_intermediate_is_bounded() -> None:
    """By its own size, and by what they are together."""
    budget = expression_limits.Budget()
    with pytest.raises(WorkbenchError, match="are more than 64 MB"):
        expression_limits.Budget().take_values((MOST_BYTES // 8 + 1,))
    budget.take_values((MOST_BYTES // 8,))
    budget.take_values((MOST_BYTES // 8,))
    for _ in range(6):
        budget.take_values((MOST_BYTES // 8,))
    with pytest.raises(WorkbenchError, match="more than 512 MB together"):
        budget.take_values((MOST_BYTES // 8,))


NAMES = st.sampled_from(
    [*FUNCTIONS, "`output:fc`", "weight('fc.0.weight')", "`user:mask`", "`user:z`", "inf"]
)
PIECES = st.one_of(NAMES, st.sampled_from([*"()[],:+-*/%@&|~<>=.0123456789'\"` ", "**", "axis=", "..."]))


@settings(max_examples=400)
@given(text=st.lists(PIECES, max_size=25).map("".join))
def test_any_text(text: str) -> None:
    """It has a value, or a sentence says why not: there is no third."""
    with contextlib.suppress(WorkbenchError):
        assert evaluate(text, BENCH).summary()


ARGUMENTS = st.sampled_from(
    ["`output:fc`", "`weight:fc.0.weight`", "`user:mask`", "`user:z`", "`batch:pixels`", "0", "-1", "2.5",
     "nan", "[0, 1]", "(2, 12)", "[`output:fc`, `output:fc`]", "`output:fc`[0:0]", "`output:fc`[0, 0, 0]"]
)  # fmt: skip


@settings(max_examples=400)
@given(name=st.sampled_from(sorted(FUNCTIONS)), arguments=st.lists(ARGUMENTS, min_size=1, max_size=3))
def test_any_function_with_any_arguments(name: str, arguments: list[str]) -> None:
    """A value or a sentence, whatever they are given."""
    with contextlib.suppress(WorkbenchError):
        assert evaluate(f"{name}({', '.join(arguments)})", BENCH).summary()


def test_the_evaluator_knows_no_way_to_run_code() -> None:
    """Its modules call neither of these, and look up no attribute by a name from the text."""
    for module in ("expression", "expression_functions", "expression_values", "expression_limits"):
        file = sys.modules[f"tb_netdebug.debugger.tensors.{module}"].__file__
        assert file is not None
        with open(file, encoding="utf-8") as source:  # noqa: PTH123
            tree = ast.parse(source.read())
        calls = [node.func for node in ast.walk(tree) if isinstance(node, ast.Call)]
        called = {each.id for each in calls if isinstance(each, ast.Name)}
        assert set() == called & {
            "eval",
            "exec",
            "compile",
            "getattr",
            "setattr",
            "__import__",
            "open",
            "vars",
        }
