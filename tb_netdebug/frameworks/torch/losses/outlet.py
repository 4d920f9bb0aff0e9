"""Where probes put what they have measured: numbers at once, those on a device when they arrive."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import torch
from torch import Tensor

from tb_netdebug.frameworks.torch.device.queue import quiet
from tb_netdebug.frameworks.torch.reader import TensorReader
from tb_netdebug.recording.collector import StepCollector

thread = threading.get_ident


class Outlet:
    """Scalars of the step that is going on, on the thread that ends it."""

    def __init__(self, collector: StepCollector, reader: TensorReader) -> None:
        self._collector = collector
        self._reader = reader
        self._thread = thread()

    def end_step(self) -> None:
        self._thread = thread()

    def is_here(self) -> bool:
        """Whether this is the thread on which the training runs."""
        return thread() == self._thread

    def put(self, name: str, value: Tensor | float) -> None:
        """A number, or a tensor of one value. What a device does not take is left out."""
        if not isinstance(value, Tensor):
            self._collector.scalars[name] = value
        elif self._reader.is_on_host(value):
            self._collector.scalars[name] = float(value)
        else:
            self._reader.uses_device = True
            if self._reader.device.scalar(value, (self._collector.step, name)) is None:
                self._collector.awaited.add(name)

    def put_all(self, prefix: str, values: Mapping[str, Tensor | float]) -> None:
        for name, value in values.items():
            self.put(prefix + name, value)

    def has(self, name: str) -> bool:
        """Whether this step has it already."""
        return name in self._collector.scalars or name in self._collector.awaited

    def reads(self, tensor: Tensor) -> bool:
        """Whether its value can be had now."""
        return self._reader.is_on_host(tensor)


@contextmanager
def measuring(device: torch.device) -> Iterator[None]:
    """No graph, no automatic casts, and nobody who has overridden torch's functions is asked."""
    with torch._C.DisableTorchFunction(), quiet(device):
        yield


def is_recorded(device: torch.device) -> bool:
    """Whether all that is done now becomes part of a CUDA graph, and would be repeated with it."""
    return device.type == "cuda" and torch.cuda.is_current_stream_capturing()
