"""Runs as rows of CSV cells, for `netdebug export`."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence

from tb_netdebug.core.eventlog.reader.run import Run, RunColumns
from tb_netdebug.core.stats.packed import Summary
from tb_netdebug.core.stats.sketch import quantiles

TABLES = ("scalars", "tensors")

_QUANTILES = (0.01, 0.25, 0.5, 0.75, 0.99)
_TENSOR_HEADER = [
    "step", "wall_time", "kind", "name", "count", "nan", "pos_inf", "neg_inf", "zeros", "min", "max", "mean",
    "std", "norm", "q01", "q25", "q50", "q75", "q99",
]  # fmt: skip
# A cell that starts with one of these is taken for a formula by Excel, LibreOffice and Google Sheets.
_FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r", "\n")
_CHUNK_ROWS = 4096

Row = list[object]


def safe(text: str) -> str:
    """Return a name from a log file as a cell that no spreadsheet takes for a formula."""
    return f"'{text}" if text.startswith(_FORMULA_STARTS) else text


def header_of(table: str, runs: Iterable[Run]) -> list[str]:
    """Return the columns that hold all of the runs, with a rank column only if some rank is not 0."""
    runs = list(runs)
    ranked = ["rank"] if any(set(run.ranks) - {0} for run in runs) else []
    if table == "tensors":
        return [*ranked, *_TENSOR_HEADER]
    names = {name for run in runs for columns in run.ranks.values() for name in columns.scalars}
    return [*ranked, "step", "wall_time", *sorted(names)]


def rows_of(table: str, run: Run, header: Sequence[str]) -> Iterator[Row]:
    is_ranked = header[0] == "rank"
    for rank, columns in run.ranks.items():
        names = header[2 + is_ranked :]
        rows = _tensor_rows(columns) if table == "tensors" else _scalar_rows(columns, names)
        yield from ([rank, *row] for row in rows) if is_ranked else rows


def _scalar_rows(columns: RunColumns, names: Sequence[str]) -> Iterator[Row]:
    for start in range(0, len(columns.steps), _CHUNK_ROWS):
        part = slice(start, start + _CHUNK_ROWS)
        steps, wall_times = columns.steps[part].tolist(), columns.wall_times[part].tolist()
        cells = [_cells(columns, name, start, len(steps)) for name in names]
        yield from map(list, zip(steps, wall_times, *cells, strict=True))


def _cells(columns: RunColumns, name: str, start: int, count: int) -> list[object]:
    """Return one scalar over `count` rows; cells are empty where it was not measured."""
    cells: list[object] = [""] * count
    scalar = columns.scalars.get(name)
    if scalar is not None:
        # A scalar stores only the rows in which it was measured, in ascending order.
        low, high = scalar.rows.searchsorted([start, start + count])
        places = (scalar.rows[low:high] - start).tolist()
        for place, value in zip(places, scalar.values[low:high].tolist(), strict=True):
            cells[place] = value
    return cells


def _tensor_rows(columns: RunColumns) -> Iterator[Row]:
    for series, tensor in columns.tensors.items():
        steps, wall_times = columns.steps[tensor.rows].tolist(), columns.wall_times[tensor.rows].tolist()
        kind, name = series.kind.name.lower(), safe(series.name)
        for step, wall_time, summary in zip(steps, wall_times, tensor.summaries(), strict=True):
            yield [step, wall_time, kind, name, *_numbers(summary)]


def _numbers(summary: Summary) -> Row:
    counts = [summary.count, summary.nan, summary.pos_inf, summary.neg_inf, summary.zeros]
    moments = [summary.min, summary.max, summary.mean, summary.std, summary.norm]
    known = [*moments, *quantiles(summary, _QUANTILES).tolist()]
    # A statistic is NaN where there was no finite value: an empty cell.
    return [*counts, *("" if math.isnan(number) else number for number in known)]
