"""Reads tensors for the recorder: in host memory with the kernel, elsewhere on their device."""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import torch
from torch import Tensor

from tb_netdebug.core.records.step import Series, Units
from tb_netdebug.core.stats import kernel
from tb_netdebug.frameworks.torch import units
from tb_netdebug.frameworks.torch.device.summaries import DeviceSummaries
from tb_netdebug.frameworks.torch.device.units import UnitRange
from tb_netdebug.frameworks.torch.interception import OVERRIDING
from tb_netdebug.frameworks.torch.values import (
    CODES,
    UnreadableError,
    is_dense,
    is_direct,
    is_functorch_wrapped,
    plain,
    strided,
)
from tb_netdebug.recording.collector import StepCollector
from tb_netdebug.recording.containers import is_closed

Item = tuple[int, int, int]
R = TypeVar("R")

# Used in place of an optimizer's id: there is no torch optimizer, or it skipped its step despite gradients.
NO_OPTIMIZER = 0
SKIPPED = -1

# The packed summary's head: counts of values, NaN, +inf and -inf, and, last, the sum of squares.
_HEADER = struct.Struct("<6Q4d")


def host_item(tensor: torch.Tensor) -> Item:
    """Return a tensor as the kernel takes it. It has to be dense or `is_direct`."""
    return tensor.data_ptr(), tensor.numel(), CODES[tensor.dtype]


class TensorReader:
    """Turns tensors into samples of the collector, and reports through `refuse` what it cannot read.

    Tensors outside of host memory go to `device`, under keys that begin with the number of the step; their
    samples arrive steps later.
    """

    def __init__(self, collector: StepCollector, refuse: Callable[[str, str], None]) -> None:
        self._collector = collector
        self._refuse = refuse
        self.device = DeviceSummaries()
        self.uses_device = False
        self.host_kinds = {"cpu"}
        """What the kernel reads; without "cpu", host memory takes the device path (for tests)."""
        # What is needed to finish results that are on their way, by (step, what was measured).
        self.unit_counts: dict[tuple[int, object], int] = {}
        self.host_squares: dict[tuple[int, object], tuple[float, int]] = {}
        # Of optimizers whose gradients are all on the host, for the norm of a step that has others.
        self.whole_squares: dict[tuple[int, tuple[int, int]], tuple[float, int]] = {}
        self._layouts: dict[int, Layout] = {}  # by id of the series
        self._looks = 0

    def sample(self, named: Sequence[tuple[Series, torch.Tensor]]) -> list[bytes]:
        """Sample many tensors in one kernel call. Return the summaries of those in host memory."""
        items: list[Item] = []
        series: list[Series] = []
        elsewhere: list[tuple[Series, torch.Tensor]] = []
        kept: list[torch.Tensor] = []  # copies must live until the kernel has read them
        reads_host = "cpu" in self.host_kinds
        for which, given in named:
            if reads_host and is_direct(given):
                items.append(host_item(given))
                series.append(which)
                continue
            if not OVERRIDING.exist and OVERRIDING.appear_in((given,)):
                return self._unseen(self.sample, named)
            tensor = self.readable(which.name, given)
            if tensor is None:
                continue
            if not self.is_on_host(tensor):
                elsewhere.append((which, tensor))
                continue
            items.append(host_item(tensor))
            series.append(which)
            kept.append(tensor)
        summaries = kernel.summarize(items, torch.get_num_threads())
        for which, summary in zip(series, summaries, strict=True):
            self._collector.sample(which, summary)
        if elsewhere:
            self._send(elsewhere)
        return summaries

    def activation(self, series: Series, output: torch.Tensor, module: torch.nn.Module) -> None:
        """Sample one output of a module, with the activity of its units."""
        if is_functorch_wrapped(output):
            self._refuse(series.name, "inside a torch.func transform its values cannot be read")
            return
        if output.is_nested:
            output = output.detach().values()
        tensor = self.readable(series.name, output)
        if tensor is None:
            return
        if not self.is_on_host(tensor):
            self._send([(series, tensor)], [self._unit_range(series, tensor, module)])
            return
        layout = self._layouts.get(id(series))
        if layout is None or not layout.is_of(tensor, module):
            layout = self._layouts[id(series)] = Layout(series, tensor, module)
        address = tensor.data_ptr()
        (summary,) = kernel.summarize([(address, layout.count, layout.code)], torch.get_num_threads())
        self._collector.sample(series, summary, layout.active_units(address))

    def squares(self, tensors: Sequence[torch.Tensor], key: int) -> tuple[float, int] | None:
        """Return the sum of squares of finite values and the count of the others; None if they come later.

        `key` is the id of the optimizer whose gradients they are, or NO_OPTIMIZER or SKIPPED. If a step
        measures them twice, the second measurement counts.
        """
        items: list[Item] = []
        elsewhere: list[torch.Tensor] = []
        reads_host = "cpu" in self.host_kinds
        kept: list[torch.Tensor] = []
        for given in tensors:
            # The common case is spelled out: this loop runs in every step.
            if type(given) is Tensor and given.is_cpu and given.layout is strided and given.is_contiguous():
                address, code = given.data_ptr(), CODES.get(given.dtype)
                if address and code is not None and reads_host:
                    items.append((address, given.numel(), code))
                    continue
            if not OVERRIDING.exist and OVERRIDING.appear_in((given,)):
                return self._unseen(self.squares, tensors, key)
            tensor = self.readable("a gradient", given)
            if tensor is None:
                continue
            if self.is_on_host(tensor):
                items.append(host_item(tensor))
                kept.append(tensor)
            else:
                elsewhere.append(tensor)
        squares = kernel.sum_squares(items, torch.get_num_threads())
        if not elsewhere:
            return squares
        self.uses_device = True
        # The number tells two measurements of the same gradients in one step apart.
        self._looks += 1
        place = (self._collector.step, (key, self._looks))
        self.host_squares[place] = squares
        for refusal in self.device.sum_squares(elsewhere, place):
            self._refuse("a gradient", f"it {refusal.reason}")
        return None

    def put_beside(self, squares: tuple[float, int], key: int) -> None:
        """Keep squares that are known for the norm of a step whose other part is still on a device."""
        self._looks += 1
        self.whole_squares[self._collector.step, (key, self._looks)] = squares

    def forget(self, step: int) -> None:
        """Drop what is needed for results of this step and of those before it."""
        kept: dict[tuple[int, object], object]
        for kept in (self.unit_counts, self.host_squares, self.whole_squares):  # type: ignore[assignment]  # any value
            for key in [key for key in kept if key[0] <= step]:
                del kept[key]

    def _unseen(self, look: Callable[..., R], *args: Any) -> R:
        """Look once more, where a class that overrides functions has just been found."""
        with torch._C.DisableTorchFunction():
            return look(*args)

    def is_bad_on_host(self, tensor: torch.Tensor) -> bool:
        """Return whether host memory holds a non-finite value; what takes longer to read counts as finite."""
        # Called in ordinary steps, so spelled out as in `squares`. Channels-last memory is dense, too.
        if type(tensor) is Tensor and tensor.is_cpu and tensor.layout is strided and is_dense(tensor):
            address, code = tensor.data_ptr(), CODES.get(tensor.dtype)
            if address and code is not None and "cpu" in self.host_kinds:
                return kernel.sum_squares([(address, tensor.numel(), code)], 1)[1] > 0
        return False

    def readable(self, name: str, tensor: torch.Tensor) -> torch.Tensor | None:
        """Return the tensor, or its values as an ordinary dense one; None if it cannot be watched."""
        if is_direct(tensor):
            return tensor
        try:
            values = plain(tensor)
            return values if is_dense(values) else values.contiguous()
        except UnreadableError as error:
            self._refuse(name, str(error))
            return None

    def refuse_closed(self, name: str, value: Any) -> None:
        """Report a collection that cannot be opened without running its own code."""
        if is_closed(value):
            self._refuse(name, f"a {type(value).__name__} can only be opened by its own code")

    def is_on_host(self, tensor: torch.Tensor) -> bool:
        return tensor.is_cpu and "cpu" in self.host_kinds

    def _unit_range(self, series: Series, tensor: torch.Tensor, module: torch.nn.Module) -> UnitRange | None:
        dim = units.unit_dim(module, tensor)
        if dim is None:
            return None
        self.unit_counts[self._collector.step, series] = tensor.shape[dim]
        return UnitRange(dim, *units.band(module))

    def _send(
        self, named: Sequence[tuple[Series, torch.Tensor]], units: list[UnitRange | None] | None = None
    ) -> None:
        self.uses_device = True
        keys = [(self._collector.step, series) for series, _ in named]
        for refusal in self.device.summarize([tensor for _, tensor in named], keys, units=units):
            self._refuse(named[refusal.number][0].name, f"it {refusal.reason}")


