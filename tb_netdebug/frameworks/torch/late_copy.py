"""Copies of tensors whose memory may be gone by now: a batch that the program has used up."""

from __future__ import annotations

import torch

from tb_netdebug.core.machine.own_memory import UnreadableMemoryError, check_memory, copy_memory
from tb_netdebug.frameworks.torch.batches.contents import is_on_host

# What lies further apart is read once to see whether it can be, and not copied.
MOST_COPIED_BYTES = 64 << 20


def late_copy(tensor: torch.Tensor) -> torch.Tensor:
    """Return a copy of a tensor in host memory; those that are big or elsewhere as they are.

    Raises GoneError when it cannot be read. Memory that is pinned for a device is no file, and the kernel may
    not want to read it.
    """
    tensor = tensor.detach()
    if not is_on_host(tensor) or not tensor.numel():
        return tensor
    try:
        return read_copy(tensor)
    except UnreadableMemoryError:
        if not tensor.is_pinned():
            raise
        return tensor


def read_copy(tensor: torch.Tensor) -> torch.Tensor:
    dimensions = zip(tensor.shape, tensor.stride(), strict=True)
    values = 1 + sum((size - 1) * stride for size, stride in dimensions)
    nbytes = values * tensor.element_size()
    if nbytes > MOST_COPIED_BYTES:
        check_memory(tensor.data_ptr(), nbytes)
        return tensor
    copy = torch.empty_strided(tensor.size(), tensor.stride(), dtype=tensor.dtype, device="cpu")
    copy_memory(tensor.data_ptr(), copy.data_ptr(), nbytes)
    return copy
