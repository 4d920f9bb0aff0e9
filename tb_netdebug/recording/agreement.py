"""What the processes of one training have agreed on: in which steps all of them look."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from tb_netdebug.core.records.scalar_names import BATCH_ID, TIME_DATA, TIME_FORWARD, TIME_OPTIMIZER, TIME_STEP
from tb_netdebug.core.records.step import Kind, Sample, StepRecord

# What a process tells the first one of its last steps, so that the checks may compare processes.
SCALARS_TOLD = (TIME_STEP, TIME_DATA, TIME_FORWARD, TIME_OPTIMIZER, BATCH_ID)
FACTS_TOLD = ("first-nonfinite",)
MOST_STEPS_TOLD = 64


@dataclass(slots=True)
class Agreement:
    """Between the governor of each process and the thread on which the processes talk.

    While `is_made`, all sample `step` and, but for trouble, no other; None while they talk about the next
    one. Else each process looks when it likes. Written by the thread, read on the training's.
    """

    is_made: bool = False
    step: int | None = None
    cost_secs: float = 0.0
    # Asked on the thread: the step that this process would sample next if there were no others, and whether
    # it will do so anyway.
    wanted: Callable[[], tuple[int, bool]] = field(default=lambda: (0, False))
    # Told on the thread, in the first process alone: what another one has recorded.
    heard: Callable[[int, Sequence[StepRecord]], None] | None = None
    # The last steps of this process, as far as they are told to the first one.
    told: deque[StepRecord] = field(default_factory=lambda: deque(maxlen=MOST_STEPS_TOLD))

    def note(self, record: StepRecord) -> None:
        """A step of this process is complete."""
        known = record.scalars
        scalars = {name: known[name] for name in SCALARS_TOLD if name in known}
        weights: list[Sample] = [each for each in record.samples if each.series.kind is Kind.WEIGHT]
        facts = [each for each in record.facts if each.kind in FACTS_TOLD]
        self.told.append(StepRecord(record.step, record.wall_time, scalars, weights, facts))
