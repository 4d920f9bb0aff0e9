"""What a packed summary says, on both kernels."""

from __future__ import annotations

import math
import struct
from types import ModuleType

import numpy as np
import pytest

from tb_netdebug.core.stats.dtypes import DType
from tests.support.kernel_cases import NUMPY_TYPES, STYLES, Array, item, packed_of, summary_of, values

BIN_OF_BITS = {
    0x00000000: 0x000, 0x80000000: 0x800, 0x7F800000: 0x7F8, 0xFF800000: 0xFF8,
    0x00000001: 0x001, 0x80000001: 0x801, 0x000FFFFF: 0x001, 0x00100000: 0x001, 0x007FFFFF: 0x007,
    0x00800000: 0x008, 0x00800001: 0x008, 0x80800000: 0x808, 0x3F800000: 0x3F8, 0x3F8FFFFF: 0x3F8,
    0x3F900000: 0x3F9, 0xBF800000: 0xBF8, 0x7F7FFFFF: 0x7F7, 0xFF7FFFFF: 0xFF7,
    0x7F800001: 0x7F9, 0xFF800001: 0xFF9, 0x7FC00000: 0x7FC, 0xFFFFFFFF: 0xFFF, 0x7FFFFFFF: 0x7FF,
}  # fmt: skip


def summed_by_the_book(array: Array) -> float:
    """The order of summation as the contract states it, value by value."""
    size, doubles = len(array), array.astype(float).tolist()
    strip = max(16384, math.ceil(math.ceil(size / 64) / 1024) * 1024)
    total = 0.0
    for start in range(0, size, strip):
        lanes = [0.0] * 16
        for block in range(start, min(start + strip, size), 1024):
            of_block = [0.0] * 16
            for at in range(block, min(block + 1024, start + strip, size)):
                of_block[at % 16] += doubles[at]
            lanes = [lane + more for lane, more in zip(lanes, of_block, strict=True)]
        for half in (8, 4, 2, 1):
            lanes = [lanes[j] + lanes[j + half] for j in range(half)]
        total += lanes[0]
    return total


@pytest.mark.parametrize("dtype", DType)
def test_empty(kernel: ModuleType, dtype: DType) -> None:
    """A tensor without values gives a header alone: no count, no extremes, no sum; it needs no memory."""
    expected = struct.pack("<6Q4d", 0, 0, 0, 0, 0, 0, math.nan, math.nan, 0.0, 0.0)
    assert [expected] == kernel.summarize([(0, 0, dtype)], 1)


@pytest.mark.parametrize("bits", BIN_OF_BITS)
def test_bin_of_a_float32(kernel: ModuleType, bits: int) -> None:
    """The top twelve bits are the bin; zero and infinity share theirs with nothing else."""
    array = np.array([bits], np.uint32).view(np.float32)
    assert [BIN_OF_BITS[bits]] == summary_of(kernel, array, DType.FLOAT32).bins.tolist()


def test_header(kernel: ModuleType) -> None:
    """Every kind of value is counted; extremes and sums are of the finite ones."""
    array = np.array([3, -2, 0, -0.0, np.nan, np.inf, np.inf, -np.inf, 0.5], np.float32)
    expected = struct.pack("<6Q4d", 9, 1, 2, 1, 2, 0, -2.0, 3.0, 1.5, 13.25)
    assert expected == packed_of(kernel, array, DType.FLOAT32)[:80]


def test_pairs_of_gap_and_count(kernel: ModuleType) -> None:
    """Each bin is written as its distance from the one before and its count, seven bits a byte."""
    array = np.array([0.0] * 300 + [1.0] * 2 + [1.125], np.float32)
    expected = bytes([0, 0xAC, 0x02]) + bytes([0xF7, 0x07, 2]) + bytes([0, 1])
    assert expected == packed_of(kernel, array, DType.FLOAT32)[80:]


@pytest.mark.parametrize("array", [[np.nan], [np.inf, -np.inf], [np.nan] * 1025])
def test_nothing_finite(kernel: ModuleType, array: list[float]) -> None:
    """Without a finite value the extremes are NaN and the sums zero."""
    packed = packed_of(kernel, np.array(array, np.float32), DType.FLOAT32)
    assert struct.pack("<4d", math.nan, math.nan, 0.0, 0.0) == packed[48:80]


@pytest.mark.parametrize("dtype", [DType.FLOAT32, DType.FLOAT64, DType.FLOAT16])
@pytest.mark.parametrize("zeros", [[0.0, -0.0], [-0.0, 0.0], [-0.0], [-0.0] * 1024, [-0.0, 0.0] * 49152])
def test_extremes_of_zeros(kernel: ModuleType, dtype: DType, zeros: list[float]) -> None:
    """The least and the greatest of zeros are +0.0, whatever their signs and order."""
    packed = packed_of(kernel, np.array(zeros, NUMPY_TYPES[dtype]), dtype)
    assert struct.pack("<4d", 0.0, 0.0, 0.0, 0.0) == packed[48:80]


