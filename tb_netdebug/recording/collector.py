"""The step that is going on: what has been seen of it so far."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tb_netdebug.core.records.step import Fact, Sample, Series, StepRecord, Units
from tb_netdebug.core.stats import kernel
from tb_netdebug.recording.agreement import Agreement
from tb_netdebug.recording.clock import StepClock, now
from tb_netdebug.recording.first_step import FirstStep

# Most mistakes show in the first steps, before anything is averaged away.
STEPS_ALL_PROBED = 32
# Later, however densely tensors are sampled: what a loss is fed with does not change from step to step.
STEPS_BETWEEN_PROBES = 8


@dataclass(slots=True)
class StepCollector:
    """Written by the hooks of a framework, emptied by the monitor at the end of each step.

    `sampling` tells whether this step gets full statistics; hooks look at it first and return at once when
    it is false. `wants_norm` tells whether an ordinary step gets its gradient norm, `wants_glance` whether
    one without gets a look at a single gradient. `spent_secs` is what our own code has cost the training
    thread in this step, `norm_secs` the part of the gradient norm, `glance_secs` that of the single look.
    """

    step: int = 0
    sampling: bool = False
    wants_norm: bool = True
    wants_glance: bool = True
    spent_secs: float = 0.0
    norm_secs: float = 0.0
    glance_secs: float = 0.0
    clock: StepClock = field(default_factory=StepClock)
    scalars: dict[str, float] = field(default_factory=dict)
    # by id of the series, which its owner keeps: hashing names would cost more than all the rest here
    samples: dict[int, Sample] = field(default_factory=dict)
    later: dict[str, Any] = field(default_factory=dict)
    facts: list[Fact] = field(default_factory=list)
    awaited: set[str] = field(default_factory=set)  # scalars of this step that a device will send
    agreement: Agreement | None = None  # with the other processes of the same training
    run_dir: Path | None = None
    first_step: FirstStep | None = None  # as long as no step has ended
    probes_from: int = 0
    # Set by who can write the step that is going on into a file: why, and what else to put in as JSON.
    keep_capsule: Callable[[str, dict[str, Any]], Path | None] | None = None

    def sample(self, series: Series, summary: bytes, units: Units | None = None) -> None:
        """A tensor seen again in the same step (a shared module, accumulation) is merged into one sample.

        It must come with the same Series object.
        """
        known = self.samples.get(id(series))
        if known is None:
            self.samples[id(series)] = Sample(series, summary, units)
        else:
            known.summary = kernel.merge([known.summary, summary])
            known.units = joined(known.units, units)

    def add(self, name: str, value: float) -> None:
        self.scalars[name] = self.scalars.get(name, 0.0) + value

    def fact(self, kind: str, /, **data: Any) -> None:
        """Something that is no number; plain values only."""
        self.facts.append(Fact(kind, data))

    @property
    def probing(self) -> bool:
        """Whether the probes of loss and batch measure in this step."""
        return self.step < STEPS_ALL_PROBED or (self.sampling and self.step >= self.probes_from)

    def charge(self, since: float) -> None:
        """Our own code ran since this moment."""
        self.spent_secs += now() - since

    def finish(self, wall_time: float) -> StepRecord:
        """The finished step; the collector is then ready for the next one."""
        record = StepRecord(self.step, wall_time, self.scalars, list(self.samples.values()), self.facts)
        if self.sampling and self.probing:
            self.probes_from = self.step + STEPS_BETWEEN_PROBES
        self.step += 1
        self.scalars = {}
        self.samples = {}
        self.facts = []
        self.awaited.clear()
        return record


def joined(first: Units | None, second: Units | None) -> Units | None:
    """Active in either; None when the two cannot be compared (their number of units differs)."""
    if first is None or second is None or first.count != second.count:
        return None
    return Units(first.count, bytes(a | b for a, b in zip(first.active, second.active, strict=True)))
