"""Finds batches whose non-finite loss makes the program skip the backward pass.

A suspect is the first bad tensor since the last backward pass: a NaN in a model's output, or a loss that a
loss function returns. The question about it is asked at once, while everything is as it was. Its fate is
known when the next backward pass begins or the step ends. Tensors on accelerators are not checked.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch

from tb_netdebug.frameworks.torch import optimizer_steps
from tb_netdebug.frameworks.torch.losses.functions import loss_functions
from tb_netdebug.frameworks.torch.numerics.flags import flags_of
from tb_netdebug.frameworks.torch.numerics.graph_evidence import forward_order
from tb_netdebug.frameworks.torch.numerics.operations import site
from tb_netdebug.frameworks.torch.numerics.origin_question import OriginQuestion
from tb_netdebug.frameworks.torch.probe import ProbeContext
from tb_netdebug.frameworks.torch.taps import listen
from tb_netdebug.frameworks.torch.values import is_functorch_wrapped
from tb_netdebug.recording.clock import now

is_traced = torch._C._is_tracing
current_backward = torch._C._current_graph_task_id

# Metadata key set on the operation that made a suspect. It keeps nothing alive.
MARK = "netdebug_suspect"
# Reading so many values takes about a microsecond. Larger outputs show in their loss.
MOST_OUTPUT_VALUES = 4096
# A program that computes a finite loss from such values intends them. After so many times nothing is
# suspected.
MOST_MEANT = 2


@dataclass(frozen=True, slots=True)
class Suspect:
    """What is known of a bad tensor; `asked` is the result of `ask`, None when too much was asked already.

    `function` is the loss function that returned it, at the line `site`. `made_here`: its arguments were
    finite. `of_target`: the non-finite arguments had no graph.
    """

    asked: OriginQuestion | None
    function: str = ""
    site: str = ""
    made_here: bool = False
    of_target: bool = False

    def known(self) -> OriginQuestion | None:
        """Return the question with what is known of the loss function; None when nothing was asked."""
        if self.asked is not None:
            self.asked.loss_function, self.asked.loss_site = self.function, self.site
            self.asked.is_of_function, self.asked.is_of_target = self.made_here, self.of_target
        return self.asked


class LeftOut:
    """Calls `ask(tensor)` for a suspect and keeps the result, which may be None, until `take`."""

    def __init__(self, context: ProbeContext, ask: Callable[[torch.Tensor], OriginQuestion | None]) -> None:
        self._context = context
        self._ask = ask
        self._suspect: Suspect | None = None
        self.is_pending = False  # there is a suspect; a field, because each step asks
        self._meant = 0
        self.is_differentiated = False  # gradients were taken in this step, or an optimizer has stepped
        self.may_be_used = False  # gradients were taken since the suspect, perhaps of it
        self._handles = [
            listen(each.function, after=partial(self._look_at_loss, each.name)) for each in loss_functions()
        ]
        self._handles.append(listen(torch.autograd.grad, before=self._note_gradients))
        self._steps = optimizer_steps.BEGINNING.listen(self.note_use)

    def take(self) -> Suspect | None:
        """Return the suspect and forget it."""
        taken, self._suspect, self.is_pending = self._suspect, None, False
        return taken

    def note_use(self, *_: Any) -> None:
        """Note that this step's results are used for gradients or weights."""
        self.is_differentiated = True

    def look_at_output(self, output: torch.Tensor) -> None:
        """Check a model's output in a training call. Infinities alone are ignored: masks are made of them."""
        if (
            not self.is_pending
            and self._meant < MOST_MEANT
            and type(output) is torch.Tensor
            and output.requires_grad
            and output.numel() <= MOST_OUTPUT_VALUES
            and not is_functorch_wrapped(output)
            and self._context.reader.is_bad_on_host(output)
            and flags_of(output).nan
        ):
            self.suspect(output)

    def suspect(self, tensor: torch.Tensor, **known: Any) -> None:
        """Ask about a non-finite tensor if it has a graph."""
        node: Any = tensor.grad_fn
        if node is None or current_backward() != -1:
            return
        node.metadata[MARK] = True
        self._suspect, self.is_pending = Suspect(self._ask(tensor), **known), True
        self.may_be_used = False

    def is_in(self, roots: Iterable[torch.Tensor]) -> bool:
        """Return whether the roots were computed with the suspect."""
        return any(MARK in node.metadata for node in forward_order(*roots))

    def was_meant(self) -> None:
        """Note that a finite loss was computed with the suspect."""
        self._meant += 1

    def close(self) -> None:
        self.take()
        self._steps.remove()
        for handle in self._handles:
            handle.close()

    def _note_gradients(self, _: tuple[Any, ...]) -> None:
        self.note_use()
        self.may_be_used = True

    def _look_at_loss(self, function: str, args: tuple[Any, ...], output: Any) -> None:
        """Check the result of a loss function; in ordinary steps this ends with reading the number."""
        if (
            self.is_pending
            or type(output) is not torch.Tensor
            or not output.requires_grad
            or output.numel() != 1
            or not output.is_cpu
            or is_functorch_wrapped(output)
            or is_traced()
            or math.isfinite(output.item())
        ):
            return
        started = now()
        try:
            if not self._context.guard.is_off and self._meant < MOST_MEANT:
                given = [each for each in args if isinstance(each, torch.Tensor)]
                bad = [each for each in given if flags_of(each).any]
                of_target = bool(bad) and not any(each.requires_grad for each in bad)
                self.suspect(output, function=function, site=site(), made_here=not bad, of_target=of_target)
        except Exception as error:
            self._context.guard.fault("looking at a loss", error)
        self._context.collector.charge(started)
