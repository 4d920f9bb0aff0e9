"""From torch tensors to the addresses that the kernel reads."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass
from typing import Any

import torch

from tb_netdebug.stats.dtypes import DType

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

# An output may be nested, but a structure deeper or wider than this is data, not activations.
MOST_DEPTH = 4
MOST_TENSORS = 32


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
    tensor = tensor.detach()
    if tensor.is_nested:
        tensor = tensor.values()
    if hasattr(tensor, "_local_tensor"):
        tensor = tensor.to_local() if hasattr(tensor, "to_local") else tensor._local_tensor
    if (
        type(tensor) not in PLAIN_TYPES
        and type(tensor).__torch_dispatch__ is not torch.Tensor.__torch_dispatch__
    ):
        raise UnreadableError(f"a {type(tensor).__name__} does not let its values be read")
    if tensor.is_meta:
        raise UnreadableError("it is on the meta device and has no values")
    if tensor.layout is not strided:
        tensor = stored_values(tensor)
    if tensor.numel() and tensor.untyped_storage().size() == 0:
        raise UnreadableError("its memory has been given back (a sharded parameter between two uses)")
    return tensor


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


def tensors_in(output: Any, name: str = "", depth: int = 0) -> Iterator[tuple[str, torch.Tensor]]:
    """The tensors of a nested output, each with its place in it: "", "[0]", "[hidden]", "[0][1]" …"""
    if isinstance(output, torch.Tensor):
        yield name, output
    elif depth < MOST_DEPTH:
        for key, value in parts_of(output):
            yield from tensors_in(value, f"{name}[{key}]", depth + 1)


def parts_of(output: Any) -> list[tuple[Any, Any]]:
    if isinstance(output, torch.nn.utils.rnn.PackedSequence):
        return [("data", output.data)]
    if isinstance(output, list | tuple):
        return list(enumerate(output[:MOST_TENSORS]))
    if isinstance(output, Mapping):
        return list(output.items())[:MOST_TENSORS]
    if is_dataclass(output) and not isinstance(output, type):
        return [(field.name, getattr(output, field.name, None)) for field in fields(output)][:MOST_TENSORS]
    return []
