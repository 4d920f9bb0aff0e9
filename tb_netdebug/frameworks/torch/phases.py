"""Hooks that time forward and backward and count batch sizes. Owned by `adapter.TorchAdapter`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import torch
from torch import nn

from tb_netdebug.core.records.scalar_names import BATCH_SIZE, TIME_BACKWARD, TIME_FORWARD
from tb_netdebug.frameworks.torch.batches.entries import can_be_called
from tb_netdebug.frameworks.torch.call_hooks import CallHooks
from tb_netdebug.frameworks.torch.values import tensors_in
from tb_netdebug.recording.collector import StepCollector
from tb_netdebug.recording.guard import Guard

current_backward = torch._C._current_graph_task_id


class PhaseHooks:
    """Listens to the outermost callable modules; calls without gradients (evaluations) do not count.

    A list or dict of modules is never called itself, so its parts are listened to. The batch size is taken
    from the first model; if that consists of several parts, from the first part that is called in a step.
    """

    def __init__(
        self,
        models: Mapping[str, nn.Module],
        calls: CallHooks,
        collector: StepCollector,
        guard: Guard,
        *,
        batches: bool,
    ) -> None:
        self._batches = batches
        self._collector = collector
        self._guard = guard
        self.saw_forward = False  # in this step
        self.sees_calls = False  # ever
        entries = [list(entries_of(model)) for model in models.values()]
        self._first = {id(entry) for entry in entries[0]} if entries else set()
        self._step = -1
        self._told: nn.Module | None = None  # the module whose batch sizes count in this step
        self._running: nn.Module | None = None  # in its forward pass, which covers what it calls
        for entry in {id(entry): entry for parts in entries for entry in parts}.values():
            calls.listen(entry, before=self._before, after=self._after)

    def _before(self, module: nn.Module, args: Any, kwargs: Any) -> None:
        if self.saw_forward and current_backward() != -1:  # recomputed by activation checkpointing
            return
        if self._step != self._collector.step:
            self._step, self._told, self._running = self._collector.step, None, None
        try:
            if self._batches:
                if self._told is None and id(module) in self._first:
                    self._told = module
                if self._told is module:
                    self._count_batch(args, kwargs)
        except Exception as error:
            self._guard.fault("looking at the batch", error)
        if self._running is None or self._running is module:
            self._running = module
            self._collector.clock.enter(TIME_FORWARD)

    def _after(self, module: nn.Module, args: Any, output: Any) -> None:
        if self._running is not module:
            return
        self._running = None
        # Hooks on backward would cost more than all others: from here to the optimizer counts as backward.
        self._collector.clock.enter(TIME_BACKWARD)
        self.saw_forward = self.sees_calls = True

    def _count_batch(self, args: Any, kwargs: Any) -> None:
        # The common case is spelled out: this is asked in every step. A nested tensor has no shape.
        if args and type(args[0]) is torch.Tensor and not args[0].is_nested and (sizes := args[0].shape):
            self._collector.add(BATCH_SIZE, float(sizes[0]))
            return
        # The first tensor with dimensions, wherever it is nested, stands for the batch.
        for source in (args, kwargs):
            for _, tensor in tensors_in(source):
                if tensor.dim():
                    self._collector.add(BATCH_SIZE, float(tensor.size(0)))
                    return

    @property
    def is_in_forward(self) -> bool:
        """Whether a forward pass of this step has begun and not ended, as after an error in it."""
        return self._running is not None and self._step == self._collector.step


def entries_of(model: nn.Module) -> Iterator[nn.Module]:
    """Yield the model, or the outermost of its parts that can be called."""
    if can_be_called(model):
        yield model
        return
    for child in model.children():
        yield from entries_of(child)
