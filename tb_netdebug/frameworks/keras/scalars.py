"""Collect the numbers of a step that need no tensor to be read in full."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from tb_netdebug.core.records.scalar_names import (
    BATCH_SIZE,
    GRADIENT_NORM,
    LOSS,
    LOSS_SCALE,
    NONFINITE_GRADIENTS,
    TIME_DATA,
    name_of_rate,
)
from tb_netdebug.core.stats import kernel
from tb_netdebug.frameworks.keras.coverage import rate_of
from tb_netdebug.frameworks.keras.traced import TracedRun
from tb_netdebug.frameworks.keras.values import array_of, item_of, number_of
from tb_netdebug.recording.collector import StepCollector


class Scalars:
    """Puts scalars into the collector; with `waits`, tensors are kept and read later."""

    def __init__(self, collector: StepCollector, refuse: Callable[[str, str], None], *, waits: bool) -> None:
        self._collector = collector
        self._refuse = refuse
        self._has_rates = False
        self.waits = waits
        self.late: dict[str, Any] = {}

    def take(self, ran: TracedRun) -> None:
        """Take the loss, batch size, learning rates and data wait of a step that has run."""
        for tensor in ran.of("inputs")[:1]:
            sizes = tensor._shape_tuple()  # a tenth of the time of `shape`
            if sizes:
                self._collector.scalars[BATCH_SIZE] = float(sizes[0])
        self.note(LOSS, ran.loss)
        self.note(LOSS_SCALE, ran.first("scale"))
        self.note(TIME_DATA, ran.wait_secs)
        rates = ran.of("rates")
        for number, tensor in enumerate(rates):
            self.note(name_of_rate(number), tensor)
        self._has_rates = self._has_rates or bool(rates)

    def note(self, name: str, tensor: Any) -> None:
        """Record a scalar tensor that a step has returned, unless it is None."""
        if tensor is None:
            return
        if self.waits:
            self.late[name] = tensor
        else:
            self._collector.scalars[name] = number_of(tensor)

    def put(self, name: str, value: Any) -> None:
        """Record a number or a one-element tensor; the mean if there are several values."""
        if value is None:
            return
        try:
            if hasattr(value, "graph"):
                self._refuse(name, "inside a tf.function it has no value yet")
            elif self.waits and isinstance(value, tf.Tensor):
                self.late[name] = value
            else:
                array = np.asarray(value.numpy() if hasattr(value, "numpy") else value, np.float64)
                self._collector.scalars[name] = float(array if array.ndim == 0 else array.mean())
        except (TypeError, ValueError) as error:
            self._refuse(name, f"a {type(value).__name__} is not a number ({error})")

    def put_rates(self, optimizers: Sequence[Any]) -> None:
        """Record the current learning rates of the optimizers, if the step has not shown them."""
        has_rates, self._has_rates = self._has_rates, False
        known = () if has_rates else optimizers
        for number, rate in enumerate(rate for each in known if (rate := rate_of(each)) is not None):
            self._collector.scalars[name_of_rate(number)] = rate

    def take_late(self) -> dict[str, Any]:
        late, self.late = self.late, {}
        return late

    def put_norm(self, gradients: Sequence[Any], threads: int) -> None:
        """Record the norm of all gradients and the number of their non-finite values."""
        if self.waits:
            norm = tf.linalg.global_norm([tf.cast(each, tf.float32) for each in gradients])
            self.late[GRADIENT_NORM] = norm / self.late.get(LOSS_SCALE, 1.0)
            return
        arrays = [array_of(gradient) for gradient in gradients]
        items = [item for array in arrays if (item := item_of(array)) is not None]
        total, others = kernel.sum_squares(items, threads)
        scalars = self._collector.scalars
        scalars[GRADIENT_NORM] = total**0.5 / (scalars.get(LOSS_SCALE) or 1.0)
        scalars[NONFINITE_GRADIENTS] = float(others)
