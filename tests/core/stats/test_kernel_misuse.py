"""What the kernels do with arguments that make no sense, and that calls leave no memory behind."""

from __future__ import annotations

import gc
import math
import sys
from collections.abc import Callable
from contextlib import suppress
from types import ModuleType
from typing import Any

import numpy as np
import psutil
import pytest

from tb_netdebug.core.stats import _kernel
from tb_netdebug.core.stats.dtypes import DType
from tests.support.kernel_cases import item, packed_of, values

HERE = np.arange(64, dtype=np.float32)
ADDRESS = HERE.ctypes.data
PACKED = packed_of(_kernel, HERE, DType.FLOAT32)
ROUNDS, WARM_UP = 20_000, 3_000

NONSENSE: dict[str, tuple[Any, ...]] = {
    "summarize without arguments": ("summarize",),
    "summarize a number": ("summarize", 5, 1),
    "summarize numbers": ("summarize", [5], 1),
    "summarize text": ("summarize", ["abc"], 1),
    "summarize too few": ("summarize", [(ADDRESS, 64)], 1),
    "summarize too many": ("summarize", [(ADDRESS, 64, 0, 1)], 1),
    "summarize text address": ("summarize", [("1000", 64, 0)], 1),
    "summarize no address": ("summarize", [(None, 64, 0)], 1),
    "summarize fraction of a count": ("summarize", [(ADDRESS, 1.5, 0)], 1),
    "summarize after good": ("summarize", [(ADDRESS, 64, 0), (ADDRESS, "64", 0)], 1),
    "updates too few": ("summarize_updates", [(ADDRESS, 64, 0)], 1),
    "updates text": ("summarize_updates", [(ADDRESS, "x", 64, 0)], 1),
    "squares a number": ("sum_squares", 7, 1),
    "squares too few": ("sum_squares", [(ADDRESS,)], 1),
    "strided shape a list of text": ("summarize_strided", ADDRESS, 0, ("a",), (1,)),
    "strided shape a number": ("summarize_strided", ADDRESS, 0, 64, 1),
    "strided text address": ("summarize_strided", "x", 0, (64,), (1,)),
    "units without bounds": ("active_units", ADDRESS, 0, 1, 64, 1),
    "units text bound": ("active_units", ADDRESS, 0, 1, 64, 1, "low", 1.0),
    "merge a number": ("merge", 5),
    "merge numbers": ("merge", [5]),
    "merge text": ("merge", ["abc"]),
    "merge nothing": ("merge", [None]),
}
IMPOSSIBLE: dict[str, tuple[Any, ...]] = {
    "summarize null": ("summarize", [(0, 64, 0)], 1),
    "summarize negative count": ("summarize", [(ADDRESS, -1, 0)], 1),
    "summarize negative address": ("summarize", [(-8, 64, 0)], 1),
    "summarize unknown type": ("summarize", [(ADDRESS, 64, 12)], 1),
    "summarize negative type": ("summarize", [(ADDRESS, 64, -1)], 1),
    "summarize huge type": ("summarize", [(ADDRESS, 64, 2**40)], 1),
    "summarize null after good": ("summarize", [(ADDRESS, 64, 0), (0, 1, 0)], 1),
    "updates null current": ("summarize_updates", [(0, ADDRESS, 64, 0)], 1),
    "updates null previous": ("summarize_updates", [(ADDRESS, 0, 64, 0)], 1),
    "updates negative count": ("summarize_updates", [(ADDRESS, ADDRESS, -64, 0)], 1),
    "squares null": ("sum_squares", [(0, 64, 0)], 1),
    "squares unknown type": ("sum_squares", [(ADDRESS, 64, 99)], 1),
    "strided null": ("summarize_strided", 0, 0, (64,), (1,)),
    "strided negative size": ("summarize_strided", ADDRESS, 0, (-64,), (1,)),
    "strided two negative sizes": ("summarize_strided", ADDRESS, 0, (-8, -8), (8, 1)),
    "strided lengths differ": ("summarize_strided", ADDRESS, 0, (8, 8), (1,)),
    "strided unknown type": ("summarize_strided", ADDRESS, 12, (8,), (1,)),
    "strided too many dimensions": ("summarize_strided", ADDRESS, 0, (1,) * 65, (1,) * 65),
    "units null": ("active_units", 0, 0, 1, 64, 1, -1.0, 1.0),
    "units negative": ("active_units", ADDRESS, 0, 1, -64, 1, -1.0, 1.0),
    "units twice negative": ("active_units", ADDRESS, 0, -1, -64, 1, -1.0, 1.0),
    "units unknown type": ("active_units", ADDRESS, 12, 1, 64, 1, -1.0, 1.0),
    "merge no bytes": ("merge", [b""]),
    "merge after good": ("merge", [PACKED, PACKED[:-1]]),
}


