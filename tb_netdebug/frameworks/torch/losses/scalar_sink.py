"""Where the probes put their numbers: those on the host at once, those on a device when they arrive."""

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


class ScalarSink:
    """Puts scalars into the current step, on the thread that ends it."""

    def __init__(self, collector: StepCollector, reader: TensorReader) -> None:
        self._collector = collector
        self._reader = reader
        self._thread = thread()

    def end_step(self) -> None:
        self._thread = thread()  # a run may move to another thread

    def is_here(self) -> bool:
        """Return whether this is the thread of the run."""
        return thread() == self._thread

    def put(self, name: str, value: Tensor | float) -> None:
        """Record a number or a one-element tensor. What a device refuses is left out."""
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
        """Return whether the step has the scalar already, or will have it."""
        return name in self._collector.scalars or name in self._collector.awaited

    def reads(self, tensor: Tensor) -> bool:
        """Return whether the value of a tensor can be read without waiting."""
        return self._reader.is_on_host(tensor)


@contextmanager
def measuring(device: torch.device) -> Iterator[None]:
    """Measure without a graph, without autocast, and without calling overrides of torch's functions."""
    with torch._C.DisableTorchFunction(), quiet(device):
        yield


def is_recorded(device: torch.device) -> bool:
    """Return whether a CUDA graph is being captured, which would repeat all that is done now."""
    return device.type == "cuda" and torch.cuda.is_current_stream_capturing()
