"""Watches calls of the loss functions of torch.nn.functional and records facts and numbers about them."""

from __future__ import annotations

import sys
from functools import partial
from typing import Any

import torch
from torch import Tensor

from tb_netdebug.core.records.step import Kind, Series
from tb_netdebug.frameworks.torch.interception import is_intercepted, overrides
from tb_netdebug.frameworks.torch.losses.evaluations import Evaluations
from tb_netdebug.frameworks.torch.losses.functions import LossCall, LossFunction, loss_functions
from tb_netdebug.frameworks.torch.losses.numbers import numbers_of
from tb_netdebug.frameworks.torch.losses.scalar_sink import ScalarSink, is_recorded, measuring
from tb_netdebug.frameworks.torch.losses.sites import Site, Sites
from tb_netdebug.frameworks.torch.probe import ProbeContext
from tb_netdebug.frameworks.torch.taps import listen
from tb_netdebug.frameworks.torch.values import UnreadableError, is_functorch_wrapped, plain
from tb_netdebug.recording.clock import now

is_traced = torch._C._is_tracing
is_grad_enabled = torch.is_grad_enabled
current_backward = torch._C._current_graph_task_id


class LossCalls:
    """Measures training calls in steps that the probes measure, and averages calls of evaluations.

    It does not matter how a function is reached: through a loss module, an attribute of torch.nn.functional,
    or a name imported long before. Not seen are calls inside torch.compile, torch.jit.trace and torch.func
    transforms, calls on threads other than the run's, in forked children, and those that backward repeats.
    """

    def __init__(self, context: ProbeContext, sink: ScalarSink) -> None:
        self._collector = context.collector
        self._reader = context.reader
        self._guard = context.guard
        self._wants_labels = context.settings.batches
        self._sink = sink
        self._sites = Sites()
        self._labels = Series(Kind.TENSOR, "label/0")  # the labels of site 0
        self.seen = 0  # calls in this step
        self.evaluations = Evaluations(sink)
        self._handles = [
            listen(each.function, after=partial(self._called, each)) for each in loss_functions()
        ]

    def end_step(self) -> None:
        self.seen = 0
        if self.evaluations.calls:
            self.evaluations.end_step()

    def close(self) -> None:
        for handle in self._handles:
            handle.close()

    def _called(self, function: LossFunction, args: tuple[Any, ...], output: Any) -> None:
        """Take note of a call. In most steps, a training call returns at the first condition."""
        self.seen += 1
        is_training = is_grad_enabled()
        if (is_training and not self._collector.probing) or self._guard.is_off or not self._sink.is_here():
            return
        started = now()
        try:
            if is_readable(args, output):
                call = LossCall(function, args, output)
                if is_training:
                    self._measure(call)
                else:
                    self.evaluations.add(call)
        except Exception as error:
            self._guard.fault(f"looking at {function.name}", error)
        self._collector.charge(started)

    def _measure(self, call: LossCall) -> None:
        """Measure the first call at each site in a step; accumulated batches are much alike."""
        site = self._sites.of(call.function.name, sys._getframe())
        # None: the call does not come from the user's program, or there are too many sites.
        if site is None or site.step == self._collector.step:
            return
        site.step = self._collector.step
        self.evaluations.expect(call)
        with measuring(call.input.device):
            numbers = numbers_of(call)
        self._sink.put_all(f"probe/loss/{site.id}/", numbers)
        self._tell(site, call)
        if not site.id and self._collector.sampling and self._wants_labels and call.target is not None:
            self._reader.sample([(self._labels, call.target)])

    def _tell(self, site: Site, call: LossCall) -> None:
        ignored = call.ignored
        known = ignored is not None and ignored.numel() and self._sink.reads(ignored)
        news = site.news(call, float(ignored.float().mean()) if known and ignored is not None else None)
        if news is not None:
            self._collector.fact(news)


def is_readable(args: tuple[Any, ...], output: Any) -> bool:
    """Return whether the call is an ordinary one, of ordinary tensors with values on one device."""
    tensors = [each for each in (*args[:3], output) if isinstance(each, Tensor)]
    if len(tensors) < 2 or output is not tensors[-1] or args[0] is not tensors[0]:
        return False
    if is_traced() or current_backward() != -1 or is_intercepted():
        return False
    # A class that overrides functions is asked first, and then calls the function once more.
    if any(overrides(type(each)) for each in tensors) or any(map(is_functorch_wrapped, tensors)):
        return False
    if any(each.is_sparse or each.is_nested or each.is_meta for each in tensors):
        return False
    if is_recorded(output.device) or len({each.device for each in tensors}) > 1:
        return False
    try:
        for each in tensors:
            plain(each)
    except UnreadableError:
        return False
    return True
