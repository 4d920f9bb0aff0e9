"""Adapt Keras on TensorFlow to the recorder: what `fit`, or a custom loop, shows of each step."""

from __future__ import annotations

import platform
from collections.abc import Callable, Mapping
from typing import Any

import keras
import numpy as np
import psutil
import tensorflow as tf

from tb_netdebug.core.records.facts import DifferenceFact
from tb_netdebug.core.records.scalar_names import (
    BATCH_SIZE,
    EVALUATIONS,
    LOSS,
    LOSS_SCALE,
    NONFINITE_GRADIENTS,
    UPDATES_MADE,
    name_of_own,
)
from tb_netdebug.core.records.step import Sample, Units
from tb_netdebug.debugger.workbench import Stops
from tb_netdebug.frameworks.keras.alarm import Alarm
from tb_netdebug.frameworks.keras.calls import leave, listen
from tb_netdebug.frameworks.keras.coverage import KerasCoverage
from tb_netdebug.frameworks.keras.graph import GraphTold
from tb_netdebug.frameworks.keras.idle import IdleWeights
from tb_netdebug.frameworks.keras.layers import Network
from tb_netdebug.frameworks.keras.loop import LoopTap
from tb_netdebug.frameworks.keras.memory import answers_late, device_memory
from tb_netdebug.frameworks.keras.optimizers import Optimizers, Updates
from tb_netdebug.frameworks.keras.reading import SampleReader
from tb_netdebug.frameworks.keras.scalars import Scalars
from tb_netdebug.frameworks.keras.step_summarizer import StepSample
from tb_netdebug.frameworks.keras.stepping.on_tensorflow import OnTensorFlow
from tb_netdebug.frameworks.keras.stepping.workbench import KerasWorkbench
from tb_netdebug.frameworks.keras.steps import TrainSteps
from tb_netdebug.frameworks.keras.tap import StepTap
from tb_netdebug.frameworks.keras.tensors import pixels_of, summary_of
from tb_netdebug.frameworks.keras.traced import TracedRun
from tb_netdebug.recording.adapter import MakeAdapter, listed
from tb_netdebug.recording.collector import StepCollector
from tb_netdebug.recording.guard import Guard
from tb_netdebug.recording.refusals import Refusals
from tb_netdebug.recording.settings import Settings

Late = list[tuple[int, dict[str, float], list[Sample]]]
# Layers are created, and weights built, as late as in the first steps; later the tree is rarely searched.
STEPS_OF_GROWTH = 8
STEPS_BETWEEN_GROWTH = 64


