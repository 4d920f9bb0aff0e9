"""When a forward pass begins and ends, and how big the batches are."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import torch
from torch import nn

from tb_netdebug.core.records.scalar_names import BATCH_SIZE, TIME_BACKWARD, TIME_FORWARD
from tb_netdebug.frameworks.torch.batches.entries import can_be_called
from tb_netdebug.frameworks.torch.hooks import after_forward, before_forward
from tb_netdebug.frameworks.torch.values import is_tensor, tensors_in
from tb_netdebug.recording.clock import now
from tb_netdebug.recording.collector import StepCollector
from tb_netdebug.recording.guard import Guard

is_compiling = torch.compiler.is_compiling
is_traced = torch._C._is_tracing
is_grad_enabled = torch.is_grad_enabled
current_backward = torch._C._current_graph_task_id


class PhaseHooks:
    """On the outermost modules that can be called, while gradients are recorded: evaluations do not count.

    Of a list or dict of modules, which is never called itself, these are the parts. The size of a batch is
    that of the first model; of several parts the first one that a step calls tells.
    """

    def __init__(
        self, models: Mapping[str, nn.Module], collector: StepCollector, guard: Guard, *, batches: bool
    ) -> None:
        self._batches = batches
        self._collector = collector
        self._guard = guard
        self.saw_forward = False  # in this step
        self.sees_calls = False  # ever
        entries = [list(entries_of(model)) for model in models.values()]
        self._first = {id(entry) for entry in entries[0]} if entries else set()
        self._step = -1
        self._told: nn.Module | None = None  # of the size of this step's batches
        self._running: nn.Module | None = None  # what is called within it belongs to its forward pass
        self._hooks = [
            hook
            for entry in {id(entry): entry for parts in entries for entry in parts}.values()
            for hook in (
                before_forward(entry, self._before, with_kwargs=True),
                after_forward(entry, self._after),
            )
        ]

    def close(self) -> None:
        for hook in self._hooks:
            hook.remove()

    def _before(self, module: nn.Module, args: Any, kwargs: Any) -> None:
        if is_compiling() or is_traced() or not is_grad_enabled() or self._guard.is_off:
            return
        if self.saw_forward and current_backward() != -1:  # computed again by activation checkpointing
            return
        started = now()
        if self._step != self._collector.step:
            self._step, self._told, self._running = self._collector.step, None, None
        try:
            if self._batches and self._tells(module):
                self._count_batch(args, kwargs)
        except Exception as error:
            self._guard.fault("looking at the batch", error)
        if self._running is None or self._running is module:
            self._running = module
            self._collector.clock.enter(TIME_FORWARD)
        self._collector.spent_secs += now() - started

    def _after(self, module: nn.Module, args: Any, output: Any) -> None:
        if is_compiling() or is_traced() or not is_grad_enabled() or self._guard.is_off:
            return
        if self._running is not module:
            return
        started = now()
        self._running = None
        self._collector.clock.enter(TIME_BACKWARD)
        self.saw_forward = self.sees_calls = True
        self._collector.spent_secs += now() - started

    def _tells(self, module: nn.Module) -> bool:
        if self._told is None and id(module) in self._first:
            self._told = module
        return self._told is module

    def _count_batch(self, args: Any, kwargs: Any) -> None:
        if args and is_tensor(args[0]) and args[0].dim():
            self._collector.add(BATCH_SIZE, float(args[0].size(0)))
            return
        for source in (args, kwargs):
            for _, tensor in tensors_in(source):
                if tensor.dim():
                    self._collector.add(BATCH_SIZE, float(tensor.size(0)))
                    return


def entries_of(model: nn.Module) -> Iterator[nn.Module]:
    """The model, or the outermost of its parts that can be called."""
    if can_be_called(model):
        yield model
        return
    for child in model.children():
        yield from entries_of(child)
