"""Detects the steps of a PyTorch script: of its optimizers, or made by hand after a backward pass."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Iterable, Sequence
from typing import Any

import torch
from torch import nn
from torch.optim import Optimizer

from tb_netdebug.experiments.rehearsal.leaves_on_torch import Leaves, leaves_of
from tb_netdebug.experiments.rehearsal.passes_on_torch import listen_to_passes
from tb_netdebug.experiments.rehearsal.stop import StepGate, Subject
from tb_netdebug.frameworks.torch import optimizer_steps
from tb_netdebug.frameworks.torch.eager import never_compiled
from tb_netdebug.frameworks.torch.taps import Handle, listen
from tb_netdebug.integrations.torch_scripts.followed import guesses_of
from tb_netdebug.integrations.torch_scripts.names import Place, named, user_place
from tb_netdebug.integrations.torch_scripts.owners import find_owners, parameter_ids, tensors_of

BY_HAND = "by hand"
MOST_CALLED = 1000
# The most backward passes without anything that looks like a step. Gradient accumulation needs fewer.
MOST_PASSES = 1000


def listen_to(gate: StepGate) -> TorchSteps:
    return TorchSteps(gate)


class TorchSteps:
    """Stops before an optimizer steps; without an optimizer, when the n-th backward pass has ended.

    A step with a closure begins with the closure: it is called, so that there are a loss and gradients, and
    then the step is stopped. In a script with an optimizer, changes made by hand are noticed at the end of
    the pass if a hook made them, else when the next pass begins. A script whose changes cannot be seen is
    ended after MOST_PASSES passes.
    """

    def __init__(self, gate: StepGate) -> None:
        self._gate = gate
        self._optimizers: dict[int, tuple[Optimizer, Place | None]] = {}
        self._called: dict[int, weakref.ref[nn.Module]] = {}
        self._leaves = Leaves()
        self._passes = 0
        self._in_scaler = threading.local()
        # torch.compile must not trace into our hooks.
        for name in ("_made", "_before", "_module", "_scaling", "_ahead", "_behind"):
            never_compiled(getattr(TorchSteps, name))
        listen(Optimizer.__init__, after=self._made)
        listen(torch.amp.GradScaler.step, before=self._scaling, after=self._scaled)
        self._calls: Handle | None = listen(nn.Module._wrapped_call_impl, before=self._module)
        listen_to_passes(self._ahead, self._behind, gate.fault)
        optimizer_steps.BEGINNING.listen(self._before)

    # ---- models ------------------------------------------------------------------------------------------

    def subjects(self) -> list[Subject]:
        optimizers = [each for each, _ in self._optimizers.values()]
        called = self._roots()
        owners = find_owners(optimizers, called=self._whole(optimizers, called))
        models = owners.all_models() or called
        places = {number: place for number, (_, place) in self._optimizers.items()}
        found = [Subject(named(models, guesses_of(optimizers, owners, places)), optimizers)] if models else []
        return found + [Subject({"": each}) for each in called if len(models) > 1 or each not in models]

    def _roots(self) -> list[nn.Module]:
        """Return the modules that were called and are not part of another one that was."""
        called = [each for reference in self._called.values() if (each := reference()) is not None]
        parts = {id(part) for each in called for part in each.modules() if part is not each}
        return [each for each in called if id(each) not in parts]

    def _whole(self, optimizers: Sequence[Optimizer], called: Sequence[nn.Module]) -> nn.Module | None:
        """Return the called module that contains everything the optimizers update, or None."""
        wanted = {id(tensor) for each in optimizers for tensor in tensors_of(each)}
        return next((each for each in called if wanted and wanted <= parameter_ids(each)), None)

    def _module(self, args: tuple[Any, ...]) -> None:
        """Note a called module; stop listening after MOST_CALLED of them."""
        if len(self._called) >= MOST_CALLED and self._calls is not None:
            self._calls.close()
            self._calls = None
        elif id(args[0]) not in self._called:
            self._called[id(args[0])] = weakref.ref(args[0])

    # ---- steps -------------------------------------------------------------------------------------------

    def _made(self, args: tuple[Any, ...], _: Any) -> None:
        self._optimizers[id(args[0])] = args[0], user_place()

    def _before(self, optimizer: Optimizer, args: Any, kwargs: Any) -> None:
        self._optimizers.setdefault(id(optimizer), (optimizer, None))  # a copy, or older than us
        self._begin_anew()
        if self._is_counted(optimizer):
            return
        if not self._gate.where and self._gate.is_next(id(optimizer)):
            call_closure(args, kwargs)
        self._gate.reached(id(optimizer))

    def _scaling(self, args: tuple[Any, ...]) -> None:
        """Count the step of a GradScaler, which counts even if it skips the step of its optimizer."""
        if isinstance(args[1], Optimizer):
            self._begin_anew()
            self._gate.reached(id(args[1]))
            self._in_scaler.optimizer = id(args[1])

    def _scaled(self, *_: Any) -> None:
        self._in_scaler.optimizer = None

    def _is_counted(self, optimizer: Optimizer) -> bool:
        """Return whether the scaler has already counted this step of the optimizer; reset the note."""
        is_counted = getattr(self._in_scaler, "optimizer", None) == id(optimizer)
        self._in_scaler.optimizer = None
        return is_counted

    # ---- passes ------------------------------------------------------------------------------------------

    def _ahead(self, roots: Iterable[Any]) -> None:
        """Look for a step by hand before a backward pass begins, then keep the values of its leaves."""
        if self._gate.where:
            self._gate.reached(BY_HAND)
        if self._gate.is_inside_step:
            self._begin_anew()
            return
        self._look_for_step()
        if self._passes >= MOST_PASSES:
            self._gate.exhausted(f"{self._passes} backward passes")
        if not torch._C._functorch.peek_interpreter_stack():  # inside torch.func, tensors are wrappers
            models = self._roots()
            self._leaves.keep(self._trained(leaves_of(roots)), models)

    def _behind(self, _: Iterable[Any]) -> None:
        """Count a backward pass; without an optimizer its end is the step."""
        if self._gate.is_inside_step:
            return
        self._passes += 1
        if not self._optimizers:
            self._gate.reached(BY_HAND)
        self._look_for_step()

    def _look_for_step(self) -> None:
        if self._optimizers and self._leaves.have_changed():
            self._begin_anew()
            self._gate.reached(BY_HAND)

    def _trained(self, leaves: dict[int, torch.Tensor]) -> list[torch.Tensor]:
        """Return what the optimizers update, and the other leaves of a pass that is unrelated to them.

        Other changes in a pass of the optimizers are no step: an attack on the model changes its own input.
        """
        moved = {id(tensor): tensor for each, _ in self._optimizers.values() for tensor in tensors_of(each)}
        return list((moved if moved.keys() & leaves.keys() else moved | leaves).values())

    def _begin_anew(self) -> None:
        self._leaves.forget()
        self._passes = 0


def call_closure(args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """Call the closure of `step(closure)`, if there is one.

    Depending on the version of torch, the optimizer is the first argument of a hook or not.
    """
    for each in (*args, *kwargs.values()):
        if callable(each) and not isinstance(each, Optimizer | torch.amp.GradScaler):
            with torch.enable_grad():
                each()
            return
