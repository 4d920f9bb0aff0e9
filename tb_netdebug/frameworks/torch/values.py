"""From torch tensors to memory that the kernel can read, and from nested outputs to their tensors."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, TypeGuard

import torch

from tb_netdebug.core.stats.dtypes import DType
from tb_netdebug.recording.containers import (
    MOST_DEPTH,
    MOST_LEAVES,
    MOST_PARTS,
    PLAIN,
    Parts,
    key_text,
    parts_of,
    share_of,
)

CODES: dict[torch.dtype, int] = {
    torch.float32: DType.FLOAT32,
    torch.float64: DType.FLOAT64,
    torch.float16: DType.FLOAT16,
    torch.bfloat16: DType.BFLOAT16,
    torch.int8: DType.INT8,
    torch.uint8: DType.UINT8,
    torch.int16: DType.INT16,
    torch.int32: DType.INT32,
    torch.int64: DType.INT64,
    torch.bool: DType.BOOL,
    torch.complex64: DType.COMPLEX64,
    torch.complex128: DType.COMPLEX128,
}

is_functorch_wrapped = torch._C._functorch.is_functorch_wrapped_tensor

PLAIN_TYPES = (torch.Tensor, torch.nn.Parameter)
strided = torch.strided


class UnreadableError(Exception):
    """Says why a tensor cannot be watched; the text completes "<name> is not watched: "."""


def is_direct(tensor: torch.Tensor) -> bool:
    """Return whether the kernel can read a tensor as it is: host memory, contiguous, of a known type."""
    return (
        type(tensor) in PLAIN_TYPES
        and tensor.is_cpu
        and tensor.layout is strided
        and tensor.is_contiguous()
        and tensor.dtype in CODES
        and not tensor.is_neg()
        # A sharded parameter between two uses has given its memory back.
        and bool(tensor.data_ptr() or not tensor.numel())
    )


def plain(tensor: torch.Tensor) -> torch.Tensor:
    """Return the values as an ordinary strided tensor.

    That is the local part of a distributed tensor, the stored values of a sparse one, and a float copy of
    types that the kernel does not know. Raise UnreadableError when there are no values.
    """
    tensor = laid_out(tensor)
    if tensor.is_quantized:
        tensor = tensor.dequantize()
    if tensor.dtype not in CODES:
        tensor = as_float(tensor)
    return tensor.resolve_neg()


def laid_out(tensor: torch.Tensor) -> torch.Tensor:
    """Return a strided tensor of the same type, without a copy where the values lie in memory of their own.

    Raise UnreadableError when there are no values.
    """
    if is_opaque(tensor):  # its class would see even `detach`
        raise UnreadableError(f"a {type(tensor).__name__} does not allow its values to be read")
    tensor = tensor.detach()
    if tensor.is_nested:
        tensor = tensor.values()
    # A DTensor: each process holds a part of it.
    if hasattr(tensor, "_local_tensor"):
        tensor = tensor.to_local() if hasattr(tensor, "to_local") else tensor._local_tensor
    if is_opaque(tensor):
        raise UnreadableError(f"a {type(tensor).__name__} does not allow its values to be read")
    if tensor.is_meta:
        raise UnreadableError("it is on the meta device and has no values")
    if tensor.layout is not strided:
        tensor = stored_values(tensor)
    if tensor.numel() and tensor.untyped_storage().size() == 0:
        raise UnreadableError("its memory is freed (a sharded parameter between two uses)")
    return tensor


def is_opaque(tensor: torch.Tensor) -> bool:
    """Return whether the class handles operations itself and keeps its values in no known place."""
    if type(tensor) in PLAIN_TYPES or type(tensor).__torch_dispatch__ is torch.Tensor.__torch_dispatch__:
        return False
    return not (tensor.is_nested or hasattr(tensor, "_local_tensor"))


def stored_values(tensor: torch.Tensor) -> torch.Tensor:
    """Return the stored values of a sparse tensor, duplicates added up; implicit zeros are not counted."""
    if tensor.layout is torch.sparse_coo:
        return tensor.coalesce().values()
    if hasattr(tensor, "values") and not tensor.is_mkldnn:
        return tensor.values()
    return tensor.to_dense()


def as_float(tensor: torch.Tensor) -> torch.Tensor:
    try:
        return tensor.to(torch.float32)
    except (RuntimeError, TypeError):
        raise UnreadableError(f"values of type {tensor.dtype} cannot be converted") from None


def is_dense(tensor: torch.Tensor) -> bool:
    """Return whether the values fill their memory without gaps or overlaps, in any order of dimensions."""
    return tensor.is_contiguous() or bool(torch.ops.aten.is_non_overlapping_and_dense(tensor))


def tensors_in(
    output: Any, name: str = "", depth: int = 0, most: int = MOST_LEAVES
) -> Iterator[tuple[str, torch.Tensor]]:
    """Yield the tensors of a nested output, each with its place in it: "", "[0]", "[hidden]", "[0][1]" …"""
    if is_tensor(output):
        yield name, output
    elif depth < MOST_DEPTH:
        parts = opened(output, min(most, MOST_PARTS))
        for place, (key, value) in enumerate(parts):
            inside = f"{name}[{key_text(key, place)}]"
            yield from tensors_in(value, inside, depth + 1, share_of(most, parts))


def is_tensor(value: Any) -> TypeGuard[torch.Tensor]:
    """Return whether a user's value is a tensor, without asking for its `__class__` as `isinstance` does."""
    return issubclass(type(value), torch.Tensor)


def opened(output: Any, most: int) -> Parts:
    """Return the first parts of an output; none if it is not to be opened."""
    if type(output) in PLAIN:
        return []
    if issubclass(type(output), torch.nn.utils.rnn.PackedSequence):
        return [("data", tuple.__getitem__(output, 0))]
    return parts_of(output, most) or []
