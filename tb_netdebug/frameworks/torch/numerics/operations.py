"""Knowledge about torch's operations, such as which of them make infinities on purpose."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

import torch
from torch.multiprocessing.reductions import StorageWeakRef

from tb_netdebug.frameworks.torch.frames import user_frame
from tb_netdebug.recording.frames import place_of

# Their results hold whatever is in memory, so a NaN in them means nothing.
UNINITIALISED = frozenset(
    {
        "empty",
        "empty_like",
        "empty_strided",
        "empty_permuted",
        "new_empty",
        "new_empty_strided",
        "resize_",
        "set_",
    }
)
# These turn a Python number into a tensor: an infinity in the result was asked for.
ASKED_FOR = frozenset({"lift_fresh", "lift_fresh_copy", "scalar_tensor"})
# These can turn a mask of −inf into one of +inf, which is still a mask.
SIGN_CHANGING = frozenset(
    {
        "neg",
        "neg_",
        "mul",
        "mul_",
        "sub",
        "sub_",
        "rsub",
        "div",
        "div_",
        "abs",
        "abs_",
        "reciprocal",
        "reciprocal_",
    }
)
# Namespaces of collective operations. One process that repeats its forward pass alone would wait in them for
# ever, because the others do not repeat theirs.
TALKING = ("c10d", "c10d_functional", "_c10d_functional", "_c10d_functional_autograd", "symm_mem")


def flat(value: Any) -> Iterator[torch.Tensor]:
    """Yield the tensors in an operation's arguments or results, which nest in lists and tuples only."""
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, list | tuple):
        for each in value:
            yield from flat(each)


def key_of(tensor: torch.Tensor) -> StorageWeakRef | None:
    """Return a key for the tensor's memory, which all its views share; None when it has none."""
    try:
        return StorageWeakRef(tensor.untyped_storage())
    except RuntimeError:  # a sparse tensor, for example, has no storage
        return None


def is_all_of_it(tensor: torch.Tensor) -> bool:
    """Return whether the tensor covers its whole storage, so that a write to it replaces every value."""
    return tensor.nbytes == tensor.untyped_storage().nbytes()


def is_infinite(value: Any) -> bool:
    return isinstance(value, float) and abs(value) == float("inf")


def site() -> str:
    """Return the innermost line of the stack that belongs to neither torch nor NetDebug."""
    frame = user_frame(sys._getframe(1))
    return "" if frame is None else place_of(frame)
