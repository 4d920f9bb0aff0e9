"""Keras and TensorFlow behind the seam: what `fit`, or a loop of the user's, shows of each step."""

from __future__ import annotations

import platform
from collections.abc import Mapping
from typing import Any

import keras
import numpy as np
import psutil
import tensorflow as tf

from tb_netdebug.capture.adapter import MakeAdapter, listed
from tb_netdebug.capture.clock import now
from tb_netdebug.capture.collector import Collector
from tb_netdebug.capture.guard import Guard
from tb_netdebug.capture.keras.batches import BatchProbe
from tb_netdebug.capture.keras.calls import leave, listen
from tb_netdebug.capture.keras.coverage import CoverageProbe, is_trainable, rate_of
from tb_netdebug.capture.keras.graph import encoded_graph
from tb_netdebug.capture.keras.layers import Network, Watched, native
from tb_netdebug.capture.keras.loop import LoopTap
from tb_netdebug.capture.keras.losses import LossProbe
from tb_netdebug.capture.keras.memory import device_memory
from tb_netdebug.capture.keras.origin import Origin
from tb_netdebug.capture.keras.reader import TensorReader, active_units, squares_in
from tb_netdebug.capture.keras.steps import LOSS, NONFINITE, RATES, SCALE, SIZE, SQUARES, Ran, TrainSteps
from tb_netdebug.capture.keras.tap import Call, Tap
from tb_netdebug.capture.keras.values import array_of, item_of
from tb_netdebug.capture.keras.weights import Weights
from tb_netdebug.capture.refusals import Refusals
from tb_netdebug.capture.settings import Settings
from tb_netdebug.records.step import Sample, Units
from tb_netdebug.stats import kernel

# Copies of the weights (for updates) may take this share of the memory that is free when watching begins.
COPIES_SHARE = 0.1
# A model that was not called in so many steps is described without data flow.
PATIENCE_STEPS = 3

Late = list[tuple[int, dict[str, float], list[Sample]]]


