"""What a run holds, as tables in the terminal: `python demo/picture.py runs/demo/TIME/healthy`.

The picture at the top of the README is made of them.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table

from tb_netdebug.cli.sparkline import BARS
from tb_netdebug.core.eventlog.reader.run import RunColumns, Tensor, read_run
from tb_netdebug.core.records.step import Kind
from tb_netdebug.core.stats.packed import Summary
from tb_netdebug.core.stats.sketch import quantiles

WIDTH = 24
LEAST_WIDTH = 88  # narrower tables would be cut in a pipe


def show(path: Path) -> None:
    """Prints the newest sample of every tensor, and the course of the scalars."""
    console = Console(width=max(Console().width, LEAST_WIDTH))
    run = read_run(path)
    steps = run.main
    size = sum(file.stat().st_size for file in run.files)
    console.print(f"\n[bold]{len(steps.steps)} batches[/] are in {path} ({size / 1000:.0f} kB)\n")
    console.print(scalar_table(steps))
    console.print(tensor_table(steps))
    console.print(
        f"\nLook at it in TensorBoard:  [bold]tensorboard --logdir {path.parent}[/]\n"
        f"or as CSV files:            [bold]netdebug export {path.parent} --csv[/]"
    )


def scalar_table(steps: RunColumns) -> Table:
    table = Table("every batch", "first", "last", "course", box=None, pad_edge=False)
    for name in ("loss", "scalar/accuracy", "gradient_norm", "time/step", "time/data", "time/forward",
                 "time/backward", "time/optimizer", "memory/rss"):  # fmt: skip
        if name in steps.scalars:
            values = steps.scalars[name].values
            table.add_row(name, f"{values[0]:.4g}", f"{values[-1]:.4g}", course(values))
    return table


def tensor_table(steps: RunColumns) -> Table:
    table = Table(box=None, pad_edge=False)
    for title in ("\nsampled", "\nsamples", "\nmean", "\nstd", "\nzeros", "\nlast histogram"):
        table.add_column(title, no_wrap=True)
    for series, tensor in sorted(steps.tensors.items(), key=lambda item: (item[0].name, item[0].kind)):
        if series.kind is Kind.ACTIVATION or series.name.endswith("weight"):
            last = newest(tensor)
            table.add_row(
                f"{series.kind.name.lower()} {series.name}",
                str(len(tensor.rows)),
                f"{last.mean:.2e}",
                f"{last.std:.2e}",
                f"{last.zeros / max(last.count, 1):.0%}",
                histogram(last),
            )
    return table


def newest(tensor: Tensor) -> Summary:
    return list(tensor.summaries())[-1]


def course(values: np.ndarray) -> str:
    """The values over time; each column the mean of its share."""
    return bars(np.array([part.mean() for part in np.array_split(values, min(WIDTH, len(values)))]))


def histogram(summary: Summary) -> str:
    """How the values lie between the 1 % and the 99 % quantile."""
    low, high = quantiles(summary, [0.01, 0.99])
    if not high > low:
        return "constant"
    levels = quantiles(summary, np.linspace(0.0, 1.0, 401))
    counts, _ = np.histogram(np.clip(levels, low, high), bins=WIDTH, range=(low, high))
    return bars(counts.astype(float))


def bars(heights: np.ndarray) -> str:
    span = heights.max() - heights.min()
    places = (heights - heights.min()) / (span if span > 0 else 1.0) * (len(BARS) - 1)
    return "".join(BARS[round(place)] for place in places)


if __name__ == "__main__":
    if len(sys.argv) != 2 or not Path(sys.argv[1]).is_dir():
        sys.exit("Give the folder of a run, such as runs/demo/TIME/healthy.")
    show(Path(sys.argv[1]))
