"""Summarises many tensors at once, for watchpoints."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from tb_netdebug.core.stats import kernel
from tb_netdebug.core.stats.packed import HEADER, Summary
from tb_netdebug.debugger.workbench import WorkbenchError
from tb_netdebug.frameworks.torch.reader import host_item
from tb_netdebug.frameworks.torch.stepping.previous import PreviousValues
from tb_netdebug.frameworks.torch.stepping.tensors import ReachableTensors
from tb_netdebug.frameworks.torch.values import is_direct

NO_BINS = np.empty(0, np.uint16)
NO_COUNTS = np.empty(0, np.uint64)


def summaries_of(tensors: ReachableTensors, names: Sequence[str]) -> dict[str, Summary]:
    """Return summaries in one call of the kernel; only tensors that must be converted are read one by one."""
    direct = {name: tensor for name in names if (tensor := direct_tensor(tensors, name)) is not None}
    packed = kernel.summarize([host_item(each) for each in direct.values()], torch.get_num_threads())
    known = {name: numbers_of(each) for name, each in zip(direct, packed, strict=True)}
    found = {}
    for name in names:
        try:
            found[name] = known[name] if name in known else tensors.readable(name).summary()
        except WorkbenchError:
            continue  # what cannot be read is left out, as the protocol promises
    return found


def changes_of(tensors: ReachableTensors, previous: PreviousValues, names: Sequence[str]) -> dict[str, float]:
    """Return the relative change of each tensor since the previous batch.

    Updates are left out: theirs would be the change of a change.
    """
    found = {}
    for name in names:
        tensor = tensor_of(tensors, name)
        change = None if tensor is None else previous.change(name, tensor)
        if change is not None:
            found[name] = change
    return found


def direct_tensor(tensors: ReachableTensors, name: str) -> Tensor | None:
    """Return the tensor if the kernel can read it as it is."""
    tensor = tensor_of(tensors, name)
    return tensor if tensor is not None and is_direct(tensor) else None


def tensor_of(tensors: ReachableTensors, name: str) -> Tensor | None:
    """Return the tensor of this name; None for updates, and for one that is not within reach."""
    if name.startswith("update:"):
        return None
    try:
        return tensors.find(name).tensor
    except WorkbenchError:
        return None


def numbers_of(packed: bytes) -> Summary:
    """Return a summary without bins, which would take longer to unpack than to compute."""
    fields = (*HEADER.unpack_from(packed), NO_BINS, NO_COUNTS)
    return Summary(*fields)