@pytest.mark.parametrize("dtype", [DType.FLOAT16, DType.BFLOAT16])
def test_short_floats(kernel: ModuleType, dtype: DType) -> None:
    """All 65536 float16 and bfloat16 values count as the float32 that equals them."""
    bits = np.arange(65536, dtype=np.uint16)
    if dtype == DType.BFLOAT16:
        short, singles = bits, (bits.astype(np.uint32) << 16).view(np.float32)
    else:
        short, singles = bits.view(np.float16), bits.view(np.float16).astype(np.float32)
        payload = (bits & np.uint32(0x8000)) << 16 | 0x7F800000 | (bits & np.uint32(0x3FF)) << 13
        singles = np.where(np.isnan(short), payload.astype(np.uint32).view(np.float32), singles)
    expected = packed_of(kernel, singles, DType.FLOAT32)
    assert expected == packed_of(kernel, short, dtype)


def test_doubles_beyond_single(kernel: ModuleType) -> None:
    """A double outside float32's range counts in the outermost bin, and its exact value in the sums."""
    largest, half_a_step = float(np.finfo(np.float32).max), 2.0**103
    below = np.nextafter(largest + half_a_step, 0)
    array = np.array([1e300, -1e39, largest + half_a_step, below, np.inf, -np.inf])
    summary = summary_of(kernel, array, DType.FLOAT64)
    assert (3, 1, 1) == (summary.overflow, summary.pos_inf, summary.neg_inf)
    assert [(0x7F7, 3), (0x7F8, 1), (0xFF7, 1), (0xFF8, 1)] == list(
        zip(summary.bins.tolist(), summary.counts.tolist(), strict=True)
    )
    assert (1e300, -1e39, math.inf) == (summary.max, summary.min, summary.sum_squares)


def test_doubles_too_small_for_single(kernel: ModuleType) -> None:
    """A double that float32 would make zero is not a zero."""
    array = np.array([1e-300, 5e-324, -1e-46, 0.0, -0.0])
    summary = summary_of(kernel, array, DType.FLOAT64)
    assert (2, [0x000, 0x001, 0x800, 0x801], [1, 2, 1, 1]) == (
        summary.zeros,
        summary.bins.tolist(),
        summary.counts.tolist(),
    )


@pytest.mark.parametrize("dtype", [DType.INT8, DType.UINT8, DType.INT16, DType.INT32, DType.INT64])
def test_extreme_integers(kernel: ModuleType, dtype: DType) -> None:
    """Integers are read as doubles, the outermost ones of each type too."""
    limits = np.iinfo(NUMPY_TYPES[dtype])
    summary = summary_of(kernel, np.array([limits.max, limits.min, 0, 1], NUMPY_TYPES[dtype]), dtype)
    assert (float(limits.min), float(limits.max)) == (summary.min, summary.max)
    assert 2 - (limits.min < 0) == summary.zeros


def test_bools(kernel: ModuleType) -> None:
    """True counts as one and false as zero."""
    summary = summary_of(kernel, np.array([True, False, True]), DType.BOOL)
    assert ([0, 0x3F8], [1, 2], 2.0) == (summary.bins.tolist(), summary.counts.tolist(), summary.sum)


@pytest.mark.parametrize("dtype", [DType.COMPLEX64, DType.COMPLEX128])
def test_complex_magnitudes(kernel: ModuleType, dtype: DType) -> None:
    """A complex value counts by its distance from zero; one with a NaN in it is NaN."""
    array = np.array([3 + 4j, -5 - 12j, 0, complex(0, -np.inf), complex(np.inf, np.nan), complex(np.nan, 1)])
    summary = summary_of(kernel, array.astype(NUMPY_TYPES[dtype]), dtype)
    assert (0.0, 13.0, 18.0, 194.0) == (summary.min, summary.max, summary.sum, summary.sum_squares)
    assert (6, 2, 1, 1) == (summary.count, summary.nan, summary.pos_inf, summary.zeros)


def test_complex_beyond_single(kernel: ModuleType) -> None:
    """The magnitude of a complex64 may be beyond float32 and is then clamped like a double."""
    summary = summary_of(kernel, np.full(2, 3e38 + 3e38j, np.complex64), DType.COMPLEX64)
    assert (2, [0x7F7]) == (summary.overflow, summary.bins.tolist())


