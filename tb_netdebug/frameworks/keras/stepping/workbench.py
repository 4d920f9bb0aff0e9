"""The workbench through which the debugger reaches a Keras run (see `debugger.workbench.Workbench`)."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from tb_netdebug.core.records.scalar_names import LOSS, OWN
from tb_netdebug.core.stats.packed import Summary
from tb_netdebug.debugger.tensors.array_readable import ArrayReadable, summary_of
from tb_netdebug.debugger.workbench import NOTHING, Needs, Readable, Stops, TensorEntry, WorkbenchError
from tb_netdebug.frameworks.keras.graph import code_of, count_of, weights_below
from tb_netdebug.frameworks.keras.layers import KerasLayer, Network
from tb_netdebug.frameworks.keras.stepping.call_stops import CallStops
from tb_netdebug.frameworks.keras.stepping.source import Array, TensorSource
from tb_netdebug.frameworks.keras.stepping.visible_tensors import ReachableArray, VisibleTensors, changes_of
from tb_netdebug.recording.collector import StepCollector
from tb_netdebug.recording.guard import Guard

# Limit for the copies of the previous batch's tensors.
MOST_BYTES = 256 << 20


class KerasWorkbench:
    """Stops between batches on every backend, and inside a batch where its calls run eagerly."""

    def __init__(
        self, network: Network, source: TensorSource, *, stops: Stops, collector: StepCollector, guard: Guard
    ) -> None:
        self._network = network
        self._source = source
        self._collector = collector
        self._guard = guard
        self._needs = NOTHING
        self._has_run = False
        self._previous: dict[str, Array] = {}
        self._reach = VisibleTensors(network, source)
        self._calls = CallStops(network, source, self._reach, stops, guard)

    # ---- stops -------------------------------------------------------------------------------------------

    @property
    def can(self) -> tuple[str, ...]:
        return self._source.can

    @property
    def cannot(self) -> list[str]:
        return self._source.cannot

    def need(self, needs: Needs) -> None:
        if needs == self._needs:
            return
        began = needs.keep and not self._needs.keep
        self._needs = needs
        self._reach.keeps = needs.keep or bool(needs.previous)
        self._calls.need(needs)
        self._source.show_all(self._reach.keeps)
        self._previous = {name: each for name, each in self._previous.items() if name in needs.previous}
        if not self._reach.keeps:
            self._reach.forget_weights()
        if needs == NOTHING:
            self._let_go()
        elif began and not (self._calls.has_applied or self._has_run):
            self._keep_weights()

    @property
    def is_attended(self) -> bool:
        """Whether a client may ask for what a step has returned."""
        return self._needs != NOTHING

    def batch_ran(self) -> None:
        """Note that a step that reports itself only when it is over has run."""
        self._has_run = True

    def end_batch(self) -> None:
        wanted = (each for each in self._needs.previous if not each.startswith("user:"))
        self._previous = dict(self._copies(wanted))
        self._let_go()
        if self._reach.keeps:
            self._keep_weights()

    def close(self) -> None:
        self.need(NOTHING)

    def _let_go(self) -> None:
        """Release the batch."""
        self._reach.clear()
        self._source.end_batch()
        self._calls.end_batch()
        self._has_run = False

    def _keep_weights(self) -> None:
        try:
            self._reach.keep_weights()
        except Exception as error:
            self._guard.fault("keeping the weights of a batch", error)

    def _copies(self, names: Iterator[str]) -> Iterator[tuple[str, Array]]:
        total = 0
        for name in names:
            try:
                found = self._reach.find(name)
            except WorkbenchError:
                continue  # not made in this batch
            total += found.entry.bytes
            if total <= MOST_BYTES:
                yield name, found.array().copy()

    # ---- tensors -----------------------------------------------------------------------------------------

    def keep_user(self, name: str, value: Any) -> None:
        self._reach.put("user", name, value)

    def entries(self, kind: str | None = None) -> Iterator[TensorEntry]:
        return (found.entry for found in self._reach.all(kind))

    def tensor(self, name: str) -> Readable:
        found = self._reach.find(name)
        return ArrayReadable(found.entry, array_in(found), self._previous.get(name))

    def summaries(self, names: Sequence[str]) -> Mapping[str, Summary]:
        return {name: summary_of(array) for name, array in self._arrays(names)}

    def changes(self, names: Sequence[str]) -> Mapping[str, float]:
        known = [name for name in names if name in self._previous]
        return changes_of(dict(self._arrays(known)), self._previous)

    def _arrays(self, names: Sequence[str]) -> Iterator[tuple[str, Array]]:
        for name in names:
            try:
                yield name, array_in(self._reach.find(name))
            except WorkbenchError:
                continue  # left out, as promised

    # ---- modules, scalars, learning rates ----------------------------------------------------------------

    def modules(self) -> list[dict[str, Any]]:
        self._network.refresh()
        return [self._described(layer) for layer in self._network.layers.values()]

    def _described(self, found: KerasLayer) -> dict[str, Any]:
        code = code_of(found.layer)
        return {
            "name": found.name,
            "class_name": type(found.layer).__name__,
            "parent": None if found.parent is None else found.parent.name,
            "parameters": sum(count_of(each) for each in weights_below(found.layer)),
            "file": None if code is None else str(Path(code.co_filename).absolute()),
            "line": 0 if code is None else code.co_firstlineno,
            "order": self._calls.order.get(id(found.layer)),
        }

    def scalars(self) -> Mapping[str, float]:
        """Return the loss and the user's scalars, by the names passed to `step` or Keras's metric names."""
        return {
            name.removeprefix(OWN): float(value)
            for name, value in self._collector.scalars.items()
            if name == LOSS or name.startswith(OWN)
        }

    def learning_rates(self) -> list[dict[str, Any]]:
        return [
            {
                "optimizer": number,
                "group": 0,
                "name": type(each).__name__,
                "value": self._source.rate_of(each),
            }
            for number, each in enumerate(self._source.optimizers())
        ]

    def set_learning_rate(self, optimizer: int, group: int | None, value: float) -> None:
        """Set the learning rate; a callback that schedules it may overwrite this."""
        known = self._source.optimizers()
        if not math.isfinite(value) or value < 0:
            raise WorkbenchError(f"a learning rate must be a number that is not negative, not {value}")
        if not 0 <= optimizer < len(known):
            raise WorkbenchError(
                f"there is no optimizer {optimizer}; there are {len(known)}, numbered from 0"
            )
        if group:
            raise WorkbenchError("Keras optimizers have only group 0")
        self._source.set_rate(known[optimizer], value)


def array_in(found: ReachableArray) -> Array:
    """Return its values; raise WorkbenchError if they cannot be read."""
    try:
        return found.array()
    except (TypeError, ValueError, RuntimeError) as error:
        raise WorkbenchError(f"{found.entry.name} cannot be read: {error}") from error
