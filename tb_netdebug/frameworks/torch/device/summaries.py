"""Statistics of tensors on an accelerator: computed there, sent without waiting, received steps later."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import torch

from tb_netdebug.frameworks.torch.device.chunks import ROW, Edges, chunks_of, summarize
from tb_netdebug.frameworks.torch.device.queue import (
    DeviceCost,
    DeviceQueue,
    Results,
    SentParcel,
    plain_tensors,
)
from tb_netdebug.frameworks.torch.device.results import (
    Chunk,
    Collected,
    GroupPart,
    NormsPart,
    ScalarPart,
    SumSquares,
    UnitsPart,
)
from tb_netdebug.frameworks.torch.device.transfer import Transfer, transfer_for
from tb_netdebug.frameworks.torch.device.units import UnitRange, active_units
from tb_netdebug.frameworks.torch.device.values import (
    Precision,
    ValueRange,
    obstacle,
    precision_of,
    stored,
    stretches,
    widest_float,
)

__all__ = [
    "Collected",
    "DeviceCost",
    "DeviceSummaries",
    "SentParcel",
    "SkippedTensor",
    "SumSquares",
    "UnitRange",
]

ROOM_BYTES = 64 << 20  # on the device, at a time
PENDING_BYTES = 128 << 20  # sent and not yet collected


@dataclass(frozen=True, slots=True)
class SkippedTensor:
    """Tensor `number` of a list, under `key`, is not watched; `reason` is text that follows its name."""

    number: int
    key: object
    reason: str


@dataclass(frozen=True, slots=True)
class Item:
    """A tensor to summarize; for updates it has two keys and, in `views`, the previous values."""

    number: int
    keys: tuple[object, ...]
    views: tuple[torch.Tensor, ...]
    units: UnitRange | None = None

    def refusal(self, reason: str) -> SkippedTensor:
        return SkippedTensor(self.number, self.keys[0], reason)


class DeviceSummaries:
    """Queues statistics of tensors on their device and returns those that have arrived.

    Calls that take tensors never wait for the device, and keep neither a tensor nor its graph alive. Their
    results describe the values at the time of the call, in stream order. `flush` sends what was requested
    since the last one; call it at the end of a step. `ready` polls. `finished` and `collect` do the same in
    two parts, so that the second, the NumPy work, may run on another thread. `room_bytes` bounds the device
    memory that is in use at a time. While `pending_bytes` are on their way, new work is refused.
    """

    def __init__(
        self,
        *,
        room_bytes: int = ROOM_BYTES,
        pending_bytes: int = PENDING_BYTES,
        transfer: Callable[[torch.device], Transfer] = transfer_for,
    ) -> None:
        self._chunk_bytes = room_bytes // 2
        self._queue = DeviceQueue(
            parcel_bytes=room_bytes // 8, pending_bytes=pending_bytes, transfer=transfer
        )

    @property
    def cost(self) -> DeviceCost:
        return self._queue.cost

    @property
    def pending_bytes(self) -> int:
        return self._queue.pending_bytes

    def summarize(
        self,
        tensors: Sequence[torch.Tensor],
        keys: Sequence[object],
        *,
        units: Sequence[UnitRange | None] | None = None,
    ) -> list[SkippedTensor]:
        """Summarize each tensor and, where `units` asks for it, find which of its units were active."""
        given = zip(tensors, keys, units or [None] * len(tensors), strict=True)
        return self._summarize([
            Item(number, (key,), (tensor,), wanted) for number, (tensor, key, wanted) in enumerate(given)
        ])  # fmt: skip

    def summarize_updates(
        self,
        tensors: Sequence[torch.Tensor],
        previous: Sequence[torch.Tensor],
        keys: Sequence[tuple[object, object]],
    ) -> list[SkippedTensor]:
        """Summarize each tensor, and what was added to its previous values, which then become equal to it.

        `previous` comes from `snapshot`. Of a tensor's two keys, the second is that of the update.
        """
        given = zip(tensors, previous, keys, strict=True)
        return self._summarize([
            Item(number, pair, (tensor, before)) for number, (tensor, before, pair) in enumerate(given)
        ])  # fmt: skip

    def snapshot(self, tensors: Sequence[torch.Tensor]) -> list[torch.Tensor]:
        """Return copies for `summarize_updates`, on the same devices and in the same layout."""
        with plain_tensors(), torch.inference_mode():
            return [torch.clone(tensor) for tensor in tensors]

    def sum_squares(self, tensors: Sequence[torch.Tensor], key: object) -> list[SkippedTensor]:
        """Compute the norm of each tensor, cheap enough for every step; they give one sum for each device."""
        refusals: list[SkippedTensor] = []
        by_device: dict[torch.device, list[torch.Tensor]] = {}
        with plain_tensors():
            for number, tensor in enumerate(tensors):
                whole = not (tensor.is_floating_point() or tensor.is_complex())
                if reason := obstacle(tensor) or ("holds integers" if whole else None):
                    refusals.append(SkippedTensor(number, key, reason))
                elif tensor.numel():
                    by_device.setdefault(tensor.device, []).append(tensor)
            for device, of_device in by_device.items():
                if reason := self._queue.put(device, partial(_norms, of_device, key)):
                    refusals.append(SkippedTensor(0, key, reason))
        return refusals

    def scalar(self, tensor: torch.Tensor, key: object) -> SkippedTensor | None:
        """Send the value of a one-element tensor, such as a loss."""
        with plain_tensors():
            reason = obstacle(tensor)
            if not reason and (tensor.numel() != 1 or tensor.is_complex()):
                reason = f"must be a real number, but has shape {tuple(tensor.shape)} and type {tensor.dtype}"
            reason = reason or self._queue.put(tensor.device, partial(_scalar, tensor, key))
        return SkippedTensor(0, key, reason) if reason else None

    def flush(self) -> None:
        """Send what was requested since the last call."""
        self._queue.flush()

    def ready(self) -> list[Collected]:
        """Return what has arrived since the last call, in the order in which it was sent. Never waits."""
        return [self.collect(sent) for sent in self.finished()]

    def finished(self) -> list[SentParcel]:
        """Return the parcels that have arrived since the last call; each must be collected once."""
        return self._queue.finished()

    def collect(self, sent: SentParcel) -> Collected:
        """Return the results in an arrived parcel. May run on any thread."""
        return self._queue.collect(sent)

    def drain(self) -> list[Collected]:
        """Return everything that is still to come. It waits for the devices: for the end of a run."""
        self.flush()
        return [self.collect(sent) for sent in self._queue.wait()]

    def _summarize(self, items: Sequence[Item]) -> list[SkippedTensor]:
        refusals: list[SkippedTensor] = []
        by_device: dict[torch.device, list[Item]] = {}
        with plain_tensors():
            for item in items:
                if reason := _obstacle(item):
                    refusals.append(item.refusal(reason))
                else:
                    by_device.setdefault(item.views[0].device, []).append(item)
            for device, of_device in by_device.items():
                for group in self._groups(of_device):
                    if reason := self._queue.put(device, partial(self._results, group)):
                        refusals += [item.refusal(reason) for item in group]
        return refusals

    def _groups(self, items: Sequence[Item]) -> Iterator[list[Item]]:
        """Yield groups of tensors whose results fit in one parcel."""
        group: list[Item] = []
        group_bytes = 0
        for item in items:
            precision = precision_of(item.views[0].dtype, item.views[0].device)
            segments = (item.views[0].numel() // self._most_values(precision, item) + 1) * len(item.views)
            # Bucket counts, four bytes each, make up nearly all of a result.
            item_bytes = 4 * segments * precision.buckets.size
            if group and group_bytes + item_bytes > self._queue.parcel_bytes:
                yield group
                group, group_bytes = [], 0
            group.append(item)
            group_bytes += item_bytes
        if group:
            yield group

    def _results(self, items: Sequence[Item], edges: Edges) -> Results:
        by_precision: dict[Precision, list[ValueRange]] = {}
        for place, item in enumerate(items):
            values = item.views[0]
            precision = precision_of(values.dtype, values.device)
            cut = stretches(place, tuple(map(stored, item.views)), self._most_values(precision, item))
            by_precision.setdefault(precision, []).extend(cut)
        chunks: list[Chunk] = []
        tensors: list[torch.Tensor] = []
        for precision, of_precision in by_precision.items():
            for chunk in chunks_of(of_precision, most_values=self._most_values(precision, items[0])):
                meaning, results = summarize(chunk, precision, edges)
                chunks.append(meaning)
                tensors += results
        keys = tuple(key for item in items for key in item.keys)
        return [(GroupPart(keys, tuple(chunks)), tensors), *self._units(items)]

    def _units(self, items: Sequence[Item]) -> Results:
        results: Results = []
        for item in items:
            if item.units:
                active = active_units(item.views[0], item.units, room_bytes=self._chunk_bytes)
                results.append((UnitsPart(item.keys[0], len(active)), [active]))
        return results

    def _most_values(self, precision: Precision, item: Item) -> int:
        fit = self._chunk_bytes // (precision.value_bytes * len(item.views))
        return max(fit // ROW, 1) * ROW


def _obstacle(item: Item) -> str | None:
    values, *previous = item.views
    if reason := obstacle(values):
        return reason
    if item.units and (not values.dim() or values.layout != torch.strided):
        return "has no units"
    if previous and _form(previous[0]) != _form(values):
        return "has other previous values: its shape, type, layout or device has changed"
    return None


def _form(tensor: torch.Tensor) -> tuple[object, ...]:
    return tensor.shape, tensor.dtype, tensor.layout, tensor.device, stored(tensor).shape


def _norms(tensors: Sequence[torch.Tensor], key: object, _: Edges) -> Results:
    """Compute norms with one operation per element type; for a mixed list torch would take one per tensor."""
    by_dtype: dict[torch.dtype, list[torch.Tensor]] = {}
    for tensor in map(stored, tensors):
        plain = torch.view_as_real(tensor.resolve_conj()) if tensor.is_complex() else tensor
        by_dtype.setdefault(plain.dtype, []).append(plain)
    totals = widest_float(tensors[0].device)
    norms = [norm for like in by_dtype.values() for norm in torch._foreach_norm(like, 2, dtype=totals)]
    return [(NormsPart(key, len(norms), _numpy(totals)), [torch.stack(norms)])]


def _scalar(tensor: torch.Tensor, key: object, _: Edges) -> Results:
    totals = widest_float(tensor.device)
    return [(ScalarPart(key, _numpy(totals)), [stored(tensor).reshape(1).to(totals, copy=True)])]


def _numpy(dtype: torch.dtype) -> np.dtype[np.float32] | np.dtype[np.float64]:
    return np.dtype(np.float32) if dtype == torch.float32 else np.dtype(np.float64)
