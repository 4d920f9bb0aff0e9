"""A debugger's session that follows a script, beside a `fit` of Keras on any backend."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import keras

import tb_netdebug as nd
from tb_netdebug.debugger.place import END, Place
from tb_netdebug.debugger.workbench import Needs

ALL = Needs(phases=True, layers=True, keep=True)


class Script:
    """Notes all places, and does at each what the test wants of it."""

    def __init__(self, do: Callable[[Any, Place], object] | None = None) -> None:
        self.is_alert = True
        self.told: list[str] = []
        self.bench: Any = None
        self._do = do

    def visit(self, place: Place) -> None:
        self.told.append(words(place))
        if self._do is not None:
            self._do(self.bench, place)

    def attend(self, monitor: Any, needs: Needs) -> None:
        """From now on; at the end of a batch it does what the monitor does with its session."""
        adapter = monitor._adapter
        self.bench = adapter.workbench(self)
        self.bench.need(needs)
        original = adapter.end_step

        def end_step(loss: Any, scalars: Any) -> bool:
            is_late: bool = original(loss, scalars)
            self.visit(Place(END))
            self.bench.end_batch()
            return is_late

        adapter.end_step = end_step


def words(place: Place) -> str:
    return f"{place.edge} {place.phase} of {place.module or place.class_name or 'all'}"


class Attends(keras.callbacks.Callback):  # type: ignore[misc]
    """A callback, after ours."""

    def __init__(self, ours: nd.KerasCallback, script: Script, needs: Needs) -> None:
        super().__init__()
        self._ours, self._script, self._needs = ours, script, needs

    def on_train_begin(self, logs: Any = None) -> None:
        self._script.attend(self._ours.monitor, self._needs)


def stepped(logdir: Path, script: Script, needs: Needs = ALL, **options: Any) -> list[Any]:
    """The callbacks of a training that is stepped through; faults of ours fail the test."""
    ours = nd.KerasCallback(logdir, **{"run": "run", "strict": True, "on_finding": "ignore", **options})
    return [ours, Attends(ours, script, needs)]
