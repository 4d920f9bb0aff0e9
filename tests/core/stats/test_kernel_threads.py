"""The C kernel among threads, forked processes and the modes that a framework sets."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch

from tb_netdebug.core.stats import _kernel
from tb_netdebug.core.stats.dtypes import DType
from tests.support.kernel_cases import NUMPY_TYPES, Array, item, packed_of, values

CHILD_SECS = 20
# All bits but those that would make a value normal.
SUBNORMAL_BITS = {
    DType.FLOAT32: np.uint32(0x807FFFFF),
    DType.FLOAT64: np.uint64(0x800FFFFFFFFFFFFF),
    DType.FLOAT16: np.uint16(0x83FF),
    DType.BFLOAT16: np.uint16(0x807F),
}


def test_calls_from_several_threads() -> None:
    """Calls that overlap in time do not disturb each other."""
    tensors = [
        (values(DType(n), "spoilt", size, n), DType(n)) for n, size in enumerate([90_000, 70, 300_000, 5])
    ]
    alone = [packed_of(_kernel, *tensor) for tensor in tensors]

    def again(number: int) -> bool:
        array, dtype = tensors[number % 4]
        return alone[number % 4] == packed_of(_kernel, array, dtype, threads=1 + number % 3)

    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(again, range(400)))


def test_results_of_different_functions_at_once() -> None:
    """Nor do different functions, which share buffers inside the kernel."""
    array = values(DType.FLOAT32, "normal", 200_000, 1)
    old = array.copy()
    pair = (array.ctypes.data, old.ctypes.data, array.size, DType.FLOAT32)
    calls: list[Callable[[], object]] = [
        lambda: _kernel.summarize([item(array, DType.FLOAT32)], 2),
        lambda: _kernel.sum_squares([item(array, DType.FLOAT32)], 2),
        lambda: _kernel.summarize_updates([pair], 2),
        lambda: _kernel.summarize_strided(array.ctypes.data, DType.FLOAT32, (400, 500), (1, 400)),
        lambda: _kernel.active_units(array.ctypes.data, DType.FLOAT32, 4, 500, 100, 2.5, 9.0),
    ]
    alone = [call() for call in calls]
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda number: calls[number % 5](), range(300)))
    assert alone * 60 == found


def answer_of_a_child(array: Array, expected: bytes) -> int:
    """Forks; the child ends with 0 when it got the expected bytes, and is killed if it hangs."""
    child = os.fork()
    if child == 0:
        signal.alarm(CHILD_SECS)
        os._exit(0 if packed_of(_kernel, array, DType.FLOAT32, threads=4) == expected else 1)
    _, status = os.waitpid(child, 0)
    return os.waitstatus_to_exitcode(status)


@pytest.mark.filterwarnings("ignore:.*multi-threaded.*:DeprecationWarning")
def test_in_a_forked_child() -> None:
    """Threads do not survive a fork; the kernel works in the child all the same."""
    array = values(DType.FLOAT32, "normal", 300_000, 1)
    expected = packed_of(_kernel, array, DType.FLOAT32, threads=4)
    assert 0 == answer_of_a_child(array, expected)
    assert expected == packed_of(_kernel, array, DType.FLOAT32, threads=4)


@pytest.mark.filterwarnings("ignore:.*multi-threaded.*:DeprecationWarning")
def test_fork_during_a_call() -> None:
    """A child forked while another thread is inside the kernel, as a data loader's may be, does not hang."""
    array = values(DType.FLOAT32, "normal", 300_000, 1)
    expected = packed_of(_kernel, array, DType.FLOAT32)
    one = np.ones(1, np.float32)
    starting = threading.Event()

    def long_call() -> None:
        starting.set()
        _kernel.summarize_strided(one.ctypes.data, DType.FLOAT32, (20_000, 20_000), (0, 0))

    thread = threading.Thread(target=long_call, name="netdebug-long-call")
    thread.start()
    starting.wait()
    # Several, as the first may be forked just before the kernel is entered, the last ones in the midst of it.
    answers = [answer_of_a_child(array, expected) for _ in range(5)]
    thread.join()
    assert [0] * 5 == answers


@pytest.mark.parametrize("dtype", SUBNORMAL_BITS)
@pytest.mark.parametrize("size", [40, 300_000])
def test_subnormals_where_the_framework_flushes_them(dtype: DType, size: int) -> None:
    """With subnormals switched off for the framework's own arithmetic, the kernel still sees them."""
    mask = SUBNORMAL_BITS[dtype]
    array = (values(dtype, "any bits", size, 1).view(mask.dtype) & mask).view(NUMPY_TYPES[dtype])
    usual = every_answer(array, dtype)
    torch.set_flush_denormal(True)
    try:
        flushed = every_answer(array, dtype)
        assert torch.tensor([1e-310], dtype=torch.float64).mul(1.0).item() == 0.0
    finally:
        torch.set_flush_denormal(False)
    assert usual == flushed


def every_answer(array: Array, dtype: DType) -> dict[str, object]:
    size, address = array.size, array.ctypes.data
    previous = np.roll(array, 1)
    return {
        "summarize": _kernel.summarize([(address, size, dtype)], 2),
        "sum_squares": _kernel.sum_squares([(address, size, dtype)], 2),
        "strided": _kernel.summarize_strided(address, dtype, (size // 10, 10), (1, size // 10)),
        "units in rows": _kernel.active_units(address, dtype, 4, size // 4, 1, -1.0, 1.0),
        "units in planes": _kernel.active_units(address, dtype, 2, 4, size // 10, -1.0, 1.0),
        "updates": _kernel.summarize_updates([(address, previous.ctypes.data, size, dtype)], 2),
    }
