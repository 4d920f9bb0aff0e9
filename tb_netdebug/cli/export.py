r"""Write recorded runs as CSV files.

Each run becomes a folder with scalars.csv (one row per step) and tensors.csv (one row per sampled tensor). A
scalar that was not measured in a step is an empty cell. Text that a spreadsheet would take for a formula
begins with an apostrophe. Files hold names as they were recorded; on standard output, characters that a
terminal would obey are escaped, such as \x1b.
"""

from __future__ import annotations

import argparse
import csv
import os
import sys
from collections.abc import Iterable
from pathlib import Path

from tb_netdebug.cli.csv_tables import TABLES, header_of, rows_of, safe
from tb_netdebug.cli.mistakes import UserMistake
from tb_netdebug.cli.progress import counted
from tb_netdebug.core.eventlog.reader.run import Run, list_runs, read_run
from tb_netdebug.core.records.errors import UnsupportedVersion
from tb_netdebug.core.records.visible import visible


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("logdir", metavar="LOGDIR", help="a run, or a folder with runs in it")
    parser.add_argument(
        "--csv",
        action="store_true",
        required=True,
        help="write CSV; required, because it is the only format so far",
    )
    parser.add_argument(
        "-o",
        "--output",
        metavar="DIR",
        default="netdebug-csv",
        help="the folder that the files are written to (default: %(default)s); - prints one table, with a "
        "column for the run",
    )
    parser.add_argument(
        "--table", choices=TABLES, help="write only this table (default: both; with -o -, the scalars)"
    )


def run(arguments: argparse.Namespace) -> int:
    runs = find_runs(Path(arguments.logdir))
    try:
        if arguments.output == "-":
            print_table(runs, arguments.table or TABLES[0])
        else:
            save_tables(runs, [arguments.table] if arguments.table else TABLES, Path(arguments.output))
    except BrokenPipeError:  # the reader of the pipe has closed it; see main() in cli/__init__.py
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except UnsupportedVersion as error:
        raise UserMistake(str(error)) from error
    except OSError as error:
        raise UserMistake(f"{error.filename or arguments.output}: {error.strerror or error}") from error
    return 0


def find_runs(logdir: Path) -> dict[str, Path]:
    """Return the runs below `logdir` by name. Raise UserMistake when there are none."""
    if not logdir.is_dir():
        raise UserMistake(f"there is no folder {logdir}. Give the logdir of a training, such as `runs`.")
    runs = list_runs(logdir)
    if not runs:
        raise UserMistake(
            f"{logdir} holds no run that NetDebug recorded: there is no *.netdebug file in it or below. "
            "Give the folder that the training wrote to, or record a run first with `netdebug run SCRIPT`."
        )
    return runs


def save_tables(runs: dict[str, Path], tables: Iterable[str], target: Path) -> None:
    for name, path in runs.items():
        recorded = read(name, path)
        folder = target / name
        folder.mkdir(parents=True, exist_ok=True)
        for table in tables:
            file_path = folder / f"{table}.csv"
            with file_path.open("w", encoding="utf-8", errors="replace", newline="") as file:
                writer = csv.writer(file)
                header = header_of(table, [recorded])
                writer.writerow(map(safe, header))
                writer.writerows(counted(rows_of(table, recorded, header), f"{name} {table}"))


def print_table(runs: dict[str, Path], table: str) -> None:
    """Print all runs as one table, with a column for the run."""
    # All runs are read before the first row: the header has the scalars of every run.
    recorded = {name: read(name, path) for name, path in runs.items()}
    header = header_of(table, recorded.values())
    writer = csv.writer(sys.stdout)
    writer.writerow(["run", *map(shown, header)])
    for name, one in recorded.items():
        rows = rows_of(table, one, header)
        writer.writerows([shown(name), *map(shown, row)] for row in rows)
    sys.stdout.flush()


def shown(cell: object) -> object:
    """Return a cell for standard output, escaped because it may be a terminal."""
    return visible(safe(cell)) if isinstance(cell, str) else cell


def read(name: str, path: Path) -> Run:
    """Read a run, and warn on standard error of damaged places in its files."""
    recorded = read_run(path)
    if recorded.losses:
        size = sum(loss.gap.size for loss in recorded.losses)
        print(
            f"netdebug: {len(recorded.losses)} places ({size} bytes) of run {visible(name)} are damaged or "
            "incomplete; everything else is exported.",
            file=sys.stderr,
        )
    return recorded
