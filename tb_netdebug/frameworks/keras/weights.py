"""Sample weights and what a step has changed in them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tb_netdebug.core.stats import kernel
from tb_netdebug.frameworks.keras.layers import WatchedWeight
from tb_netdebug.frameworks.keras.values import Array, address_of, array_of, item_of
from tb_netdebug.recording.collector import StepCollector

# A weight with its values at some moment; nothing changes these values any more.
Held = list[tuple[WatchedWeight, Any]]


class KerasWeights:
    """Samples weights and, from a copy made before the step, updates; runs on the job queue's thread.

    The kernel reads weights and copy in one pass and leaves the copy equal to the weights, so nothing needs
    copying when every step is sampled. Copies beyond `most_bytes` are not made.
    """

    def __init__(
        self,
        collector: StepCollector,
        refuse: Callable[[str, str], None],
        *,
        weights: bool,
        updates: bool,
        most_bytes: int,
        threads: int,
    ) -> None:
        self._collector = collector
        self._refuse = refuse
        self._weights = weights
        self._updates = updates
        self._most_bytes = most_bytes
        self._threads = threads
        self._copies: dict[int, Array] = {}
        self._bytes = 0
        self._fresh_at = -1

    def keep(self, step: int, weights: Held) -> None:
        """Copy, before a sampled step, what the steps since the last sample have changed."""
        for each, tensor in weights:
            array = array_of(tensor)
            if item_of(array) is None:
                continue
            copy = self._copies.get(id(each))
            if copy is None or copy.shape != array.shape or copy.dtype != array.dtype:
                copy = self._new_copy(each, array)
            if copy is not None:
                np.copyto(copy, array)
        self._fresh_at = step

    def before(self, watched: WatchedWeight) -> Array | None:
        """Return the weight before the sampled step; None if there is no copy of that moment."""
        return self._copies.get(id(watched)) if self._fresh_at == self._collector.step else None

    def look(self, weights: Held) -> None:
        """Sample the weights, and their updates where there is a copy, after the step."""
        arrays = [array_of(tensor) for _, tensor in weights]
        pairs, alone = [], []
        is_fresh = self._fresh_at == self._collector.step
        for (each, _), array in zip(weights, arrays, strict=True):
            item, copy = item_of(array), self._copies.get(id(each))
            if item is None:
                self._refuse(each.name, f"values of type {array.dtype} cannot be read")
            elif is_fresh and copy is not None and copy.shape == array.shape and copy.dtype == array.dtype:
                address, count, code = item
                pairs.append((each, (address, address_of(copy), count, code)))
            else:
                alone.append((each, item))
                copy = self._new_copy(each, array) if self._updates else None
                if copy is not None:  # for the next step, in case it is sampled
                    np.copyto(copy, array)
        results = kernel.summarize_updates([item for _, item in pairs], self._threads)
        for (each, _), (weight, update) in zip(pairs, results, strict=True):
            if self._weights:
                self._collector.sample(each.weight, weight)
            self._collector.sample(each.update, update)
        if self._weights:
            summaries = kernel.summarize([item for _, item in alone], self._threads)
            for (each, _), summary in zip(alone, summaries, strict=True):
                self._collector.sample(each.weight, summary)
        self._fresh_at = self._collector.step + 1

    def _new_copy(self, each: WatchedWeight, array: Array) -> Array | None:
        old = self._copies.pop(id(each), None)
        self._bytes -= old.nbytes if old is not None else 0
        if self._bytes + array.nbytes > self._most_bytes:
            self._refuse(
                f"the update of {each.name}",
                f"copies of the weights would take more than {self._most_bytes >> 20} MiB, their share of "
                "the memory that was free",
            )
            return None
        self._bytes += array.nbytes
        copy = self._copies[id(each)] = np.empty_like(array)
        return copy
