"""When forward and backward begin and end, and how big the batches are."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import nn

from tb_netdebug.capture.clock import now
from tb_netdebug.capture.collector import Collector
from tb_netdebug.capture.guard import Guard
from tb_netdebug.capture.torch_values import tensors_in

is_compiling = torch.compiler.is_compiling
is_grad_enabled = torch.is_grad_enabled
current_backward = torch._C._current_graph_task_id


class PhaseHooks:
    """On the outermost module of each model.

    Backward begins when a gradient arrives at the model's output, and ends with the engine's own callback: no
    node is put into the graph.
    """

    def __init__(self, models: Mapping[str, nn.Module], collector: Collector, guard: Guard) -> None:
        self._collector = collector
        self._guard = guard
        self._backward: int | None = None
        self.saw_backward = False
        self._first = next(iter(models.values()), None)
        self._hooks = [
            hook
            for model in models.values()
            for hook in (
                model.register_forward_pre_hook(self._before, with_kwargs=True),
                model.register_forward_hook(self._after),
            )
        ]

    def close(self) -> None:
        for hook in self._hooks:
            hook.remove()

    def _before(self, module: nn.Module, args: Any, kwargs: Any) -> None:
        if is_compiling() or not is_grad_enabled() or self._guard.is_off():
            return
        started = now()
        try:
            if module is self._first:
                self._count_batch(args, kwargs)
            self._collector.clock.start("forward")
        except Exception as error:
            self._guard.fault("looking at the batch", error)
        self._collector.charge(started)

    def _after(self, module: nn.Module, args: Any, output: Any) -> None:
        if is_compiling() or not is_grad_enabled() or self._guard.is_off():
            return
        started = now()
        try:
            self._collector.clock.stop("forward")
            # not while a checkpointed part is computed again: then a backward is going on already
            if current_backward() == -1:
                self._await_backward(output)
        except Exception as error:
            self._guard.fault("waiting for backward", error)
        self._collector.charge(started)

    def _count_batch(self, args: Any, kwargs: Any) -> None:
        if args and isinstance(args[0], torch.Tensor) and args[0].dim():
            self._collector.add("batch_size", float(args[0].shape[0]))
            return
        for source in (args, kwargs):
            for _, tensor in tensors_in(source):
                if tensor.dim():
                    self._collector.add("batch_size", float(tensor.shape[0]))
                    return

    def _await_backward(self, output: Any) -> None:
        tensors = [("", output)] if isinstance(output, torch.Tensor) else tensors_in(output)
        for _, tensor in tensors:
            if tensor.requires_grad and tensor.grad_fn is not None:
                tensor.register_hook(self._on_gradient)
                return

    def _on_gradient(self, _: torch.Tensor) -> None:
        current = current_backward()
        if self._guard.is_off() or current == self._backward:
            return
        self._backward = current
        self.saw_backward = True
        self._collector.clock.start("backward")
        torch.autograd.Variable._execution_engine.queue_callback(self._on_backward_done)  # type: ignore[attr-defined]

    def _on_backward_done(self) -> None:
        self._backward = None
        self._collector.clock.stop("backward")
