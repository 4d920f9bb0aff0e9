"""Statistics of tensors and arrays that the program's variables hold."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

from tb_netdebug.core.stats import kernel
from tb_netdebug.core.stats.dtypes import DType
from tb_netdebug.core.stats.packed import Summary
from tb_netdebug.debugger.tensors.array_readable import summary_of


def host_summary(value: Any) -> Summary | None:
    """Return the summary of a plain tensor or array in host memory, or None.

    It is read in place. Subclasses are left out, since they may run code of the user, and so are tensors on a
    device, which may be busy.
    """
    if type(value) is np.ndarray:
        return summary_of(value) if value.dtype.kind in "fiubc" else None
    torch = sys.modules.get("torch")
    plain = getattr(torch, "Tensor", None), getattr(getattr(torch, "nn", None), "Parameter", None)
    if torch is None or type(value) not in plain:
        return None
    dtype = DType.__members__.get(str(value.dtype).rpartition(".")[2].upper())
    if dtype is None or value.device.type != "cpu" or value.layout is not torch.strided or value.is_neg():
        return None
    try:
        address = value.data_ptr()
        return Summary.unpack(
            kernel.summarize_strided(address, dtype, tuple(value.shape), tuple(value.stride()))
        )
    except (RuntimeError, ValueError):  # inside a function transform there is no memory behind it
        return None
