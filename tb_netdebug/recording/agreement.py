"""The steps that all processes of one run have agreed to sample."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from tb_netdebug.core.records.facts import NonfiniteFact
from tb_netdebug.core.records.scalar_names import BATCH_ID, TIME_DATA, TIME_FORWARD, TIME_OPTIMIZER, TIME_STEP
from tb_netdebug.core.records.step import Kind, Sample, StepRecord

# What each process reports of its last steps to the first one, so that the checks can compare processes.
SCALARS_TOLD = (TIME_STEP, TIME_DATA, TIME_FORWARD, TIME_OPTIMIZER, BATCH_ID)
FACTS_TOLD = (NonfiniteFact.KIND,)
MOST_STEPS_TOLD = 64


@dataclass(slots=True)
class Agreement:
    """Shared by the governor of a process and the thread on which the processes communicate.

    While `is_made`, all processes sample `step` and, except in trouble, no other; None means that the next
    step is still being agreed on. Otherwise each process samples when it likes. The thread writes it; the
    training thread reads it.
    """

    is_made: bool = False
    step: int | None = None
    cost_secs: float = 0.0
    # Called on the thread: returns the step that this process would sample next on its own, and whether it
    # will sample that step in any case.
    wanted: Callable[[], tuple[int, bool]] = field(default=lambda: (0, False))
    # Called on the thread, in the first process only: takes what another process has recorded.
    heard: Callable[[int, Sequence[StepRecord]], None] | None = None
    # The last steps of this process, reduced to what is reported to the first one.
    told: deque[StepRecord] = field(default_factory=lambda: deque(maxlen=MOST_STEPS_TOLD))

    def note(self, record: StepRecord) -> None:
        """Add a complete step of this process to those that are reported."""
        known = record.scalars
        scalars = {name: known[name] for name in SCALARS_TOLD if name in known}
        weights: list[Sample] = [each for each in record.samples if each.series.kind is Kind.WEIGHT]
        facts = [each for each in record.facts if each.kind in FACTS_TOLD]
        self.told.append(StepRecord(record.step, record.wall_time, scalars, weights, facts))
