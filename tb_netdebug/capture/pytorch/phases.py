"""When a forward pass begins and ends, and how big the batches are."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import nn

from tb_netdebug.capture.clock import now
from tb_netdebug.capture.collector import Collector
from tb_netdebug.capture.guard import Guard
from tb_netdebug.capture.pytorch.hooks import Hook, after_forward, before_forward
from tb_netdebug.capture.pytorch.values import tensors_in

is_compiling = torch.compiler.is_compiling
is_traced = torch._C._is_tracing
is_grad_enabled = torch.is_grad_enabled


class PhaseHooks:
    """On the outermost module of each model, while gradients are recorded: evaluations do not count."""

    def __init__(
        self, models: Mapping[str, nn.Module], collector: Collector, guard: Guard, *, batches: bool
    ) -> None:
        self._batches = batches
        self._collector = collector
        self._guard = guard
        self.saw_forward = False  # in this step
        self.sees_calls = False  # ever
        self._first = next(iter(models.values()), None)
        self._hooks = [
            hook
            for model in models.values()
            for hook in (
                before_forward(model, Hook(self._before), with_kwargs=True),
                after_forward(model, Hook(self._after)),
            )
        ]

    def close(self) -> None:
        for hook in self._hooks:
            hook.remove()

    def _before(self, module: nn.Module, args: Any, kwargs: Any) -> None:
        if is_compiling() or is_traced() or not is_grad_enabled() or self._guard.is_off:
            return
        started = now()
        try:
            if self._batches and module is self._first:
                self._count_batch(args, kwargs)
        except Exception as error:
            self._guard.fault("looking at the batch", error)
        self._collector.clock.enter("time/forward")
        self._collector.spent_secs += now() - started

    def _after(self, module: nn.Module, args: Any, output: Any) -> None:
        if is_compiling() or is_traced() or not is_grad_enabled() or self._guard.is_off:
            return
        started = now()
        self._collector.clock.enter("time/backward")
        self.saw_forward = self.sees_calls = True
        self._collector.spent_secs += now() - started

    def _count_batch(self, args: Any, kwargs: Any) -> None:
        if args and isinstance(args[0], torch.Tensor) and args[0].dim():
            self._collector.add("batch_size", float(args[0].size(0)))
            return
        for source in (args, kwargs):
            for _, tensor in tensors_in(source):
                if tensor.dim():
                    self._collector.add("batch_size", float(tensor.size(0)))
                    return
