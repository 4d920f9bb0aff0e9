"""The probe of losses: what loss functions are given, the loss itself, and what becomes of its gradients."""

from __future__ import annotations

from typing import Any

from torch.optim.optimizer import (
    Optimizer,
)

from tb_netdebug.frameworks.torch import optimizer_steps
from tb_netdebug.frameworks.torch.losses.calls import LossCalls
from tb_netdebug.frameworks.torch.losses.differences import Differences
from tb_netdebug.frameworks.torch.losses.kept_gradients import KeptGradients
from tb_netdebug.frameworks.torch.losses.quotients import Quotients
from tb_netdebug.frameworks.torch.losses.roots import LossRoots
from tb_netdebug.frameworks.torch.losses.scalar_sink import ScalarSink
from tb_netdebug.frameworks.torch.losses.scale import LossScale
from tb_netdebug.frameworks.torch.probe import ProbeContext


class LossProbe:
    """Watches loss functions, backward passes, GradScaler and optimizer steps (see `probes.Probe`).

    A loss that a program computes without a loss function of torch can only be seen at backward.
    """

    def __init__(self, context: ProbeContext) -> None:
        self._collector = context.collector
        self._guard = context.guard
        self._sink = ScalarSink(context.collector, context.reader)
        self._scale = LossScale(context, self._sink)
        self._roots = LossRoots(context, self._sink, self._scale)
        self._kept = KeptGradients(context, self._sink)
        self._differences = Differences(context)
        self._quotients = Quotients(self._sink)
        self._calls = LossCalls(context, self._sink)
        context.backward.listen(self._before_backward, self._after_backward)
        self._hooks: list[Any] = [
            optimizer_steps.BEGINNING.listen(self._before_optimizer),
            optimizer_steps.ENDED.listen(self._after_optimizer),
        ]

    def end_step(self) -> None:
        self._sink.end_step()
        if not self._roots.is_told:
            self._roots.end_step(calls=self._calls.seen)
        self._calls.end_step()
        if self._scale.scaled:
            self._scale.scaled.clear()
        self._kept.end_step()
        if self._collector.probing:
            self._quotients.end_step()

    def close(self) -> None:
        self._calls.close()
        self._scale.close()
        for hook in self._hooks:
            hook.remove()

    def _before_backward(self, roots: Any) -> None:
        if not self._roots.is_told and self._sink.is_here():
            self._roots.add(roots)
        if not self._collector.probing:
            self._kept.missed += 1
        elif self._sink.is_here():
            self._kept.before_backward()
            self._quotients.look(roots)
            if self._differences.is_open:
                self._differences.look(roots)

    def _after_backward(self, _: Any) -> None:
        if self._collector.probing and self._sink.is_here():
            self._kept.after_backward()

    def _before_optimizer(self, optimizer: Optimizer, args: Any, kwargs: Any) -> None:
        self._scale.stepped = True
        self._roots.in_optimizer = 1

    def _after_optimizer(self, optimizer: Optimizer, args: Any, kwargs: Any) -> None:
        self._roots.in_optimizer = 0
        if not self._collector.probing:
            self._kept.since[id(optimizer)] = self._kept.missed
            return
        if self._guard.is_off or not self._sink.is_here():
            return
        try:
            self._kept.stepped(optimizer)
        except Exception as error:
            self._guard.fault("looking whether gradients were cleared", error)
