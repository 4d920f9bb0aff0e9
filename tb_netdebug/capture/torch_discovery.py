"""Finds the trainings of a PyTorch program: optimizers, their models, the losses, and when a step is over."""

from __future__ import annotations

import gc
import sys
import weakref
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import torch
from torch import nn
from torch.optim import Optimizer
from torch.optim.optimizer import register_optimizer_step_post_hook, register_optimizer_step_pre_hook

from tb_netdebug.capture.judge import FindingError
from tb_netdebug.capture.torch_backward import watch_backward
from tb_netdebug.capture.torch_eager import never_compiled
from tb_netdebug.capture.torch_followed import Followed
from tb_netdebug.capture.torch_names import Place, user_place
from tb_netdebug.capture.torch_objectives import Objectives
from tb_netdebug.capture.torch_optimizers import has_closure
from tb_netdebug.capture.torch_owners import (
    Owners,
    are_alike,
    find_owners,
    loose_model,
    parameter_ids,
    tensors_of,
)
from tb_netdebug.capture.torch_scripting import MAKES_SCRIPT_MODULE, HiddenHooks
from tb_netdebug.capture.torch_taps import listen

if TYPE_CHECKING:
    from tb_netdebug.capture.zero_code import ZeroCode

is_compiling = torch.compiler.is_compiling
is_grad_enabled = torch.is_grad_enabled

# Calls of modules that have nothing to do with a waiting optimizer; after so many it is found when it steps.
MOST_CALLS_LOOKED_AT = 1000
MOST_STRANGERS = 4


def discover(zero_code: ZeroCode) -> TorchDiscovery:
    return TorchDiscovery(zero_code)


