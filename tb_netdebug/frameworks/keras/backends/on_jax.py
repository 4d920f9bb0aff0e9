"""Keras on JAX: the inputs and outputs of the compiled training step, and a look at sampled ones."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import keras
import numpy as np

from tb_netdebug.core.records.scalar_names import BATCH_SIZE, LOSS, LOSS_SCALE, TIME_DATA, name_of_own
from tb_netdebug.frameworks.keras.backends.adapter import BackendAdapter, Late, Run
from tb_netdebug.frameworks.keras.backends.jax_program import StepValues, inputs_of, size_of
from tb_netdebug.frameworks.keras.backends.jax_steps import JaxStep, JaxSteps
from tb_netdebug.frameworks.keras.backends.running_loss import RunningLoss, Told, is_ready
from tb_netdebug.frameworks.keras.backends.standins import Array, Shown
from tb_netdebug.frameworks.keras.backends.stepping_on_jax import OnJax
from tb_netdebug.frameworks.keras.backends.tap import EagerAppliedGradients, EagerTap
from tb_netdebug.recording.adapter import MakeAdapter, listed
from tb_netdebug.recording.clock import now
from tb_netdebug.recording.collector import StepCollector
from tb_netdebug.recording.guard import Guard
from tb_netdebug.recording.settings import Settings

SECOND_LOOK = (
    "JAX compiles the training step as a whole; layers and gradients of sampled batches come from a "
    "separate program, which runs none of your Python code"
)


class KerasOnJax(BackendAdapter):
    """Wraps the training step; its numbers are fetched when JAX has them, a few steps later."""

    framework = f"jax {jax.__version__}"

    def __init__(
        self,
        models: Mapping[str, Any],
        optimizers: Sequence[Any],
        collector: StepCollector,
        guard: Guard,
        settings: Settings,
    ) -> None:
        self._tensors: dict[int, Any] = {}
        self.steps: list[JaxSteps] = []
        super().__init__(models, optimizers, collector, guard, settings, threads=1)
        self._told: deque[Told] = deque()
        self._seen_by: OnJax | None = None
        self._running = RunningLoss()
        wants_look = settings.activations or settings.gradients
        for model in self._models.values():
            if isinstance(model, keras.Model):
                make_tap = self._make_tap if wants_look else None
                before = self._keep_weights
                self.steps.append(JaxSteps(model, collector, guard, self._refusals.refuse, make_tap, before))
        for each in self.steps:
            each.install()
        if any(each.makes_looks for each in self.steps):
            self._refusals.refuse("the inside of steps that are not sampled", SECOND_LOOK)

    # ---- Adapter -----------------------------------------------------------------------------------------

    def read(self, tensor: Any) -> Array:
        return np.asarray(tensor)

    def tensor_of(self, variable: Any) -> Any:
        """Return the current tensor of a variable.

        It comes from the training state while the variable is empty, as in `fit`, or was donated, as in a
        step of `train_on_batch`.
        """
        value = variable._value
        if value is not None and not (isinstance(value, jax.Array) and value.is_deleted()):
            return value
        if id(variable) not in self._tensors:
            self._tensors = {key: each for steps in self.steps for key, each in steps.tensors()}
        return self._tensors[id(variable)]

    def prepare(self, *, sampling: bool) -> None:
        if sampling:
            self._network.refresh()

    def end_step(self, loss: Any, scalars: dict[str, Any]) -> bool:
        started = now()
        # The cached training state is valid within one step only.
        self._tensors = {}
        told = {name: value for name, value in scalars.items() if not isinstance(value, jax.Array)}
        super().end_step(loss, told)
        if self._bench is not None:
            self._bench.batch_ran()
        self._tensors = {}
        self._collector.charge(started)
        return bool(self._told)

    def late(self, *, wait: bool) -> Late:
        found: Late = []
        while self._told and (wait or all(map(is_ready, self._told[0].values.values()))):
            told = self._told.popleft()
            found.append((told.step, self._running.numbers(told), []))
        return found

    def memory(self) -> dict[str, float]:
        readings: dict[str, float] = {}
        for device in jax.local_devices():
            told = device.memory_stats() if device.platform == "gpu" else None
            if told:
                readings[f"memory/cuda{device.id}/allocated"] = float(told["bytes_in_use"])
                readings[f"memory/cuda{device.id}/peak_allocated"] = float(told["peak_bytes_in_use"])
        return readings

    def _source(self) -> OnJax:
        self._seen_by = OnJax(self, self.steps)
        return self._seen_by

    def close(self) -> None:
        for each in self.steps:
            each.remove()
        super().close()
        self.steps.clear()
        self._seen_by = None
        self._tensors = {}

    # ---- for the callback --------------------------------------------------------------------------------

    def begin_batch(self) -> None:
        for each in self.steps:
            each.take_over()

    def tell(self, told: Callable[[Any], None]) -> None:
        """Call `told` after each batch, with Keras's results, on the training thread."""
        for each in self.steps:
            each.told = told

    # ---- a step ------------------------------------------------------------------------------------------

    def _make_tap(self, gets_out: Callable[[Any], bool]) -> EagerTap:
        return EagerTap(self._network, self._guard, np.asarray, gets_out)

    def _keep_weights(self) -> None:
        self._tensors = {}
        self._network.refresh()
        super()._keep_weights()
        self._tensors = {}

    def _runs(self) -> list[Run]:
        taken = [(steps.take(), steps) for steps in self.steps]
        runs = [self._run_of(ran, steps) for ran, steps in taken if ran is not None]
        if self._seen_by is not None and self._bench is not None and self._bench.is_attended:
            self._seen_by.has_run(runs)
        return runs

    def _run_of(self, ran: JaxStep, steps: JaxSteps) -> Run:
        scalars = self._collector.scalars
        size = size_of(ran.batch)
        if size is not None:
            scalars[BATCH_SIZE] = size
        scalars[TIME_DATA] = ran.wait_secs
        inputs, targets = ([Shown(each, self.read) for each in part] for part in inputs_of(ran.batch))
        shown: dict[str, list[Any]] = {"inputs": inputs, "targets": targets, "labels": targets}
        self._tell_later(ran, steps, size)
        if ran.tap is None or ran.seen is None:
            return EagerTap(self._network, self._guard, self.read, bool), shown
        shown |= self._shown(ran.tap, ran.seen, steps)
        tap: Any = ran.tap
        self._coverage.look(tap)
        return tap, shown

    def _shown(self, tap: EagerTap, seen: StepValues, steps: JaxSteps) -> dict[str, list[Any]]:
        scalars = self._collector.scalars
        scalars[LOSS] = float(seen.loss)
        scale = float(seen.scale)
        if scale != 1.0 and np.isfinite(scale):
            scalars[LOSS_SCALE] = scale
        else:
            scale = 1.0
        weights = [self._network.stand_in(each) for each in steps.model.trainable_variables]
        pairs = list(zip(weights, seen.gradients, strict=True))
        tap.applied_to = [EagerAppliedGradients(self._stand_in(steps.model.optimizer), pairs)]
        gradients = tap.gradients() if self._settings.gradients else []
        found: dict[str, list[Any]] = {
            name: [Shown(each, self.read) for each in tensors] for name, tensors in seen.losses.items()
        }
        if self._settings.activations:
            found["activations"] = [Shown(each, self.read) for each in seen.activations]
            found["entries"] = [None if each is None else bool(each) for each in seen.entries]
        found["gradients"] = [
            Shown(each if scale == 1.0 else each / scale, self.read) for _, each, _ in gradients
        ]
        return found

    def _tell_later(self, ran: JaxStep, steps: JaxSteps, size: float | None) -> None:
        told = Told(
            self._collector.step,
            dict(ran.logs) if isinstance(ran.logs, Mapping) else {},
            size if steps.is_running_mean else None,
            is_first=ran.is_first,
            has_loss=ran.seen is not None,
        )
        self._collector.awaited |= {"loss" if name == "loss" else name_of_own(name) for name in told.values}
        self._told.append(told)

    def rate_of(self, optimizer: Any) -> float | None:
        """Return the learning rate in sampled steps, else None: reading it waits for the step."""
        if not self._collector.sampling:
            return None
        rate = getattr(getattr(optimizer, "inner_optimizer", optimizer), "_learning_rate", None)
        try:
            if isinstance(rate, keras.optimizers.schedules.LearningRateSchedule):
                return float(self.read(rate(self.tensor_of(optimizer.iterations))))
            return float(self.read(self.tensor_of(rate))) if isinstance(rate, keras.Variable) else None
        except (KeyError, TypeError, ValueError):
            return None


def adapter_of(models: dict[str, Any], optimizer: Any) -> MakeAdapter:
    """Return a factory for the adapter; `optimizer` is one, several in a list or by name, or None.

    Raises TypeError for anything else.
    """
    optimizers = listed(optimizer)
    for each in optimizers:
        if not isinstance(each, keras.optimizers.Optimizer):
            raise TypeError(
                f"optimizer is a {type(each).__name__}, not a keras.optimizers.Optimizer; leave it out, and "
                "NetDebug uses the one that the model was compiled with"
            )
    return lambda collector, guard, settings: KerasOnJax(models, optimizers, collector, guard, settings)
