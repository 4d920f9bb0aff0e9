"""What changed between two samples of a tensor, and the copy kept for the next time."""

from __future__ import annotations

from types import ModuleType

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tb_netdebug.core.stats.dtypes import DType
from tb_netdebug.core.stats.packed import Summary
from tests.support.kernel_cases import NUMPY_TYPES, STYLES, Array, packed_of, values

Pair = tuple[bytes, bytes]


def updates(kernel: ModuleType, pairs: list[tuple[Array, Array, DType]], *, threads: int = 1) -> list[Pair]:
    items = [(now.ctypes.data, old.ctypes.data, now.size, dtype) for now, old, dtype in pairs]
    results: list[Pair] = kernel.summarize_updates(items, threads)
    return results


def change_of(now: Array, old: Array, dtype: DType) -> tuple[Array, DType]:
    """The difference as a tensor of its own, in the precision in which it is to be counted."""
    with np.errstate(all="ignore"):
        if dtype == DType.BFLOAT16:
            now, old = ((bits.astype(np.uint32) << 16).view(np.float32) for bits in (now, old))
        if dtype in (DType.FLOAT32, DType.FLOAT16, DType.BFLOAT16):
            return _plain(now.astype(np.float32) - old.astype(np.float32)), DType.FLOAT32
        if dtype in (DType.COMPLEX64, DType.COMPLEX128):
            return now - old, dtype
        return _plain(now.astype(np.float64) - old.astype(np.float64)), DType.FLOAT64


def _plain(change: Array) -> Array:
    change[np.isnan(change)] = np.nan
    return change


@settings(max_examples=250)
@given(
    st.sampled_from(DType),
    st.tuples(*[st.sampled_from(list(STYLES))] * 2),
    st.sampled_from([0, 1, 15, 17, 1023, 1025, 2600]),
    st.integers(0, 2**32),
)
def test_current_and_change(
    kernel: ModuleType, dtype: DType, styles: tuple[str, str], size: int, seed: int
) -> None:
    """Gives the summaries of current and of current − previous, and keeps current as the next previous."""
    now, old = (values(dtype, style, size, seed + number) for number, style in enumerate(styles))
    expected = packed_of(kernel, now, dtype), packed_of(kernel, *change_of(now, old, dtype))
    before = now.tobytes()
    assert [expected] == updates(kernel, [(now, old, dtype)])
    assert (before, before) == (now.tobytes(), old.tobytes())


@pytest.mark.parametrize("threads", [1, 2, 3, 4])
def test_batch(kernel: ModuleType, threads: int) -> None:
    """Small and large tensors of all types in one call: each as alone, every previous replaced."""
    sizes = [3, 140_000, 0, 1000, 270_000, 65_537, 1] + [9] * 40
    pairs = [
        (
            values(DType(n % 12), "spoilt", size, n),
            values(DType(n % 12), "window", size, n + 1),
            DType(n % 12),
        )
        for n, size in enumerate(sizes)
    ]
    expected = [
        (packed_of(kernel, now, dtype), packed_of(kernel, *change_of(now, old, dtype)))
        for now, old, dtype in pairs
    ]
    assert expected == updates(kernel, pairs, threads=threads)
    assert all(now.tobytes() == old.tobytes() for now, old, _ in pairs)


@pytest.mark.parametrize("dtype", DType)
@pytest.mark.parametrize("size", [7, 2000, 300_000])
def test_second_time(kernel: ModuleType, dtype: DType, size: int) -> None:
    """A tensor that did not change since the last call has an update of zeros alone."""
    now, old = values(dtype, "normal", size, 1), values(dtype, "relu", size, 2)
    updates(kernel, [(now, old, dtype)])
    [(_, change)] = updates(kernel, [(now, old, dtype)], threads=2)
    assert (size, size) == (Summary.unpack(change).count, Summary.unpack(change).zeros)


@pytest.mark.parametrize("step", [2.0**-20, 1e-3, 1e3])
def test_small_steps_of_a_large_weight(kernel: ModuleType, step: float) -> None:
    """Weights and updates of very different size are counted each in its own range."""
    rng = np.random.default_rng(3)
    old = rng.standard_normal(400_000, np.float32)
    now = old + np.float32(step) * rng.standard_normal(400_000, np.float32)
    expected = packed_of(kernel, now, DType.FLOAT32), packed_of(kernel, now - old, DType.FLOAT32)
    assert [expected] == updates(kernel, [(now, old, DType.FLOAT32)], threads=2)


def test_integers_at_the_ends(kernel: ModuleType) -> None:
    """The difference of integers is made in double, so it cannot wrap around."""
    limits = np.iinfo(np.int64)
    now, old = np.array([limits.max, limits.min]), np.array([limits.min, limits.max])
    [(_, change)] = updates(kernel, [(now, old, DType.INT64)])
    assert (-(2.0**64), 2.0**64) == (Summary.unpack(change).min, Summary.unpack(change).max)


def test_infinities_of_one_sign(kernel: ModuleType) -> None:
    """Infinity minus infinity is the NaN without a sign, in the same bin on every machine."""
    array = np.array([np.inf, -np.inf], np.float32)
    [(_, change)] = updates(kernel, [(array, array.copy(), DType.FLOAT32)])
    assert ([0x7FC], 2) == (Summary.unpack(change).bins.tolist(), Summary.unpack(change).nan)


@pytest.mark.parametrize("dtype", DType)
def test_empty(kernel: ModuleType, dtype: DType) -> None:
    """Nothing changes nothing, and needs no memory on either side."""
    nothing = packed_of(kernel, np.empty(0, NUMPY_TYPES[dtype]), dtype)
    assert [(nothing, nothing)] == kernel.summarize_updates([(0, 0, 0, dtype)], 1)


@pytest.mark.parametrize("dtype", DType)
def test_neighbours_are_left_alone(kernel: ModuleType, dtype: DType) -> None:
    """Only the memory of the tensor itself is overwritten."""
    now, around = values(dtype, "any bits", 1031, 1), values(dtype, "any bits", 1035, 2)
    ends = around[:2].tobytes(), around[-2:].tobytes()
    updates(kernel, [(now, around[2:-2], dtype)])
    assert (*ends, now.tobytes()) == (around[:2].tobytes(), around[-2:].tobytes(), around[2:-2].tobytes())
