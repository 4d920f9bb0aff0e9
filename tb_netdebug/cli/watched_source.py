"""The protocols of what `netdebug watch` shows, and the source for a local logdir."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from tb_netdebug.core.eventlog.reader.logdir import LogDir

if TYPE_CHECKING:
    from tb_netdebug.core.eventlog.reader.views import ScalarView, TableView
    from tb_netdebug.core.records.step import Kind


class Listed(Protocol):
    """A run in the list."""

    @property
    def started(self) -> float: ...


class WatchedRun(Protocol):
    """The part of reader.FollowedRun that the view uses."""

    @property
    def name(self) -> str: ...

    @property
    def version(self) -> int: ...

    def refresh(self) -> object: ...

    def details(self) -> dict[str, Any]: ...

    def scalars(
        self, names: Sequence[str], *, first: int | None = None, points: int = 1000
    ) -> ScalarView: ...

    def statistics_at(self, kind: Kind) -> TableView: ...


class RunSource(Protocol):
    """A source of runs, to be used by one thread.

    If a run cannot be read, `open`, `glance` and the run itself raise ReaderError, OSError or KeyError.
    """

    @property
    def runs(self) -> Mapping[str, Listed]: ...

    @property
    def complaints(self) -> Sequence[str]: ...

    def refresh(self) -> object:
        """Look up which runs exist."""

    def open(self, name: str) -> WatchedRun: ...

    def glance(self, name: str) -> Mapping[str, Any]:
        """Return state, last step and loss of a run."""

    def close(self) -> None: ...


class LocalRuns:
    """The runs of a folder, or of an fsspec URL."""

    def __init__(self, place: str) -> None:
        self._logdir = LogDir([("", place)])

    @property
    def runs(self) -> Mapping[str, Listed]:
        return self._logdir.runs

    @property
    def complaints(self) -> Sequence[str]:
        return self._logdir.complaints

    def refresh(self) -> object:
        return self._logdir.refresh()

    def open(self, name: str) -> WatchedRun:
        return self._logdir.open(name)

    def glance(self, name: str) -> Mapping[str, Any]:
        run = self._logdir.open(name)
        run.refresh()
        return run.details()

    def close(self) -> None:
        self._logdir.close()
