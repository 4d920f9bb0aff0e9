"""What a batch holds: its fingerprint, and whether it is a slice of a bigger tensor, a mask or a state."""

from __future__ import annotations

import math
from hashlib import blake2b

import numpy as np
import torch

from tb_netdebug.frameworks.torch.host_arrays import Array
from tb_netdebug.frameworks.torch.values import PLAIN_TYPES, is_functorch_wrapped

# This many values tell one batch from another, unless nearly all of them are zeros.
SELECTED = 1024
SELECTED_OF_SPARSE = 1 << 17
FEWEST_NONZERO = 64


def is_on_host(tensor: torch.Tensor) -> bool:
    """Return whether a tensor's values can be read where they are, without waiting for anything."""
    return (
        type(tensor) in PLAIN_TYPES
        and tensor.is_cpu
        and tensor.layout is torch.strided
        and not (tensor.is_nested or tensor.is_quantized or tensor.is_neg() or tensor.is_conj())
        and not is_functorch_wrapped(tensor)
        and bool(tensor.data_ptr() or not tensor.numel())
    )


def selection(array: Array, most: int = SELECTED) -> Array:
    """Return about `most` values from all over the array, and not from the same columns of each row."""
    if array.size <= 4 * most:
        return array.ravel()
    stride = array.size // most
    row = array.size // max(len(array), 1)
    # A stride that shares no factor with the row length visits different columns in each row.
    while math.gcd(stride, row) != 1:
        stride += 1
    # A contiguous array only needs a view, which is faster to make.
    return array.reshape(-1)[::stride] if array.flags.c_contiguous else array.flat[::stride]


class Fingerprint:
    """The hash of all tensors that are added, in their order."""

    def __init__(self) -> None:
        self._digest = blake2b(digest_size=8)

    def add(self, array: Array) -> None:
        """Add shape, type and a selection of values; a bigger selection where most are zeros."""
        chosen = selection(array)
        if len(chosen) < array.size and np.count_nonzero(chosen) < FEWEST_NONZERO:
            chosen = selection(array, SELECTED_OF_SPARSE)
        self._digest.update(f"{array.shape}{array.dtype.char}".encode())
        self._digest.update(chosen.tobytes())

    def number(self) -> float:
        """Return 52 bits of the hash, which a float holds exactly."""
        return float(int.from_bytes(self._digest.digest(), "little") >> 12)


def share_of_rows(tensor: torch.Tensor) -> float:
    """Return the share of rows that a view shows of the memory behind it; 1.0 if it is no slice.

    Leaving out columns, as in `tokens[:, :-1]`, makes no slice.
    """
    if not tensor.numel() or not tensor.dim():
        return 1.0
    strides = tensor.stride()
    dim = max(range(tensor.dim()), key=strides.__getitem__)
    stored = tensor.untyped_storage().nbytes() // tensor.element_size()
    rows = stored // max(strides[dim], 1)
    return min(tensor.size(dim) / rows, 1.0) if rows else 1.0


def is_mask(array: Array) -> bool:
    """Return whether the array holds only zeros and minus infinity, as a mask added to attention scores."""
    chosen = selection(array)
    masked = np.isneginf(chosen) if chosen.dtype.kind == "f" else np.zeros(chosen.shape, np.bool_)
    return bool(masked.any() and not chosen[~masked].any())


def is_zero(array: Array) -> bool:
    """Return whether the array holds only zeros, as the first state of a recurrent network."""
    return not selection(array).any() and not array.any()