class TorchDiscovery:
    """An optimizer that is made waits until one of its models is called with gradients on.

    By then models have got their names and wrappers, and all optimizers of a training are there: those that
    wait together are watched together. One that is found only when it steps begins there.
    """

    def __init__(self, zero_code: ZeroCode) -> None:
        self._zero = zero_code
        self._waiting: dict[int, tuple[weakref.ref[Optimizer], Place | None]] = {}
        self._wanted: set[int] = set()
        self._followed: list[Followed] = []
        self._of: weakref.WeakKeyDictionary[Optimizer, Followed | None] = weakref.WeakKeyDictionary()
        self._gone: deque[tuple[Followed, int]] = deque()
        self._objectives = Objectives()
        self._hidden = HiddenHooks()
        self._strangers: list[weakref.ref[nn.Module]] = []
        self._calls_left = 0
        self._calls: Any = None
        self._is_overdue = False
        self._has_stepped = False
        self._last: Any = None
        self._handles = self._listen()
        self._be_last()

    def _listen(self) -> list[Any]:
        safe = self._safe
        scaler = torch.amp.GradScaler
        before_backward = safe("looking at a backward pass", self._backward)
        before_step = safe("looking at an optimizer's step", self._before)
        before_scaler = safe("looking at a scaler's step", self._before_scaler)
        return [
            listen(Optimizer.__init__, after=safe("looking at a new optimizer", self._made)),
            watch_backward(before_backward),
            listen(nn.Parameter.__new__, before=safe("looking at a new layer", self._grown)),
            listen(scaler.scale, after=safe("looking at a scaled loss", self._scaled)),
            listen(
                scaler.step, before=before_scaler, after=safe("looking at a skipped step", self._after_scaler)
            ),
            listen(
                MAKES_SCRIPT_MODULE,
                before=safe("making way for torch.jit.script", self._hidden.hide),
                after=safe("coming back after torch.jit.script", self._hidden.show),
            ),
            register_optimizer_step_pre_hook(before_step),
        ]

    def _be_last(self) -> None:
        """A step ends after all that others do when an optimizer has stepped, the monitor's probes too."""
        if self._last is not None:
            self._last.remove()
        self._last = register_optimizer_step_post_hook(self._safe("ending a step", self._after))

    # ---- what ZeroCode calls -------------------------------------------------------------------------------

    def interrupted(self) -> None:
        value = self._objectives.take()
        for followed in self._followed:
            followed.interrupted(value)

    def sweep(self) -> None:
        """Runs whose optimizers are all gone: until now their models were kept alive for us."""
        has_closed = False
        while self._gone:
            followed, number = self._gone.popleft()
            if followed.lost(number) and followed in self._followed:
                self._followed.remove(followed)
                followed.close()
                has_closed = True
        if has_closed:
            gc.collect()  # hooks and models know each other: the memory is wanted now, for the next model

    def close(self) -> None:
        for handle in (*self._handles, self._last):
            handle.remove() if hasattr(handle, "remove") else handle.close()
        self._handles.clear()
        self._stop_listening_to_calls()
        self._hidden.show_all()
        self._followed.clear()

    # ---- an optimizer waits --------------------------------------------------------------------------------

    def _made(self, args: tuple[Any, ...], _: Any) -> None:
        self._zero.optimizers += 1
        self.sweep()
        self._wait_for(args[0])

    def _wait_for(self, optimizer: Optimizer) -> None:
        self._waiting[id(optimizer)] = (weakref.ref(optimizer), user_place())
        self._wanted |= {id(tensor) for tensor in tensors_of(optimizer)}
        self._calls_left = MOST_CALLS_LOOKED_AT
        if self._calls is None:
            self._calls = listen(
                nn.Module._wrapped_call_impl, before=self._safe("looking at a call", self._called)
            )

    def _called(self, args: tuple[Any, ...]) -> None:
        """Any module, the outermost first."""
        if not is_grad_enabled() or torch._C._get_tracing_state() is not None:
            return
        module = args[0]
        own = parameter_ids(module)
        if not own.isdisjoint(self._wanted) or self._is_overdue:
            self._begin(called=module)
            return
        if own and len(self._strangers) < MOST_STRANGERS:
            self._strangers.append(weakref.ref(module))
        self._calls_left -= 1
        if self._calls_left <= 0:
            self._stop_listening_to_calls()

    def _stop_listening_to_calls(self) -> None:
        if self._calls is not None:
            self._calls.close()
            self._calls = None

    def _grown(self, *_: Any) -> None:
        """A new model is being built: a good moment to let go of one that is gone."""
        if self._gone:
            self.sweep()

    # ---- a step --------------------------------------------------------------------------------------------

    def _backward(self, roots: Any) -> None:
        self._objectives.add(roots)
        if self._waiting and (self._is_overdue or not self._strangers):
            self._begin()

    def _scaled(self, args: tuple[Any, ...], output: Any) -> None:
        self._objectives.scaled(args[1], output)

    def _before(self, optimizer: Optimizer, args: Any, kwargs: Any) -> None:
        # Nothing is begun or closed here: torch goes through its hooks, and there would be others of them.
        self._hidden.show_all()
        if optimizer not in self._of:
            self._overdue(optimizer)
        if has_closure(optimizer, args, kwargs):
            self._objectives.begin_closure()

    def _overdue(self, optimizer: Optimizer) -> None:
        """It steps, and no model of it was called: it has been copied, or was there before us."""
        if id(optimizer) not in self._waiting:
            self._zero.optimizers += 1
            self._wait_for(optimizer)
        self._is_overdue = True
        self._strangers = [each for each in self._strangers if has_gradients(each())]

    def _after(self, optimizer: Optimizer, *_: Any) -> None:
        self._has_stepped = True
        value = self._objectives.take()
        followed = self._of.get(optimizer)
        if followed is not None:
            followed.stepped(optimizer, value)

    def _before_scaler(self, _: tuple[Any, ...]) -> None:
        self._has_stepped = False

    def _after_scaler(self, args: tuple[Any, ...], _: Any) -> None:
        """A step that was skipped, for its gradients were not finite, is a step of the training."""
        if not self._has_stepped and isinstance(args[1], Optimizer):
            self._after(args[1])

    # ---- a training begins ---------------------------------------------------------------------------------

    def _begin(self, *, called: nn.Module | None = None) -> None:
        self.sweep()
        places = {number: place for number, (_, place) in self._waiting.items()}
        optimizers = [each for reference, _ in self._waiting.values() if (each := reference()) is not None]
        self._waiting.clear()
        optimizers = [each for each in optimizers if not self._joins(each)]
        if optimizers:
            self._begin_with(optimizers, places, called)
        self._wanted = {
            id(tensor)
            for reference, _ in self._waiting.values()
            if (each := reference()) is not None
            for tensor in tensors_of(each)
        }
        self._is_overdue = False
        if not self._waiting:
            self._strangers.clear()
            self._stop_listening_to_calls()

    def _joins(self, optimizer: Optimizer) -> bool:
        """Whether it moves what is watched already: a new one for the next phase of the same training."""
        for followed in self._followed:
            if followed.takes_in(optimizer):
                self._follow(optimizer, followed)
                return True
        return False

    def _begin_with(
        self,
        optimizers: list[Optimizer],
        places: dict[int, Place | None],
        called: nn.Module | None,
    ) -> None:
        owners = find_owners(optimizers, called=called, monitor_class=monitor_class())
        if any(monitor._is_open() and not self._is_ours(monitor) for monitor in owners.monitors):
            self._zero.stand_aside()
            return
        if are_alike(optimizers, owners.models):
            optimizers, owners = self._only_one(optimizers, owners, places, called)
        models = owners.all_models() + (self._trained_strangers(owners) if self._is_overdue else [])
        if not models and owners.loose and not self._followed:
            models = [loose_model(owners.loose)]
        made = Followed.open(self._zero, models, optimizers, owners, places) if models else None
        if made is not None:
            self._followed.append(made)
            self._be_last()
        for optimizer in optimizers:
            self._follow(optimizer, made)

    def _only_one(
        self,
        optimizers: Sequence[Optimizer],
        owners: Owners,
        places: dict[int, Place | None],
        called: nn.Module | None,
    ) -> tuple[list[Optimizer], Owners]:
        """Of several trainings of the same network the one that begins; the others wait on."""
        chosen = optimizers[0]
        for optimizer, (model,) in zip(optimizers, owners.models, strict=True):
            if model is called:
                chosen = optimizer
        for optimizer in optimizers:
            if optimizer is not chosen:
                self._waiting[id(optimizer)] = (weakref.ref(optimizer), places.get(id(optimizer)))
        index = [optimizer is chosen for optimizer in optimizers].index(True)
        return [chosen], Owners([owners.models[index]], [], owners.monitors)

    def _trained_strangers(self, owners: Owners) -> list[nn.Module]:
        """Models that were called and have got gradients, and that no optimizer has: it has another copy."""
        called = [module for reference in self._strangers if (module := reference()) is not None]
        known = {id(module) for model in owners.all_models() for module in model.modules()}
        return [module for module in called if id(module) not in known]

    def _follow(self, optimizer: Optimizer, followed: Followed | None) -> None:
        self._of[optimizer] = followed
        if followed is not None:
            forget = partial(self._gone.append, (followed, id(optimizer)))
            weakref.finalize(optimizer, forget).atexit = False

    def _is_ours(self, monitor: object) -> bool:
        return any(training.owns(monitor) for training in self._zero.trainings)

    def _safe(self, doing: str, action: Callable[..., None]) -> Callable[..., None]:
        """Our own mistakes end here; what the user has asked to be raised does not."""

        def safe(*args: Any) -> None:
            if is_compiling() or self._zero.is_off:
                return
            try:
                action(*args)
            except FindingError:
                raise
            except Exception as error:
                self._zero.fault(doing, error)

        never_compiled(safe)
        return safe


def has_gradients(model: nn.Module | None) -> bool:
    return model is not None and any(each.grad is not None for each in model.parameters())


def monitor_class() -> type | None:
    """When nobody has made a monitor yet, there is none to be found."""
    module = sys.modules.get("tb_netdebug.capture.monitor")
    return getattr(module, "Monitor", None)
