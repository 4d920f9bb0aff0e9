"""Decide from a step's numbers whether it went wrong and so deserves a full sample."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from tb_netdebug.core.records.scalar_names import LOSS, NONFINITE_GRADIENTS
from tb_netdebug.frameworks.keras.counts import HEALTH, NAN, POSITIVE
from tb_netdebug.frameworks.keras.following import counted
from tb_netdebug.frameworks.keras.scalars import Scalars
from tb_netdebug.frameworks.keras.traced import TracedRun
from tb_netdebug.frameworks.keras.values import array_of, number_of
from tb_netdebug.recording.clock import now
from tb_netdebug.recording.collector import StepCollector


class Alarm:
    """Checks the loss, and the gradient norm where that is due or nothing else would show trouble."""

    def __init__(
        self, collector: StepCollector, scalars: Scalars, *, looks_at_layers: bool, threads: int
    ) -> None:
        self._collector = collector
        self._scalars = scalars
        self._looks_at_layers = looks_at_layers
        self._threads = threads

    def rings(self, ran: TracedRun) -> bool:
        health = ran.first("health")
        if self._scalars.waits:  # the job queue will find out
            self._scalars.note(HEALTH, health)
            self.note_norm(ran.of("gradients"))
            return False
        numbers = (self._collector.scalars.get(LOSS, 0.0), 0.0 if health is None else number_of(health))
        is_bad = not all(map(math.isfinite, numbers))
        self.note_norm(ran.of("gradients"), always=is_bad or health is None)
        is_bad = is_bad or self._collector.scalars.get(NONFINITE_GRADIENTS, 0.0) > 0
        return is_bad or (self._looks_at_layers and has_bad_layer(ran))

    def note_norm(self, gradients: Sequence[Any], *, always: bool = False) -> None:
        """Record the gradient norm if it is due; a sampled step gets it with its samples."""
        collector = self._collector
        if not gradients or collector.sampling or not (always or collector.wants_norm):
            return
        started = now()
        self._scalars.put_norm(gradients, self._threads)
        collector.norm_secs += now() - started


def has_bad_layer(ran: TracedRun) -> bool:
    """Return whether a layer output has NaN or +infinity; -infinity alone is a mask."""
    flags = ran.of("flags")
    if flags:
        return any(bool(array_of(each)[:, POSITIVE : NAN + 1].any()) for each in flags)
    return any(any((counted(each) or ())[1:]) for each in ran.of("activations"))
