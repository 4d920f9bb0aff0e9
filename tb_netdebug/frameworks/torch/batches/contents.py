"""What a batch holds: a fingerprint of it, whether it is a part of something bigger, masks and states."""

from __future__ import annotations

import math
from hashlib import blake2b

import numpy as np
import torch

from tb_netdebug.frameworks.torch.host_arrays import Array
from tb_netdebug.frameworks.torch.values import PLAIN_TYPES, is_functorch_wrapped

# A selection of so many values tells one batch from another, unless nearly all of them are zeros.
SELECTED = 1024
SELECTED_OF_SPARSE = 1 << 17
FEWEST_NONZERO = 64


def is_on_host(tensor: torch.Tensor) -> bool:
    """Whether its values can be read where they are, without waiting for anything."""
    return (
        type(tensor) in PLAIN_TYPES
        and tensor.is_cpu
        and tensor.layout is torch.strided
        and not (tensor.is_nested or tensor.is_quantized or tensor.is_neg() or tensor.is_conj())
        and not is_functorch_wrapped(tensor)
        and bool(tensor.data_ptr() or not tensor.numel())
    )


def selection(array: Array, most: int = SELECTED) -> Array:
    """About `most` values from all over the array, and not the same columns of each row."""
    if array.size <= 4 * most:
        return array.ravel()
    stride = array.size // most
    row = array.size // max(len(array), 1)
    while math.gcd(stride, row) != 1:
        stride += 1
    # of an array in one piece a view is enough, and made faster
    return array.reshape(-1)[::stride] if array.flags.c_contiguous else array.flat[::stride]


class Fingerprint:
    """Of all tensors that are added, in their order."""

    def __init__(self) -> None:
        self._digest = blake2b(digest_size=8)

    def add(self, array: Array) -> None:
        chosen = selection(array)
        if len(chosen) < array.size and np.count_nonzero(chosen) < FEWEST_NONZERO:
            chosen = selection(array, SELECTED_OF_SPARSE)
        self._digest.update(f"{array.shape}{array.dtype.char}".encode())
        self._digest.update(chosen.tobytes())

    def number(self) -> float:
        """52 bits of it, which a float holds exactly."""
        return float(int.from_bytes(self._digest.digest(), "little") >> 12)


def share_of_rows(tensor: torch.Tensor) -> float:
    """Of the memory behind a view: how large a part of the rows it shows; 1.0 when it is no slice.

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
    """Zero or minus infinity only: what attention adds to its scores."""
    chosen = selection(array)
    masked = np.isneginf(chosen) if chosen.dtype.kind == "f" else np.zeros(chosen.shape, np.bool_)
    return bool(masked.any() and not chosen[~masked].any())


def is_zero(array: Array) -> bool:
    """As the first state of a recurrent network is."""
    return not selection(array).any() and not array.any()
