"""Transfers from a device to the host: sent in stream order, received once an event has passed."""

from __future__ import annotations

import threading
from collections.abc import Hashable, Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray

SMALLEST_BUFFER_BYTES = 1 << 16  # of page-locked memory


class Shipment(Protocol):
    """Bytes on their way to the host."""

    nbytes: int

    def ready(self) -> bool:
        """Return whether the bytes have arrived. Never waits."""

    def wait(self) -> None: ...

    def bytes(self) -> NDArray[np.uint8]:
        """Return the bytes of a ready shipment, valid until it is released."""

    def device_secs(self) -> float:
        """Return how long the device was busy with what was sent; 0.0 where that is unknown."""

    def release(self) -> None: ...


class Transfer(Protocol):
    """How results are sent from one kind of device."""

    def lane(self, device: torch.device) -> Hashable:
        """Return the queue of this thread's operations; results are sent in the lane that made them."""

    def obstacle(self, device: torch.device) -> str | None:
        """Return why nothing can be sent at the moment, or None."""

    def upload(self, values: Sequence[int], dtype: torch.dtype, device: torch.device) -> torch.Tensor: ...

    def mark(self, lane: Hashable) -> Any:
        """Return a mark of the lane's present time, or None where the device keeps no time."""

    def send(
        self, lane: Hashable, results: Sequence[torch.Tensor], marks: Sequence[tuple[Any, Any]]
    ) -> Shipment:
        """Send the bytes of the results, one after the other."""


class Event(Protocol):
    """The part of torch.cuda.Event that is used."""

    def record(self, stream: Any) -> None: ...
    def query(self) -> bool: ...
    def synchronize(self) -> None: ...
    def elapsed_time(self, other: Any) -> float: ...


class Runtime(Protocol):
    """The part of `torch.cuda`, and of the like `torch.xpu`, that is used."""

    def current_stream(self, device: Any) -> Any: ...
    def stream(self, stream: Any) -> AbstractContextManager[Any]: ...
    def Event(self, enable_timing: bool) -> Event: ...  # noqa: N802


def transfer_for(device: torch.device) -> Transfer:
    """Return the transfer for a device; without streams that we know, results are fetched late."""
    if device.type in ("cuda", "xpu"):
        return StreamTransfer(getattr(torch, device.type), pinned=True)
    return LateTransfer()


def _joined(results: Sequence[torch.Tensor]) -> torch.Tensor:
    if not results:  # empty tensors only: the host knows all about them
        return torch.empty(0, dtype=torch.uint8, device="cpu")
    return torch.cat([result.view(torch.uint8) for result in results])


class LateTransfer:
    """Keeps results on the device until they are read: the reading thread waits, the run does not."""

    def lane(self, device: torch.device) -> Hashable:
        return device

    def obstacle(self, device: torch.device) -> str | None:
        return None

    def upload(self, values: Sequence[int], dtype: torch.dtype, device: torch.device) -> torch.Tensor:
        return torch.tensor(values, dtype=dtype, device=device)

    def mark(self, lane: Hashable) -> None:
        return None

    def send(
        self, lane: Hashable, results: Sequence[torch.Tensor], marks: Sequence[tuple[Any, Any]]
    ) -> Shipment:
        return LateShipment(_joined(results))


class LateShipment:
    """Results that stay on the device; always ready, because reading them waits."""

    def __init__(self, payload: torch.Tensor) -> None:
        self._payload = payload
        self.nbytes = payload.numel()

    def ready(self) -> bool:
        return True

    def wait(self) -> None:
        pass

    def bytes(self) -> NDArray[np.uint8]:
        return self._payload.cpu().numpy()

    def device_secs(self) -> float:
        return 0.0

    def release(self) -> None:
        pass


class StreamTransfer:
    """Copies to page-locked memory, queued after the stream's other work; an event marks the arrival."""

    def __init__(self, runtime: Runtime, *, pinned: bool) -> None:
        self._runtime = runtime
        self._pinned = pinned
        self._free: list[torch.Tensor] = []
        self._lock = threading.Lock()

    def lane(self, device: torch.device) -> Hashable:
        stream: Hashable = self._runtime.current_stream(device)
        return stream

    def obstacle(self, device: torch.device) -> str | None:
        capturing = getattr(self._runtime, "is_current_stream_capturing", None)
        if capturing is not None and capturing():
            return "is inside the capture of a CUDA graph, which runs later, without NetDebug"
        return None

    def upload(self, values: Sequence[int], dtype: torch.dtype, device: torch.device) -> torch.Tensor:
        host = torch.tensor(values, dtype=dtype, device="cpu", pin_memory=self._pinned)
        there = torch.empty(len(values), dtype=dtype, device=device)
        torch._foreach_copy_([there], [host], non_blocking=True)
        return there

    def mark(self, lane: Hashable) -> Event:
        event = self._runtime.Event(enable_timing=True)
        event.record(lane)
        return event

    def send(
        self, lane: Hashable, results: Sequence[torch.Tensor], marks: Sequence[tuple[Any, Any]]
    ) -> Shipment:
        with self._runtime.stream(lane):
            payload = _joined(results)
            size = payload.numel()
            buffer = self._buffer(size)
            # Waits for nothing, because the buffer is page-locked.
            buffer[:size].copy_(payload, non_blocking=True)
            event = self._runtime.Event(enable_timing=False)
            event.record(lane)
        return StreamShipment(self, buffer, size, event, marks)

    def take_back(self, buffer: torch.Tensor) -> None:
        """Keep a buffer for further use: page-locking new memory makes the device pause."""
        with self._lock:
            self._free.append(buffer)

    def _buffer(self, size: int) -> torch.Tensor:
        with self._lock:
            large = [index for index, buffer in enumerate(self._free) if size <= buffer.numel()]
            if large:
                return self._free.pop(min(large, key=lambda index: self._free[index].numel()))
            # They are too small for what is sent now, so likely also for what will be sent.
            self._free.clear()
        room = max(SMALLEST_BUFFER_BYTES, 1 << (size - 1).bit_length())
        return torch.empty(room, dtype=torch.uint8, device="cpu", pin_memory=self._pinned)


class StreamShipment:
    """Results that are copied into a page-locked buffer, which `release` gives back."""

    def __init__(
        self,
        transfer: StreamTransfer,
        buffer: torch.Tensor,
        size: int,
        event: Event,
        marks: Sequence[tuple[Event, Event]],
    ) -> None:
        self._transfer = transfer
        self._buffer: torch.Tensor | None = buffer
        self._event = event
        self._marks = marks
        self.nbytes = size

    def ready(self) -> bool:
        return self._event.query()

    def wait(self) -> None:
        self._event.synchronize()

    def bytes(self) -> NDArray[np.uint8]:
        assert self._buffer is not None, "the bytes of this shipment were collected before"
        return self._buffer[: self.nbytes].numpy()

    def device_secs(self) -> float:
        return sum(start.elapsed_time(end) for start, end in self._marks) / 1000

    def release(self) -> None:
        if self._buffer is not None:
            self._transfer.take_back(self._buffer)
            self._buffer = None
