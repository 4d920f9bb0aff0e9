"""The calls of a model in the current step, kept so that a forward pass can be repeated."""

from __future__ import annotations

import weakref
from collections import deque
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from threading import get_ident
from typing import Any

import torch
from torch import nn

from tb_netdebug.frameworks.torch.hooks import after_forward, before_forward
from tb_netdebug.frameworks.torch.numerics.graph_nodes import mark_output
from tb_netdebug.frameworks.torch.values import is_tensor, tensors_in
from tb_netdebug.recording.clock import now
from tb_netdebug.recording.collector import StepCollector
from tb_netdebug.recording.guard import Guard

is_compiling = torch.compiler.is_compiling
is_traced = torch._C._is_tracing
is_grad_enabled = torch.is_grad_enabled
random_state = torch.get_rng_state
next_operation = torch._C._autograd._get_sequence_nr
is_autocast_enabled = torch.is_autocast_enabled

# A policy may be called for many moments before its loss is there. Older calls than these are dropped, and so
# are calls beyond this many bytes of arguments, which would be kept alive for us alone.
MOST_CALLS = 64
MOST_BYTES = 64 << 20
HOST = "cpu"


@dataclass(slots=True)
class ModelCall:
    """One call of a watched model, as it was when it began.

    `before` is the state of torch's random generator. `first_operation` is the number that autograd gives to
    the next operation of this thread.
    """

    name: str
    model: nn.Module
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    before: torch.Tensor
    autocast: dict[str, torch.dtype]
    nbytes: int
    versions: list[int]
    first_operation: int = 0
    outputs: list[weakref.ref[torch.Tensor]] = field(default_factory=list)

    def conditions(self) -> ExitStack:
        """Return a context with the autocast settings of the call; it caches no cast weights."""
        stack = ExitStack()
        for device in {HOST, *self.autocast}:
            dtype = self.autocast.get(device)
            is_on = dtype is not None
            if is_on or is_autocast_enabled(device):
                stack.enter_context(torch.autocast(device, dtype, enabled=is_on, cache_enabled=False))
        return stack

    def has_changed(self) -> bool:
        """Return whether an argument was written to since the call began."""
        return self.versions != versions_of((*self.args, *self.kwargs.values()))


class CallKeeper:
    """Keeps the arguments of training calls until the step ends; no graph and no copy.

    `look` is called with each output of a model in training mode.
    """

    def __init__(
        self,
        models: Mapping[str, nn.Module],
        collector: StepCollector,
        guard: Guard,
        *,
        look: Callable[[torch.Tensor], None] | None = None,
    ) -> None:
        self._collector = collector
        self._guard = guard
        self._look = look
        self._devices = autocast_devices()
        self.calls: deque[ModelCall] = deque()
        self.thread = 0  # the thread that made the newest call
        self._nbytes = 0
        self._hooks = [
            hook
            for name, model in models.items()
            for hook in (
                before_forward(model, self._before_of(name), with_kwargs=True),
                after_forward(model, self._after),
            )
        ]

    def forget(self, *, but: int = 0) -> None:
        """Drop all calls but the newest `but`."""
        while len(self.calls) > but:
            try:
                self._nbytes -= self.calls.popleft().nbytes
            except IndexError:  # another thread was faster
                return

    def close(self) -> None:
        for hook in self._hooks:
            hook.remove()
        self.forget()

    def _before_of(self, name: str) -> Callable[[nn.Module, Any, Any], None]:
        def keep(module: nn.Module, args: Any, kwargs: Any) -> None:
            if is_compiling() or is_traced() or not is_grad_enabled() or self._guard.is_off:
                return
            started = now()
            try:
                self._keep(name, module, args, kwargs)
            except Exception as error:
                self._guard.fault("keeping the batch", error)
            self._collector.spent_secs += now() - started

        return keep

    def _keep(self, name: str, module: nn.Module, args: Any, kwargs: Any) -> None:
        values = (*args, *kwargs.values()) if kwargs else args
        self.thread = get_ident()
        self.calls.append(
            ModelCall(
                name,
                module,
                tuple([without_graph(each) for each in args]),
                {key: without_graph(each) for key, each in kwargs.items()},
                random_state(),
                {
                    device: torch.get_autocast_dtype(device)
                    for device in self._devices
                    if is_autocast_enabled(device)
                },
                bytes_of(values),
                versions_of(values),
                next_operation(),
            )
        )
        self._nbytes += self.calls[-1].nbytes
        while len(self.calls) > MOST_CALLS or (self._nbytes > MOST_BYTES and len(self.calls) > 1):
            self.forget(but=len(self.calls) - 1)

    def _after(self, module: nn.Module, args: Any, output: Any) -> None:
        if is_compiling() or is_traced() or not is_grad_enabled() or self._guard.is_off:
            return
        call = self._newest()
        if call is None or call.model is not module:
            return  # a watched model inside another one: the newest call is not its own
        found = [output] if type(output) is torch.Tensor else [each for _, each in tensors_in(output)]
        for tensor in found:
            mark_output(tensor)
        call.outputs = [weakref.ref(tensor) for tensor in found]
        if self._look is not None and module.training:
            self._look_at(found, self._look)

    def _newest(self) -> ModelCall | None:
        try:
            return self.calls[-1]
        except IndexError:  # asked first, another thread could end the step before the answer is used
            return None

    def _look_at(self, outputs: list[torch.Tensor], look: Callable[[torch.Tensor], None]) -> None:
        try:
            for tensor in outputs:
                look(tensor)
        except Exception as error:
            self._guard.fault("looking at the output of a model", error)


def without_graph(value: Any) -> Any:
    return value.detach() if is_tensor(value) and value.requires_grad else value


def bytes_of(values: tuple[Any, ...]) -> int:
    total = 0
    for value in values:
        if type(value) is torch.Tensor:
            total += size_of(value)
        elif value is not None:
            total += sum([size_of(tensor) for _, tensor in tensors_in(value)])
    return total


def size_of(tensor: torch.Tensor) -> int:
    """Return the size in bytes; 0 for a sparse tensor, which does not report it and is usually small."""
    return tensor.nbytes if tensor.layout is torch.strided else 0


def versions_of(values: tuple[Any, ...]) -> list[int]:
    return [each._version for each in values if type(each) is torch.Tensor and not each.is_inference()]


def autocast_devices() -> tuple[str, ...]:
    """Return "cpu" and the kinds of accelerator that are available."""
    accelerators = [name for name in ("cuda", "xpu", "mps") if getattr(torch, name).is_available()]
    return (HOST, *accelerators)
