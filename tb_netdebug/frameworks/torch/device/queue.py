"""The queue of statistics that devices still owe: collected into parcels, sent together, received later."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Hashable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch

from tb_netdebug.frameworks.torch.device.chunks import Edges
from tb_netdebug.frameworks.torch.device.results import Collected, Part, read_parcel
from tb_netdebug.frameworks.torch.device.transfer import Shipment, Transfer
from tb_netdebug.frameworks.torch.device.values import Precision

Results = list[tuple[Part, list[torch.Tensor]]]


@dataclass(slots=True)
class DeviceCost:
    """Totals since the start; `host_secs` is the time that the run's threads took to queue the work."""

    host_secs: float = 0.0
    device_secs: float = 0.0
    parcels: int = 0
    sent_bytes: int = 0
    refused: int = 0
    lost_parcels: int = 0
    last_loss: str = ""


@dataclass(slots=True)
class Parcel:
    """Results that travel together in one transfer, and what they mean."""

    transfer: Transfer
    lane: Hashable
    parts: list[Part] = field(default_factory=list)
    results: list[torch.Tensor] = field(default_factory=list)
    nbytes: int = 0
    marks: list[tuple[Any, Any]] = field(default_factory=list)

    def add(self, results: Results) -> None:
        for part, tensors in results:
            self.parts.append(part)
            self.results += tensors
            self.nbytes += sum(tensor.nbytes for tensor in tensors)


@dataclass(frozen=True, slots=True)
class SentParcel:
    """A parcel on its way to the host; `DeviceSummaries.collect` reads it once it has arrived."""

    parts: list[Part]
    shipment: Shipment


class DeviceQueue:
    """Keeps one open parcel for each lane (stream), and the parcels that were sent but not collected."""

    def __init__(
        self, *, parcel_bytes: int, pending_bytes: int, transfer: Callable[[torch.device], Transfer]
    ) -> None:
        self.cost = DeviceCost()
        self.parcel_bytes = parcel_bytes
        self._most_pending_bytes = pending_bytes
        self._new_transfer = transfer
        self._transfers: dict[str, Transfer] = {}
        self._edges: dict[tuple[Hashable, torch.dtype], torch.Tensor] = {}
        self._open: dict[Hashable, Parcel] = {}
        self._sent: list[SentParcel] = []
        # Hooks also run on autograd's threads.
        self._lock = threading.RLock()

    def put(self, device: torch.device, work: Callable[[Edges], Results]) -> str | None:
        """Let `work` queue operations on the device. Return a reason if that was not possible."""
        began = time.perf_counter()
        with self._lock, quiet(device):
            reason = self._put(device, work)
        self.cost.host_secs += time.perf_counter() - began
        self.cost.refused += reason is not None
        return reason

    def _put(self, device: torch.device, work: Callable[[Edges], Results]) -> str | None:
        transfer = self._transfer(device)
        if reason := transfer.obstacle(device) or self._backlog():
            return reason
        lane = transfer.lane(device)
        parcel = self._open.setdefault(lane, Parcel(transfer, lane))
        try:
            start = transfer.mark(lane)
            parcel.add(work(lambda precision: self._edges_for(transfer, lane, device, precision)))
            if start is not None:
                parcel.marks.append((start, transfer.mark(lane)))
            if parcel.nbytes >= self.parcel_bytes:
                self._send(lane)
        except RuntimeError as error:  # out of memory, or an operation that the device does not know
            return f"could not be read on {device}: {_first_line(error)}"
        return None

    def _transfer(self, device: torch.device) -> Transfer:
        if device.type not in self._transfers:
            self._transfers[device.type] = self._new_transfer(device)
        return self._transfers[device.type]

    def _edges_for(
        self, transfer: Transfer, lane: Hashable, device: torch.device, precision: Precision
    ) -> torch.Tensor:
        """Return a table of the lane's own: another lane could read a shared one before it has arrived."""
        key = lane, precision.staged
        if key not in self._edges:
            self._edges[key] = transfer.upload(precision.buckets.edges, precision.bits, device)
        return self._edges[key]

    def _backlog(self) -> str | None:
        pending = self.pending_bytes
        if pending < self._most_pending_bytes:
            return None
        return f"was left out: {pending >> 20} MiB of earlier results have not arrived yet"

    @property
    def pending_bytes(self) -> int:
        """The bytes that were sent and have not been collected."""
        return sum(sent.shipment.nbytes for sent in self._sent)

    def flush(self) -> None:
        """Send all open parcels."""
        with self._lock:
            for lane in list(self._open):
                self._send(lane)

    def _send(self, lane: Hashable) -> None:
        parcel = self._open.pop(lane)
        if not parcel.parts:
            return
        try:
            with torch.inference_mode():
                shipment = parcel.transfer.send(lane, parcel.results, parcel.marks)
        except RuntimeError as error:  # out of memory on either side; the run goes on
            self.cost.lost_parcels += 1
            self.cost.last_loss = _first_line(error)
            return
        self._sent.append(SentParcel(parcel.parts, shipment))
        self.cost.parcels += 1
        self.cost.sent_bytes += shipment.nbytes

    def finished(self) -> list[SentParcel]:
        """Return the parcels that have arrived, each once, in the order in which they were sent."""
        with self._lock:
            arrived = [sent.shipment.ready() for sent in self._sent]
            pairs = list(zip(arrived, self._sent, strict=True))
            self._sent = [sent for ready, sent in pairs if not ready]
        return [sent for ready, sent in pairs if ready]

    def collect(self, sent: SentParcel) -> Collected:
        """Read an arrived parcel and give its buffer back. May run on any thread."""
        try:
            collected = read_parcel(sent.parts, sent.shipment.bytes())
            collected.device_secs = sent.shipment.device_secs()
        finally:
            sent.shipment.release()
        self.cost.device_secs += collected.device_secs
        return collected

    def wait(self) -> list[SentParcel]:
        """Wait for everything that was sent, and return it."""
        with self._lock:
            sent, self._sent = self._sent, []
        for one in sent:
            one.shipment.wait()
        return sent


def _first_line(error: RuntimeError) -> str:
    return (str(error) or type(error).__name__).splitlines()[0]


def plain_tensors() -> AbstractContextManager[None]:
    """Return a context in which tensor subclasses do not see our operations."""
    context: AbstractContextManager[None] = torch._C.DisableTorchFunctionSubclass()
    return context


@contextmanager
def quiet(device: torch.device) -> Iterator[None]:
    """Run without a graph and without autocast."""
    with torch.inference_mode():
        if not torch.is_autocast_enabled(device.type):
            yield
            return
        with torch.autocast(device.type, enabled=False):
            yield
