"""Reports where the first NaN or infinity of a run comes from, and writes a capsule of its step.

An ordinary step costs one look at the value from which a backward pass starts. If it is not finite, a forked
copy of the process repeats the forward passes of the step, traced operation by operation.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from threading import get_ident
from typing import Any

import torch
from torch.optim import Optimizer

from tb_netdebug.core.records.fact_codec import encode_fact
from tb_netdebug.core.records.scalar_names import BATCH_LEFT_OUT, LOSS, LOSS_LEFT_OUT
from tb_netdebug.frameworks.torch import optimizer_steps
from tb_netdebug.frameworks.torch.calls import CallKeeper, ModelCall
from tb_netdebug.frameworks.torch.hooks import before_step
from tb_netdebug.frameworks.torch.interception import uncompiled, unintercepted
from tb_netdebug.frameworks.torch.numerics.averages import are_bad, divided_by_zero
from tb_netdebug.frameworks.torch.numerics.backward_checks import BackwardChecks, of_slope
from tb_netdebug.frameworks.torch.numerics.capsule import CapsuleWriter
from tb_netdebug.frameworks.torch.numerics.crashes import CrashWatch
from tb_netdebug.frameworks.torch.numerics.fact import LossFields, as_fact, script
from tb_netdebug.frameworks.torch.numerics.flags import flags_of
from tb_netdebug.frameworks.torch.numerics.inquiry import Inquiry
from tb_netdebug.frameworks.torch.numerics.layer_checks import LayerChecks
from tb_netdebug.frameworks.torch.numerics.left_out import LeftOut, Suspect
from tb_netdebug.frameworks.torch.numerics.loss_lines import LossLines
from tb_netdebug.frameworks.torch.numerics.loss_origin import operations_of
from tb_netdebug.frameworks.torch.numerics.operation_checks import OperationChecks
from tb_netdebug.frameworks.torch.numerics.operations import site
from tb_netdebug.frameworks.torch.numerics.origin_question import OriginQuestion
from tb_netdebug.frameworks.torch.numerics.roots import DeviceRoots
from tb_netdebug.frameworks.torch.numerics.ruined import RuinedBatch
from tb_netdebug.frameworks.torch.numerics.search import Searched
from tb_netdebug.frameworks.torch.order import CallOrder, last_bad_module
from tb_netdebug.frameworks.torch.probe import ProbeContext
from tb_netdebug.frameworks.torch.values import is_functorch_wrapped
from tb_netdebug.recording.clock import now
from tb_netdebug.recording.run_folder import is_distributed, rank

# At most so many reports per run. After each, the steps must have been fine before the next.
MOST_TOLD = 4
# A root with more than one value (a backward pass with gradients given) is tested up to this size.
MOST_ROOT_VALUES = 1 << 16
FIRST = "the first value that is not finite"
AVERAGED = "gradients are averaged over processes, so it may have come from another one"


class NumericsProbe:
    """The probe that records the fact `first-nonfinite` (see `probes.Probe`)."""

    def __init__(self, context: ProbeContext) -> None:
        self._context = context
        self._collector = context.collector
        self._guard = context.guard
        self._follows = context.settings.check_numerics == "ops"
        self._left_out = LeftOut(context, self._ask_suspect)
        self._ruined = RuinedBatch(context)
        self._loss_lines = LossLines(always=self._follows)
        self._keeper = CallKeeper(context.models, context.calls, context.guard, look=self._on_output)
        self._order = CallOrder(context.models)
        self._told = 0
        self._is_well = True  # steps have been fine since the last report
        self._told_in_step = self._armed_in_step = -1
        self._inquiry = Inquiry(context.models, context.guard)
        self._asked: OriginQuestion | None = None  # the question whose answer has not come yet
        self._is_open = False  # the last report could not name its origin for certain
        self._device_roots = DeviceRoots()
        self._layers = LayerChecks(context, always=context.settings.check_numerics == "layers")
        self._operations = OperationChecks(context) if self._follows else None
        on_fault = partial(context.guard.fault, "following a backward pass")
        self._slopes = BackwardChecks(on_fault) if self._follows else None
        self._capsules = self._capsule_writer()
        self._crashes = CrashWatch(self._on_crash) if self._capsules is not None else None
        self._collector.keep_capsule = unintercepted(self.capsule)
        context.backward.listen(
            self._before_backward, None if self._slopes is None else self._slopes.end_pass
        )
        self._hooks = list(self._watch_optimizers())

    def told_loss(self, loss: Any) -> None:
        """Take what the user calls the loss of the step that ends; note it if nothing was differentiated."""
        if self._left_out.is_differentiated:
            return
        is_tensor = isinstance(loss, torch.Tensor) and not is_functorch_wrapped(loss)
        is_known = bool(self._keeper.calls) or (is_tensor and loss.requires_grad)
        value = self._collector.scalars.get(LOSS)  # a loss on a device arrives later
        if not is_known or (value is not None and math.isfinite(value)):
            return
        self._collector.scalars[LOSS_LEFT_OUT] = 1.0
        if is_tensor and value is not None and not self._left_out.is_pending:
            self._left_out.suspect(loss)

    def end_step(self) -> None:
        if self._ruined.is_waiting:
            self._ruined.look(is_end=True)
        if self._left_out.is_pending:
            self._tell_left_out()
        self._left_out.is_differentiated = False
        if self._loss_lines.is_armed:
            self._loss_lines.end_step()
        if self._asked is not None:
            self._tell_answer(self._inquiry.found())
        if not (self._layers.are_idle and self._device_roots.are_idle):
            self._layers.end_step()
            if self._told_in_step != self._collector.step:
                self._tell_late()
        if self._operations is not None:
            self._operations.end_step()
        if self._slopes is not None:
            self._slopes.forget()
        self._keeper.forget()

    def _tell_late(self) -> None:
        """Report what layers have shown in this step, or what a device says about earlier ones."""
        found = self._layers.found()
        if found is not None and not (self._is_open and found.what == "parameter"):
            self._is_well = self._is_well or self._is_open
            self._tell(Searched(found), "loss", "", list(self._keeper.calls))
            return
        for step, kind in self._device_roots.nonfinite():
            if not self._layers.are_armed:
                self._layers.arm()  # that step is over: be ready for the next bad one
                self._armed_in_step = self._collector.step
            elif step > self._armed_in_step and self._told == 0:
                self._tell(Searched(), "loss", kind, list(self._keeper.calls))

    def capsule(self, reason: str, about: dict[str, Any]) -> Path | None:
        """Write the current step into a file and return its path.

        None when that was impossible; the user is told why.
        """
        if self._capsules is None:
            return None
        written = self._write_capsule(reason, list(self._keeper.calls), about)
        return Path(written) if written else None

    def close(self) -> None:
        self._loss_lines.end()
        self._ruined.close()
        self._tell_left_out()
        self._tell_answer(self._inquiry.give_up())
        if self._crashes is not None:
            self._crashes.close()
        for hook in self._hooks:
            hook.remove()
        self._collector.keep_capsule = None
        if self._slopes is not None:
            self._slopes.forget()
        for part in (self._left_out, self._keeper, self._order, self._layers, self._operations):
            if part is not None:
                part.close()

    # ---- the loss ----------------------------------------------------------------------------------------

    def _on_output(self, output: torch.Tensor) -> None:
        """Note a model's output: from here on, operations belong to the loss."""
        if self._loss_lines.is_armed:
            self._loss_lines.begin()
        if not self._follows:  # the tracer would trace our own look at it
            self._left_out.look_at_output(output)

    def _before_backward(self, given: Any) -> None:
        started = now()
        if self._loss_lines.is_armed:
            self._loss_lines.end()
        if self._ruined.is_waiting:
            self._ruined.look()
        is_one = type(given) is torch.Tensor or isinstance(given, torch.Tensor)
        roots = [given] if is_one else list(given)
        bad = None
        for root in roots:
            if type(root) is not torch.Tensor or is_functorch_wrapped(root):
                continue  # reading a subclass may make processes communicate
            if not self._context.reader.is_on_host(root):
                self._device_roots.add(root, self._collector.step)
            elif not is_finite(root):
                bad = root
        if bad is not None:
            self._ruined.begin()
            self._on_bad_root(bad)
        else:
            self._on_good_roots(roots)
            if self._slopes is not None:
                self._slopes.begin(root for root in roots if type(root) is torch.Tensor)
        self._left_out.is_differentiated = True
        self._collector.spent_secs += now() - started

    def _on_good_roots(self, roots: Sequence[torch.Tensor]) -> None:
        if self._left_out.is_pending:
            if self._left_out.is_in(roots):
                self._left_out.was_meant()
                self._forget(self._left_out.take())
            else:
                self._tell_left_out()
        if roots and self._told_in_step != self._collector.step:
            self._is_well = True
            if len(self._keeper.calls) > 1:
                self._keeper.forget(but=1)

    def _on_bad_root(self, root: torch.Tensor) -> None:
        suspect, asked = self._left_out.take(), None
        if suspect is not None and self._left_out.is_in([root]):
            asked = suspect.known()
        else:
            self._forget(suspect)
        if asked is None:
            if not self._may_tell():
                return
            asked = self._ask(root)
        asked.backward_site = site()
        self._tell_asked(asked)

    # ---- a batch that the program leaves out ---------------------------------------------------------------

    def _forget(self, suspect: Suspect | None) -> None:
        """Drop the question about this suspect: nobody needs the answer any more."""
        if suspect is not None and suspect.asked is not None:
            self._inquiry.drop()

    def _ask_suspect(self, tensor: torch.Tensor) -> OriginQuestion | None:
        is_free = self._may_tell() and not self._inquiry.is_pending
        return self._ask(tensor) if is_free and self._keeper.calls else None

    def _tell_left_out(self) -> None:
        """Report a suspect that no backward pass has followed."""
        suspect = self._left_out.take()
        if suspect is None:
            return
        is_left_out = not self._left_out.may_be_used
        if is_left_out:
            self._collector.scalars[BATCH_LEFT_OUT] = 1.0
        asked = suspect.known()
        if asked is not None:
            asked.left_out = is_left_out
            self._tell_asked(asked)

    # ---- a question and its answer -------------------------------------------------------------------------

    def _ask(self, root: torch.Tensor) -> OriginQuestion:
        calls = list(self._keeper.calls)
        asked = OriginQuestion(self._collector.step, flags_of(root).kind, calls, operations_of(root))
        optimizers = self._context.optimizers.known()
        asked.was_updated, asked.divided_by_zero = are_bad(optimizers), divided_by_zero(optimizers)
        if self._operations is not None:
            asked.live = self._operations.origin
        if asked.live is None:
            asked.seen = self._layers.found()  # found by the layer checks, in the pass itself
            asked.why_not = self._inquiry.ask(calls, root)
        return asked

    def _tell_asked(self, asked: OriginQuestion) -> None:
        if asked.live is not None:
            self._tell(Searched(asked.live), "loss", asked.kind, asked.calls, asked.fate())
        elif asked.why_not:
            found = Searched(asked.seen, why_not=asked.why_not, is_open=True)
            self._tell_of(found, {"operations": tuple(asked.operations)}, asked)
        elif (answer := self._inquiry.found(Inquiry.patience_secs)) is not None:
            self._tell_of(*answer, asked)
        else:
            self._await(asked)

    def _await(self, asked: OriginQuestion) -> None:
        """Remember the question past its step; the capsule is written now, while the step is still there."""
        self._asked = asked
        self._told_in_step, self._is_well = self._collector.step, False
        looked_for = Searched(why_not="the search was not finished", is_open=True)
        about = {"first_nonfinite": encode_fact(as_fact(looked_for, "loss", asked.kind)).data}
        asked.capsule = self._write_capsule(FIRST, asked.calls, about)
        asked.calls = []

    def _tell_of(self, found: Searched, fields: LossFields, asked: OriginQuestion) -> None:
        """Report an answer about a loss; if that is open, arm the layer checks for the next steps."""
        if found.origin is None and found.is_open and asked.seen is not None:
            found = replace(found, origin=asked.seen)
        is_late = asked is self._asked
        if is_late:
            fields = {**fields, "step": asked.step, "capsule": asked.capsule}
        if found.origin is None or found.origin.masked_only:
            fields = {**fields, **asked.lines_of_loss(fields)}
            if not fields["site"]:
                self._loss_lines.arm()
        fields = {**fields, **asked.fate()}
        self._tell(found, "loss", asked.kind, None if is_late else asked.calls, fields)
        if found.is_open and found.repeats is None:
            self._is_open = True
            self._layers.arm()

    def _tell_answer(self, answer: tuple[Searched, LossFields] | None) -> None:
        """Report an answer that came after its step."""
        if answer is None or self._asked is None:
            return
        # The question was asked while a report was allowed; the bad steps since then must not block its
        # answer.
        self._is_well, was_well = True, self._is_well
        self._tell_of(*answer, self._asked)
        self._asked = None
        self._is_well = was_well

    # ---- gradients ---------------------------------------------------------------------------------------

    def _watch_optimizers(self) -> Iterable[Any]:
        """Listen to bad gradients, or, with operations followed, behind what measures the gradients."""
        if self._slopes is None:
            self._context.optimizers.told_bad = unintercepted(self._before_step)
            return
        known = self._context.optimizers.known()
        if not known:
            yield optimizer_steps.BEGINNING.listen(self._before_step)
        for optimizer in known:
            yield before_step(optimizer, uncompiled(self._before_step))

    def _before_step(self, optimizer: Optimizer, *_: Any) -> None:
        squares = self._context.optimizers.squares_of_step(optimizer)
        is_bad = bool(squares and squares[1]) or (self._slopes is not None and self._slopes.found is not None)
        if not is_bad or self._guard.is_off:
            return
        started = now()
        try:
            if self._told_in_step != self._collector.step and self._may_tell():
                self._on_bad_gradients(optimizer)
        except Exception as error:
            self._guard.fault("looking for the first gradient that is not finite", error)
        self._collector.charge(started)

    def _on_bad_gradients(self, optimizer: Optimizer) -> None:
        seen = self._layers.found()
        if seen is not None:  # the layer checks saw it on the way there
            self._tell(Searched(seen), "gradient", seen.kind, list(self._keeper.calls))
            return
        parameters = [each for group in optimizer.param_groups for each in group["params"]]
        origin = last_bad_module(parameters, self._context.models, self._order)
        if origin is None:
            return
        slope = None if self._slopes is None else self._slopes.found
        if slope is not None and self._operations is not None:
            origin = of_slope(slope, origin, self._operations.place_of(slope.number))
        if is_distributed(os.environ):  # nor is it known whether this step is worth a capsule
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
        calls: Sequence[ModelCall] | None,
        loss: LossFields | None = None,
    ) -> None:
        """Record the fact and write a capsule of the calls, unless they are None."""
        if not self._may_tell():
            return
        self._told += 1
        self._is_well = False
        self._told_in_step = self._collector.step
        self._is_open = False
        fact = replace(
            as_fact(found, what_else, kind),
            step=self._collector.step,
            operations=(),
            script=script(),
            left_out=False,
            follows=self._follows,
            rank=rank(os.environ) if is_distributed(os.environ) else None,
        )
        fact = replace(fact, **(loss or {}))
        if calls is not None:
            # Calls after the one at fault add nothing to a replay.
            kept = calls[: found.call + 1] if found.call >= 0 else calls
            about = {"first_nonfinite": encode_fact(fact).data}
            fact = replace(fact, capsule=self._write_capsule(FIRST, kept, about))
        self._collector.fact(fact)

    # ---- capsules ----------------------------------------------------------------------------------------

    def _capsule_writer(self) -> CapsuleWriter | None:
        folder = self._collector.run_dir
        return CapsuleWriter(folder) if self._context.settings.capsules and folder is not None else None

    def _write_capsule(self, reason: str, calls: Sequence[ModelCall], about: dict[str, Any]) -> str | None:
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

    def _on_crash(self, error: Exception, trace: str) -> Path | str | None:
        """Write a capsule for an exception that is about to end the run, or a thread.

        Return the capsule, why there is none, or None to stay silent.
        """
        if self._guard.is_off or self._capsules is None:
            return None
        if self._collector.first_step is not None and not self._keeper.calls:
            return None  # another message says that nothing was recorded
        if not self._keeper.calls:
            return "it happened between two steps, when no batch was in the model"
        if self._keeper.thread != get_ident():
            return None
        if self._capsules.last_step == self._collector.step:
            return self._capsules.written[-1]
        return self.capsule("an exception", {"error": trace})


def is_finite(root: torch.Tensor) -> bool:
    if root.numel() == 1:
        value = root.item()
        return bool(value - value == 0)  # of a complex number, too
    return root.numel() > MOST_ROOT_VALUES or not flags_of(root).any
