"""Accounts for what each step costs, and plans by it what the next one looks at."""

from __future__ import annotations

from tb_netdebug.core.eventlog.writer.event_writer import EventWriter
from tb_netdebug.core.machine.memory import MemorySampler
from tb_netdebug.core.records.scalar_names import OVERHEAD, SAMPLED_EVERY
from tb_netdebug.recording.clock import now
from tb_netdebug.recording.collector import StepCollector
from tb_netdebug.recording.governor import Governor


class StepCosts:
    """The clock of a run's steps: what watching has cost of each, and what the run itself.

    `ending_began` is when the present step began to end; what follows until `plan_next` is ours.
    """

    def __init__(
        self,
        governor: Governor,
        collector: StepCollector,
        writer: EventWriter,
        memory: MemorySampler | None,
        *,
        wants_every_norm: bool,
    ) -> None:
        self._governor = governor
        self._collector = collector
        self._writer = writer
        self._memory = memory
        self._wants_every_norm = wants_every_norm
        self._background_secs = 0.0  # spent so far by threads of ours
        self._sampled_at = 0
        self._began = self.ending_began = now()

    def held_up(self, secs: float) -> None:
        """Account for a pause of this length: no step was slow."""
        self._collector.clock.skip(secs)
        self._began += secs
        self.ending_began += secs

    def note_sampling(self) -> None:
        """Record what the governor decided: how far apart samples are, and what it all costs."""
        step = self._collector.step
        self._collector.scalars[SAMPLED_EVERY] = float(max(step - self._sampled_at, 1))
        self._collector.scalars[OVERHEAD] = self._governor.share
        self._sampled_at = step

    def plan_next(self) -> None:
        """Account for the step that has ended, and decide about the next one."""
        moment = now()
        collector = self._collector
        background = self._writer.cost_secs + (self._memory.cost_secs if self._memory is not None else 0.0)
        agreement, agreed = collector.agreement, None
        if agreement is not None:
            background += agreement.cost_secs
            agreed = agreement.step == collector.step if agreement.is_made else None
        spent = collector.spent_secs + moment - self.ending_began
        # The run's own time is what remains of the step without the cost of watching.
        user = max(moment - self._began - spent, 0.0)
        spent += background - self._background_secs
        self._background_secs = background
        governor = self._governor
        if collector.norm_secs:
            governor.norm_cost(collector.norm_secs)
            collector.norm_secs = 0.0
        if collector.glance_secs:
            governor.glance_cost(collector.glance_secs)
            collector.glance_secs = 0.0
        collector.plan(
            sampling=governor.next(
                sampled=collector.sampling, user_secs=user, spent_secs=spent, agreed=agreed
            )
        )
        collector.wants_norm = self._wants_every_norm or governor.norm_is_due()
        collector.wants_glance = not collector.wants_norm and governor.glance_is_due()
        collector.spent_secs = 0.0
        self._began = moment