class KerasAdapter:
    """Fills the collector from the runs of `train_function`, or from a loop's own calls (see `Adapter`)."""

    def __init__(
        self,
        models: Mapping[str, Any],
        optimizers: list[Any],
        collector: Collector,
        guard: Guard,
        settings: Settings,
    ) -> None:
        self._models = dict(models)
        self._optimizers = list(optimizers)
        self._collector = collector
        self._guard = guard
        self._settings = settings
        self._refusals = Refusals(guard)
        # TensorFlow's own threads spin between two steps; a second one of ours would wait for them for long.
        self._threads = 1
        self._network = Network(models, settings.wants)
        self._network.refresh()
        self._reader = TensorReader(collector, self._refusals.refuse, self._threads)
        self._weights = self._make_weights()
        self._losses = LossProbe(collector)
        self._batches = BatchProbe(collector, self._reader)
        self._coverage = CoverageProbe(self._network, collector)
        self._origin = Origin(collector)
        self._graph: bytes | None = None
        self._is_graph_told = False
        self._ended = 0
        self._rates: list[float] = []
        self._seen_rest: set[int] = set()
        self.steps = [
            TrainSteps(
                model,
                self._network,
                collector,
                guard,
                self._refusals.refuse,
                wants_layers=settings.activations,
                wants_gradients=settings.gradients,
            )
            for model in self._models.values()
            if isinstance(model, keras.Model)
        ]
        for each in self.steps:
            each.install()
        self._loop = LoopTap(self._network, guard, self.steps, self._before_loop_update)
        listen(self._loop)

    # ---- the seam ----------------------------------------------------------------------------------------

    def end_step(self, loss: Any, scalars: dict[str, Any]) -> bool:
        ran = [each.last for each in self.steps if each.last is not None]
        has_fit = any(each.runs for each in self.steps)
        for each in self.steps:
            each.runs, last = 0, each.last
            if last is not None:
                self._take_run(last)
            each.last = None
        if not has_fit:
            self._take_loop()
        if loss is not None:
            self._put_scalar("loss", loss)
        for name, value in scalars.items():
            self._put_scalar(f"scalar/{name}", value)
        self._put_rates()
        if self._collector.sampling and self._weights is not None and self._has_moved():
            self._look_at_weights(self._weights)
        self._describe_graph(ran)
        self._loop.begin_step(sampling=False)
        self._ended += 1
        return False

    def late(self, *, wait: bool) -> Late:
        return []

    def prepare(self, *, sampling: bool) -> None:
        collector = self._collector
        if sampling and self._ended == 1 and self._settings.period is None and self._is_in_graph():
            # so that TensorFlow has traced both versions after two steps, and never has to again
            collector.sampling = sampling = False
        self._loop.begin_step(sampling=sampling)
        if sampling:
            self._network.refresh()
            if self._weights is not None and not self._loop.is_in_use:
                self._weights.keep(self._moved())

    def summary_of(self, value: Any) -> tuple[bytes, Units | None] | None:
        if isinstance(value, tf.Tensor | tf.Variable | keras.Variable):
            value = tf.convert_to_tensor(value)
            if hasattr(value, "graph"):
                self._refusals.refuse("a tensor", "inside of a tf.function it has no values yet")
                return None
            array = array_of(value)
        else:
            array = np.ascontiguousarray(value)
        item = item_of(array)
        if item is None:
            self._refusals.refuse("a tensor", f"values of type {array.dtype} cannot be read")
            return None
        (summary,) = kernel.summarize([item], self._threads)
        return summary, active_units(None, array, item)

    def pixels_of(self, value: Any) -> Any:
        if isinstance(value, tf.Tensor | tf.Variable | keras.Variable):
            value = tf.convert_to_tensor(value)
            value = tf.cast(value, tf.float32) if value.dtype.is_floating else value
            return value.numpy()
        return np.asarray(value)

    def memory(self) -> dict[str, float]:
        return device_memory()

    def describe(self) -> dict[str, Any]:
        return {
            "framework": f"keras {keras.__version__} on tensorflow {tf.__version__}",
            "python": platform.python_version(),
            "models": {name: type(model).__name__ for name, model in self._models.items()},
            "optimizers": [type(each).__name__ for each in self._known_optimizers()],
            "parameters": len(self._network.weights),
            "layers": sum(each.is_watched for each in self._network.layers.values()),
            "threads": tf.config.threading.get_intra_op_parallelism_threads() or psutil.cpu_count() or 1,
            "not_watched": self._refusals.sentences(),
        }

    def graph(self) -> bytes | None:
        graph, self._graph = self._graph, None
        return graph

    def close(self) -> None:
        for each in self.steps:
            each.remove()
        leave(self._loop)

    # ---- for the callback --------------------------------------------------------------------------------

    @property
    def is_blind(self) -> bool:
        """Whether the loss of single batches is not known here."""
        return any(each.is_blind for each in self.steps)

    def begin_batch(self) -> None:
        """Somebody may have given the model a new train function since the last batch."""
        for each in self.steps:
            each.take_over()

    def evaluated(self) -> None:
        """An evaluation lies between two steps: its time belongs to neither."""
        self._collector.clock.finish()
        self._collector.scalars["probe/evaluations"] = 1.0

    # ---- a step ------------------------------------------------------------------------------------------

    def _take_run(self, ran: Ran) -> None:
        started = now()
        with np.errstate(all="ignore"):
            self._take_numbers(ran)
            self._take_losses(ran.tap, ran.shown)
            if self._settings.batches:
                self._batches.look(ran.shown["inputs"], ran.shown["targets"])
            self._coverage.look(ran.tap)
            for name, reason in ran.tap.not_shown.items():
                self._refusals.note(name, reason)  # not worth a warning
            outputs = self._take_activations(ran.tap, ran.shown["activations"])
            for flags in ran.shown["flags"]:
                calls = [call for call, _, _ in ran.tap.activations()]
                outputs = list(zip(calls, map(int, array_of(flags).tolist()), strict=True))
            gradients = self._take_gradients(ran.tap, ran.shown["gradients"])
            self._origin.look(ran.tap, outputs, gradients, ran.shown, self._before)
        self._collector.charge(started)

    def _take_numbers(self, ran: Ran) -> None:
        scalars, numbers = self._collector.scalars, ran.numbers
        if ran.tap.whole_loss is not None or ran.tap.losses:
            scalars["loss"] = numbers[LOSS]
        if numbers[SIZE] == numbers[SIZE]:
            scalars["batch_size"] = numbers[SIZE]
        rates = len(ran.tap.rates)
        self._rates = numbers[RATES : RATES + rates]
        for wait in numbers[RATES + rates :]:
            if wait == wait:
                scalars["time/data"] = wait
        scale = numbers[SCALE]
        if scale == scale and scale > 0:
            scalars["probe/loss_scale"] = scale
        if not ran.shown["gradients"] and ran.tap.applied_to and self._settings.gradients:
            # a sum that is no number was not measured, but how many values are none was
            if np.isfinite(numbers[SQUARES]):
                scalars["gradient_norm"] = numbers[SQUARES] ** 0.5 / (scale if scale > 0 else 1.0)
            scalars["nonfinite_gradients"] = numbers[NONFINITE]

    def _take_losses(self, tap: Tap, shown: dict[str, Any]) -> None:
        if not self._collector.probing:
            return
        sets = zip(tap.losses, shown["given"], shown["targets"], shown["values"], strict=False)
        for number, (seen, given, target, value) in enumerate(sets):
            self._losses.look(number, seen, given, target, value)

    def _take_activations(self, tap: Tap, tensors: list[Any]) -> list[tuple[Call, int]]:
        """How many values of each output are not finite."""
        calls = tap.activations() if tensors else []
        named = [
            (call.layer.series_of(place), tensor, call.layer.layer)
            for (call, place, _), tensor in zip(calls, tensors, strict=True)
        ]
        summaries = self._reader.activations(named)
        return [
            (call, squares_in(summary)[1] if summary is not None else 0)
            for (call, _, _), summary in zip(calls, summaries, strict=True)
        ]

    def _take_gradients(self, tap: Tap, tensors: list[Any]) -> list[tuple[Watched, bytes]]:
        known = tap.gradients() if tensors else []
        if not known:
            return []
        scale = next((scale for _, _, scale in known if scale is not None), None)
        named = [(watched.gradient, tensor) for (watched, _, _), tensor in zip(known, tensors, strict=True)]
        if scale is not None:
            factor = self._collector.scalars.get("probe/loss_scale", 1.0)
            named = [(series, tf.cast(tensor, tf.float32) / factor) for series, tensor in named]
        summaries = self._reader.sample(named)
        found = [
            (watched, summary)
            for (watched, _, _), summary in zip(known, summaries, strict=True)
            if summary is not None
        ]
        sums = [squares_in(summary) for _, summary in found]
        self._collector.scalars["gradient_norm"] = sum(total for total, _ in sums) ** 0.5
        self._collector.scalars["nonfinite_gradients"] = float(sum(others for _, others in sums))
        return found

    def _before(self, watched: Watched) -> Any:
        return None if self._weights is None else self._weights.before(watched)

    # ---- a loop of the user's own ------------------------------------------------------------------------

    def _before_loop_update(self) -> None:
        """An optimizer is about to step in a loop of the user's own."""
        if self._collector.sampling and self._weights is not None:
            self._network.refresh()
            self._weights.keep(self._moved())

    def _take_loop(self) -> None:
        tap = self._loop.finish()
        if tap is None:
            return
        if self._loop.is_hidden:
            self._refusals.refuse(
                "the inside of the training step",
                "it runs in a tf.function of its own; weights, updates and the loss are recorded",
            )
        if not self._loop.has_stepped:
            return
        started = now()
        with np.errstate(all="ignore"):
            inputs = [tensor for call in tap.calls[-1:] for _, tensor in call.inputs] if tap.calls else []
            if inputs and inputs[0].shape.rank:
                self._collector.scalars["batch_size"] = float(inputs[0].shape[0])
            if self._collector.probing:
                for number, seen in enumerate(tap.losses):
                    if not hasattr(seen.target, "graph"):
                        target = tf.convert_to_tensor(seen.target)
                        self._losses.look(number, seen, seen.given, target, seen.output)
            if self._settings.batches and inputs and tap.losses:
                self._batches.look(inputs, [tf.convert_to_tensor(tap.losses[0].target)])
            self._coverage.look(tap)
            activations = tap.activations() if self._settings.activations else []
            outputs = self._take_activations(tap, [tensor for _, _, tensor in activations])
            gradients: list[tuple[Watched, bytes]] = []
            if self._settings.gradients:
                gradients = self._take_loop_gradients(tap)
            self._origin.look(tap, outputs, gradients, {"inputs": inputs, "targets": []}, self._before)
        self._collector.charge(started)

    def _take_loop_gradients(self, tap: Tap) -> list[tuple[Watched, bytes]]:
        known = tap.gradients()
        for scale in [scale for _, _, scale in known if scale is not None][:1]:
            self._collector.scalars["probe/loss_scale"] = float(scale)
        if self._collector.sampling:
            return self._take_gradients(tap, [gradient for _, gradient, _ in known])
        if known and self._collector.wants_norm:
            arrays = [array_of(gradient) for _, gradient, _ in known]
            items = [item for array in arrays if (item := item_of(array)) is not None]
            total, others = kernel.sum_squares(items, self._threads)
            factor = self._collector.scalars.get("probe/loss_scale", 1.0)
            self._collector.scalars["gradient_norm"] = total**0.5 / factor
            self._collector.scalars["nonfinite_gradients"] = float(others)
        return []

    # ---- parts -------------------------------------------------------------------------------------------

    def _is_in_graph(self) -> bool:
        return any(
            each.model.train_function is not None and not each.is_eager and not each.is_blind
            for each in self.steps
        )

    def _make_weights(self) -> Weights | None:
        if not (self._settings.weights or self._settings.updates):
            return None
        return Weights(
            self._collector,
            self._refusals.refuse,
            weights=self._settings.weights,
            updates=self._settings.updates,
            most_bytes=int(psutil.virtual_memory().available * COPIES_SHARE),
            threads=self._threads,
        )

    def _has_moved(self) -> bool:
        """Not while an optimizer only adds up gradients."""
        for optimizer in self._known_optimizers():
            steps = getattr(optimizer, "gradient_accumulation_steps", None)
            if steps and int(optimizer.iterations.numpy()) % steps:
                return False
        return True

    def _moved(self) -> list[Watched]:
        return [each for each in self._network.weights.values() if is_trainable(each)]

    def _look_at_weights(self, weights: Weights) -> None:
        weights.look(self._moved())
        resting = [
            each
            for each in self._network.weights.values()
            if not is_trainable(each) and id(each) not in self._seen_rest
        ]
        if resting and self._settings.weights:
            self._seen_rest.update(map(id, resting))
            self._reader.sample([(each.weight, native(each.variable).read_value()) for each in resting])

    def _known_optimizers(self) -> list[Any]:
        compiled = [getattr(each, "optimizer", None) for each in self._models.values()]
        found = {id(each): each for each in (*self._optimizers, *compiled) if each is not None}
        return list(found.values()) or self._loop.optimizers

    def _put_rates(self) -> None:
        rates, self._rates = self._rates, []
        if rates:
            self._collector.scalars.update((f"lr/{number}", rate) for number, rate in enumerate(rates))
            return
        for number, optimizer in enumerate(self._known_optimizers()):
            rate = rate_of(optimizer)
            if rate is not None:
                self._collector.scalars[f"lr/{number}"] = rate

    def _put_scalar(self, name: str, value: Any) -> None:
        """A number, or a tensor with one; of several values the mean."""
        if value is None:
            return
        try:
            if hasattr(value, "graph"):
                self._refusals.refuse(name, "inside of a tf.function it has no value yet")
                return
            array = np.asarray(value.numpy() if hasattr(value, "numpy") else value, np.float64)
            self._collector.scalars[name] = float(array if array.ndim == 0 else array.mean())
        except (TypeError, ValueError) as error:
            self._refusals.refuse(name, f"a {type(value).__name__} is no number ({error})")

    def _describe_graph(self, ran: list[Ran]) -> None:
        if self._is_graph_told:
            return
        taps = [each.tap for each in ran if each.tap.calls] or [tap for tap in [self._loop.tap] if tap.calls]
        if not taps and self._ended < PATIENCE_STEPS:
            return
        self._is_graph_told = True
        try:
            self._network.refresh()
            size = self._collector.scalars.get("batch_size")
            tap = taps[0] if taps else Tap(self._network, self._guard, wants_layers=False)
            self._graph = encoded_graph(self._network, tap, None if size is None else int(size))
        except Exception as error:
            self._guard.fault("describing the model", error)


def adapter_of(models: dict[str, Any], optimizer: Any) -> MakeAdapter:
    """Takes one optimizer, several in a list or by name, or None. Raises TypeError for anything else."""
    optimizers = listed(optimizer)
    for each in optimizers:
        if not isinstance(each, keras.optimizers.Optimizer):
            raise TypeError(
                f"optimizer is a {type(each).__name__}, not a keras.optimizers.Optimizer; leave it out, and "
                "those that step are found"
            )
    if keras.backend.backend() != "tensorflow":
        raise TypeError(
            f"Keras runs on {keras.backend.backend()} here; NetDebug watches it on TensorFlow only so far "
            "(KERAS_BACKEND=tensorflow)"
        )
    return lambda collector, guard, settings: KerasAdapter(models, optimizers, collector, guard, settings)
