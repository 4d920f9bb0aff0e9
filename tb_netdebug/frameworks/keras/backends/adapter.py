"""The part of the adapter that Keras on PyTorch and on JAX share (see `recording.adapter`)."""

from __future__ import annotations

import platform
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any

import keras
import numpy as np

from tb_netdebug.core.machine.free_memory import copies_limit
from tb_netdebug.core.records.scalar_names import (
    BATCH_SIZE,
    EVALUATIONS,
    LOSS,
    NONFINITE_GRADIENTS,
    UPDATES_MADE,
    name_of_own,
    name_of_rate,
)
from tb_netdebug.core.records.step import Sample, Units
from tb_netdebug.core.stats import kernel
from tb_netdebug.debugger.workbench import Stops
from tb_netdebug.frameworks.keras.backends.standins import Array, BackendNetwork, Optimizer, Shown, tensors_in
from tb_netdebug.frameworks.keras.coverage import KerasCoverage, is_trainable, rate_of
from tb_netdebug.frameworks.keras.graph import GraphTold
from tb_netdebug.frameworks.keras.layers import WatchedWeight
from tb_netdebug.frameworks.keras.optimizers import Updates
from tb_netdebug.frameworks.keras.reader import active_units
from tb_netdebug.frameworks.keras.step_summarizer import StepSample, StepSummarizer
from tb_netdebug.frameworks.keras.stepping.source import TensorSource
from tb_netdebug.frameworks.keras.stepping.workbench import KerasWorkbench
from tb_netdebug.frameworks.keras.values import array_of, item_of
from tb_netdebug.frameworks.keras.weights import KerasWeights
from tb_netdebug.recording.collector import StepCollector
from tb_netdebug.recording.guard import Guard
from tb_netdebug.recording.refusals import Refusals
from tb_netdebug.recording.settings import Settings

Late = list[tuple[int, dict[str, float], list[Sample]]]
# A tap in place of TensorFlow's, and what its step has shown: "inputs", "targets", "given", "values",
# "activations", "gradients".
Run = tuple[Any, dict[str, list[Any]]]