def test_sums_beyond_double(kernel: ModuleType) -> None:
    """Sums may overflow; where infinities of both signs meet, the NaN is the plain one."""
    array = np.array([1e308] * 40 + [-1e308] * 40)
    array[0::2] *= -1
    packed = packed_of(kernel, array, DType.FLOAT64)
    assert math.isnan(summary_of(kernel, array, DType.FLOAT64).sum)
    assert struct.pack("<2d", math.nan, math.inf) == packed[64:80]


@pytest.mark.parametrize("size", [0, 1, 17, 1025, 16_385, 65_537, 140_000])
@pytest.mark.parametrize("style", ["normal", "wide"])
def test_order_of_summation(kernel: ModuleType, size: int, style: str) -> None:
    """Sums are made in the order that the contract fixes, so every bit of them is known."""
    array = values(DType.FLOAT32, style, size, 5)
    summary = summary_of(kernel, array, DType.FLOAT32)
    squares = array.astype(float) * array.astype(float)
    assert (summed_by_the_book(array), summed_by_the_book(squares)) == (summary.sum, summary.sum_squares)


def test_order_of_summation_of_long_strips(kernel: ModuleType) -> None:
    """Above a million values the strips grow, so that there are never more than 64."""
    array = values(DType.INT8, "normal", 1_100_001, 5).astype(np.float32) * np.float32(1e-3)
    assert summed_by_the_book(array) == summary_of(kernel, array, DType.FLOAT32).sum


@pytest.mark.parametrize("threads", [1, 2, 3, 4])
def test_batches(kernel: ModuleType, threads: int) -> None:
    """Many small tensors and some large ones give in one call what each gives alone, on any threads."""
    sizes = [0, 1, 5, 300_000, 64, 1000, 140_000, 3, 70_000] + [7] * 60
    batch = [
        (values(DType(number % 12), list(STYLES)[number % 11], size, number), DType(number % 12))
        for number, size in enumerate(sizes)
    ]
    alone = [packed_of(kernel, array, dtype) for array, dtype in batch]
    assert alone == kernel.summarize([item(array, dtype) for array, dtype in batch], threads)


@pytest.mark.parametrize("threads", [1, 3])
def test_sum_squares(kernel: ModuleType, threads: int) -> None:
    """Over a batch it adds the tensors' own sums of squares in their order, and counts what is not finite."""
    sizes = [0, 1, 5, 300_000, 64, 1000, 140_000, 3, 70_000]
    batch = [
        (values(DType(number % 12), style, size, number), DType(number % 12))
        for style in ("spoilt", "normal")
        for number, size in enumerate(sizes)
    ]
    summaries = [summary_of(kernel, array, dtype) for array, dtype in batch]
    total = 0.0
    for summary in summaries:
        total += summary.sum_squares
    nonfinite = sum(summary.nan + summary.pos_inf + summary.neg_inf for summary in summaries)
    assert (total, nonfinite) == kernel.sum_squares([item(*pair) for pair in batch], threads)


def test_empty_batches(kernel: ModuleType) -> None:
    """No tensors are no work."""
    assert ([], [], (0.0, 0)) == (
        kernel.summarize([], 2),
        kernel.summarize_updates([], 2),
        kernel.sum_squares([], 2),
    )


@pytest.mark.parametrize("dtype", DType)
@pytest.mark.parametrize("size", [5, 1030, 100_000])
def test_any_address_that_suits_the_type(kernel: ModuleType, dtype: DType, size: int) -> None:
    """A tensor may begin at any element of a larger one."""
    array = values(dtype, "spoilt", size + 1, 3)
    shifted = array[1:]
    assert packed_of(kernel, shifted.copy(), dtype) == packed_of(kernel, shifted, dtype)


@pytest.mark.parametrize("pattern", [[0.0], [1.0], [1.0, -1.0], [1.0] * 16 + [-0.5] * 16])
def test_many_equal_values(kernel: ModuleType, pattern: list[float]) -> None:
    """No counter is too small, however often the same values meet."""
    array = np.resize(np.array(pattern, np.float32), 600 * 1024)
    expected = {pattern.count(value) * len(array) // len(pattern) for value in set(pattern)}
    assert expected == set(summary_of(kernel, array, DType.FLOAT32).counts.tolist())


@pytest.mark.parametrize("odd", [1e-44, -1e-44, 1e30, -1e30])
@pytest.mark.parametrize("others", [1.0, -1.0, 0.0])
def test_one_odd_value(kernel: ModuleType, odd: float, others: float) -> None:
    """A value far from all others has its own bin and is among the extremes."""
    array = np.full(16 * 1024, others, np.float32)
    array[5000] = odd
    summary = summary_of(kernel, array, DType.FLOAT32)
    assert {1, len(array) - 1} == set(summary.counts.tolist())
    assert [min(array[5000], array[0]), max(array[5000], array[0])] == [summary.min, summary.max]
