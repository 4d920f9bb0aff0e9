"""Tensors for the kernel's tests: every element type, and every kind of data that has a path of its own.

Run as a script it prints, for the kernel that the environment selects, a digest of each result of a fixed set
of calls, so that two kernels can be compared across processes.
"""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

import numpy as np
from hypothesis import strategies as st
from numpy.typing import NDArray

from tb_netdebug.core.stats.dtypes import DType
from tb_netdebug.core.stats.packed import Summary

Array = NDArray[Any]
Bits = NDArray[np.uint32]

# bfloat16 does not exist in NumPy: its bits stand for it.
NUMPY_TYPES: dict[DType, np.dtype[Any]] = {
    DType.FLOAT32: np.dtype(np.float32),
    DType.FLOAT64: np.dtype(np.float64),
    DType.FLOAT16: np.dtype(np.float16),
    DType.BFLOAT16: np.dtype(np.uint16),
    DType.INT8: np.dtype(np.int8),
    DType.UINT8: np.dtype(np.uint8),
    DType.INT16: np.dtype(np.int16),
    DType.INT32: np.dtype(np.int32),
    DType.INT64: np.dtype(np.int64),
    DType.BOOL: np.dtype(np.bool_),
    DType.COMPLEX64: np.dtype(np.complex64),
    DType.COMPLEX128: np.dtype(np.complex128),
}
PARTS = {DType.COMPLEX64: DType.FLOAT32, DType.COMPLEX128: DType.FLOAT64}
# Around the lanes, the blocks, the smallest strip and the sizes from which the C kernel changes its way.
EDGES = (
    *(0, 1, 2, 15, 16, 17, 31, 1023, 1024, 1025, 2049, 8191, 8192, 8193, 16383, 16384, 16385),
    *(32767, 32768, 32769, 65535, 65536, 65537, 99327, 131073),
)
SIGN, INFINITY = 0x80000000, 0x7F800000
ODD_FLOATS = (
    *(0x00000000, 0x80000000, 0x00000001, 0x80000001, 0x000FFFFF, 0x00100000, 0x007FFFFF, 0x807FFFFF),
    *(0x00800000, 0x80800000, 0x7F7FFFFF, 0xFF7FFFFF, 0x7F800000, 0xFF800000, 0x7F800001, 0xFF800001),
    *(0x7FBFFFFF, 0x7FC00000, 0xFFC00000, 0x7FC12345, 0xFFFFFFFF, 0x7FFFFFFF, 0x3F800000, 0xBF800000),
)


def item(array: Array, dtype: DType) -> tuple[int, int, int]:
    """What the kernel wants to know of an array; the caller keeps the array alive."""
    assert array.flags.c_contiguous
    return array.ctypes.data, array.size, int(dtype)


def packed_of(kernel: ModuleType, array: Array, dtype: DType, *, threads: int = 1) -> bytes:
    [packed] = kernel.summarize([item(array, dtype)], threads)
    assert isinstance(packed, bytes)
    return packed


def summary_of(kernel: ModuleType, array: Array, dtype: DType) -> Summary:
    return Summary.unpack(packed_of(kernel, array, dtype))


def _normal(rng: np.random.Generator, size: int) -> Bits:
    return rng.standard_normal(size, np.float32).view(np.uint32)


def _relu(rng: np.random.Generator, size: int) -> Bits:
    normal = _normal(rng, size)
    return np.where(normal < np.uint32(SIGN), normal, np.uint32(0))


def _zeros(rng: np.random.Generator, size: int) -> Bits:
    return np.zeros(size, np.uint32)


def _signed_zeros(rng: np.random.Generator, size: int) -> Bits:
    return rng.choice(np.array([0, SIGN], np.uint32), size)


def _constant(rng: np.random.Generator, size: int) -> Bits:
    return np.full(size, rng.choice(np.array(ODD_FLOATS, np.uint32)), np.uint32)


def _any_bits(rng: np.random.Generator, size: int) -> Bits:
    return rng.integers(0, 2**32, size, np.uint32)


def _odd(rng: np.random.Generator, size: int) -> Bits:
    return rng.choice(np.array(ODD_FLOATS, np.uint32), size)


def _wide(rng: np.random.Generator, size: int) -> Bits:
    """Finite values of all magnitudes, subnormal ones too: sums lose digits and squares overflow."""
    bits = _any_bits(rng, size)
    return np.where(bits & INFINITY == INFINITY, bits ^ np.uint32(0x40000000), bits).astype(np.uint32)