class BackendAdapter(ABC):
    """Fills the collector; a subclass reads its backend's tensors and reports what it saw of a step."""

    framework = ""

    def __init__(
        self,
        models: Mapping[str, Any],
        optimizers: Sequence[Any],
        collector: StepCollector,
        guard: Guard,
        settings: Settings,
        *,
        threads: int,
    ) -> None:
        self._models = dict(models)
        self._optimizers = list(optimizers)
        self._collector = collector
        self._guard = guard
        self._settings = settings
        self._threads = threads
        self._refusals = Refusals(guard)
        self._network = BackendNetwork(models, settings.wants, self.tensor_of, self.read)
        self._network.refresh()
        self._looks = StepSummarizer(settings, self._refusals.refuse, threads)
        if settings.weights or settings.updates:
            self._looks.use(self._make_weights)
        self._coverage = KerasCoverage(self._network, collector)
        self._graph = GraphTold(self._network, guard)
        self._stand_ins: dict[int, Optimizer] = {}
        self._seen_rest: set[int] = set()
        self._bench: KerasWorkbench | None = None
        self._description: dict[str, Any] | None = None
        self._kept_for = -1
        self._updates = Updates(lambda variable: self.read(self.tensor_of(variable)))

    # ---- for subclasses ----------------------------------------------------------------------------------

    @property
    def is_blind(self) -> bool:
        """Whether the losses of single batches are unknown here."""
        return False

    @abstractmethod
    def read(self, tensor: Any) -> Array:
        """Return the values of a tensor, not copied if they lie in host memory."""

    @abstractmethod
    def tensor_of(self, variable: Any) -> Any:
        """Return the current tensor of a Keras variable."""

    @abstractmethod
    def _runs(self) -> list[Run]:
        """Return what was seen of the step, and put its numbers into the collector."""

    def _is_bad(self) -> bool:
        """Return whether the loss or a gradient is not finite, so that a closer look may explain it."""
        scalars = self._collector.scalars
        return not np.isfinite(scalars.get(LOSS, 0.0)) or bool(scalars.get(NONFINITE_GRADIENTS))

    # ---- Adapter -----------------------------------------------------------------------------------------

    def end_step(self, loss: Any, scalars: dict[str, Any]) -> bool:
        runs = self._runs()
        if loss is not None:
            self._put(LOSS, loss)
        for name, value in scalars.items():
            self._put(name_of_own(name), value)
        self._put_rates()
        if self._collector.probing:
            made = self._updates.made(self.known_optimizers())
            self._collector.scalars[UPDATES_MADE] = float(made)
        self._look(runs)
        self._graph.look([tap for tap, _ in runs], self._collector.scalars.get(BATCH_SIZE))
        return False

    def late(self, *, wait: bool) -> Late:
        return []

    def summary_of(self, value: Any) -> tuple[bytes, Units | None] | None:
        array = np.ascontiguousarray(self._array_of(value))
        item = item_of(array)
        if item is None:
            self._refusals.refuse("a tensor", f"values of type {array.dtype} cannot be read")
            return None
        (summary,) = kernel.summarize([item], self._threads)
        return summary, active_units(None, array, item)

    def pixels_of(self, value: Any) -> Any:
        array = self._array_of(value)
        return array.astype(np.float32) if array.dtype.name == "bfloat16" else array

    def memory(self) -> dict[str, float]:
        return {}

    def describe(self) -> dict[str, Any]:
        """Return the description of the run; after `close`, the one from before the models were released."""
        if self._description is not None:
            return {**self._description, "not_watched": self._refusals.sentences()}
        return {
            "framework": f"keras {keras.__version__} on {self.framework}",
            "python": platform.python_version(),
            "models": {name: type(model).__name__ for name, model in self._models.items()},
            "optimizers": [type(each).__name__ for each in self.known_optimizers()],
            "parameters": len(self._network.weights),
            "layers": sum(each.is_watched for each in self._network.layers.values()),
            "not_watched": self._refusals.sentences(),
        }

    def graph(self) -> bytes | None:
        return self._graph.take()

    # ---- for the debugger --------------------------------------------------------------------------------

    @abstractmethod
    def _source(self) -> TensorSource:
        """Return a new tensor source for a debugger."""

    def workbench(self, stops: Stops) -> KerasWorkbench:
        self._bench = KerasWorkbench(
            self._network, self._source(), stops=stops, collector=self._collector, guard=self._guard
        )
        return self._bench

    def known_optimizers(self) -> list[Any]:
        compiled = [getattr(each, "optimizer", None) for each in self._models.values()]
        return list({id(each): each for each in (*self._optimizers, *compiled) if each is not None}.values())

    def rate_of(self, optimizer: Any) -> float | None:
        return rate_of(optimizer)

    def close(self) -> None:
        """Release everything of the models. Harmless when called again."""
        self._description = self.describe()
        if self._bench is not None:
            self._bench.close()
        self._bench = None
        self._models.clear()
        self._optimizers.clear()
        self._stand_ins.clear()
        self._network.forget()

    # ---- for the callback --------------------------------------------------------------------------------

    def begin_batch(self) -> None:  # noqa: B027  # a backend may have nothing to do
        """Prepare for a batch that Keras is about to train on."""

    def evaluated(self) -> None:
        """Exclude an evaluation between two steps from the time of both."""
        self._collector.clock.finish()
        self._collector.scalars[EVALUATIONS] = 1.0

    # ---- a step ------------------------------------------------------------------------------------------

    def _keep_weights(self) -> None:
        """Keep the weights as they are before a sampled step."""
        step = self._collector.step
        if self._settings.updates and self._kept_for != step:
            self._kept_for = step
            self._looks.keep(step, self._held())

    def _look(self, runs: Sequence[Run]) -> None:
        collector = self._collector
        look = StepSample(collector.step, collector.sampling, collector.probing)
        look.scalars, look.runs, look.is_bad = dict(collector.scalars), list(runs), self._is_bad()
        if collector.sampling and self._updates.are_whole(self.known_optimizers()):
            look.weights = self._held()
            look.resting = self._resting()
            # The weights after this step are those before the next one, which then need not be kept again.
            self._kept_for = collector.step + 1
        if not look.has_work:
            return
        found = self._looks.take(look)
        collector.scalars.update(found.scalars)
        collector.samples.update((id(each.series), each) for each in found.samples)
        collector.facts.extend(found.facts)

    def _held(self) -> list[tuple[WatchedWeight, Any]]:
        """Return the trainable weights with their current values."""
        return [
            (each, each.variable.read_value())
            for each in self._network.weights.values()
            if is_trainable(each)
        ]

    def _resting(self) -> list[tuple[Any, Any]]:
        resting = [
            each
            for each in self._network.weights.values()
            if not is_trainable(each) and id(each) not in self._seen_rest
        ]
        self._seen_rest.update(map(id, resting))
        return [(each.weight, each.variable.read_value()) for each in resting if self._settings.weights]

    def _stand_in(self, optimizer: Any) -> Optimizer:
        """Return the stand-in of an optimizer, always the same one."""
        held = [self._network.stand_in(each) for each in getattr(optimizer, "_trainable_variables", [])]
        found = self._stand_ins.get(id(optimizer))
        if found is None:
            found = self._stand_ins[id(optimizer)] = Optimizer(optimizer, self.rate_of(optimizer))
        found.hold(held)
        return found

    # ---- parts -------------------------------------------------------------------------------------------

    def _make_weights(self, collector: StepCollector) -> KerasWeights:
        return KerasWeights(
            collector,
            self._refusals.refuse,
            weights=self._settings.weights,
            updates=self._settings.updates,
            most_bytes=copies_limit(),
            threads=self._threads,
        )

    def _put_rates(self) -> None:
        for number, optimizer in enumerate(self.known_optimizers()):
            rate = self.rate_of(optimizer)
            if rate is not None:
                self._collector.scalars[name_of_rate(number)] = rate

    def _array_of(self, value: Any) -> Array:
        if isinstance(value, keras.Variable):
            value = self.tensor_of(value)
        return array_of(Shown(value, self.read)) if keras.ops.is_tensor(value) else np.asarray(value)

    def _put(self, name: str, value: Any) -> None:
        """Record a number or a one-element tensor; the mean if there are several values."""
        if value is None:
            return
        try:
            found = [self.read(tensor) for _, tensor in tensors_in(value)]
            self._collector.scalars[name] = float(np.mean(found[0] if found else value, dtype=np.float64))
        except (TypeError, ValueError) as error:
            self._refusals.refuse(name, f"a {type(value).__name__} is not a number ({error})")
