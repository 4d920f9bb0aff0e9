"""Collect what is seen of the current step."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tb_netdebug.core.records.fact_codec import encode_fact
from tb_netdebug.core.records.facts import TypedFact
from tb_netdebug.core.records.step import Fact, Sample, Series, StepRecord, Units
from tb_netdebug.core.stats import kernel
from tb_netdebug.recording.agreement import Agreement
from tb_netdebug.recording.clock import StepClock, now
from tb_netdebug.recording.first_step import FirstStep

# Most mistakes show in the first steps, before anything is averaged away.
STEPS_ALL_PROBED = 32
# Applies later, however densely tensors are sampled: a loss's inputs do not change from step to step.
STEPS_BETWEEN_PROBES = 8


@dataclass(slots=True)
class StepCollector:
    """Written by a framework's hooks, and emptied by the monitor at the end of each step.

    `sampling` says whether this step gets full statistics; hooks read it first and return at once when it is
    false. `probing` says whether the probes of loss and batch measure. `plan` sets both. `wants_norm` says
    whether a step that is not sampled gets its gradient norm, `wants_glance` whether one without a norm gets
    a glance at a single gradient. `spent_secs` is what our own code has cost the training thread in this
    step; `norm_secs` is the gradient norm's part of it, `glance_secs` the glance's.
    """

    step: int = 0
    sampling: bool = False
    probing: bool = True
    wants_norm: bool = True
    wants_glance: bool = True
    spent_secs: float = 0.0
    norm_secs: float = 0.0
    glance_secs: float = 0.0
    clock: StepClock = field(default_factory=StepClock)
    scalars: dict[str, float] = field(default_factory=dict)
    # By id of the series, which its owner keeps: hashing names would cost more than everything else here.
    samples: dict[int, Sample] = field(default_factory=dict)
    later: dict[str, Any] = field(default_factory=dict)
    facts: list[Fact] = field(default_factory=list)
    awaited: set[str] = field(default_factory=set)  # scalars of this step that a device has yet to send
    agreement: Agreement | None = None  # with the other processes of the same run
    run_dir: Path | None = None
    first_step: FirstStep | None = None  # until the first step has ended
    probes_from: int = 0
    # Set by whatever can write the current step into a file. Arguments: the reason, and data to add as JSON.
    keep_capsule: Callable[[str, dict[str, Any]], Path | None] | None = None

    def sample(self, series: Series, summary: bytes, units: Units | None = None) -> None:
        """Record a sample; a tensor seen again in the step (shared module, accumulation) is merged.

        It must come with the same Series object each time.
        """
        known = self.samples.get(id(series))
        if known is None:
            self.samples[id(series)] = Sample(series, summary, units)
        else:
            known.summary = kernel.merge([known.summary, summary])
            known.units = joined(known.units, units)

    def add(self, name: str, value: float) -> None:
        self.scalars[name] = self.scalars.get(name, 0.0) + value

    def fact(self, fact: TypedFact) -> None:
        """Record something that is not a number."""
        self.facts.append(encode_fact(fact))

    def plan(self, *, sampling: bool) -> None:
        """Decide what is measured in this step. A field, because the probes ask several times in each."""
        self.sampling = sampling
        self.probing = self.step < STEPS_ALL_PROBED or (sampling and self.step >= self.probes_from)

    def go_to(self, step: int) -> None:
        """Continue with a step of this number."""
        self.step = step
        self.plan(sampling=self.sampling)

    def charge(self, since: float) -> None:
        """Charge to monitoring the time since a moment, in which our own code ran."""
        self.spent_secs += now() - since

    def release(self) -> None:
        """Let go of all that belongs to the program, such as its models: the run is over."""
        self.keep_capsule = self.agreement = self.first_step = None
        self.scalars, self.samples, self.later, self.facts = {}, {}, {}, []

    def finish(self, wall_time: float) -> StepRecord:
        """Return the record of the finished step, and get ready for the next one."""
        samples = list(self.samples.values()) if self.samples else []
        record = StepRecord(self.step, wall_time, self.scalars, samples, self.facts)
        # Probes run in sampled steps, but not more often than every STEPS_BETWEEN_PROBES.
        if self.sampling and self.probing:
            self.probes_from = self.step + STEPS_BETWEEN_PROBES
        self.step += 1
        self.plan(sampling=self.sampling)
        self.scalars = {}
        self.samples = {}
        self.facts = []
        if self.awaited:
            self.awaited.clear()
        return record


def joined(first: Units | None, second: Units | None) -> Units | None:
    """Return the units active in either; None if their numbers of units differ."""
    if first is None or second is None or first.count != second.count:
        return None
    return Units(first.count, bytes(a | b for a, b in zip(first.active, second.active, strict=True)))
