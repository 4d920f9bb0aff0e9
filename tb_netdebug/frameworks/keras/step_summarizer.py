"""Turn a finished step into samples, facts and scalars, on the job queue's thread."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from tb_netdebug.core.records.scalar_names import (
    BATCH_SIZE,
    DESCENDED,
    GRADIENT_NORM,
    LOSS,
    LOSS_SCALE,
    NONFINITE_GRADIENTS,
)
from tb_netdebug.core.records.step import Series
from tb_netdebug.frameworks.keras.batches import KerasBatches
from tb_netdebug.frameworks.keras.counts import HEALTH, NEGATIVE
from tb_netdebug.frameworks.keras.job_queue import Finished
from tb_netdebug.frameworks.keras.layers import WatchedWeight
from tb_netdebug.frameworks.keras.losses import KerasLosses
from tb_netdebug.frameworks.keras.origin import KerasOrigin, Outputs
from tb_netdebug.frameworks.keras.reader import KerasTensorReader, counts_in, squares_in
from tb_netdebug.frameworks.keras.values import array_of, number_of
from tb_netdebug.frameworks.keras.weights import Held, KerasWeights
from tb_netdebug.recording.collector import StepCollector
from tb_netdebug.recording.settings import Settings

if TYPE_CHECKING:
    from tb_netdebug.frameworks.keras.tap import StepTap
    from tb_netdebug.frameworks.keras.traced import Shown


@dataclass(slots=True, eq=False)
class StepSample:
    """A finished step, with the tensors that are to be read."""

    step: int
    sampling: bool
    probing: bool
    samples_inputs: bool = False
    """Whether the inputs are sampled, even if nothing else of the step is."""
    scalars: dict[str, float] = field(default_factory=dict)
    """Values that were available immediately."""
    late: dict[str, Any] = field(default_factory=dict)
    """Tensors of one number each that are still being computed."""
    runs: list[tuple[StepTap, Shown]] = field(default_factory=list)
    weights: Held = field(default_factory=list)
    resting: list[tuple[Series, Any]] = field(default_factory=list)
    is_bad: bool = False

    @property
    def has_work(self) -> bool:
        return bool(self.late or self.runs or self.weights or self.resting)

    def kind(self) -> tuple[int, ...]:
        """Return a key; steps with equal keys keep about as many bytes."""
        parts = [len(tensors) for _, shown in self.runs for tensors in shown.values()]
        return (int(self.scalars.get(BATCH_SIZE, 0.0)), len(self.weights), *parts)


class StepSummarizer:
    """Turns one step after the other into samples, facts and scalars."""

    def __init__(self, settings: Settings, refuse: Callable[[str, str], None], threads: int) -> None:
        self._settings = settings
        self._collector = collector = StepCollector()
        self._reader = KerasTensorReader(collector, refuse, threads)
        self._losses = KerasLosses(collector)
        self._batches = KerasBatches(collector, self._reader)
        self._origin = KerasOrigin(collector)
        self._weights: KerasWeights | None = None

    def use(self, make_weights: Callable[[StepCollector], KerasWeights]) -> None:
        self._weights = make_weights(self._collector)

    def keep(self, step: int, weights: Held) -> None:
        """Keep the weights before a step that will be sampled."""
        if self._weights is not None:
            self._weights.keep(step, weights)

    def take(self, look: StepSample) -> Finished:
        collector = self._collector
        collector.step = look.step
        collector.probes_from = look.step if look.probing else look.step + 1
        collector.plan(sampling=look.sampling)
        with np.errstate(all="ignore"):
            self._take_late(look)
            if not look.is_bad:
                self._take_weights(look)
            for tap, shown in look.runs:
                self._take_run(look, tap, shown)
            self._take_weights(look)  # not earlier: a NaN may have been in them already
            self._reader.sample(look.resting)
        record = collector.finish(0.0)
        return Finished(look.step, record.scalars, record.samples, record.facts)

    # ---- parts -------------------------------------------------------------------------------------------

    def _take_run(self, look: StepSample, tap: StepTap, shown: Shown) -> None:
        if self._collector.probing:
            self._take_losses(tap, shown)
        if self._settings.batches:
            given = shown.get("inputs", []), shown.get("targets", [])
            self._batches.look(*given, is_sampled=look.sampling or look.samples_inputs)
        outputs = self._take_activations(look, tap, shown)
        gradients = self._take_gradients(look, tap, shown.get("gradients", []))
        known = {**look.scalars, **self._collector.scalars}
        self._origin.look(tap, shown, outputs, gradients, known, self._before)

    def _take_late(self, look: StepSample) -> None:
        found = {name: number_of(tensor) for name, tensor in look.late.items()}
        numbers = (found.pop(HEALTH, 0.0), found.get(LOSS, 0.0))
        look.is_bad = look.is_bad or not np.isfinite(numbers).all()
        self._collector.scalars.update(found)
        look.scalars = {**look.scalars, **found}

    def _take_weights(self, look: StepSample) -> None:
        """Sample the weights, and release them.

        While we hold them, TensorFlow has to copy each buffer that it changes.
        """
        if self._weights is not None and look.weights:
            self._weights.look(look.weights)
        look.weights = []
        for _, shown in look.runs:
            shown.pop("weights", None)

    def _take_losses(self, tap: StepTap, shown: Shown) -> None:
        for target in shown.get("descended", []):
            self._collector.scalars[DESCENDED] = number_of(target)
        parts = [shown.get(name, []) for name in ("given", "targets", "values")]
        parts.append(shown.get("behind") or parts[0])
        for number, (seen, *values) in enumerate(zip(tap.losses, *parts, strict=False)):
            self._losses.look(number, seen, *values)

    def _take_activations(self, look: StepSample, tap: StepTap, shown: Shown) -> Outputs:
        """Return the counts of non-finite values per layer output."""
        calls = tap.activations()
        tensors = shown.get("activations", [])
        if not (look.sampling or look.is_bad):
            return []
        if not tensors:
            for flags in shown.get("flags", []):
                rows = array_of(flags)[:, NEGATIVE:].astype(int).tolist()
                return [(call, tuple(row)) for (call, _, _), row in zip(calls, rows, strict=True)]
            return []
        named = [
            (call.layer.series_of(place), tensor, call.layer.layer)
            for (call, place, _), tensor in zip(calls, tensors, strict=True)
        ]
        summaries = self._reader.activations(named, keep=look.sampling)
        return [
            (call, (0, 0, 0) if summary is None else counts_in(summary))
            for (call, _, _), summary in zip(calls, summaries, strict=True)
        ]

    def _take_gradients(
        self, look: StepSample, tap: StepTap, tensors: list[Any]
    ) -> list[tuple[WatchedWeight, int]]:
        """Return the number of non-finite values per gradient."""
        known = tap.gradients() if tensors and (look.sampling or look.is_bad) else []
        if not known:
            return []
        named = [(watched.gradient, tensor) for (watched, _, _), tensor in zip(known, tensors, strict=True)]
        if any(scale is not None for _, _, scale in known):
            factor = look.scalars.get(LOSS_SCALE, 1.0)
            named = [
                (series, array_of(tensor).astype(np.float32) / np.float32(factor)) for series, tensor in named
            ]
        summaries = self._reader.sample(named, keep=look.sampling)
        found = [
            (watched, squares_in(summary))
            for (watched, _, _), summary in zip(known, summaries, strict=True)
            if summary is not None
        ]
        self._collector.scalars[GRADIENT_NORM] = sum(total for _, (total, _) in found) ** 0.5
        self._collector.scalars[NONFINITE_GRADIENTS] = float(sum(others for _, (_, others) in found))
        return [(watched, others) for watched, (_, others) in found]

    def _before(self, watched: WatchedWeight) -> Any:
        return None if self._weights is None else self._weights.before(watched)
