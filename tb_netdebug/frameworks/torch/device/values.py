"""Which tensors the device path can read, as which type of number, and in which stretches."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch

from tb_netdebug.frameworks.torch.device.buckets import Buckets, of_doubles, of_singles

SINGLE = frozenset({torch.float32, torch.float16, torch.bfloat16})
DOUBLE = frozenset({
    torch.float64, torch.int8, torch.uint8, torch.int16, torch.int32, torch.int64, torch.bool,
})  # fmt: skip
COMPLEX = frozenset({torch.complex64, torch.complex128})


@dataclass(frozen=True, slots=True)
class Precision:
    """The type that a tensor's values are converted to; a value takes at most `value_bytes` on the way."""

    staged: torch.dtype
    magnitude: bool
    value_bytes: int

    @property
    def bits(self) -> torch.dtype:
        return torch.int32 if self.staged == torch.float32 else torch.int64

    @property
    def buckets(self) -> Buckets:
        return of_singles() if self.staged == torch.float32 else of_doubles()


@dataclass(frozen=True, slots=True)
class ValueRange:
    """A stretch of tensor number `tensor` that fits in a chunk; for updates, with its previous values."""

    tensor: int
    views: tuple[torch.Tensor, ...]
    values: int


def widest_float(device: torch.device) -> torch.dtype:
    """Return the type in which sums are added up: Apple's devices have no float64."""
    return torch.float32 if device.type == "mps" else torch.float64


def precision_of(dtype: torch.dtype, device: torch.device) -> Precision:
    if dtype in SINGLE:
        return Precision(torch.float32, magnitude=False, value_bytes=12)
    if dtype in DOUBLE:
        return Precision(widest_float(device), magnitude=False, value_bytes=16)
    return Precision(widest_float(device), magnitude=True, value_bytes=64)


def obstacle(tensor: torch.Tensor) -> str | None:
    """Return why a tensor cannot be watched, in words that follow its name; None if it can."""
    if hasattr(tensor, "to_local"):
        return "is distributed: give its local part"
    if tensor.layout == torch.sparse_coo:
        return None if tensor.is_coalesced() else (
            "is sparse with repeated indices, and adding these up would wait for the device"
        )  # fmt: skip
    if tensor.is_nested or tensor.layout != torch.strided:
        return f"has the layout {_short(tensor.layout)}, which is not read"
    if tensor.is_meta:
        return "is on the meta device and has no values"
    if torch._C._functorch.is_functorch_wrapped_tensor(tensor):
        return "is inside a function transform (vmap, grad), where it has no values of its own"
    if tensor.numel() and not tensor.untyped_storage().nbytes():
        return "has no memory at present, as a parameter that is sharded and not gathered"
    if tensor.dtype not in SINGLE | DOUBLE | COMPLEX:
        return f"has the element type {_short(tensor.dtype)}, which is not read"
    return None


def stored(tensor: torch.Tensor) -> torch.Tensor:
    """Return the stored values: of a sparse tensor, those at its indices."""
    return tensor._values() if tensor.layout == torch.sparse_coo else tensor


def stretches(number: int, views: tuple[torch.Tensor, ...], most_values: int) -> Iterator[ValueRange]:
    """Yield views, flat where memory allows, of at most `most_values`; nothing is copied.

    All `views` have the same shape and are cut alike.
    """
    first = views[0]
    if not first.numel():
        return
    if all(is_dense(view) and view.stride() == first.stride() for view in views):
        flat = [_flat(view) for view in views]
        values = flat[0].numel()
        if values <= most_values:
            yield ValueRange(number, tuple(flat), values)
            return
        for start in range(0, values, most_values):
            length = min(most_values, values - start)
            yield ValueRange(number, tuple(view.narrow(0, start, length) for view in flat), length)
    elif first.numel() <= most_values:
        yield ValueRange(number, views, first.numel())
    else:
        yield from _halves(number, views, most_values)


def is_dense(tensor: torch.Tensor) -> bool:
    """Return whether the values lie side by side in memory, each once, in any order of dimensions."""
    if tensor.is_contiguous():
        return True
    expected = 1
    for stride, size in sorted(zip(tensor.stride(), tensor.shape, strict=True)):
        if size != 1:
            if stride != expected:
                return False
            expected *= size
    return True


def magnitude(values: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """Return the absolute values of complex numbers."""
    plain = (values.conj() if values.is_conj() else values).resolve_neg()
    real, imaginary = torch.view_as_real(plain).to(dtype).unbind(-1)
    if values.dtype == torch.complex64:  # no square of a float32 leaves the range of a double
        return (real * real).add_(imaginary * imaginary).sqrt_()
    return torch.hypot(real, imaginary).masked_fill_(torch.isnan(plain), float("nan"))


def complex_difference(now: torch.Tensor, then: torch.Tensor) -> torch.Tensor:
    """Subtract real and imaginary parts apart: torch multiplies by one first, which makes NaN of infinity."""
    parts = [torch.view_as_real(each.resolve_conj().resolve_neg()) for each in (now, then)]
    return torch.view_as_complex(parts[0] - parts[1])


def _flat(view: torch.Tensor) -> torch.Tensor:
    if view.dim() == 1:
        return view
    return view.view(-1) if view.is_contiguous() else view.as_strided((view.numel(),), (1,))


def _halves(number: int, views: tuple[torch.Tensor, ...], most_values: int) -> Iterator[ValueRange]:
    shape: Sequence[int] = views[0].shape
    dim = max(range(len(shape)), key=lambda dim: shape[dim])
    middle = shape[dim] // 2
    for start, length in ((0, middle), (middle, shape[dim] - middle)):
        yield from stretches(number, tuple(view.narrow(dim, start, length) for view in views), most_values)


def _short(name: object) -> str:
    return str(name).removeprefix("torch.")
