"""The views of a run that NetDebug recorded; used by `followed_run.py`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from tb_netdebug.core.eventlog.reader import scanner, tensor_views
from tb_netdebug.core.eventlog.reader.catalogue import text_of
from tb_netdebug.core.eventlog.reader.errors import ReaderError
from tb_netdebug.core.eventlog.reader.patterns import matcher
from tb_netdebug.core.eventlog.reader.recorded_scalars import RecordedScalars
from tb_netdebug.core.eventlog.reader.sample_rows import SampleSource, Table
from tb_netdebug.core.eventlog.reader.statistics import EXACT, QUANTILES, RATIO, Moments
from tb_netdebug.core.eventlog.reader.stretch import Integers
from tb_netdebug.core.eventlog.reader.tally import Tally
from tb_netdebug.core.eventlog.reader.timeline import Flags
from tb_netdebug.core.eventlog.reader.views import (
    BandView,
    Doubles,
    HeatView,
    HistogramView,
    RidgeView,
    TableView,
)
from tb_netdebug.core.records.step import Kind, Series

_HEAT_STATISTICS = {*EXACT, "inactive_units"}
# How many blocks a table looks back for tensors that are sampled rarely.
_MOST_BACK = 512
# The last few blocks usually hold a sample of every tensor, so blocks are read a few at a time.
_AT_ONCE = 16


class RecordedViews(RecordedScalars):
    """The views of tensors, on top of those of scalars."""

    def heat(
        self, kind: Kind, statistic: str, first: int | None, last: int | None, columns: int, rank: int,
        pattern: str | None,
    ) -> HeatView:  # fmt: skip
        if statistic not in _HEAT_STATISTICS and not (statistic == RATIO and kind == Kind.UPDATE):
            raise ReaderError(f"There is no statistic {statistic[:100]!r} of {kind.name.lower()}s to draw.")
        kinds = 1 << kind | (1 << Kind.WEIGHT if statistic == RATIO else 0)
        source, table = self._samples(kinds, None, first, last, columns, rank)
        names = self._names(kind, source, pattern)
        lines, table = self._lines(source, table, names)
        grid = tensor_views.SampleColumns(table, columns)
        of_kind = source.kinds[table["series"]] == kind if len(table) else np.empty(0, bool)

        def drawn(chosen: Flags, name: str) -> Doubles:
            return tensor_views.heat(
                table[chosen], grid.of[chosen], lines[chosen], (len(names), len(grid)), name
            )

        if statistic == RATIO:
            with np.errstate(all="ignore"):
                # The norm of the update over that of the weight; NaN where one of them was not sampled.
                values = drawn(of_kind, "norm") / drawn(~of_kind, "norm")
        else:
            values = drawn(of_kind, statistic)
        with np.errstate(over="ignore"):
            singles = values.astype(np.float32)
        return HeatView(names, grid.first.astype(np.float64), grid.last.astype(np.float64), singles)

    def has_moved(self) -> bool:
        """Return whether any sampled update was other than zero."""
        rank = next(iter(self.recording.ranks), 0)
        largest = self.heat(Kind.UPDATE, "abs_max", None, None, 1, rank, None).values
        return bool((largest > 0).any())

    def _samples(
        self, kinds: int, name: bytes | None, first: int | None, last: int | None, columns: int, rank: int
    ) -> tuple[SampleSource, Table]:
        recording = self.recording
        pieces = recording.pieces(rank, first, last)
        source = SampleSource(recording.reader, kinds, name)
        level = tensor_views.level_for(
            pieces, columns, recording.levels(pieces), len(recording.catalogue.series)
        )
        return source, source.samples(pieces, level)

    def _names(self, kind: Kind, source: SampleSource, pattern: str | None) -> list[str]:
        """Return the names of the tensors of a kind in order of execution."""
        self.recording.catalogue.add([], source.series)
        series = self.recording.catalogue.of_kind(kind, self.recording.graph())
        return list(filter(matcher(pattern), (one.name for one in series)))

    def _lines(self, source: SampleSource, table: Table, names: Sequence[str]) -> tuple[Integers, Table]:
        """Return the samples whose names are among `names`, after the places of these names."""
        places = {name: place for place, name in enumerate(names)}
        line_of = np.array([places.get(text_of(name), -1) for _, name in source.series], np.int64)
        lines = line_of[table["series"]] if len(table) else np.empty(0, np.int64)
        return lines[lines >= 0], table[lines >= 0]

    def bands(self, series: Series, first: int | None, last: int | None, columns: int, rank: int) -> BandView:
        source, table = self._of_series(series, first, last, columns, rank)
        grid = tensor_views.SampleColumns(table, columns)
        tally = Tally(source.sketched(table), grid.of, len(grid))
        statistics = tensor_views.statistics(table, grid.of, len(grid), tally)
        quantiles = tally.quantiles(np.array(QUANTILES), statistics["min"], statistics["max"])
        return BandView(grid.first.astype(np.float64), grid.last.astype(np.float64), quantiles, statistics)

    def histograms(
        self, series: Series, first: int | None, last: int | None, columns: int, rank: int
    ) -> RidgeView:
        source, table = self._of_series(series, first, last, columns, rank)
        grid = tensor_views.SampleColumns(table, columns)
        tally = Tally(source.sketched(table), grid.of, len(grid))
        moments = Moments.of(table, grid.of, len(grid))
        bins = [tally.bins(at, moments.min[at], moments.max[at]) for at in range(len(grid))]
        lower, upper, counts = (
            np.concatenate([np.empty(0), *(one[part] for one in bins)]) for part in range(3)
        )
        offsets = np.cumsum([0, *(len(one[2]) for one in bins)]).astype(np.int32)
        nonfinite = moments.nan + moments.pos_inf + moments.neg_inf
        steps = grid.first.astype(np.float64), grid.last.astype(np.float64)
        return RidgeView(*steps, offsets, lower, upper, counts, nonfinite)

    def _of_series(
        self, series: Series, first: int | None, last: int | None, columns: int, rank: int
    ) -> tuple[SampleSource, Table]:
        key = self.recording.catalogue.series.get(series, (int(series.kind), stored(series.name)))
        return self._samples(1 << key[0], key[1], first, last, columns, rank)

    def histogram(self, series: Series, first: int, last: int, rank: int) -> HistogramView | None:
        recording = self.recording
        key = recording.catalogue.series.get(series, (int(series.kind), stored(series.name)))
        pieces = recording.pieces(rank, first, last)
        source = SampleSource(recording.reader, 1 << key[0], key[1])
        table = source.samples(pieces, max(recording.levels(pieces), default=0))
        if not len(table):
            table = self._last_before(source, last, rank)
        return histogram_of(source, table) if len(table) else None

    def _last_before(self, source: SampleSource, step: int, rank: int) -> Table:
        for table in self._backwards(source, step, rank):
            if len(table):
                return table[-1:]
        return np.empty(0, scanner.SAMPLE)

    def _backwards(self, source: SampleSource, step: int, rank: int) -> Iterator[Table]:
        """Yield the samples up to a step, some blocks at a time, starting from the last."""
        for piece in reversed(self.recording.pieces(rank, None, step)):
            spans = piece.stretch.blocks(0, piece.first, piece.last)
            spans = spans[piece.track.file.entries.view["samples"][spans["at"]] > 0]
            high = piece.last
            for stop in range(len(spans), max(0, len(spans) - _MOST_BACK), -_AT_ONCE):
                low = int(spans["first"][stop - _AT_ONCE]) if stop > _AT_ONCE else piece.first
                part = piece.part(low, high)
                yield source.samples([part] if part else [], 0)
                high = low - 1

    def table(self, kind: Kind, step: int | None, rank: int) -> TableView:
        recording = self.recording
        source = SampleSource(recording.reader, 1 << kind)
        wanted = {series for series in list(recording.catalogue.series) if series.kind == kind}
        pieces = recording.pieces(rank)
        last = pieces[-1].last if step is None and pieces else step or 0
        newest: dict[int, Table] = {}
        for table in self._backwards(source, last, rank):
            for at in range(len(table) - 1, -1, -1):
                newest.setdefault(int(table["series"][at]), table[at : at + 1])
            # The newest sample of every known tensor of the kind is there.
            if len(newest) >= len(wanted):
                break
        names = self._names(kind, source, None)
        table = np.concatenate([np.empty(0, scanner.SAMPLE), *newest.values()])
        lines, table = self._lines(source, table, names)
        order = np.argsort(lines, kind="stable")
        table, lines = table[order], lines[order]
        places = np.arange(len(table))
        tally = Tally(source.sketched(table), places, len(table))
        statistics = tensor_views.statistics(table, places, len(table), tally)
        return TableView([names[at] for at in lines], table["last"].astype(np.float64), statistics)


def histogram_of(source: SampleSource, table: Table) -> HistogramView:
    places = np.zeros(len(table), np.int64)
    tally = Tally(source.sketched(table), places, 1)
    moments = Moments.of(table, places, 1)
    statistics = tensor_views.statistics(table, places, 1, tally)
    lower, upper, counts = tally.bins(0, moments.min[0], moments.max[0])
    with_units = table[table["units"] >= 0]
    return HistogramView(
        first=int(table["first"].min()),
        last=int(table["last"].max()),
        merged=int(table["merged"].sum()),
        statistics={name: float(values[0]) for name, values in statistics.items()},
        lower=lower,
        upper=upper,
        counts=counts,
        nan=int(moments.nan[0]),
        pos_inf=int(moments.pos_inf[0]),
        neg_inf=int(moments.neg_inf[0]),
        zeros=int(moments.zeros[0]),
        units_active=int(with_units["active"].max()) if len(with_units) else None,
        units=int(with_units["units"].max()) if len(with_units) else None,
    )


def stored(name: str) -> bytes:
    return name.encode("utf-8", "surrogatepass")
