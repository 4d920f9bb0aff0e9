"""Reads tensors where they are: statistics in one pass, values only as far as they are asked for."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from tb_netdebug.core.stats import kernel
from tb_netdebug.core.stats.packed import Summary
from tb_netdebug.debugger.workbench import Index, Readable, TensorEntry, WorkbenchError
from tb_netdebug.frameworks.torch.host_arrays import values_over
from tb_netdebug.frameworks.torch.reader import host_item
from tb_netdebug.frameworks.torch.stepping.quiet import reading
from tb_netdebug.frameworks.torch.values import (
    CODES,
    UnreadableError,
    is_dense,
    is_direct,
    is_functorch_wrapped,
    laid_out,
    plain,
)

# Values that must be converted or fetched from a device are copied in pieces of this size.
PIECE = 1 << 18
# A sparse tensor with at most so many values is made dense for reading.
MOST_WRITTEN_OUT = 1 << 20
# The kernel reads views with up to so many dimensions.
MOST_DIMENSIONS = 32


class TensorReadable:
    """One tensor for the debugger to read (see `workbench.Readable`)."""

    def __init__(
        self, entry: TensorEntry, tensor: Tensor, *, before: Callable[[], Readable | None] | None = None
    ) -> None:
        self.entry = entry
        self._tensor = tensor
        self._before = before

    def summary(self) -> Summary:
        with reading():
            try:
                return Summary.unpack(packed(self._tensor))
            except (UnreadableError, RuntimeError) as error:
                raise unreadable(self.entry, error) from error

    def part(self, index: Index) -> NDArray[Any]:
        with reading():
            try:
                return numpy_of(indexable(self._tensor)[index])
            except (IndexError, ValueError, TypeError) as error:
                raise WorkbenchError(f"{self.entry.name} has no such part: {error}") from error
            except (UnreadableError, RuntimeError) as error:
                raise unreadable(self.entry, error) from error

    def previous(self) -> Readable | None:
        return None if self._before is None else self._before()


class DifferenceReadable:
    """The difference of a tensor's values now and then; it is never held as a whole."""

    def __init__(
        self,
        entry: TensorEntry,
        now: TensorReadable,
        then: TensorReadable,
        *,
        before: Callable[[], Readable | None],
    ) -> None:
        self.entry = entry
        self._now = now
        self._then = then
        self._before = before

    def summary(self) -> Summary:
        with reading():
            try:
                found = [packed(piece) for piece in self.pieces()]
            except (UnreadableError, RuntimeError) as error:
                raise unreadable(self.entry, error) from error
            return Summary.unpack(kernel.merge(found))

    def pieces(self) -> Iterator[Tensor]:
        """Yield the difference in pieces, in order. Read each within `reading`."""
        yield from differences(self._now._tensor, self._then._tensor)

    def part(self, index: Index) -> NDArray[Any]:
        now, then = self._now.part(index), self._then.part(index)
        with np.errstate(all="ignore"):
            return np.asarray(np.subtract(now, then))

    def previous(self) -> Readable | None:
        return self._before()


def entry_of(kind: str, of: str, tensor: Tensor, *, module: str | None) -> TensorEntry:
    """Return the entry that describes a tensor, with the shape in which its values are read."""
    shown = tensor
    if hasattr(tensor, "_local_tensor") or tensor.is_nested:
        with reading(), suppress(UnreadableError):  # the error is reported when somebody reads it
            shown = laid_out(tensor)
    return TensorEntry(
        f"{kind}:{of}",
        kind,
        of,
        tuple(int(size) for size in shown.shape),
        str(shown.dtype).removeprefix("torch."),
        str(shown.device),
        shown.numel() * shown.element_size(),
        module,
    )


def packed(tensor: Tensor) -> bytes:
    """Return the packed summary. Only what the kernel cannot read is copied, piece by piece."""
    if is_functorch_wrapped(tensor):
        raise UnreadableError("inside a torch.func transform its values cannot be read")
    if not is_direct(tensor):
        tensor = laid_out(tensor)
    if tensor.is_cpu and tensor.dtype in CODES and not tensor.is_neg():
        if is_dense(tensor):
            return kernel.summarize([host_item(tensor)], torch.get_num_threads())[0]
        if tensor.dim() <= MOST_DIMENSIONS:
            address, _, code = host_item(tensor)
            return kernel.summarize_strided(address, code, tuple(tensor.shape), tensor.stride())
    threads = torch.get_num_threads()
    found = []
    for piece in pieces(tensor):
        values = plain(piece.cpu()).contiguous()
        found += kernel.summarize([host_item(values)], threads)
    return kernel.merge(found)


def pieces(tensor: Tensor) -> Iterator[Tensor]:
    """Yield views of the tensor, cut along its longest dimension."""
    if tensor.numel() <= PIECE:
        yield tensor
        return
    sizes = list(tensor.shape)
    dim = sizes.index(max(sizes))
    for part in tensor.split(max(1, PIECE * sizes[dim] // tensor.numel()), dim):
        if part.numel() < tensor.numel():
            yield from pieces(part)
        else:
            yield part


def differences(now: Tensor, then: Tensor) -> Iterator[Tensor]:
    """Yield `now - then` in pieces, in host memory and in floating point."""
    for one, other in zip(pieces(laid_out(now)), pieces(laid_out(then)), strict=True):
        yield widened(one) - widened(other)


def widened(piece: Tensor) -> Tensor:
    """Return a piece in host memory, in a type wide enough for a difference."""
    values = plain(piece.cpu())
    if values.dtype in (torch.float32, torch.float64, torch.complex64, torch.complex128):
        return values
    return values.to(torch.float32 if values.is_floating_point() else torch.float64)


def indexable(tensor: Tensor) -> Tensor:
    """Return the tensor with the dimensions of its entry."""
    if is_functorch_wrapped(tensor):
        raise UnreadableError("inside a torch.func transform its values cannot be read")
    is_sparse = tensor.layout is not torch.strided and not tensor.is_nested
    if not is_sparse:
        return laid_out(tensor)
    if tensor.numel() > MOST_WRITTEN_OUT:
        raise UnreadableError("it is sparse and too big to be made dense; its statistics can be read")
    return tensor.detach().to_dense()


def numpy_of(chosen: Tensor) -> NDArray[Any]:
    """Return a NumPy copy, as float32 for types that NumPy lacks."""
    values = plain(chosen.cpu()).resolve_conj()
    if values.dtype is torch.bfloat16:
        values = values.to(torch.float32)
    return np.array(values_over(values), order="C")


def unreadable(entry: TensorEntry, error: Exception) -> WorkbenchError:
    return WorkbenchError(f"{entry.name} cannot be read: {error}")