class Layout:
    """What the kernel needs to know of an output besides its address; it rarely changes for a layer."""

    __slots__ = ("_band", "_shape", "_strides", "_type", "_units", "code", "count", "series")

    def __init__(self, series: Series, tensor: torch.Tensor, module: torch.nn.Module) -> None:
        self.series = series  # kept alive: the cache keys on its id
        self._shape, self._strides, self._type = tensor.shape, tensor.stride(), tensor.dtype
        self._band = units.band(module)
        self.count, self.code = tensor.numel(), CODES[tensor.dtype]
        dim = units.unit_dim(module, tensor)
        self._units = None if dim is None or not self.count else units.blocks(tensor, dim)

    def is_of(self, tensor: torch.Tensor, module: torch.nn.Module) -> bool:
        """Return whether the layout still holds; a module's band may have been changed, too."""
        return (
            tensor.dtype is self._type
            and tensor.shape == self._shape
            and tensor.stride() == self._strides
            and units.band(module) == self._band
        )

    def active_units(self, address: int) -> Units | None:
        if self._units is None:
            return None
        outer, units, inner = self._units
        return Units(units, kernel.active_units(address, self.code, outer, units, inner, *self._band))


def squares_of(summaries: Sequence[bytes]) -> tuple[float, int]:
    """Return what `TensorReader.squares` returns, taken from summaries that exist already."""
    total, others = 0.0, 0
    for summary in summaries:
        _, nan, pos_inf, neg_inf, _, _, _, _, _, squares = _HEADER.unpack_from(summary)
        total += squares
        others += nan + pos_inf + neg_inf
    return total, others
