"""Says where the first NaN or infinity of a training comes from, and keeps the step in which it came.

In ordinary steps this costs a look at the number that a backward pass begins with. When that is not finite,
the forward passes of the step are made once more, followed from operation to operation.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from threading import get_ident
from typing import Any

import torch
from torch.optim import Optimizer

from tb_netdebug.capture.clock import now
from tb_netdebug.capture.pytorch import optimizer_steps
from tb_netdebug.capture.pytorch.backward import watch_backward
from tb_netdebug.capture.pytorch.calls import Call, CallKeeper
from tb_netdebug.capture.pytorch.numerics.capsule import CapsuleWriter
from tb_netdebug.capture.pytorch.numerics.crashes import CrashWatch
from tb_netdebug.capture.pytorch.numerics.flags import flags_of
from tb_netdebug.capture.pytorch.numerics.layer_checks import LayerChecks
from tb_netdebug.capture.pytorch.numerics.loss_origin import culprit_of, operations_of
from tb_netdebug.capture.pytorch.numerics.operation_checks import OperationChecks
from tb_netdebug.capture.pytorch.numerics.roots import DeviceRoots
from tb_netdebug.capture.pytorch.numerics.search import Searched, search
from tb_netdebug.capture.pytorch.order import CallOrder, last_bad_module
from tb_netdebug.capture.pytorch.probe import ProbeContext
from tb_netdebug.capture.pytorch.values import is_functorch_wrapped
from tb_netdebug.capture.run_folder import is_distributed

# After the first time, news of it is told so many times more, each after steps that were well.
MOST_TOLD = 4
# A root that is no single number (a backward pass with gradients given) is looked at up to this size.
MOST_ROOT_VALUES = 1 << 16
AVERAGED = "gradients are averaged over processes: it may have come from another one"


class NumericsProbe:
    """Tells the fact `first-nonfinite` (see `probes.Probe`)."""

    def __init__(self, context: ProbeContext) -> None:
        self._context = context
        self._collector = context.collector
        self._guard = context.guard
        self._keeper = CallKeeper(context.models, context.collector, context.guard)
        self._order = CallOrder(context.models)
        self._told = 0
        self._is_well = True  # since the last time
        self._told_in_step = self._armed_in_step = -1
        self._device_roots = DeviceRoots()
        self._layers = LayerChecks(context, always=context.settings.check_numerics == "layers")
        self._operations = OperationChecks(context) if context.settings.check_numerics == "ops" else None
        self._capsules = self._capsule_writer()
        self._crashes = CrashWatch(self._on_crash) if self._capsules is not None else None
        self._collector.keep_capsule = self.capsule
        self._backward = watch_backward(self._before_backward, guard=context.guard)
        self._hooks = list(self._watch_optimizers())

    def end_step(self) -> None:
        if not (self._layers.are_idle and self._device_roots.are_idle):
            self._layers.end_step()
            if self._told_in_step != self._collector.step:
                self._tell_late()
        if self._operations is not None:
            self._operations.end_step()
        self._keeper.forget()

    def _tell_late(self) -> None:
        """What layers have shown in this step, or what a device says of steps before it."""
        if (found := self._layers.found()) is not None:
            self._tell(Searched(found), "loss", "", list(self._keeper.calls))
            return
        for step, kind in self._device_roots.nonfinite():
            if not self._layers.are_armed:
                self._layers.arm()  # that step is over by now: the next of its kind will be seen
                self._armed_in_step = self._collector.step
            elif step > self._armed_in_step and self._told == 0:
                self._tell(Searched(), "loss", kind, list(self._keeper.calls))

    def capsule(self, reason: str, about: dict[str, Any]) -> Path | None:
        """Writes the step that is going on into a file; None when that was not possible, which is said."""
        if self._capsules is None:
            return None
        written = self._write_capsule(reason, list(self._keeper.calls), about)
        return Path(written) if written else None

    def close(self) -> None:
        if self._crashes is not None:
            self._crashes.close()
        self._backward.close()
        for hook in self._hooks:
            hook.remove()
        self._collector.keep_capsule = None
        for part in (self._keeper, self._order, self._layers, self._operations):
            if part is not None:
                part.close()

    # ---- the loss ----------------------------------------------------------------------------------------

    def _before_backward(self, given: Any) -> None:
        started = now()
        roots = [given] if isinstance(given, torch.Tensor) else list(given)
        bad = None
        for root in roots:
            if type(root) is not torch.Tensor or is_functorch_wrapped(root):
                continue  # asking a tensor of another kind for its value may make processes talk
            if not self._context.reader.is_on_host(root):
                self._device_roots.add(root, self._collector.step)
            elif not is_finite(root):
                bad = root
        if bad is not None:
            self._on_bad_root(bad)
        elif roots and self._told_in_step != self._collector.step:
            self._is_well = True
            self._keeper.forget(but=1)
        self._collector.charge(started)

    def _on_bad_root(self, root: torch.Tensor) -> None:
        if not self._may_tell():
            return
        calls = list(self._keeper.calls)
        live = self._operations.origin if self._operations is not None else None
        found = Searched(live) if live is not None else self._searched(calls)
        self._tell(found, "loss", flags_of(root).kind, calls, of_loss(root, found))

    def _searched(self, calls: Sequence[Call]) -> Searched:
        was_off, self._guard.is_off = self._guard.is_off, True  # nothing of ours looks at the repetition
        try:
            return search(calls, self._context.models)
        finally:
            self._guard.is_off = was_off

    # ---- gradients ---------------------------------------------------------------------------------------

    def _watch_optimizers(self) -> Iterable[Any]:
        """After the hooks that measure the gradients, so that their numbers are there."""
        known = self._context.optimizers.known()
        if not known:
            yield optimizer_steps.BEGINNING.listen(self._before_step)
        for optimizer in known:
            yield optimizer.register_step_pre_hook(self._before_step)

    def _before_step(self, optimizer: Optimizer, *_: Any) -> None:
        squares = self._context.optimizers.squares_of_step(optimizer)
        if squares is None or not squares[1] or self._guard.is_off:
            return
        started = now()
        try:
            if self._told_in_step != self._collector.step and self._may_tell():
                self._on_bad_gradients(optimizer)
        except Exception as error:
            self._guard.fault("looking for the first gradient that is not finite", error)
        self._collector.charge(started)

    def _on_bad_gradients(self, optimizer: Optimizer) -> None:
        parameters = [each for group in optimizer.param_groups for each in group["params"]]
        origin = last_bad_module(parameters, self._context.models, self._order)
        if origin is None:
            return
        if is_distributed(os.environ):  # nor is it known whether this step is the one to keep
            self._tell(Searched(origin, why_not=AVERAGED), "gradient", origin.kind, None)
        else:
            self._tell(Searched(origin), "gradient", origin.kind, list(self._keeper.calls))

    # ---- telling -----------------------------------------------------------------------------------------

    def _may_tell(self) -> bool:
        return self._told < MOST_TOLD and self._is_well

    def _tell(
        self,
        found: Searched,
        what_else: str,
        kind: str,
        calls: Sequence[Call] | None,
        loss: Mapping[str, Any] | None = None,
    ) -> None:
        if not self._may_tell():
            return
        self._told += 1
        self._is_well = False
        self._told_in_step = self._collector.step
        fact = {**as_fact(found, what_else, kind), "operations": [], **(loss or {})}
        fact["capsule"] = None
        if calls is not None:
            kept = calls[: found.call + 1] if found.call >= 0 else calls
            about = {"first_nonfinite": fact}
            fact["capsule"] = self._write_capsule("the first value that is not finite", kept, about)
        self._collector.fact("first-nonfinite", **fact)

    # ---- capsules ----------------------------------------------------------------------------------------

    def _capsule_writer(self) -> CapsuleWriter | None:
        folder = self._collector.run_dir
        return CapsuleWriter(folder) if self._context.settings.capsules and folder is not None else None

    def _write_capsule(self, reason: str, calls: Sequence[Call], about: dict[str, Any]) -> str | None:
        if self._capsules is None or (self._capsules.is_full and "first_nonfinite" in about):
            return None
        written = self._capsules.write(
            self._collector.step,
            reason,
            calls=calls,
            models=self._context.models,
            optimizers=self._context.optimizers.known(),
            about=about,
        )
        if isinstance(written, Path):
            return str(written)
        self._guard.say(f"NetDebug: no capsule of step {self._collector.step} was written: {written}.")
        return None

    def _on_crash(self, error: Exception, trace: str) -> Path | None:
        """An exception is about to end the training, not some other thread, in a step that has a batch."""
        if self._guard.is_off or not self._keeper.calls or self._keeper.thread != get_ident():
            return None
        if self._capsules is None or self._capsules.last_step == self._collector.step:
            return None
        return self.capsule("an exception", {"error": trace})


def is_finite(root: torch.Tensor) -> bool:
    if root.numel() == 1:
        return math.isfinite(abs(root.item()))
    return root.numel() > MOST_ROOT_VALUES or not flags_of(root).any


def of_loss(root: torch.Tensor, found: Searched) -> dict[str, Any]:
    """What the graph of a loss tells, when the models are not to blame."""
    if found.origin is not None and not found.origin.masked_only:
        return {}
    operation, part = culprit_of(root)
    is_target = part == "target"
    return {
        "operations": operations_of(root),
        "operation": operation.lower(),
        "tensor": "target" if is_target else "",
    }


def as_fact(found: Searched, what_else: str, kind: str) -> dict[str, Any]:
    """The fields of `first-nonfinite`; without an origin in the models it is `what_else`."""
    origin = found.origin
    if origin is None or origin.masked_only:
        return {
            "where": "",
            "class_name": "",
            "what": what_else,
            "inputs_finite": origin is None,
            "parameters_finite": True,
            "kind": kind,
            "masked_only": origin is not None,
            "masked_inputs": False,
            "tensor": "",
            "operation": "",
            "site": "",
            "why_not": found.why_not,
        }
    told = asdict(origin)
    del told["order"]
    return {**told, "why_not": found.why_not}
