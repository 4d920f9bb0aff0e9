"""The calls of a model in the current step, kept so that a forward pass can be repeated."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from threading import get_ident
from typing import Any
from weakref import ref

import torch
from torch import nn

from tb_netdebug.frameworks.torch.call_hooks import CallHooks
from tb_netdebug.frameworks.torch.numerics.graph_nodes import mark_output
from tb_netdebug.frameworks.torch.values import is_tensor, strided, tensors_in
from tb_netdebug.recording.guard import Guard

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
    outputs: list[ref[torch.Tensor]] = field(default_factory=list)

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
        return self.versions != measured((*self.args, *self.kwargs.values()))[1]


class CallKeeper:
    """Keeps the arguments of training calls until the step ends; no graph and no copy.

    `look` is called with each output of a model in training mode.
    """

    def __init__(
        self,
        models: Mapping[str, nn.Module],
        heard: CallHooks,
        guard: Guard,
        *,
        look: Callable[[torch.Tensor], None] | None = None,
    ) -> None:
        self._guard = guard
        self._look = look
        self._devices = autocast_devices()
        self.calls: deque[ModelCall] = deque()
        self.thread = 0  # the thread that made the newest call
        self._nbytes = 0
        for name, model in models.items():
            heard.listen(model, before=partial(self._keep, name), after=self._after)

    def forget(self, *, but: int = 0) -> None:
        """Drop all calls but the newest `but`."""
        if not but:
            self.calls.clear()
            self._nbytes = 0
        while len(self.calls) > but:
            try:
                self._nbytes -= self.calls.popleft().nbytes
            except IndexError:  # another thread was faster
                return

    def close(self) -> None:
        self.forget()

    def _keep(self, name: str, module: nn.Module, args: Any, kwargs: Any) -> None:
        try:
            self._add(name, module, args, kwargs)
        except Exception as error:
            self._guard.fault("keeping the batch", error)

    def _add(self, name: str, module: nn.Module, args: Any, kwargs: Any) -> None:
        autocast = {}
        for device in self._devices:
            if is_autocast_enabled(device):
                autocast[device] = torch.get_autocast_dtype(device)
        nbytes, versions = measured((*args, *kwargs.values()) if kwargs else args)
        for each in args:
            if type(each) is not torch.Tensor or each.requires_grad:
                args = tuple([without_graph(each) for each in args])
                break
        # A copy in any case: a hook of the user's may add to what it is given.
        kwargs = {key: without_graph(each) for key, each in kwargs.items()} if kwargs else {}
        self.thread = get_ident()
        self.calls.append(
            ModelCall(
                name, module, args, kwargs, random_state(), autocast, nbytes, versions, next_operation()
            )
        )
        self._nbytes += nbytes
        if len(self.calls) > MOST_CALLS or self._nbytes > MOST_BYTES:
            self._bound()

    def _bound(self) -> None:
        while len(self.calls) > MOST_CALLS or (self._nbytes > MOST_BYTES and len(self.calls) > 1):
            self.forget(but=len(self.calls) - 1)

    def _after(self, module: nn.Module, args: Any, output: Any) -> None:
        try:
            call = self.calls[-1]
        except IndexError:  # another thread may have ended the step
            return
        if call.model is not module:
            return  # a watched model inside another one: the newest call is not its own
        found = [output] if type(output) is torch.Tensor else [each for _, each in tensors_in(output)]
        call.outputs = []  # a model that calls itself has been here before
        for tensor in found:
            mark_output(tensor)
            call.outputs.append(ref(tensor))
        if self._look is None or not module.training:
            return
        try:
            for tensor in found:
                self._look(tensor)
        except Exception as error:
            self._guard.fault("looking at the output of a model", error)


def without_graph(value: Any) -> Any:
    return value.detach() if is_tensor(value) and value.requires_grad else value


def measured(values: tuple[Any, ...]) -> tuple[int, list[int]]:
    """Return how many bytes the tensors in some arguments have, and the versions of those not nested."""
    total, versions = 0, []
    for value in values:
        if type(value) is torch.Tensor:
            if value.layout is strided:
                total += value.nbytes
            if not value.is_inference():
                versions.append(value._version)
        elif value is not None:
            total += sum([size_of(tensor) for _, tensor in tensors_in(value)])
    return total, versions


def size_of(tensor: torch.Tensor) -> int:
    """Return the size in bytes; 0 for a sparse tensor, which does not report it and is usually small."""
    return tensor.nbytes if tensor.layout is strided else 0


def autocast_devices() -> tuple[str, ...]:
    """Return "cpu" and the kinds of accelerator that are available."""
    accelerators = [name for name in ("cuda", "xpu", "mps") if getattr(torch, name).is_available()]
    return (HOST, *accelerators)