@pytest.mark.parametrize("call", NONSENSE)
def test_wrong_types(kernel: ModuleType, call: str) -> None:
    """An argument of the wrong type or length raises and nothing else."""
    name, *arguments = NONSENSE[call]
    with pytest.raises((TypeError, ValueError)):
        getattr(kernel, name)(*arguments)


@pytest.mark.parametrize("call", IMPOSSIBLE)
def test_impossible_values(kernel: ModuleType, call: str) -> None:
    """A number that cannot be meant raises ValueError."""
    name, *arguments = IMPOSSIBLE[call]
    with pytest.raises(ValueError, match=r"."):
        getattr(kernel, name)(*arguments)


def test_bad_batch_changes_nothing(kernel: ModuleType) -> None:
    """A batch of updates with one bad item leaves every previous as it was."""
    now, old = values(DType.FLOAT32, "normal", 100, 1), values(DType.FLOAT32, "normal", 100, 2)
    before = old.tobytes()
    good, bad = (now.ctypes.data, old.ctypes.data, 100, 0), (now.ctypes.data, old.ctypes.data, 100, 77)
    with pytest.raises(ValueError, match=r"."):
        kernel.summarize_updates([good, bad], 1)
    assert before == old.tobytes()


@pytest.mark.parametrize("threads", [-3, 0, 1000])
def test_any_number_of_threads(kernel: ModuleType, threads: int) -> None:
    """A number of threads that no machine has is no reason to fail."""
    array = values(DType.FLOAT32, "normal", 200_000, 1)
    assert packed_of(kernel, array, DType.FLOAT32) == packed_of(kernel, array, DType.FLOAT32, threads=threads)


def good_calls() -> list[Callable[[], object]]:
    """Each function of the C kernel, so that whatever it keeps is kept several times a call."""
    arrays = [values(dtype, "spoilt", 40, dtype) for dtype in DType]
    old = [array.copy() for array in arrays]
    items = [item(array, dtype) for array, dtype in zip(arrays, DType, strict=True)]
    pairs = [
        (now.ctypes.data, before.ctypes.data, now.size, dtype)
        for now, before, dtype in zip(arrays, old, DType, strict=True)
    ]
    return [
        lambda: _kernel.summarize(items, 1),
        lambda: _kernel.summarize_updates(pairs, 1) if old else None,
        lambda: _kernel.sum_squares(items, 1),
        lambda: _kernel.summarize_strided(ADDRESS, DType.FLOAT32, (7, 3), (2, 20)),
        lambda: _kernel.active_units(ADDRESS, DType.FLOAT32, 2, 9, 3, 0.0, math.inf),
        lambda: _kernel.merge([PACKED] * 5),
        _kernel.description,
    ]


def failing_call(function: str, arguments: list[object]) -> Callable[[], None]:
    call = getattr(_kernel, function)

    def run() -> None:
        with suppress(TypeError, ValueError):
            call(*arguments)

    return run


@pytest.mark.parametrize("number", range(7))
def test_calls_keep_nothing(number: int) -> None:
    """Twenty thousand calls of a function of the C kernel leave memory and Python's objects as they were."""
    blocks, resident = growth(good_calls()[number], ROUNDS)
    assert (True, True) == (blocks < 200, resident < 2**20), (blocks, resident)


def test_errors_keep_nothing() -> None:
    """Nor do twenty thousand rounds of calls that fail."""
    calls = [failing_call(name, arguments) for name, *arguments in {**NONSENSE, **IMPOSSIBLE}.values()]
    blocks, resident = growth(lambda: [call() for call in calls], ROUNDS)
    assert (True, True) == (blocks < 200, resident < 2**20), (blocks, resident)


def growth(call: Callable[[], object], rounds: int) -> tuple[int, int]:
    """How many of Python's memory blocks, and bytes of the process, many calls added."""
    process = psutil.Process()
    for _ in range(WARM_UP):
        call()
    gc.collect()
    blocks, resident = sys.getallocatedblocks(), process.memory_info().rss
    for _ in range(rounds):
        call()
    gc.collect()
    return sys.getallocatedblocks() - blocks, process.memory_info().rss - resident
