"""Copies of tensors whose memory may be gone by now, such as a batch that the program has used up."""

from __future__ import annotations

import torch

from tb_netdebug.core.machine.own_memory import UnreadableMemoryError, check_memory, copy_memory
from tb_netdebug.frameworks.torch.batches.contents import is_on_host

# A bigger span of memory is only read once, to see whether it can be, and not copied.
MOST_COPIED_BYTES = 64 << 20


def late_copy(tensor: torch.Tensor) -> torch.Tensor:
    """Return a copy of a tensor in host memory; return big tensors and those elsewhere as they are.

    Raise UnreadableMemoryError when its memory cannot be read. Memory that is pinned for a device is not
    refused: it is no file, and the kernel may decline to read it.
    """
    tensor = tensor.detach()
    if not is_on_host(tensor) or not tensor.numel():
        return tensor
    try:
        # The program may have truncated the file behind a mapped tensor: reading it directly would be fatal.
        return read_copy(tensor)
    except UnreadableMemoryError:
        if not tensor.is_pinned():
            raise
        return tensor


def read_copy(tensor: torch.Tensor) -> torch.Tensor:
    dimensions = zip(tensor.shape, tensor.stride(), strict=True)
    # From the first value to the last, with the gaps between them.
    values = 1 + sum((size - 1) * stride for size, stride in dimensions)
    nbytes = values * tensor.element_size()
    if nbytes > MOST_COPIED_BYTES:
        check_memory(tensor.data_ptr(), nbytes)
        return tensor
    copy = torch.empty_strided(tensor.size(), tensor.stride(), dtype=tensor.dtype, device="cpu")
    copy_memory(tensor.data_ptr(), copy.data_ptr(), nbytes)
    return copy
