"""The values that the twin sees in a tensor, and the one of 4096 bins that each of them falls into."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tb_netdebug.core.stats.dtypes import DType
from tb_netdebug.core.stats.twin_memory import Array

Doubles = NDArray[np.float64]
Singles = NDArray[np.float32]
Mask = NDArray[np.bool_]

# A bin is the top 12 bits of a float32, except next to 0 and infinity.
BINS = 4096
SIGN = np.uint16(0x800)
SMALLEST_BIN = np.uint16(1)
LARGEST_FINITE_BIN = np.uint16(0x7F7)


@dataclass(frozen=True, slots=True)
class Values:
    """The values of a tensor: `exact` for arithmetic, `rounded` to float32 for the bins."""

    exact: Doubles
    rounded: Singles

    @classmethod
    def of(cls, array: Array, dtype: int) -> Values:
        singles = _singles(array, dtype)
        if singles is not None:
            return cls.of_singles(singles)
        return cls.of_doubles(_magnitudes(array))

    @classmethod
    def of_difference(cls, current: Array, previous: Array, dtype: int) -> Values:
        """Return `current` − `previous`, computed in the precision that the dtype calls for."""
        new, old = _singles(current, dtype), _singles(previous, dtype)
        if new is not None and old is not None:
            return cls.of_singles(_one_nan(new - old))
        if dtype in (DType.COMPLEX64, DType.COMPLEX128):
            return cls.of_doubles(_magnitudes(current - previous))
        return cls.of_doubles(_one_nan(current.astype(np.float64) - previous.astype(np.float64)))

    @classmethod
    def of_singles(cls, singles: Singles) -> Values:
        return cls(singles.astype(np.float64), singles)

    @classmethod
    def of_doubles(cls, doubles: Doubles) -> Values:
        return cls(doubles, doubles.astype(np.float32))

    def beyond_single(self) -> Mask:
        """Return which values are finite but too large for a float32."""
        return np.isfinite(self.exact) & np.isinf(self.rounded)

    def bins(self) -> NDArray[np.uint16]:
        # Rounding to float32 must not turn a tiny value into zero or a large finite one into infinity.
        sign = np.where(np.signbit(self.exact), SIGN, np.uint16(0))
        vanished = (self.exact != 0) & (self.rounded == 0)
        bins = np.where(self.beyond_single(), sign | LARGEST_FINITE_BIN, _single_bins(self.rounded))
        return np.where(vanished, sign | SMALLEST_BIN, bins)


def _single_bins(singles: Singles) -> NDArray[np.uint16]:
    """Return sign, exponent and three bits of mantissa as a bin; ±0 and ±Inf have bins of their own."""
    bits = np.ascontiguousarray(singles).view(np.uint32)
    top = bits >> np.uint32(20)
    shares_with_zero_or_inf = ((top & 0x7FF) == 0x000) | ((top & 0x7FF) == 0x7F8)
    # With further bits set it is a subnormal or a NaN, which moves one bin up, away from 0 and Inf.
    moves_up = shares_with_zero_or_inf & ((bits & 0xFFFFF) != 0)
    bins: NDArray[np.uint16] = (top + moves_up).astype(np.uint16)
    return bins


def _singles(array: Array, dtype: int) -> Singles | None:
    """Return the values as float32 if the dtype converts exactly, else None."""
    if dtype == DType.FLOAT32:
        return array
    if dtype == DType.BFLOAT16:
        widened: Singles = (array.astype(np.uint32) << np.uint32(16)).view(np.float32)
        return widened
    if dtype == DType.FLOAT16:
        return _single_of_half(array)
    return None


def _single_of_half(halves: Array) -> Singles:
    """Widen float16 to float32.

    NaNs are widened bit by bit: converting a signalling one sets its quiet bit on some machines only.
    """
    bits = np.ascontiguousarray(halves).view(np.uint16).astype(np.uint32)
    nan = (bits & 0x8000) << 16 | 0x7F800000 | (bits & 0x3FF) << 13
    exact = halves.astype(np.float32)
    return np.where(np.isnan(exact), nan.view(np.float32), exact)


def _magnitudes(array: Array) -> Doubles:
    """Return the values as doubles; a complex one counts with its magnitude."""
    if array.dtype == np.complex64:
        real, imaginary = array.real.astype(np.float64), array.imag.astype(np.float64)
        return _one_nan(np.sqrt(real * real + imaginary * imaginary))
    if array.dtype == np.complex128:
        # hypot of an infinity and a NaN is infinite, but a value with a NaN counts as NaN.
        return np.where(np.isnan(array), np.nan, np.hypot(array.real, array.imag))
    return array.astype(np.float64)


def _one_nan(results: Array) -> Array:
    """Replace NaNs by the default one, in place: those from arithmetic have machine-dependent bits."""
    results[np.isnan(results)] = np.nan
    return results
