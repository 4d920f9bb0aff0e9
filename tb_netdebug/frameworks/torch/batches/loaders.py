"""Finds out which DataLoader the batches come from, and how often it was started."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Iterator
from functools import wraps
from typing import Any

from torch.utils.data import DataLoader, IterableDataset

from tb_netdebug.recording.guard import Guard


class Loader:
    """A loader that was iterated while we watched; `batches` is None when it does not know its length."""

    __slots__ = ("batches", "restarts")

    def __init__(self, batches: int | None) -> None:
        self.batches = batches
        self.restarts = 0


class Drawing:
    """An iterator of a loader, and how many batches it had given at the last look; not kept alive."""

    __slots__ = ("given", "iterator", "loader")

    def __init__(self, iterator: Any, loader: Loader) -> None:
        self.iterator = weakref.ref(iterator)
        self.loader = loader
        self.given = given_by(iterator)


class Loaders:
    """Notices, while open, whenever a DataLoader of the process is started.

    `source` is the loader that gave a batch since the last `consume`. An evaluation's forward call consumes
    what was drawn for it, so a loader that only feeds evaluations is not taken for that of the run. The
    counts are those that iterators keep themselves; the iterators stay as they are.
    """

    def __init__(self, guard: Guard) -> None:
        self._guard = guard
        self._loaders: weakref.WeakKeyDictionary[Any, Loader] = weakref.WeakKeyDictionary()
        self._drawings: list[Drawing] = []
        self._begun: Loader | None = None  # started since the last `consume`

    def open(self) -> None:
        listen(self)

    def close(self) -> None:
        stop_listening(self)
        self._drawings.clear()

    def began(self, loader: Any, iterator: Any) -> None:
        """Note that `loader` was started. Called by our `__iter__`, on the thread that starts it."""
        if self._guard.is_off:
            return
        try:
            known = self._loaders.get(loader)
            if known is None:
                known = self._loaders[loader] = Loader(length_of(loader))
            known.restarts += 1
            self._begun = known
            self._drawings = [
                each for each in self._drawings if each.iterator() not in (None, iterator)
            ]  # persistent workers: the same iterator is started again
            self._drawings.append(Drawing(iterator, known))
        except Exception as error:
            self._guard.fault("watching a DataLoader", error)

    def source(self) -> Loader | None:
        """Return the loader that gave a batch, or was started, since the last `consume`."""
        found = self._begun
        for drawing in self._drawings:
            iterator = drawing.iterator()
            if iterator is not None and given_by(iterator) != drawing.given:
                found = drawing.loader
        return found

    def consume(self) -> None:
        """Forget what has been drawn so far: it no longer counts for `source`."""
        self._begun = None
        for drawing in self._drawings:
            iterator = drawing.iterator()
            if iterator is not None:
                drawing.given = given_by(iterator)


def given_by(iterator: Any) -> int:
    """Return how many batches an iterator has given since it was started; 0 if it does not say."""
    given = getattr(iterator, "_num_yielded", 0)
    return given if isinstance(given, int) else 0


def length_of(loader: Any) -> int | None:
    """Return the number of batches, or None if it is not known.

    A loader of an iterable dataset is not asked, because that would make it warn later.
    """
    if isinstance(loader.dataset, IterableDataset):
        return None
    try:
        return len(loader)
    except (TypeError, NotImplementedError):  # a sampler or a dataset need not have a length
        return None


# ---- the one place where DataLoader is patched ------------------------------------------------------------

Start = Callable[[Any], Iterator[Any]]

_changing = threading.Lock()
_listeners: list[Loaders] = []
_class: Any = DataLoader
_patch: tuple[Start, Start] | None = None  # the original `__iter__` and its replacement


def listen(listener: Loaders) -> None:
    """Report the starts of all loaders to `listener`; the first listener patches DataLoader."""
    global _patch
    with _changing:
        _listeners.append(listener)
        if _patch is None:
            # DataLoader has no hook for its start.
            original = _class.__iter__
            _patch = original, telling(original)
            _class.__iter__ = _patch[1]


def stop_listening(listener: Loaders) -> None:
    """Remove a listener; the last one restores DataLoader, unless other code has patched it since."""
    global _patch
    with _changing:
        if listener in _listeners:
            _listeners.remove(listener)
        if not _listeners and _patch is not None and _class.__iter__ is _patch[1]:
            _class.__iter__ = _patch[0]
            _patch = None


def telling(original: Start) -> Start:
    @wraps(original)
    def __iter__(self: Any) -> Iterator[Any]:  # noqa: N807
        iterator = original(self)
        for listener in tuple(_listeners):
            listener.began(self, iterator)
        return iterator

    return __iter__
