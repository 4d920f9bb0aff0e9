"""Describes tensors and arrays among a program's variables, one line each, without importing anything."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tb_netdebug.core.stats.packed import Summary


# `isinstance` would ask an object for its class, which may run code of the user.
_bases = type.__dict__["__mro__"].__get__


def is_tensor(value: Any) -> bool:
    """Return whether it is a tensor of torch or NumPy, if the program has loaded them."""
    loaded = [("torch", "Tensor"), ("numpy", "ndarray")]
    known = [getattr(sys.modules.get(module), name, None) for module, name in loaded]
    return any(base is each for base in _bases(type(value)) for each in known)


def head_of(tensor: Any) -> str:
    """Return a text such as "float32 2×3 on cuda:0"."""
    dtype = str(tensor.dtype).rpartition(".")[2]
    device = str(getattr(tensor, "device", "cpu"))
    shape = "×".join(map(str, tensor.shape)) or "one value"
    return f"{dtype} {shape}" + ("" if device == "cpu" else f" on {device}")


def numbers_of(summary: Summary) -> str:
    """Return the range, the mean and the counts of non-finite values as text."""
    told = []
    if summary.finite:
        told.append(f"min {summary.min:.4g}, mean {summary.mean:.4g}, max {summary.max:.4g}")
    bad = [(summary.nan, "NaN"), (summary.pos_inf, "Inf"), (summary.neg_inf, "-Inf")]
    told += [f"{count} {name}" for count, name in bad if count]
    return ", ".join(told)
