"""Samples of the weights, and of what an optimizer step has changed in them (updates)."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch

from tb_netdebug.core.stats import kernel
from tb_netdebug.frameworks.torch.parameters import WatchedParameter
from tb_netdebug.frameworks.torch.reader import TensorReader, host_item
from tb_netdebug.recording.collector import StepCollector


def version_of(tensor: torch.Tensor) -> int:
    """Return a counter that rises with every in-place change that torch knows of.

    For a distributed parameter, it is the counter of its local part.
    """
    if type(tensor) is torch.nn.Parameter:
        return 0 if tensor.is_inference() else tensor._version
    return int(getattr(tensor, "_local_tensor", tensor)._version)


class Copy:
    """A parameter's values as they were after the last sampled step, or before this one.

    It is fresh while neither the tensor's version nor the number of optimizer steps has changed. The number
    is needed because older optimizers write through `.data`, which does not change the version.
    """

    __slots__ = ("count", "item", "source", "state", "tensor")

    def __init__(self, tensor: torch.Tensor, *, source: int) -> None:
        self.tensor = tensor
        self.state: tuple[int, int] | None = None  # (version, number of steps) that it was taken at
        address, self.count, dtype = host_item(tensor)
        self.source = source
        self.item = (source, address, self.count, dtype)  # for the kernel

    def is_of(self, tensor: torch.Tensor) -> bool:
        """Return whether the tensor lies in host memory where it did before: a cheap test, usually true."""
        return (
            self.source != 0
            and tensor.data_ptr() == self.source
            and tensor.numel() == self.count
            and tensor.dtype is self.tensor.dtype
        )

    def fits(self, tensor: torch.Tensor) -> bool:
        """Return whether the copy has the tensor's shape, type, strides and device."""
        return (
            self.tensor.shape == tensor.shape
            and self.tensor.dtype == tensor.dtype
            and self.tensor.stride() == tensor.stride()
            and self.tensor.device == tensor.device
        )


class Weights:
    """Samples weights and, by comparing them with a copy made before the step, updates.

    The kernel reads weights and copy in one pass and leaves the copy equal to the weights, so if every step
    is sampled nothing needs copying. Copies beyond `most_bytes` are not made; those weights are sampled
    without updates.
    """

    def __init__(
        self,
        collector: StepCollector,
        reader: TensorReader,
        refuse: Callable[[str, str], None],
        *,
        weights: bool,
        updates: bool,
        most_bytes: int,
    ) -> None:
        self._collector = collector
        self._reader = reader
        self._refuse = refuse
        self._weights = weights
        self._updates = updates
        self._most_bytes = most_bytes
        self._copies: dict[int, Copy] = {}
        self._bytes = 0
        self._looked: dict[int, int] = {}
        self._steps = 0

    def count_step(self) -> None:
        """Count an optimizer step, sampled or not."""
        self._steps += 1

    def keep(self, watched: Sequence[WatchedParameter]) -> None:
        """Copy, before the step, the weights that have changed since the last look."""
        if not self._updates:
            return
        for each in watched:
            copy = self._copies.get(id(each.tensor))
            tensor: torch.Tensor | None = each.tensor
            if copy is None or not copy.is_of(each.tensor):
                tensor = self._reader.readable(each.name, each.tensor)
                if tensor is not None and (copy is None or not copy.fits(tensor)):
                    copy = self._new_copy(each, tensor)
            # The kernel has left the copy equal to the weights: copy only what has changed since.
            if tensor is not None and copy is not None and copy.state != self._state(each):
                with torch.no_grad():
                    copy.tensor.copy_(tensor)

    def look(self, watched: Sequence[WatchedParameter]) -> None:
        """Sample weights and updates after the step."""
        items: list[tuple[int, int, int, int]] = []
        pairs: list[tuple[WatchedParameter, Copy, tuple[int, int]]] = []
        device: list[tuple[WatchedParameter, torch.Tensor, Copy]] = []
        alone: list[WatchedParameter] = []
        kept: list[torch.Tensor] = []
        for each in watched:
            given = each.tensor
            copy = self._copies.get(id(given))
            self._looked[id(given)] = version = version_of(given)
            if copy is not None and copy.is_of(given):
                items.append(copy.item)
                pairs.append((each, copy, (version, self._steps)))
                continue
            tensor = self._reader.readable(each.name, each.tensor)
            if tensor is None:
                continue
            if copy is None or not copy.fits(tensor):
                alone.append(each)
            elif self._reader.is_on_host(tensor):
                address, count, dtype = host_item(tensor)
                items.append((address, copy.tensor.data_ptr(), count, dtype))
                pairs.append((each, copy, (version, self._steps)))
                kept.append(tensor)
            else:
                device.append((each, tensor, copy))
        results = kernel.summarize_updates(items, torch.get_num_threads()) if items else []
        sample = self._collector.sample
        for (each, copy, state), (weights, update) in zip(pairs, results, strict=True):
            if self._weights:
                sample(each.weight, weights)
            sample(each.update, update)
            copy.state = state
        self._send(device)
        if alone and self._weights:
            self._reader.sample([(each.weight, each.tensor) for each in alone])

    def look_at_rest(self, watched: Sequence[WatchedParameter]) -> None:
        """Sample weights that no optimizer has moved in this step, if they are new or were changed."""
        if not self._weights:
            return
        changed = [each for each in watched if self._looked.get(id(each.tensor)) != version_of(each.tensor)]
        for each in changed:
            self._looked[id(each.tensor)] = version_of(each.tensor)
        if changed:
            self._reader.sample([(each.weight, each.tensor) for each in changed])

    def _state(self, each: WatchedParameter) -> tuple[int, int]:
        return version_of(each.tensor), self._steps

    def _new_copy(self, each: WatchedParameter, tensor: torch.Tensor) -> Copy | None:
        old = self._copies.pop(id(each.tensor), None)
        self._bytes -= old.tensor.nbytes if old else 0
        if self._bytes + tensor.nbytes > self._most_bytes:
            self._refuse(
                f"the update of {each.name}",
                f"copies of the weights would take more than {self._most_bytes >> 20} MiB, their share of "
                "the memory that was free",
            )
            return None
        # Only a tensor that the kernel reads in place has an address that holds for later steps.
        source = tensor.data_ptr() if tensor is each.tensor and self._reader.is_on_host(tensor) else 0
        copy = self._copies[id(each.tensor)] = Copy(
            torch.empty_like(tensor, requires_grad=False), source=source
        )
        self._bytes += tensor.nbytes
        return copy

    def _send(self, device: Sequence[tuple[WatchedParameter, torch.Tensor, Copy]]) -> None:
        if not device:
            return
        step = self._collector.step
        self._reader.uses_device = True
        refusals = self._reader.device.summarize_updates(
            [tensor for _, tensor, _ in device],
            [copy.tensor for _, _, copy in device],
            [((step, each.weight if self._weights else None), (step, each.update)) for each, _, _ in device],
        )
        for each, _, copy in device:
            copy.state = self._state(each)
        for refusal in refusals:
            each, _, copy = device[refusal.number]
            copy.state = None
            self._refuse(each.name, f"it {refusal.reason}")
