"""Hooks a PyTorch program: new optimizers and their steps, calls of models, and backward passes."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch
from torch import nn
from torch.optim import Optimizer

from tb_netdebug.checks.finding_error import FindingError
from tb_netdebug.frameworks.torch import optimizer_steps
from tb_netdebug.frameworks.torch.backward import watch_backward
from tb_netdebug.frameworks.torch.eager import never_compiled
from tb_netdebug.frameworks.torch.interception import OVERRIDING
from tb_netdebug.frameworks.torch.losses.clipping import when_clipped
from tb_netdebug.frameworks.torch.losses.functions import loss_functions
from tb_netdebug.frameworks.torch.optimizers import has_closure
from tb_netdebug.frameworks.torch.taps import Handle, listen
from tb_netdebug.integrations.torch_scripts.beginnings import Beginnings
from tb_netdebug.integrations.torch_scripts.by_hand import ByHand
from tb_netdebug.integrations.torch_scripts.objectives import Objectives

if TYPE_CHECKING:
    from tb_netdebug.training.zero_code.driver import ZeroCode

is_compiling = torch.compiler.is_compiling
is_grad_enabled = torch.is_grad_enabled
current_backward = torch._C._current_graph_task_id
SCALER = torch.amp.GradScaler
# After this many left-out batches in a row a step ends: otherwise nothing of them would be recorded.
MOST_LEFT_OUT = 16


def discover(zero_code: ZeroCode) -> TorchDiscovery:
    """Start the discovery; called when torch is imported."""
    return TorchDiscovery(zero_code)


class TorchDiscovery:
    """Installs the hooks; passes events to `Beginnings`, which forms training runs, and to the run concerned.

    No run is begun or closed inside a hook of torch: torch is iterating over its hooks then, and that
    would change them.
    """

    def __init__(self, zero_code: ZeroCode) -> None:
        self._zero = zero_code
        self._beginnings = Beginnings(zero_code)
        self._by_thread = threading.local()
        self._by_hand = ByHand(self._beginnings, lambda: self._objectives.take())
        self._calls: Handle | None = None
        self._has_stepped = False
        self._left_out = 0  # batches in a row
        self._handles = self._listen()
        # A step ends after everything else that reacts to an optimizer's step, the monitor's probes included.
        self._last = optimizer_steps.ENDED.listen(self._safe("ending a step", self._after))
        skipped = self._safe("looking at a skipped step", self._after_scaler)
        self._last_of_scaler = listen(SCALER.step, after=skipped)

    def _listen(self) -> list[Any]:
        safe = self._safe
        return [
            # Runs will listen to these. A function whose code changes then would be compiled once more.
            *(listen(each.function) for each in loss_functions()),
            listen(Optimizer.__init__, after=safe("looking at a new optimizer", self._made)),
            listen(nn.Parameter.__new__, before=safe("looking at a new layer", self._grown)),
            watch_backward(
                safe("looking at a backward pass", self._backward),
                safe("looking at new gradients", self._differentiated),
            ),
            listen(torch.autograd.grad, before=safe("looking at gradients", self._gradients_taken)),
            when_clipped(safe("looking at a norm of gradients", lambda: self._objectives.doubt())),
            listen(SCALER.scale, after=safe("looking at a scaled loss", self._scaled)),
            listen(SCALER.step, before=safe("looking at a scaler's step", self._before_scaler)),
            optimizer_steps.BEGINNING.listen(safe("looking at an optimizer's step", self._before)),
            optimizer_steps.BEGINNING.listen(lambda *_: self._zero.trains_unrecorded()),
        ]

    @property
    def _objectives(self) -> Objectives:
        """The losses of this thread: several threads may train at the same time."""
        found = getattr(self._by_thread, "objectives", None)
        if found is None:
            found = self._by_thread.objectives = Objectives()
        return found

    # ---- called by ZeroCode ------------------------------------------------------------------------------

    def interrupted(self) -> None:
        """End the steps in which the program has failed."""
        self._by_hand.finish()
        value = self._objectives.take()
        for followed in self._beginnings.followed:
            followed.interrupted(value)

    def unrecorded(self) -> str:
        """Return what was seen that may have been training."""
        return self._beginnings.unrecorded() or self._by_hand.unrecorded()

    def forked(self) -> None:
        """Repair the state in a forked child: a thread that does not exist there may have held a lock."""
        self._beginnings.forked()

    def forget_losses(self) -> None:
        """Drop what was differentiated until now: it belongs to a framework on top of torch."""
        self._objectives.take()

    def close(self) -> None:
        """End the last step and remove all hooks."""
        self._safe("ending the last step", self._by_hand.finish)()
        self._safe("ending the last step", lambda: self._look_whether_left_out(is_last=True))()
        for handle in (*self._handles, self._last, self._last_of_scaler):
            handle.remove() if hasattr(handle, "remove") else handle.close()
        self._listen_to_calls(False)
        self._beginnings.close()

    # ---- an optimizer waits for its models ---------------------------------------------------------------

    def _made(self, args: tuple[Any, ...], _: Any) -> None:
        OVERRIDING.look()
        self._beginnings.sweep()
        self._beginnings.wait_for(args[0])
        self._listen_to_calls(True)

    def _grown(self, _: tuple[Any, ...]) -> None:
        """Close runs whose model is gone, as a new model is being built."""
        OVERRIDING.look()
        self._beginnings.sweep()
        self._by_hand.grown()

    def _called(self, args: tuple[Any, ...]) -> None:
        if is_grad_enabled() and torch._C._get_tracing_state() is None:
            if self._beginnings.wants_calls:
                self._began(self._beginnings.called(args[0], args[1:]))
            if self._by_hand.wants_calls:
                self._by_hand.called(args[0])

    def _backward(self, roots: Any) -> None:
        self._by_hand.before(roots)
        # A checkpoint differentiates its part of the network inside the pass of the loss: no loss of its own.
        if current_backward() == -1:
            self._look_whether_left_out()
            self._objectives.add(roots)
        self._began(self._beginnings.differentiated())

    def _differentiated(self, _: Any) -> None:
        self._by_hand.after()
        self._began(False)

    def _gradients_taken(self, _: tuple[Any, ...]) -> None:
        self._by_hand.gradients_taken += 1

    def _began(self, is_true: bool) -> None:
        if is_true:
            # Opening a run has installed hooks of the monitor behind ours.
            self._last.go_last()
            self._last_of_scaler.go_last()
        wants_calls = self._beginnings.wants_calls or self._by_hand.wants_calls
        self._listen_to_calls(wants_calls and not self._zero.is_off)

    def _listen_to_calls(self, wants_to: bool) -> None:
        if wants_to and self._calls is None:
            heard = self._safe("looking at a call", self._called)
            self._calls = listen(nn.Module._wrapped_call_impl, before=heard)
        elif self._calls is not None and not wants_to:
            self._calls.close()
            self._calls = None

    # ---- a step ------------------------------------------------------------------------------------------

    def _scaled(self, args: tuple[Any, ...], output: Any) -> None:
        self._objectives.scaled(args[1], output)

    def _before(self, optimizer: Optimizer, args: Any, kwargs: Any) -> None:
        if not self._beginnings.knows(optimizer):
            self._beginnings.overdue(optimizer)
            self._listen_to_calls(True)
        if has_closure(optimizer, args, kwargs):
            self._objectives.begin_closure()

    def _after(self, optimizer: Optimizer, *_: Any) -> None:
        self._has_stepped = True
        self._left_out = 0
        value = self._objectives.take()
        followed = self._beginnings.training_of(optimizer)
        if followed is not None:
            followed.stepped(optimizer, value)

    def _look_whether_left_out(self, *, is_last: bool = False) -> None:
        """Count batches that the program left out; each belongs to the next step.

        MOST_LEFT_OUT of them end a step; at the end of the program a single one does.
        """
        if self._objectives.is_ruined and self._beginnings.has_cleared_gradients(or_ends=is_last):
            self._objectives.doubt()
        self._left_out += self._objectives.is_left_out
        if self._left_out < (1 if is_last else MOST_LEFT_OUT):
            return
        followed = [each for each in self._beginnings.followed if each.is_open]
        if len(followed) == 1:
            self._left_out = 0
            self._objectives.take()
            followed[0].updated_by_hand(None)

    def _before_scaler(self, _: tuple[Any, ...]) -> None:
        self._has_stepped = False

    def _after_scaler(self, args: tuple[Any, ...], _: Any) -> None:
        """End a step that the scaler skipped because of non-finite gradients: it counts as a step."""
        if not self._has_stepped and isinstance(args[1], Optimizer):
            self._after(args[1])

    def _safe(self, doing: str, action: Callable[..., None]) -> Callable[..., None]:
        """Wrap a hook so that errors of ours are reported, and those that the user asked for are raised."""

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