class KerasAdapter:
    """Fills the collector from runs of `train_function` or a custom loop's own calls (see `Adapter`)."""

    def __init__(
        self,
        models: Mapping[str, Any],
        optimizers: list[Any],
        collector: StepCollector,
        guard: Guard,
        settings: Settings,
    ) -> None:
        self._models = dict(models)
        self._collector = collector
        self._guard = guard
        self._settings = settings
        self._refusals = Refusals(guard)
        self._network = Network(models, settings.wants)
        self._network.refresh()
        waits = answers_late() and settings.check_numerics == "sampled"
        refuse = self._refusals.refuse
        self._reading = SampleReader(collector, self._network, guard, settings, refuse, waits=waits)
        self._scalars = Scalars(collector, refuse, waits=waits)
        self._alarm = Alarm(
            collector,
            self._scalars,
            looks_at_layers=settings.check_numerics != "sampled",
            threads=self._reading.threads,
        )
        self._coverage = KerasCoverage(self._network, collector)
        self._idle = IdleWeights(self._network)
        self._graph = GraphTold(self._network, guard)
        self._ended = 0
        self._light_step = -1
        self.steps = [
            TrainSteps(
                model,
                self._network,
                collector,
                guard,
                refuse,
                wants_layers=settings.activations,
                wants_gradients=settings.gradients,
                always_flags=settings.check_numerics != "sampled",
                follows=settings.check_numerics == "ops",
            )
            for model in self._models.values()
            if isinstance(model, keras.Model)
        ]
        for each in self.steps:
            each.install()
        self._loop = LoopTap(self._network, guard, self.steps, self._before_loop_update)
        self._optimizers = Optimizers(optimizers, models, lambda: self._loop.optimizers)
        self._updates = Updates(lambda variable: variable.numpy())
        self._description: dict[str, Any] | None = None
        self._source: OnTensorFlow | None = None
        self._bench: KerasWorkbench | None = None
        listen(self._loop)

    # ---- Adapter -----------------------------------------------------------------------------------------

    def end_step(self, loss: Any, scalars: dict[str, Any]) -> bool:
        collector = self._collector
        is_light = collector.step == self._light_step
        look = StepSample(collector.step, collector.sampling, collector.probing, is_light)
        has_fit = any(each.runs for each in self.steps)
        ran = []
        for steps in self.steps:
            if (taken := steps.take()) is not None:
                ran.append(taken)
                self._take_run(steps, taken, look)
        if not has_fit:
            self._take_loop(look)
        if not self._idle.is_over:
            self._look_for_idleness(has_fit=has_fit)
        self._scalars.put(LOSS, loss)
        for name, value in scalars.items():
            self._scalars.put(name_of_own(name), value)
        optimizers = self._optimizers.known()
        self._scalars.put_rates(optimizers)
        if look.probing:
            collector.scalars[UPDATES_MADE] = float(self._updates.made(optimizers))
        # While an optimizer accumulates gradients, the weights have not moved.
        if look.sampling and self._updates.are_whole(optimizers):
            self._reading.add_weights(look)
        else:
            look.weights = []
        size = collector.scalars.get(BATCH_SIZE)
        self._graph.look([each.tap for each in ran] or [self._loop.tap], size)
        self._loop.begin_step(sampling=False)
        self._ended += 1
        look.late = self._scalars.take_late()
        if self._bench is not None and self._source is not None and self._bench.is_attended:
            self._source.has_run(ran)
            self._bench.batch_ran()
        return self._reading.put(look)

    def late(self, *, wait: bool) -> Late:
        return self._reading.late(wait=wait)

    def prepare(self, *, sampling: bool) -> None:
        collector = self._collector
        if sampling and self._ended == 1 and self._settings.period is None and self._is_in_graph():
            # TensorFlow has then traced both versions after two steps, and never has to again.
            sampling = False
            collector.plan(sampling=False)
            self._light_step = collector.step
        self._loop.begin_step(sampling=sampling)
        if sampling:
            if self._ended < STEPS_OF_GROWTH or self._ended % STEPS_BETWEEN_GROWTH == 0:
                self._network.refresh()
            if not self._loop.is_in_use:
                self._reading.keep()

    def summary_of(self, value: Any) -> tuple[bytes, Units | None] | None:
        return summary_of(value, self._refusals.refuse)

    def pixels_of(self, value: Any) -> Any:
        return pixels_of(value)

    def memory(self) -> dict[str, float]:
        return device_memory()

    def describe(self) -> dict[str, Any]:
        """Return the description of the run; after `close`, the one from before the models were released."""
        if self._description is not None:
            return {**self._description, "not_watched": self._refusals.sentences()}
        return {
            "framework": f"keras {keras.__version__} on tensorflow {tf.__version__}",
            "python": platform.python_version(),
            "models": {name: type(model).__name__ for name, model in self._models.items()},
            "optimizers": [type(each).__name__ for each in self._optimizers.known()],
            "parameters": len(self._network.weights),
            "layers": sum(each.is_watched for each in self._network.layers.values()),
            "threads": tf.config.threading.get_intra_op_parallelism_threads() or psutil.cpu_count() or 1,
            "not_watched": self._refusals.sentences(),
        }

    def graph(self) -> bytes | None:
        return self._graph.take()

    def workbench(self, stops: Stops) -> KerasWorkbench:
        self._source = OnTensorFlow(tuple(self.steps), self._loop, self._optimizers)
        self._bench = KerasWorkbench(
            self._network, self._source, stops=stops, collector=self._collector, guard=self._guard
        )
        return self._bench

    def close(self) -> None:
        if self._bench is not None:
            self._bench.close()
        self._description = self.describe()
        for each in self.steps:
            each.remove()
        leave(self._loop)
        self._loop.datasets.close()
        self._reading.close()
        self._let_go()

    def _let_go(self) -> None:
        """Release the models: a closed monitor keeps none alive."""
        self.steps.clear()
        self._models.clear()
        self._network.forget()
        self._loop.forget()
        self._idle.end(0)
        self._optimizers = Optimizers([], {}, list)
        self._source = self._bench = None

    # ---- for the callback --------------------------------------------------------------------------------

    @property
    def is_blind(self) -> bool:
        """Whether the losses of single batches are unknown here."""
        return any(each.is_blind for each in self.steps)

    def begin_batch(self) -> None:
        """Wrap any train function that the model got since the last batch."""
        for each in self.steps:
            each.take_over()

    def tell(self, told: Callable[[Any], None]) -> None:
        """Call `told` after each batch, with Keras's results, on the training thread."""
        for each in self.steps:
            each.told = told

    def evaluated(self) -> None:
        """Exclude an evaluation between two steps from the time of both."""
        self._collector.clock.finish()
        self._collector.scalars[EVALUATIONS] = 1.0

    # ---- a step ------------------------------------------------------------------------------------------

    def _take_run(self, steps: TrainSteps, ran: TracedRun, look: StepSample) -> None:
        with np.errstate(all="ignore"):
            self._scalars.take(ran)
            self._coverage.look(ran.tap)
            self._tell_comparison(ran.tap)
            for name, reason in ran.tap.not_shown.items():
                self._refusals.note(name, reason)  # not worth a warning
            is_bad = self._alarm.rings(ran)
        self._reading.add_run(look, ran.tap, ran.shown, is_bad=is_bad, weights=ran.weights())

    def _tell_comparison(self, tap: StepTap) -> None:
        """Report, once per graph, a subtraction of all pairs; with a batch of one nothing is confused."""
        size = int(self._collector.scalars.get(BATCH_SIZE, 0.0))
        if tap.compares_all and size > 1:
            tap.compares_all = False
            self._collector.fact(DifferenceFact(0, (size, 1), (size, size)))

    # ---- a loop of the user's own ------------------------------------------------------------------------

    def _before_loop_update(self, optimizer: Any) -> None:
        """Handle an optimizer that is about to step in a custom loop."""
        if self._collector.first_step is not None:
            self._collector.first_step.updated(id(optimizer))
        if self._collector.sampling:
            self._reading.keep()

    def _take_loop(self, look: StepSample) -> None:
        tap = self._loop.finish()
        if tap is None:
            return
        if self._loop.is_hidden:
            self._refusals.refuse(
                "the inside of the training step",
                "it runs in its own tf.function; weights, updates and the loss are recorded",
            )
        if not self._loop.has_stepped:
            return
        shown = self._loop.shown(self._settings)
        self._collector.scalars.update(self._loop.datasets.scalars())
        for tensor in shown["inputs"][:1]:
            if tensor.shape.rank:
                self._collector.scalars[BATCH_SIZE] = float(tensor.shape[0])
        self._coverage.look(tap)
        for scale in [scale for _, _, scale in tap.gradients() if scale is not None][:1]:
            self._collector.scalars[LOSS_SCALE] = float(scale)
        self._alarm.note_norm(shown["gradients"])
        is_bad = bool(self._collector.scalars.get(NONFINITE_GRADIENTS))
        self._reading.add_run(look, tap, lambda: shown, is_bad=is_bad)

    def _look_for_idleness(self, *, has_fit: bool) -> None:
        fact = None
        if has_fit or self._loop.optimizers:
            fact = self._idle.end(1)
        elif self._loop.was_taped:
            fact = self._idle.end_step()
        if fact is not None:
            self._collector.fact(fact)

    # ---- parts -------------------------------------------------------------------------------------------

    def _is_in_graph(self) -> bool:
        return any(
            each.model.train_function is not None and not each.is_eager and not each.is_blind
            for each in self.steps
        )


def adapter_of(models: dict[str, Any], optimizer: Any) -> MakeAdapter:
    """Return a factory for the adapter; `optimizer` is one, several in a list or by name, or None.

    Raises TypeError for anything else.
    """
    optimizers = listed(optimizer)
    for each in optimizers:
        if not isinstance(each, keras.optimizers.Optimizer):
            raise TypeError(
                f"optimizer is a {type(each).__name__}, not a keras.optimizers.Optimizer; leave it out, and "
                "NetDebug finds the optimizers that step"
            )
    return lambda collector, guard, settings: KerasAdapter(models, optimizers, collector, guard, settings)
