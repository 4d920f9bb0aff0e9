"""Watch which tf.data.Dataset a custom loop takes its batches from, and how often it was iterated."""

from __future__ import annotations

import sys
import threading
import weakref
from collections.abc import Iterator
from functools import wraps
from pathlib import Path
from typing import Any

import keras
import tensorflow as tf

from tb_netdebug.core.records.scalar_names import LOADER_BATCHES, LOADER_RESTARTS
from tb_netdebug.recording.guard import Guard

DATASET: Any = tf.data.Dataset
OF_KERAS = str(Path(keras.__file__).parent)


class DatasetSource:
    """A dataset that was iterated while being watched; `batches` is None if its length is unknown."""

    __slots__ = ("batches", "starts")

    def __init__(self, batches: int | None) -> None:
        self.batches = batches
        self.starts = 0


class Datasets:
    """Counts the iterations of every dataset in the process until it is closed.

    Datasets iterated by `fit` and `evaluate` do not count. A dataset iterated for an evaluation is dropped by
    `let_go`, which is called when a layer runs without a tape.
    """

    def __init__(self, guard: Guard) -> None:
        self._guard = guard
        self._sources: weakref.WeakKeyDictionary[Any, DatasetSource] = weakref.WeakKeyDictionary()
        self._begun: DatasetSource | None = None
        listen(self)

    def close(self) -> None:
        stop_listening(self)

    def began(self, dataset: Any) -> None:
        if self._guard.is_off:
            return
        try:
            known = self._sources.get(dataset)
            if known is None:
                known = self._sources[dataset] = DatasetSource(length_of(dataset))
            known.starts += 1
            self._begun = known
        except Exception as error:
            self._guard.fault("watching a dataset", error)

    def let_go(self) -> None:
        """Drop the dataset iterated last: it fed something other than a training step."""
        self._begun = None

    def scalars(self) -> dict[str, float]:
        """Return the scalars of the dataset that feeds this step, named as for torch; empty if none."""
        found, self._begun = self._begun, None
        if found is None or found.batches is None:
            return {}
        return {
            LOADER_BATCHES: float(found.batches),
            LOADER_RESTARTS: float(found.starts),
        }


def length_of(dataset: Any) -> int | None:
    """Return the number of batches; None where TensorFlow reports a negative number: infinite or unknown."""
    length = int(dataset.cardinality())
    return length if length >= 0 else None


# ---- the only place where Dataset is patched ---------------------------------------------------------------

_changing = threading.Lock()
_listeners: list[Datasets] = []
_patch: tuple[Any, Any] | None = None  # the original __iter__ and our replacement


def listen(listener: Datasets) -> None:
    global _patch
    with _changing:
        _listeners.append(listener)
        if _patch is None:
            original = DATASET.__iter__
            _patch = original, telling(original)
            DATASET.__iter__ = _patch[1]


def stop_listening(listener: Datasets) -> None:
    """Remove a listener; the last one restores `Dataset.__iter__` unless someone patched it after us."""
    global _patch
    with _changing:
        if listener in _listeners:
            _listeners.remove(listener)
        if not _listeners and _patch is not None and DATASET.__iter__ is _patch[1]:
            DATASET.__iter__ = _patch[0]
            _patch = None


def telling(original: Any) -> Any:
    @wraps(original)
    def __iter__(self: Any) -> Iterator[Any]:  # noqa: N807
        iterator: Iterator[Any] = original(self)
        # `fit` and `evaluate` iterate datasets from Keras's own files.
        is_of_keras = sys._getframe(1).f_code.co_filename.startswith(OF_KERAS)
        if not is_of_keras and tf.executing_eagerly():
            for listener in tuple(_listeners):
                listener.began(self)
        return iterator

    return __iter__
