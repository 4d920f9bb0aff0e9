"""The numbers of a step that are there without any reading of tensors in full."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tb_netdebug.capture.collector import Collector
from tb_netdebug.capture.keras.coverage import rate_of
from tb_netdebug.capture.keras.traced import Ran
from tb_netdebug.capture.keras.values import array_of, item_of, number_of
from tb_netdebug.stats import kernel


class Scalars:
    """Puts them into the collector."""

    def __init__(self, collector: Collector, refuse: Callable[[str, str], None]) -> None:
        self._collector = collector
        self._refuse = refuse
        self._rates: list[float] = []

    def take(self, ran: Ran) -> None:
        """Of a step that has run: its loss, its size, its rates, the wait for its batch."""
        scalars = self._collector.scalars
        loss, scale, wait = ran.loss, ran.number("scale"), ran.wait_secs
        if loss is not None:
            scalars["loss"] = loss
        for tensor in ran.of("inputs")[:1]:
            sizes = tensor._shape_tuple()  # a tenth of the time of `shape`
            if sizes:
                scalars["batch_size"] = float(sizes[0])
        if scale is not None:
            scalars["probe/loss_scale"] = scale
        if wait is not None:
            scalars["time/data"] = wait
        self._rates = [number_of(tensor) for tensor in ran.of("rates")]

    def put(self, name: str, value: Any) -> None:
        """A number, or a tensor with one; of several values the mean."""
        if value is None:
            return
        try:
            if hasattr(value, "graph"):
                self._refuse(name, "inside of a tf.function it has no value yet")
                return
            array = np.asarray(value.numpy() if hasattr(value, "numpy") else value, np.float64)
            self._collector.scalars[name] = float(array if array.ndim == 0 else array.mean())
        except (TypeError, ValueError) as error:
            self._refuse(name, f"a {type(value).__name__} is no number ({error})")

    def put_rates(self, optimizers: Sequence[Any]) -> None:
        """Those that the step has shown, or else as the optimizers stand now."""
        rates, self._rates = self._rates, []
        known = rates or [rate for each in optimizers if (rate := rate_of(each)) is not None]
        for number, rate in enumerate(known):
            self._collector.scalars[f"lr/{number}"] = rate

    def put_norm(self, gradients: Sequence[Any], threads: int) -> None:
        """The norm of all gradients, and how many of their values are no numbers."""
        arrays = [array_of(gradient) for gradient in gradients]
        items = [item for array in arrays if (item := item_of(array)) is not None]
        total, others = kernel.sum_squares(items, threads)
        scalars = self._collector.scalars
        scalars["gradient_norm"] = total**0.5 / (scalars.get("probe/loss_scale") or 1.0)
        scalars["nonfinite_gradients"] = float(others)