def _spoilt(rng: np.random.Generator, size: int) -> Bits:
    """Ordinary values with a few that are not."""
    return _with_outliers(rng, _normal(rng, size), np.array(ODD_FLOATS, np.uint32))


def _with_outliers(rng: np.random.Generator, bits: Bits, outliers: Bits) -> Bits:
    places = rng.integers(0, max(bits.size, 1), min(bits.size, 1 + bits.size // 5000))
    bits[places] = rng.choice(outliers, places.size)
    return bits


def window(
    rng: np.random.Generator, size: int, *, first_bin: int, bins: int = 120, outliers: int = 0
) -> Bits:
    """Values of both signs in `bins` bins from `first_bin` on, a tenth of them ±0, and a few far outside."""
    magnitude = rng.integers(first_bin << 20, min(first_bin + bins, 0x800) << 20, size, np.uint32)
    magnitude[rng.random(size) < 0.1] = 0
    bits = magnitude | _signed_zeros(rng, size)
    if outliers and size:
        near = [(first_bin - 1) << 20, first_bin << 20, (first_bin + bins) << 20, (first_bin + 127) << 20]
        near += [(first_bin + 128) << 20, ((first_bin + 129) << 20) - 1, 1 << 20, 0x7F << 24, SIGN | 5]
        legal = np.array([bits for bits in near if 0 <= bits < 2**32], np.uint32)
        bits[rng.integers(0, size, outliers)] = rng.choice(legal, outliers)
    return bits


def _window(rng: np.random.Generator, size: int) -> Bits:
    """Anywhere in the range of exponents, its ends included, as wide as the kernel's window or nearly so."""
    first_bin = int(
        rng.choice([0, 1, 7, 8, 0x3E0, 0x6FF, 0x777, 0x778, 0x77F, 0x780, int(rng.integers(0x7F8))])
    )
    outliers = int(rng.choice([0, 1, 3, size // 3000]))
    return window(
        rng, size, first_bin=first_bin, bins=int(rng.choice([1, 120, 127, 128, 129])), outliers=outliers
    )


def _moving_window(rng: np.random.Generator, size: int) -> Bits:
    """The first part says nothing about the later ones, which begin within a block."""
    cuts = np.sort(rng.integers(0, size + 1, 3))
    sizes = np.diff(cuts, prepend=0, append=size)
    return np.concatenate([_window(rng, int(part)) for part in sizes])


def _patchy(rng: np.random.Generator, size: int) -> Bits:
    """Blocks of one window with any number of outliers in each, from time to time not finite ones."""
    bits = window(rng, size, first_bin=0x3A0)
    for block in range(0, size, 1024):
        part = bits[block : block + 1024]
        number = min(int(rng.choice([0, 1, 2, 62, 63, 64, 65, 66, 300])), part.size)
        outliers = rng.integers(1, 0x3A0 << 20, number, np.uint32)
        if rng.random() < 0.05:
            outliers[:1] = rng.choice(np.array(ODD_FLOATS, np.uint32))
        part[rng.permutation(part.size)[:number]] = outliers
    return bits


def _restless(rng: np.random.Generator, size: int) -> Bits:
    """A new window every few blocks or strips, more often than a kernel would follow."""
    step = int(rng.choice([9_000, 60_000]))
    parts = [_window(rng, min(step, size - start)) for start in range(0, size, step)]
    return np.concatenate([*parts, np.empty(0, np.uint32)])


STYLES: dict[str, Callable[[np.random.Generator, int], Bits]] = {
    "normal": _normal,
    "relu": _relu,
    "zeros": _zeros,
    "signed zeros": _signed_zeros,
    "constant": _constant,
    "any bits": _any_bits,
    "odd": _odd,
    "wide": _wide,
    "spoilt": _spoilt,
    "window": _window,
    "moving window": _moving_window,
    "patchy": _patchy,
    "restless": _restless,
}


def values(dtype: DType, style: str, size: int, seed: int) -> Array:
    """`size` values of a style; the same for the same arguments."""
    rng = np.random.default_rng(seed)
    if style == "any bits":
        bits = np.frombuffer(rng.bytes(size * NUMPY_TYPES[dtype].itemsize), NUMPY_TYPES[dtype]).copy()
        return _legal(bits)
    if dtype in PARTS:
        return _stored(rng, STYLES[style](rng, 2 * size), PARTS[dtype]).view(NUMPY_TYPES[dtype])
    return _stored(rng, STYLES[style](rng, size), dtype)


def _legal(anything: Array) -> Array:
    """The same, but no bools that are neither 0 nor 1."""
    return np.greater(anything.view(np.uint8), 127) if anything.dtype == np.bool_ else anything


def _stored(rng: np.random.Generator, bits: Bits, dtype: DType) -> Array:
    singles = bits.view(np.float32)
    with np.errstate(all="ignore"):
        if dtype == DType.FLOAT32:
            return singles
        if dtype == DType.BFLOAT16:
            return np.right_shift(bits, 16).astype(np.uint16)
        if dtype == DType.FLOAT16:
            return singles.astype(np.float16)
        if dtype == DType.FLOAT64:
            return _doubles(rng, singles)
        if dtype == DType.BOOL:
            return np.greater(singles, 0)
        limits = np.iinfo(NUMPY_TYPES[dtype])
        scaled = np.nan_to_num(singles.astype(np.float64), posinf=1e300, neginf=-1e300) * 20
        inside = np.clip(scaled, limits.min / 2, limits.max / 2).astype(NUMPY_TYPES[dtype])
        inside[scaled > 1e38], inside[scaled < -1e38] = limits.max, limits.min
        return inside


def _doubles(rng: np.random.Generator, singles: NDArray[np.float32]) -> Array:
    """With digits that no float32 has, a few beyond its range on both ends, and a few just on its edge."""
    doubles = singles.astype(np.float64) * (1 + rng.random(singles.size) * 2.0**-23)
    edges = np.array(
        [3.4028235e38, 3.4028235677973366e38, 3.40282356779733e38, 1e39, 1.7e308, 7e-46, 7.1e-46, 5e-324]
    )
    places = rng.integers(0, max(singles.size, 1), min(singles.size, singles.size // 3000 + 1))
    if rng.random() < 0.5:
        doubles[places] = rng.choice(np.concatenate([edges, -edges]), places.size)
    return doubles


@st.composite
def tensors(draw: st.DrawFn, *, largest: int = 2100) -> tuple[Array, DType]:
    """An array of any type: a few bytes of any value, or any style at a size near an edge."""
    dtype = draw(st.sampled_from(DType))
    if draw(st.booleans()):
        raw = draw(st.binary(max_size=512))
        raw = raw[: len(raw) // NUMPY_TYPES[dtype].itemsize * NUMPY_TYPES[dtype].itemsize]
        return _legal(np.frombuffer(bytearray(raw), NUMPY_TYPES[dtype])), dtype
    edges = [edge for edge in EDGES if edge <= largest]
    size = draw(st.one_of(st.sampled_from(edges), st.integers(0, largest)))
    return values(dtype, draw(st.sampled_from(list(STYLES))), size, draw(st.integers(0, 2**32))), dtype


def corpus() -> Iterator[tuple[str, Array, DType]]:
    """A fixed set of named tensors: all types × styles × some sizes, few of them large."""
    sizes = (0, 1, 17, 1023, 3079, 66_000)
    for dtype in DType:
        for number, style in enumerate(STYLES):
            for size in sizes:
                yield f"{dtype.name} {style} {size}", values(dtype, style, size, number), dtype
    for seed in range(8):
        for style in ("window", "moving window", "patchy", "restless", "spoilt"):
            yield (
                f"FLOAT32 {style} large {seed}",
                values(DType.FLOAT32, style, 262_144 + seed, seed),
                DType.FLOAT32,
            )


def digests(kernel: ModuleType) -> dict[str, str]:
    """What each call of the kernel gave, in short."""
    results: dict[str, str] = {}
    for name, array, dtype in corpus():
        previous = np.roll(array, 1)
        high = 0.7 if dtype < DType.INT8 else 5.0
        shape = (max(array.size // 60, 1), min(array.size, 12), min(array.size // 12, 5))
        results[name] = _digest(
            kernel.summarize([item(array, dtype)], 2),
            kernel.sum_squares([item(array, dtype)], 2),
            kernel.active_units(array.ctypes.data, dtype, *shape, -0.5, high),
            kernel.summarize_strided(array[::-1].ctypes.data, dtype, array.shape, (-1,)),
            kernel.summarize_updates([(array.ctypes.data, previous.ctypes.data, array.size, dtype)], 2),
            previous.tobytes() == array.tobytes(),
        )
    return results


def _digest(*results: object) -> str:
    return hashlib.sha256(repr(results).encode()).hexdigest()[:16]


if __name__ == "__main__":
    from tb_netdebug.core.stats import kernel

    sys.stdout.write(json.dumps({"description": kernel.description(), "digests": digests(kernel)}))
