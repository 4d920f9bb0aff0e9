"""What is known of torch's operations: which of them make infinities on purpose, and what they were given."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

import torch
from torch.multiprocessing.reductions import StorageWeakRef

from tb_netdebug.frameworks.torch.frames import user_frame
from tb_netdebug.recording.frames import place_of

# What they give is what happens to lie in memory.
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
# An infinity that these make was asked for.
ASKED_FOR = frozenset({"lift_fresh", "lift_fresh_copy", "scalar_tensor"})
# A mask of −inf becomes one of +inf.
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
# Processes would wait for each other, for the others do not repeat their forward pass.
TALKING = ("c10d", "c10d_functional", "_c10d_functional", "_c10d_functional_autograd", "symm_mem")


def flat(value: Any) -> Iterator[torch.Tensor]:
    """The tensors among the arguments or results of an operation: they are nested in lists only."""
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, list | tuple):
        for each in value:
            yield from flat(each)


def key_of(tensor: torch.Tensor) -> StorageWeakRef | None:
    """Stands for the memory of a tensor, which its views share."""
    try:
        return StorageWeakRef(tensor.untyped_storage())
    except RuntimeError:  # it has none, as a sparse tensor
        return None


def is_all_of_it(tensor: torch.Tensor) -> bool:
    return tensor.nbytes == tensor.untyped_storage().nbytes()


def is_infinite(value: Any) -> bool:
    return isinstance(value, float) and abs(value) == float("inf")


def site() -> str:
    """The innermost line that belongs neither to torch nor to us."""
    frame = user_frame(sys._getframe(1))
    return "" if frame is None else place_of(frame)
