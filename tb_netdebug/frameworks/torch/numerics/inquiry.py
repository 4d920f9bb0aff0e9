"""Asks a forked copy of the process where the NaN of a step came from; the run itself repeats nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import torch
from torch import nn

from tb_netdebug.frameworks.torch.calls import ModelCall
from tb_netdebug.frameworks.torch.interception import intercepted
from tb_netdebug.frameworks.torch.numerics.devices import accelerators_in_use
from tb_netdebug.frameworks.torch.numerics.fact import LossFields
from tb_netdebug.frameworks.torch.numerics.graph_evidence import first_seen, placed
from tb_netdebug.frameworks.torch.numerics.loss_origin import culprit_of, operations_of
from tb_netdebug.frameworks.torch.numerics.search import Searched, inner, search
from tb_netdebug.frameworks.torch.values import tensors_in
from tb_netdebug.recording.clock import now
from tb_netdebug.recording.fork.question import Question
from tb_netdebug.recording.fork.question import why_not as why_no_fork
from tb_netdebug.recording.guard import Guard

MOST_SECS = 60.0
# The limit for the whole program, because each of many short runs may diverge.
MOST_WAITED_SECS = 10.0

NO_FIELDS: LossFields = {"operations": ()}


class Inquiry:
    """Asks one question at a time; `found` returns the answer with further fields of the fact."""

    # An answer within the step itself is worth most, so the run waits this long for it. Then it goes on, and
    # the copy may take its time.
    patience_secs = 2.0
    patience_at_end_secs = 3.0
    waited_secs = 0.0  # summed over all runs of this process

    def __init__(self, models: Mapping[str, nn.Module], guard: Guard) -> None:
        self._models = models
        self._guard = guard
        self._question: Question | None = None
        self._is_lost = False

    @property
    def is_pending(self) -> bool:
        return self._question is not None

    def ask(self, calls: Sequence[ModelCall], root: torch.Tensor) -> str:
        """Ask about the current step. Return why that is impossible; empty when the question was asked."""
        why_not = self._why_not(calls)
        if not why_not:
            inquire = partial(answer_about, list(calls), self._models, root, self._guard)
            self._question = Question(inquire, most_secs=MOST_SECS)
        return why_not

    def found(self, wait_secs: float = 0.0) -> tuple[Searched, LossFields] | None:
        """Return the answer once; None while there is none."""
        question = self._question
        if question is None:
            return None
        began = now()
        answer = question.answer(min(wait_secs, max(MOST_WAITED_SECS - Inquiry.waited_secs, 0.0)))
        Inquiry.waited_secs += now() - began
        if not question.is_over:
            return None
        self._question = None
        if answer is None:
            # The copy failed or ran out of time, so nothing more is asked in this run.
            self._is_lost = True
            return Searched(why_not=question.why_not, is_open=True), NO_FIELDS
        fields: LossFields = answer["fields"]
        return Searched.from_dict(answer["found"]), {**fields, "operations": tuple(fields["operations"])}

    def drop(self) -> None:
        """Withdraw the question, if one was asked: nobody needs the answer any more."""
        question, self._question = self._question, None
        if question is not None:
            question.close()

    def give_up(self) -> tuple[Searched, LossFields] | None:
        """Return what is known when the run ends, after one last wait."""
        found = self.found(self.patience_at_end_secs)
        if found is None and self._question is not None:
            self._question.close()
            found = self.found()
        return found

    def _why_not(self, calls: Sequence[ModelCall]) -> str:
        if self._question is not None:
            return "the search for an earlier one is not finished"
        if self._is_lost:
            return "repeating a batch in a copy of the process has failed before"
        if accelerators_in_use() or is_elsewhere(calls):
            return "on an accelerator, a batch cannot be repeated in a copy of the process"
        if any(is_shared(each) for model in self._models.values() for each in state_of(model)):
            return "the weights are shared with other processes, which may change them at any time"
        return why_no_fork()


def answer_about(
    calls: Sequence[ModelCall], models: Mapping[str, nn.Module], root: torch.Tensor, guard: Guard
) -> dict[str, Any]:
    """Answer the question, in the forked copy.

    The graph is read before anything runs, because some of it can be read only once.
    """
    guard.is_off = True  # our own hooks must not record this
    # Only this thread came along into the copy: a parallel loop would wait for workers that are not there.
    torch.set_num_threads(1)
    # In the copy nothing can be compiled: it may start no process and open no file.
    if hasattr(torch.compiler, "set_stance"):
        torch.compiler.set_stance("force_eager")
    known = {name: inner(each) for name, each in models.items()}
    fields = fields_of_loss(root)
    seen = first_seen(root, known)
    with intercepted():
        found = search(calls, models)
    if found.origin is None and found.repeats is None and seen is not None and seen.is_in_a_model:
        # The graph proves that the value was there, yet a repetition did not show it. If nothing prevented
        # the repetition, the value does not come back.
        found = replace(found, repeats=None if found.why_not else False, is_open=True)
    if found.is_open and seen is not None:
        call = calls[found.call] if found.repeats is False else None
        origin = seen.origin if call is None else placed(seen, call, known, inner(call.model))
        found = replace(found, origin=origin)
    is_of_loss = not found.is_open and (found.origin is None or found.origin.masked_only)
    return {"found": found.as_dict(), "fields": fields if is_of_loss else NO_FIELDS}


def fields_of_loss(root: torch.Tensor) -> LossFields:
    """Return what the graph tells about a loss when the models are not to blame."""
    culprit = culprit_of(root)
    return {
        "operations": tuple(operations_of(root)),
        "operation": culprit.operation.lower(),
        "site": culprit.line,
        "tensor": culprit.part if culprit.part in ("target", "operand") else "",
        "variable": culprit.variable,
    }


def is_elsewhere(calls: Sequence[ModelCall]) -> bool:
    """Return whether any tensor of a batch is on a device other than the host."""
    return any(
        not tensor.is_cpu
        for call in calls
        for each in (*call.args, *call.kwargs.values())
        for _, tensor in tensors_in(each)
    )


def is_shared(tensor: torch.Tensor) -> bool:
    try:
        return bool(tensor.is_shared())
    except (RuntimeError, NotImplementedError):  # a sparse tensor, for example, has no memory of its own
        return False


def state_of(model: nn.Module) -> list[torch.Tensor]:
    return [
        each
        for module in model.modules()
        for each in (*module._parameters.values(), *module._buffers.values())
        if each is not None
    ]
