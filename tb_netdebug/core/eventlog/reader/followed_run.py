"""One run, followed while it grows, and every view that can be shown of it."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from typing import Any

from tb_netdebug.core.eventlog.reader.block_reader import BlockReader
from tb_netdebug.core.eventlog.reader.errors import ReaderError
from tb_netdebug.core.eventlog.reader.places import RunFiles, clean
from tb_netdebug.core.eventlog.reader.pulse import LIVE_SECS, pulse
from tb_netdebug.core.eventlog.reader.recorded_views import RecordedViews
from tb_netdebug.core.eventlog.reader.recording import Recording
from tb_netdebug.core.eventlog.reader.summaries import Summaries
from tb_netdebug.core.eventlog.reader.summary_views import SummaryViews
from tb_netdebug.core.eventlog.reader.views import (
    BandView,
    HeatView,
    HistogramView,
    RidgeView,
    ScalarView,
    TableView,
)
from tb_netdebug.core.eventlog.reader.witnesses import Account, MemoryCurve, Witnesses
from tb_netdebug.core.records.graph import Graph
from tb_netdebug.core.records.step import Kind, Series
from tb_netdebug.core.records.verdict import RunEvidence, not_judged, verdict

_MOST_GAPS = 100
_OF_PROCESSES = ("rank", "time", "tree_bytes", "processes", "threads", "cpu_share", "state")


class FollowedRun:
    """A run of a logdir, safe from any thread. Views raise ReaderError for what cannot be shown.

    Steps are those of the training. `first` and `last` bound a view; None leaves that side open.
    """

    def __init__(self, name: str, files: RunFiles, reader: BlockReader) -> None:
        self.name = name
        self.version = 0
        self._files = files
        self._reader = reader
        self._lock = threading.Lock()
        self._details: tuple[int, dict[str, Any], RunEvidence | None] | None = None
        self._kind = ""
        self._begin()

    def _begin(self) -> None:
        """Start over with the kind of the files: the first file of ours makes a folder another run."""
        self._kind = self._files.kind
        storage, path = self._files.storage, self._files.path
        if self._kind == "netdebug":
            recording = Recording(storage, path, self._reader)
            self._content: Recording | Summaries = recording
            self._views: RecordedViews | SummaryViews = RecordedViews(recording)
        else:
            self._content = summaries = Summaries(storage, path)
            self._views = SummaryViews(summaries)

    @property
    def path(self) -> str:
        """The folder of the run."""
        return self._files.path

    def use(self, files: RunFiles) -> None:
        """Replace the list of files by the one that a scan of the whole logdir has found."""
        self._files = files

    def refresh(self) -> bool:
        """Read what was added to the files; return whether anything was.

        Never raises for what the files hold.
        """
        with self._lock:
            # Listing a bucket costs money: there the scan of the logdir has to do.
            if not self._files.storage.is_remote:
                self._files.look()
            is_other = bool(self._files.files) and self._files.kind != self._kind
            if is_other:
                self._begin()
            changed = self._content.refresh(self._files.read()) or is_other
            if changed or self.version == 0:
                self.version += 1
            return changed

    # ---- what it is

    def graph(self) -> Graph | None:
        """Return the modules and the data flow between them, as far as recorded."""
        return self._content.graph() if isinstance(self._content, Recording) else None

    def info(self) -> dict[str, Any]:
        """Return what the training process recorded about itself."""
        return self._content.info() if isinstance(self._content, Recording) else {}

    def details(self) -> dict[str, Any]:
        """Return everything but the numbers, as plain values; some floats may be non-finite."""
        # Read first: if the run changes meanwhile, the next call computes everything again.
        version = self.version
        if self._details is None or self._details[0] != version:
            with self._readable():
                described = self._views.described()
                self._details = version, described, self._evidence(described)
        _, described, evidence = self._details
        files = self._of_files()
        judged = self._judged(described, evidence, files)
        return {**described, **files, **judged, **self._of_trainers(described), "version": version}

    def _of_files(self) -> dict[str, Any]:
        place = self._files.place(self.name)
        files = self._content.files
        # A file on its way from another machine arrives in pieces: an incomplete end is no damage yet.
        coming = {file for file in files if file.state and time.time() - file.state.changed < LIVE_SECS}
        gaps = [
            (file, gap) for file in files for gap in file.lost if not (file in coming and gap is file.tail)
        ]
        missing = self._content.missing() if isinstance(self._content, Recording) else []
        return {
            "name": self.name,
            "kind": place.kind,
            "started": place.started,
            "changed": place.changed,
            "size_bytes": place.size_bytes,
            "complaint": self._content.complaint,
            "gaps": sum(file.gap_count - (file in coming and file.tail is not None) for file in files)
            + len(missing),
            "gap_list": [
                {"file": self._relative(file.path), **asdict(gap)}
                for file, gap in [*missing, *gaps][:_MOST_GAPS]
            ],
        }

    def _of_trainers(self, described: dict[str, Any]) -> dict[str, Any]:
        """Return whether the training processes are alive, how they ended, and what their agents saw last."""
        accounts = self._accounts()
        first, last, steps = (described[name] or 0 for name in ("first_time", "last_time", "steps"))
        found = pulse(
            self._files.read(),
            accounts,
            now=time.time(),
            step_secs=(last - first) / max(1, steps - 1),
            is_remote=self._files.storage.is_remote,
        )
        seen = [each.newest for each in accounts.values() if each.newest is not None]
        processes = [{name: getattr(each, name) for name in _OF_PROCESSES} for each in seen]
        return {**found.as_dict(), "processes": processes}

    def _accounts(self) -> dict[int, Account]:
        return self._content.witnesses.newest() if isinstance(self._content, Recording) else {}

    def _judged(
        self, described: dict[str, Any], evidence: RunEvidence | None, files: dict[str, Any]
    ) -> dict[str, Any]:
        """Return the verdict and findings; a verdict of None means that nobody has judged the run.

        A run that holds nothing to judge gets its verdict without any findings.
        """
        stored = self._content.findings() if isinstance(self._content, Recording) else None
        found = verdict(
            stored.severities if stored is not None else [],
            steps=described["steps"] or int(described["last_step"] is not None),
            evidence=evidence,
            info=described["info"],
            damage=self._damage(files),
            kind=self._kind,
        )
        if stored is None and found.reason is None:
            return {"verdict": None, "reason": not_judged(self.path), "findings": []}
        findings = stored.findings if stored is not None else []
        return {"verdict": found.word, "reason": found.reason, "findings": findings}

    def _evidence(self, described: dict[str, Any]) -> RunEvidence | None:
        if not isinstance(self._views, RecordedViews):
            return None
        evidence = RunEvidence.of(described["scalars"], has_moved=False)
        # `has_moved` reads samples from the files, so ask only where the names do not decide.
        if evidence.has_updates:
            return evidence
        return RunEvidence.of(described["scalars"], has_moved=self._views.has_moved())

    def _damage(self, files: dict[str, Any]) -> str:
        """Return a sentence about what cannot be read of the files, or an empty string."""
        lost = files["gap_list"][0] if files["gap_list"] else None
        if files["complaint"] is not None or lost is None:
            return files["complaint"] or ""
        return f"{lost['file']}: {lost['size']} bytes hold no whole record ({lost['complaint']})"

    def _relative(self, path: str) -> str:
        return clean(path[len(self._files.path) :].lstrip("/"))

    # ---- views

    def scalars(
        self, names: Sequence[str], *, first: int | None = None, last: int | None = None, points: int = 1000,
        rank: int = 0,
    ) -> ScalarView:  # fmt: skip
        """Return those of the named scalars that there are, in at most `points` rows each."""
        with self._readable():
            return self._views.scalars(names, first, last, bounded(points), rank)

    def heat(
        self, kind: Kind, statistic: str, *, first: int | None = None, last: int | None = None,
        columns: int = 400, rank: int = 0, pattern: str | None = None,
    ) -> HeatView:  # fmt: skip
        """Return one statistic of all tensors of a kind whose names match the regular expression.

        It is one of statistics.EXACT, "inactive_units", or "ratio" for updates. Counts are those of the
        average sample.
        """
        with self._readable():
            return self._views.heat(kind, statistic, first, last, bounded(columns), rank, pattern)

    def bands(
        self, series: Series, *, first: int | None = None, last: int | None = None, columns: int = 400,
        rank: int = 0,
    ) -> BandView:  # fmt: skip
        """Return quantiles and statistics of a tensor over the steps."""
        with self._readable():
            return self._views.bands(series, first, last, bounded(columns), rank)

    def histogram(self, series: Series, *, first: int, last: int, rank: int = 0) -> HistogramView | None:
        """Return the samples of the range merged, or if it holds none, the newest one at or before `last`."""
        with self._readable():
            return self._views.histogram(series, first, last, rank)

    def histograms(
        self, series: Series, *, first: int | None = None, last: int | None = None, columns: int = 48,
        rank: int = 0,
    ) -> RidgeView:  # fmt: skip
        """Return histograms over the range, one behind the other."""
        with self._readable():
            return self._views.histograms(series, first, last, bounded(columns), rank)

    def statistics_at(self, kind: Kind, *, step: int | None = None, rank: int = 0) -> TableView:
        """Return all statistics of every tensor of a kind, from its newest sample at or before `step`."""
        with self._readable():
            return self._views.table(kind, step, rank)

    def processes(self, *, rank: int = 0) -> MemoryCurve:
        """Return the memory over time of all processes of a rank, as its agent saw it."""
        if isinstance(self._content, Recording):
            return self._content.witnesses.course(rank)
        return Witnesses().course(rank)

    @contextmanager
    def _readable(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise ReaderError(f"The files of this run cannot be read: {error.strerror or error}.") from error


def bounded(wanted: int) -> int:
    """Clamp a wanted number of points to what a picture may have."""
    return max(1, min(wanted, 10_000))
