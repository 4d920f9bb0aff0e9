"""From torch tensors to the addresses that the kernel reads."""

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
    """Why a tensor cannot be watched; the text completes "<name> is not watched: "."""


def is_direct(tensor: torch.Tensor) -> bool:
    """True when the kernel can read the tensor as it is: in host memory, contiguous, of a type it knows."""
    return (
        type(tensor) in PLAIN_TYPES
        and tensor.is_cpu
        and tensor.layout is strided
        and tensor.is_contiguous()
        and tensor.dtype in CODES
        and not tensor.is_neg()
        and bool(tensor.data_ptr() or not tensor.numel())
    )


def plain(tensor: torch.Tensor) -> torch.Tensor:
    """The values as an ordinary strided tensor.

    That is the local part of a distributed one, the stored values of a sparse one, a float copy of types that
    the kernel does not know. Raises UnreadableError when there are none.
    """
    tensor = laid_out(tensor)
    if tensor.is_quantized:
        tensor = tensor.dequantize()
    if tensor.dtype not in CODES:
        tensor = as_float(tensor)
    return tensor.resolve_neg()


def laid_out(tensor: torch.Tensor) -> torch.Tensor:
    """The same without a copy of values that have a place of their own: strided, of whatever type."""
    if is_opaque(tensor):  # even `detach` would be told to its class
        raise UnreadableError(f"a {type(tensor).__name__} does not let its values be read")
    tensor = tensor.detach()
    if tensor.is_nested:
        tensor = tensor.values()
    if hasattr(tensor, "_local_tensor"):
        tensor = tensor.to_local() if hasattr(tensor, "to_local") else tensor._local_tensor
    if is_opaque(tensor):
        raise UnreadableError(f"a {type(tensor).__name__} does not let its values be read")
    if tensor.is_meta:
        raise UnreadableError("it is on the meta device and has no values")
    if tensor.layout is not strided:
        tensor = stored_values(tensor)
    if tensor.numel() and tensor.untyped_storage().size() == 0:
        raise UnreadableError("its memory has been given back (a sharded parameter between two uses)")
    return tensor


def is_opaque(tensor: torch.Tensor) -> bool:
    """Whether its class handles operations itself, and the values are not in a place that is known."""
    if type(tensor) in PLAIN_TYPES or type(tensor).__torch_dispatch__ is torch.Tensor.__torch_dispatch__:
        return False
    return not (tensor.is_nested or hasattr(tensor, "_local_tensor"))


def stored_values(tensor: torch.Tensor) -> torch.Tensor:
    """The values of a sparse tensor, duplicates added up; what it does not store is not counted."""
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
    """Whether the values fill their memory without gaps or overlaps, in whatever order of dimensions."""
    return tensor.is_contiguous() or bool(torch.ops.aten.is_non_overlapping_and_dense(tensor))


def tensors_in(
    output: Any, name: str = "", depth: int = 0, most: int = MOST_LEAVES
) -> Iterator[tuple[str, torch.Tensor]]:
    """The tensors of a nested output, each with its place in it: "", "[0]", "[hidden]", "[0][1]" …"""
    if is_tensor(output):
        yield name, output
    elif depth < MOST_DEPTH:
        parts = opened(output, min(most, MOST_PARTS))
        for place, (key, value) in enumerate(parts):
            inside = f"{name}[{key_text(key, place)}]"
            yield from tensors_in(value, inside, depth + 1, share_of(most, parts))


def is_tensor(value: Any) -> TypeGuard[torch.Tensor]:
    """Return whether a value of the user's is a tensor; `isinstance` asks a value for its `__class__`."""
    return issubclass(type(value), torch.Tensor)


def opened(output: Any, most: int) -> Parts:
    """Return the first parts of an output; none of a value that is not opened."""
    if type(output) in PLAIN:
        return []
    if issubclass(type(output), torch.nn.utils.rnn.PackedSequence):
        return [("data", tuple.__getitem__(output, 0))]
    return parts_of(output, most) or []
