"""Prints a tensor: what it is, its statistics, and the requested part of its values."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from rich.text import Text

from tb_netdebug.cli.debugging.output import DebuggerOutput
from tb_netdebug.cli.harmless import harmless
from tb_netdebug.cli.sparkline import sparkline
from tb_netdebug.debugger.client.client import Json

Ranges = Sequence[tuple[float, float]]
GAP = 2
COUNTS = (("nan", "NaN"), ("pos_inf", "+Inf"), ("neg_inf", "-Inf"), ("zeros", "zeros"))
MEASURES = ("min", "max", "mean", "std", "norm")
HISTOGRAM_WIDTH = 40
BAD, MARK = "bold red", "*"


def tell_tensor(output: DebuggerOutput, told: Json, *, values: bool = True, ranges: Ranges = ()) -> None:
    """Print the answer of `tensor` or `evaluate`; without `values` only the statistics."""
    where = f" on {told['device']}" if told.get("device") else ""
    size = f", {size_text(int(told['bytes']))}" if told.get("bytes") is not None else ""
    output.line(
        (harmless(str(told.get("name"))), "bold"),
        harmless(f"  {told.get('dtype')}{list(told.get('shape') or ())}{where}{size}"),
    )
    _tell_part(output, told, values=values, ranges=ranges, label=str(told.get("slice") or ""))
    for key in ("previous", "difference"):
        if told.get(key):
            output.line((f"{key}:", "bold"))
            _tell_part(output, told[key], values=values, ranges=ranges, label="")
    for note in told.get("notes") or ():
        output.say(f"Note: {harmless(str(note))}")


def _tell_part(output: DebuggerOutput, told: Json, *, values: bool, ranges: Ranges, label: str) -> None:
    if told.get("statistics"):
        output.line(*statistics_text(told["statistics"]))
    if told.get("histogram"):
        output.say(f"  {histogram_text(told['histogram'], ascii_only=output.is_ascii)}")
    if values and told.get("cells"):
        if label:
            output.say(f"  values of {harmless(label)}:")
        for line in matrix(told["cells"], width=output.width, ranges=ranges):
            output.line(*line)


def statistics_text(told: Json) -> list[str | tuple[str, str]]:
    """Return the line of counts and measures; counts of non-finite values are highlighted."""
    pieces: list[str | tuple[str, str]] = [f"  {told.get('count')} values"]
    for key, name in COUNTS:
        if told.get(key):
            text = f"{told[key]} {name}"
            pieces += [", ", text if key == "zeros" else (text, BAD)]
    known = [f"{name} {number_text(told[name])}" for name in MEASURES if told.get(name) is not None]
    return [*pieces, f"; {', '.join(known)}" if known else ""]


def histogram_text(told: Json, *, ascii_only: bool) -> str:
    """Return a histogram resampled to bins of equal width.

    Bars show the square root of the count, so that a few values can be told from none.
    """
    edges = np.array([told["lower"][0], *told["upper"]], np.float64)
    # Interpolating the cumulative count spreads each bin evenly over its width.
    before = np.concatenate([[0.0], np.cumsum(np.array(told["counts"], np.float64))])
    at = np.linspace(edges[0], edges[-1], HISTOGRAM_WIDTH + 1)
    heights = np.sqrt(np.diff(np.interp(at, edges, before)).clip(min=0))
    drawn = sparkline(heights, HISTOGRAM_WIDTH, ascii_only=ascii_only)
    return f"{number_text(float(edges[0]))} {drawn} {number_text(float(edges[-1]))}"


def matrix(cells: Json, *, width: int, ranges: Ranges = ()) -> Iterator[list[str | tuple[str, str]]]:
    """Yield lines of numbers with their row index; columns that do not fit follow below, in blocks."""
    values = cells["values"]
    rows, columns = cells["shape"]
    # The wire has the values of the matrix in one list, row after row.
    if values and not isinstance(values[0], list):
        values = [values[start : start + columns] for start in range(0, len(values), max(columns, 1))]
    row_names = [str(cells["rows"][0] + cells["rows"][1] * each) for each in range(rows)]
    column_names = [str(cells["columns"][0] + cells["columns"][1] * each) for each in range(columns)]
    texts = [[_marked(value, ranges) for value in row] for row in values]
    cell = (
        max([len(text) for row in texts for text in row] + [len(name) for name in column_names], default=1)
        + GAP
    )
    head = max(map(len, row_names), default=0) + GAP
    at_once = max((width - head) // cell, 1)
    for start in range(0, columns, at_once):
        part = slice(start, start + at_once)
        yield [(" " * head + "".join(name.rjust(cell) for name in column_names[part]), "dim")]
        for name, row, shown in zip(row_names, values, texts, strict=True):
            line: list[str | tuple[str, str]] = [(name.rjust(head), "dim")]
            for value, text in zip(row[part], shown[part], strict=True):
                line += [" " * (cell - len(text)), text if math.isfinite(number_of(value)) else (text, BAD)]
            yield line


def _marked(value: Any, ranges: Ranges) -> str:
    """Return the number, with a star if it lies in a range; unlike a colour, a star survives a pipe."""
    is_within = any(lower <= number_of(value) <= upper for lower, upper in ranges)
    return number_text(value) + (MARK if is_within else " " * bool(ranges))


def number_of(value: Any) -> float:
    """Return a value of the wire as a float: NaN and infinities arrive as text, booleans become 0 and 1."""
    return float(value) if value is not None else math.nan


def number_text(value: Any) -> str:
    if value is None:
        return "-"
    if isinstance(value, bool) or (isinstance(value, int) and abs(value) < 1e12):
        return str(value)
    number = float(value)
    return f"{number:.5g}" if math.isfinite(number) else str(number)


def size_text(count: float) -> str:
    for unit in ("B", "kB", "MB"):
        if count < 1000:
            return f"{count:.3g} {unit}"
        count /= 1000
    return f"{count:.3g} GB"


def entry_row(entry: Json) -> list[object]:
    """Return a row for a table of tensors."""
    return [
        entry.get("name"),
        entry.get("dtype"),
        Text(str(list(entry.get("shape") or ()))),
        size_text(int(entry.get("bytes") or 0)),
    ]
