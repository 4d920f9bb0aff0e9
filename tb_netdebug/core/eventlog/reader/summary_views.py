"""The views of a run that another program recorded, from its summaries; used by `followed_run.py`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tb_netdebug.core.eventlog.reader import bins
from tb_netdebug.core.eventlog.reader.bins import Bins
from tb_netdebug.core.eventlog.reader.cells import cell_width, cells_of
from tb_netdebug.core.eventlog.reader.errors import ReaderError
from tb_netdebug.core.eventlog.reader.patterns import matcher
from tb_netdebug.core.eventlog.reader.scalar_rows import Rows
from tb_netdebug.core.eventlog.reader.scalar_view import columns_of
from tb_netdebug.core.eventlog.reader.statistics import QUANTILES, RATIO, STATISTICS
from tb_netdebug.core.eventlog.reader.summaries import Summaries, Table, Tag
from tb_netdebug.core.eventlog.reader.views import (
    BandView,
    Doubles,
    HeatView,
    HistogramView,
    RidgeView,
    ScalarView,
    TableView,
)
from tb_netdebug.core.records.step import Kind, Series

# Histograms are unpacked one by one, so a single picture unpacks no more than this.
MOST_UNPACKED = 20_000
MOST_MERGED = 64
_LOSSES = ("loss", "train/loss", "loss/train", "train_loss", "training_loss")


class SummaryViews:
    """The views of RecordedViews over TensorBoard's scalars and histograms; all data belong to rank 0."""

    def __init__(self, summaries: Summaries) -> None:
        self._summaries = summaries

    def scalars(
        self, names: Sequence[str], first: int | None, last: int | None, points: int, rank: int
    ) -> ScalarView:
        found = {}
        for name in dict.fromkeys(names):
            tag = self._summaries.scalars.get(name)
            rows = rows_of(within(tag.by_step(), first, last)) if tag is not None and rank == 0 else None
            if rows is not None and len(rows):
                found[name] = columns_of(rows, points, None)
        return ScalarView(0, found)

    def heat(
        self, kind: Kind, statistic: str, first: int | None, last: int | None, columns: int, rank: int,
        pattern: str | None,
    ) -> HeatView:  # fmt: skip
        if statistic not in STATISTICS and not (statistic == RATIO and kind == Kind.UPDATE):
            raise ReaderError(f"There is no statistic {statistic[:100]!r} of histograms.")
        tags = self._of_kind(kind, rank)
        names = list(filter(matcher(pattern), tags))
        # A histogram is unpacked for each tensor and column.
        columns = max(1, min(columns, MOST_UNPACKED // max(len(names), 1)))
        tables = [within(tags[name].by_step(), first, last) for name in names]
        steps = np.concatenate([np.empty(0, np.int64), *(table["step"] for table in tables)])
        if not len(steps):
            return HeatView(names, np.empty(0), np.empty(0), np.empty((len(names), 0), np.float32))
        width = cell_width(int(steps.min()), int(steps.max()), min(columns, len(np.unique(steps))))
        cells, places = cells_of(steps, width)
        starts, ends = bounds_of(steps, places, len(cells))
        values = np.full((len(names), len(cells)), np.nan)
        for line, table in enumerate(tables):
            chosen = last_of_each(table["step"] // width)
            at = np.searchsorted(cells, table["step"][chosen] // width)
            histograms = self._read(table[chosen])
            values[line, at] = [statistics_of(one)[statistic] for one in histograms]
        with np.errstate(over="ignore"):
            return HeatView(names, starts, ends, values.astype(np.float32))

    def bands(self, series: Series, first: int | None, last: int | None, columns: int, rank: int) -> BandView:
        table = self._thinned(series, first, last, columns, rank)
        histograms = self._read(table)
        shares = np.array(QUANTILES)
        quantiles = np.array([quantiles_of(one, shares) for one in histograms]).reshape(-1, len(shares))
        known = [statistics_of(one) for one in histograms]
        statistics = {name: np.array([one[name] for one in known]) for name in STATISTICS}
        steps = table["step"].astype(np.float64)
        return BandView(steps, steps, quantiles, statistics)

    def histograms(
        self, series: Series, first: int | None, last: int | None, columns: int, rank: int
    ) -> RidgeView:
        table = self._thinned(series, first, last, columns, rank)
        known = self._read(table)
        sizes = [0 if one is None else len(one.counts) for one in known]
        offsets = np.cumsum([0, *sizes]).astype(np.int32)
        lower, upper, counts = (
            np.concatenate([np.empty(0), *(one[part] for one in known if one is not None)])
            for part in range(3)
        )
        steps = table["step"].astype(np.float64)
        return RidgeView(steps, steps, offsets, lower, upper, counts, np.full(len(steps), np.nan))

    def histogram(self, series: Series, first: int, last: int, rank: int) -> HistogramView | None:
        tag = self._of_kind(series.kind, rank).get(series.name)
        if tag is None:
            return None
        table = within(tag.by_step(), first, last)
        if not len(table):
            table = within(tag.by_step(), None, last)[-1:]
        chosen = evenly(table, MOST_MERGED)
        parts = [one for one in self._read(chosen) if one is not None]
        if not parts:
            return None
        whole = bins.merged(parts)
        statistics = {name: float(value) for name, value in statistics_of(whole, len(parts)).items()}
        steps = int(chosen["step"][0]), int(chosen["step"][-1])
        return HistogramView(
            *steps, len(parts), statistics, whole.lower, whole.upper, whole.counts, 0, 0, 0, 0, None, None
        )

    def table(self, kind: Kind, step: int | None, rank: int) -> TableView:
        tags = self._of_kind(kind, rank)
        last = {name: within(tag.by_step(), None, step)[-1:] for name, tag in tags.items()}
        names = [name for name in tags if len(last[name])]
        known = [statistics_of(self._read(last[name])[0]) for name in names]
        statistics = {name: np.array([one[name] for one in known], np.float64) for name in STATISTICS}
        steps = np.array([last[name]["step"][0] for name in names], np.float64)
        return TableView(names, steps, statistics)

    def described(self) -> dict[str, Any]:
        """Return the part of `details` that depends on who recorded the run."""
        tags = [*self._summaries.scalars.values(), *self._summaries.histograms.values()]
        ends = [(table[0], table[-1]) for tag in tags if len(table := tag.by_step())]
        scalars = list(self._summaries.scalars)
        loss = loss_of(scalars)
        # Tags may be thinned out, so this is an estimate.
        steps = [len(tag.by_step()) * tag.stride for tag in list(self._summaries.scalars.values())]
        return {
            "first_step": min((int(first["step"]) for first, _ in ends), default=None),
            "last_step": max((int(last["step"]) for _, last in ends), default=None),
            "steps": max(steps, default=0),
            "loss": float(self._summaries.scalars[loss].by_step()["value"][-1]) if loss else None,
            "ranks": [0] if tags else [],
            "info": {},
            "scalars": scalars,
            "series": [{"kind": "tensor", "name": name} for name in list(self._summaries.histograms)],
            "sampled_every": None,
            "overhead": None,
            "has_graph": False,
            "first_time": min((float(first["time"]) for first, _ in ends), default=None),
            "last_time": max((float(last["time"]) for _, last in ends), default=None),
        }

    def _of_kind(self, kind: Kind, rank: int) -> dict[str, Tag]:
        return dict(self._summaries.histograms) if kind == Kind.TENSOR and rank == 0 else {}

    def _thinned(self, series: Series, first: int | None, last: int | None, columns: int, rank: int) -> Table:
        tag = self._of_kind(series.kind, rank).get(series.name)
        if tag is None:
            return np.empty(0, [("step", "<i8")])
        return evenly(within(tag.by_step(), first, last), columns)

    def _read(self, table: Table) -> list[Bins | None]:
        """Read and unpack the histograms, file by file; None for those that cannot be."""
        found: list[Bins | None] = [None] * len(table)
        if not len(table):
            return found
        sources = self._summaries.sources
        for number in np.unique(table["file"]).tolist():
            source = sources.get(number)
            if source is None:  # deleted meanwhile
                continue
            with source.storage.open(source.path) as opened:
                for at in np.flatnonzero(table["file"] == number).tolist():
                    found[at] = bins.bins_of(opened.at(int(table["offset"][at]), int(table["length"][at])))
        return found


def rows_of(table: Table) -> Rows:
    steps, values = table["step"], table["value"]
    finite = np.isfinite(values)
    there = np.ones((1, len(table)), bool)
    known = np.where(finite, values, np.nan)[None]
    return Rows(
        steps, steps, table["time"], table["time"], there[0].astype(np.int64), there,
        there.astype(np.float64), (~finite)[None].astype(np.float64), np.where(finite, values, 0.0)[None],
        known, known, values[None],
    )  # fmt: skip


def within(table: Table, first: int | None, last: int | None) -> Table:
    start = 0 if first is None else int(np.searchsorted(table["step"], first, "left"))
    stop = len(table) if last is None else int(np.searchsorted(table["step"], last, "right"))
    return table[start : max(start, stop)]


def evenly(table: Table, most: int) -> Table:
    if len(table) <= most:
        return table
    return table[np.linspace(0, len(table) - 1, most).astype(np.int64)]


def last_of_each(cells: NDArray[np.int64]) -> NDArray[np.int64]:
    return np.flatnonzero(np.append(cells[1:] != cells[:-1], [True][: len(cells)]))


def bounds_of(steps: NDArray[np.int64], places: NDArray[np.int64], count: int) -> tuple[Doubles, Doubles]:
    starts, ends = np.full(count, np.inf), np.full(count, -np.inf)
    np.minimum.at(starts, places, steps.astype(np.float64))
    np.maximum.at(ends, places, steps.astype(np.float64))
    return starts, ends


def statistics_of(one: Bins | None, merged: int = 1) -> dict[str, float]:
    """Return the statistics that bins can give, and NaN for the others.

    Where the sum of squares is unknown, the middles of the bins stand in for the values.
    """
    found = dict.fromkeys(STATISTICS, np.nan)
    if one is None or not one.counts.sum():
        return found
    count = float(one.counts.sum())
    middle = one.lower / 2 + one.upper / 2
    with np.errstate(all="ignore"):
        squares = one.sum_squares if np.isfinite(one.sum_squares) else float(one.counts @ (middle * middle))
        mean = one.sum / count
        least, most = float(one.lower[0]), float(one.upper[-1])
        low, middle_value, high = quantiles_of(one, np.array([0.01, 0.5, 0.99])).tolist()
        found.update(
            count=count / merged, mean=mean, std=float(np.sqrt(max(squares / count - mean * mean, 0.0))),
            norm=float(np.sqrt(squares / merged)), rms=float(np.sqrt(squares / count)), min=least, max=most,
            abs_max=max(abs(least), abs(most)), p01=low, median=middle_value, p99=high,
        )  # fmt: skip
    return found


def quantiles_of(one: Bins | None, shares: Doubles) -> Doubles:
    if one is None or not one.counts.sum():
        return np.full(len(shares), np.nan)
    below = np.concatenate([[0.0], np.cumsum(one.counts)])
    rank = shares * below[-1]
    at = np.clip(np.searchsorted(below, rank, side="left") - 1, 0, len(one.counts) - 1)
    with np.errstate(all="ignore"):
        inside = np.nan_to_num((rank - below[at]) / one.counts[at])
    values: Doubles = one.lower[at] * (1.0 - inside) + one.upper[at] * inside
    return values


def loss_of(tags: Sequence[str]) -> str | None:
    """Return the tag that is most likely the training loss."""
    # Reversed, so that of tags that differ only in case the first one wins.
    known = {tag.lower(): tag for tag in reversed(tags)}
    for name in _LOSSES:
        if name in known:
            return known[name]
    return next((tag for tag in tags if "loss" in tag.lower()), None)
