"""The C kernel and its NumPy twin give the same bytes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from types import ModuleType
from typing import cast

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tb_netdebug.core.stats import _kernel, twin
from tb_netdebug.core.stats.dtypes import DType
from tests.support.kernel_cases import STYLES, Array, item, packed_of, tensors, values, window

SUPPORTED = cast("list[str]", _kernel.description()["supported"])
Tensor = tuple[Array, DType]
Merge = Callable[[list[bytes]], bytes]
LARGE_TYPES = (DType.FLOAT32, DType.FLOAT16, DType.BFLOAT16, DType.FLOAT64, DType.COMPLEX64)
# Several strips, which threads share; the C kernel counts pairs of values here, in a window of exponents.
LARGE = 262_144


@pytest.fixture(scope="module", params=SUPPORTED)
def native(request: pytest.FixtureRequest) -> Iterator[ModuleType]:
    """The C kernel with each instruction set that this machine has."""
    best = cast("str", _kernel.description()["instruction_set"])
    _kernel.use(request.param)
    yield _kernel
    _kernel.use(best)


@settings(max_examples=600)
@given(tensors())
def test_summaries(native: ModuleType, tensor: Tensor) -> None:
    """Any tensor of any type."""
    assert packed_of(twin, *tensor) == packed_of(native, *tensor)


@settings(max_examples=80)
@given(tensors(largest=140_000), st.integers(1, 4))
def test_summaries_of_several_strips(native: ModuleType, tensor: Tensor, threads: int) -> None:
    """Tensors around the sizes where blocks, strips and the way of counting change."""
    assert packed_of(twin, *tensor) == packed_of(native, *tensor, threads=threads)


@settings(max_examples=80)
@given(
    st.sampled_from(LARGE_TYPES),
    st.sampled_from(
        ["window", "moving window", "patchy", "restless", "spoilt", "relu", "signed zeros", "constant"]
    ),
    st.sampled_from([LARGE, LARGE + 1, LARGE + 1023, 500_003]),
    st.integers(0, 2**32),
    st.integers(1, 4),
)
def test_large_tensors(
    native: ModuleType, dtype: DType, style: str, size: int, seed: int, threads: int
) -> None:
    """Values of few octaves with rare outliers, zeros of both signs, windows at both ends of the range."""
    tensor = values(dtype, style, size, seed), dtype
    assert packed_of(twin, *tensor) == packed_of(native, *tensor, threads=threads)


@pytest.mark.parametrize("bins", [1, 111, 112, 127, 128, 129])
@pytest.mark.parametrize(
    "first_bin", [0, 1, 6, 7, 8, 9, 100, 0x3E0, 0x700, 0x768, 0x777, 0x778, 0x779, 0x780]
)
def test_windows(native: ModuleType, first_bin: int, bins: int) -> None:
    """Windows of every width around the kernel's own, and at every place where it could fail to fit."""
    rng = np.random.default_rng(first_bin * 1000 + bins)
    for outliers in (0, 40):
        array = window(rng, LARGE, first_bin=first_bin, bins=bins, outliers=outliers).view(np.float32)
        assert packed_of(twin, array, DType.FLOAT32) == packed_of(native, array, DType.FLOAT32, threads=2)


@pytest.mark.parametrize("place", [0, 1, 15, 1022, 1023, 1024, 65_535, 65_536, 200_001, LARGE - 1])
@pytest.mark.parametrize(
    "bits", [0x00000001, 0x80000000, 0x007FFFFF, 0x7F7FFFFF, 0xFF800000, 0x7F800001, 0x00800000]
)
def test_single_outlier(native: ModuleType, place: int, bits: int) -> None:
    """One value that does not fit, anywhere in a tensor that otherwise does."""
    array = values(DType.FLOAT32, "normal", LARGE, place)
    array.view(np.uint32)[place] = bits
    assert packed_of(twin, array, DType.FLOAT32) == packed_of(native, array, DType.FLOAT32, threads=2)


@pytest.mark.parametrize("neighbours", [(0, 0x80000000), (0x3F800000, 0xBF800000), (0x80000000, 0xBF800000)])
def test_pairs(native: ModuleType, neighbours: tuple[int, int]) -> None:
    """Neighbours of different sign, zeros among them, are told apart in either order."""
    for pattern in (neighbours, neighbours[::-1]):
        array = np.tile(np.array(pattern, np.uint32), LARGE // 2).view(np.float32)
        assert packed_of(twin, array, DType.FLOAT32) == packed_of(native, array, DType.FLOAT32)


@settings(max_examples=40)
@given(
    st.lists(tensors(largest=100_000), max_size=30),
    st.lists(st.sampled_from(["window", "any bits", "patchy", "restless"]), max_size=2),
    st.integers(1, 4),
)
def test_batches(native: ModuleType, small: list[Tensor], large: list[str], threads: int) -> None:
    """Many tensors of all types and sizes in one call, in all three kinds of batch."""
    batch = (
        small[::2]
        + [(values(DType.FLOAT32, style, 300_000, 7), DType.FLOAT32) for style in large]
        + small[1::2]
    )
    items = [item(*tensor) for tensor in batch]
    assert twin.summarize(items, threads) == native.summarize(items, threads)
    assert repr(twin.sum_squares(items, threads)) == repr(native.sum_squares(items, threads))
    before = [[np.roll(array, 3) for array, _ in batch] for _ in range(2)]
    found = [
        module.summarize_updates(
            [
                (array.ctypes.data, old.ctypes.data, array.size, dtype)
                for (array, dtype), old in zip(batch, olds, strict=True)
            ],
            threads,
        )
        for module, olds in zip((twin, native), before, strict=True)
    ]
    assert found[0] == found[1]
    assert [old.tobytes() for old in before[0]] == [old.tobytes() for old in before[1]]


@settings(max_examples=200)
@given(tensors(), st.integers(1, 40), st.integers(1, 5), st.floats(), st.floats())
def test_active_units(
    native: ModuleType, tensor: Tensor, units: int, inner: int, low: float, high: float
) -> None:
    """Any values, bounds and shapes."""
    array, dtype = tensor
    shape = array.size // (units * inner), units, inner
    expected = twin.active_units(array.ctypes.data, dtype, *shape, low, high)
    assert expected == native.active_units(array.ctypes.data, dtype, *shape, low, high)


def outcome(merge: Merge, packed: list[bytes]) -> bytes | str:
    try:
        return merge(packed)
    except ValueError:
        return "refused"


@settings(max_examples=400)
@given(
    st.lists(
        st.tuples(st.tuples(*[st.integers(0, 2**64 - 1)] * 6), st.tuples(*[st.floats()] * 4)), max_size=3
    ),
    st.binary(max_size=12) | st.lists(st.integers(0, 3), max_size=8).map(bytes),
)
def test_merge_of_anything(
    native: ModuleType, headers: list[tuple[tuple[int, ...], tuple[float, ...]]], pairs: bytes
) -> None:
    """Both merge the same, or both refuse, also what no kernel has written."""
    packed = [
        np.array(whole, np.uint64).tobytes() + np.array(real, np.float64).tobytes() + pairs
        for whole, real in headers
    ]
    assert outcome(twin.merge, packed) == outcome(native.merge, packed)


@pytest.mark.parametrize("style", STYLES)
def test_merge_of_summaries(native: ModuleType, style: str) -> None:
    """What the kernels have written."""
    packed = [packed_of(twin, values(dtype, style, 900, dtype), dtype) for dtype in DType]
    assert twin.merge(packed) == native.merge(packed)
