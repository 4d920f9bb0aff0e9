"""`netdebug export`: every number of a run in CSV files, and clear words for what cannot be done."""

from __future__ import annotations

import csv
import io
import math
import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from tb_netdebug.cli import COMMANDS, main
from tb_netdebug.cli.csv_tables import safe
from tb_netdebug.core.eventlog.writer import EventWriter
from tb_netdebug.core.records.step import Kind, Sample, Series, StepRecord
from tb_netdebug.core.stats.twin import summarize
from tb_netdebug.version import __version__

VALUES = np.arange(101, dtype=np.float32)


def packed(array: np.ndarray[tuple[int], np.dtype[np.float32]]) -> bytes:
    return summarize([(array.ctypes.data, array.size, 0)], 1)[0]


def write(run_dir: Path, *, steps: int = 3, rank: int = 0, name: str = "layer") -> Path:
    writer = EventWriter(run_dir, rank=rank)
    for step in range(steps):
        scalars = {"loss": 1.0 / (step + 1), **({"scalar/=1+1": math.nan} if step == 1 else {})}
        samples = [Sample(Series(Kind.WEIGHT, name), packed(VALUES + step))] if step != 1 else []
        writer.put(StepRecord(step, 1000.5 + step, scalars, samples))
    assert writer.flush()
    path = writer.path
    writer.close()
    assert path is not None
    return path


def table(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def test_scalars_come_back_exactly(logdir: Path, tmp_path: Path) -> None:
    """Floats keep every bit; not measured is empty, which is something else than NaN."""
    write(logdir / "a/b")
    assert 0 == main(["export", str(logdir), "--csv", "-o", str(tmp_path / "out")])
    rows = table(tmp_path / "out" / "a" / "b" / "scalars.csv")
    assert ["0", "1", "2"] == [row["step"] for row in rows]
    assert [1.0, 1.0 / 2, 1.0 / 3] == [float(row["loss"]) for row in rows]
    assert [1000.5, 1001.5, 1002.5] == [float(row["wall_time"]) for row in rows]
    assert ["", "nan", ""] == [row["scalar/=1+1"] for row in rows]


def test_statistics_of_tensors(logdir: Path, tmp_path: Path) -> None:
    """Exact counts and moments, and quantiles as good as the bins."""
    write(logdir)
    assert 0 == main(["export", str(logdir), "--csv", "-o", str(tmp_path)])
    first, last = table(tmp_path / "tensors.csv")
    assert ("0", "weight", "layer", "101", "0", "1") == tuple(
        first[column] for column in ("step", "kind", "name", "count", "nan", "zeros")
    )
    numbers = {name: float(value) for name, value in first.items() if name not in ("kind", "name")}
    assert (0.0, 100.0, 50.0) == (numbers["min"], numbers["max"], numbers["mean"])
    assert math.isclose(float(VALUES.std()), numbers["std"], rel_tol=1e-6)
    for share in (25, 50, 75, 99):
        assert math.isclose(share, numbers[f"q{share}"], rel_tol=0.0625)
    assert ("2", "102.0") == (last["step"], last["max"])


def test_names_are_never_formulas(logdir: Path, tmp_path: Path) -> None:
    """A spreadsheet would run them; an apostrophe makes them text."""
    write(logdir, name="=HYPERLINK(1)")
    assert 0 == main(["export", str(logdir), "--csv", "-o", str(tmp_path)])
    assert {"'=HYPERLINK(1)"} == {row["name"] for row in table(tmp_path / "tensors.csv")}


@pytest.mark.parametrize("text", ["=1", "+1", "-1", "@x", "\tx", "\rx", "\nx"])
def test_every_start_of_a_formula_is_made_safe(text: str) -> None:
    """The list that OWASP names, and the line feed."""
    assert ("'" + text, "a" + text) == (safe(text), safe("a" + text))


def test_all_runs_in_one_table(logdir: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """With - the rows go to the standard output, led by the run; columns are those of all runs."""
    write(logdir / "a", steps=1)
    write(logdir / "b", steps=2)
    assert 0 == main(["export", str(logdir), "--csv", "-o", "-"])
    rows = list(csv.DictReader(io.StringIO(capsys.readouterr().out)))
    assert [("a", "0", ""), ("b", "0", ""), ("b", "1", "nan")] == [
        (row["run"], row["step"], row["scalar/=1+1"]) for row in rows
    ]


def test_only_the_table_asked_for(logdir: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Both with a folder and with the standard output."""
    write(logdir, steps=1)
    assert 0 == main(["export", str(logdir), "--csv", "-o", str(tmp_path / "out"), "--table", "tensors"])
    assert ["tensors.csv"] == [path.name for path in (tmp_path / "out").iterdir()]
    assert 0 == main(["export", str(logdir), "--csv", "-o", "-", "--table", "tensors"])
    assert capsys.readouterr().out.startswith("run,step,wall_time,kind,name,count")


def test_several_ranks_have_a_column(logdir: Path, tmp_path: Path) -> None:
    """A run of one process has none."""
    write(logdir, steps=1)
    write(logdir, steps=2, rank=1)
    assert 0 == main(["export", str(logdir), "--csv", "-o", str(tmp_path)])
    assert [("0", "0"), ("1", "0"), ("1", "1")] == [
        (row["rank"], row["step"]) for row in table(tmp_path / "scalars.csv")
    ]


def test_more_rows_than_a_chunk(logdir: Path, tmp_path: Path) -> None:
    """Long runs are written part by part, without a seam."""
    write(logdir, steps=10_000)
    assert 0 == main(["export", str(logdir), "--csv", "-o", str(tmp_path), "--table", "scalars"])
    rows = table(tmp_path / "scalars.csv")
    assert [str(step) for step in range(10_000)] == [row["step"] for row in rows]
    assert [1.0 / (step + 1) for step in range(10_000)] == [float(row["loss"]) for row in rows]


def test_a_damaged_file_is_exported_as_far_as_it_goes(
    logdir: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """And it is said how much is missing."""
    path = write(logdir)
    path.write_bytes(path.read_bytes()[:-5])
    assert 0 == main(["export", str(logdir), "--csv", "-o", str(tmp_path)])
    assert 3 == len(table(tmp_path / "scalars.csv"))
    assert "1 places" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["export", "nowhere", "--csv"], "there is no folder nowhere. Give the logdir"),
        (["export", ".", "--csv"], "holds no run that NetDebug recorded"),
        (["export", "."], "--csv"),
        (["export"], "LOGDIR"),
        (["nonsense"], "invalid choice"),
    ],
)
def test_mistakes_are_explained(
    arguments: list[str],
    expected: str,
    logdir: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """One message that says what to do, no stack trace, and exit code 2."""
    monkeypatch.chdir(logdir)
    assert 2 == main(arguments)
    shown = capsys.readouterr()
    assert expected in shown.err
    assert ("", False) == (shown.out, "Traceback" in shown.err)


def test_a_target_that_cannot_be_written(logdir: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The message names the path."""
    write(logdir, steps=1)
    (logdir / "file").touch()
    assert 2 == main(["export", str(logdir), "--csv", "-o", str(logdir / "file")])
    assert f"{logdir / 'file'}" in capsys.readouterr().err


def test_help_and_version(capsys: pytest.CaptureFixture[str]) -> None:
    """Every command is listed; the help of each says what it does."""
    assert (0, 0, 2) == (main(["--help"]), main(["--version"]), main([]))
    shown = capsys.readouterr().out
    assert [] == [name for name in COMMANDS if name not in shown]
    assert f"netdebug {__version__}" in shown
    for name in COMMANDS:
        assert 0 == main([name, "--help"])
        assert f"usage: netdebug {name}" in capsys.readouterr().out


def run_cli(*arguments: object, errors: int = subprocess.PIPE) -> subprocess.Popen[bytes]:
    path = os.pathsep.join(entry for entry in sys.path if entry)
    return subprocess.Popen(
        [sys.executable, "-m", "tb_netdebug", *map(str, arguments)],
        env={**os.environ, "PYTHONPATH": path},
        stdout=subprocess.PIPE,
        stderr=errors,
    )


def test_progress_is_shown_on_a_terminal_only(logdir: Path, tmp_path: Path) -> None:
    """A line that is rewritten, and gone at the end."""
    write(logdir, steps=10_000)
    terminal, its_end = os.openpty()
    child = run_cli("export", logdir, "--csv", "-o", tmp_path, "--table", "scalars", errors=its_end)
    os.close(its_end)
    child.communicate()
    shown = os.read(terminal, 10_000).decode()
    os.close(terminal)
    assert 0 == child.returncode
    erase = "\x1b[2K"
    assert ["", f"{erase}. scalars: 5000 rows", f"{erase}. scalars: 10000 rows", erase] == shown.split("\r")


def test_a_closed_pipe_is_no_error(logdir: Path) -> None:
    """As in `netdebug export ... -o - | head`."""
    write(logdir, steps=20_000)
    child = run_cli("export", logdir, "--csv", "-o", "-")
    assert child.stdout is not None
    child.stdout.readline()
    child.stdout.close()
    _, errors = child.communicate()
    assert (0, b"") == (child.returncode, errors)


def test_ctrl_c_ends_without_a_stack_trace(logdir: Path) -> None:
    """With the exit code that shells expect."""
    write(logdir, steps=20_000)
    child = run_cli("export", logdir, "--csv", "-o", "-")
    assert child.stdout is not None
    child.stdout.readline()  # it is at work, and blocked because nobody reads on
    child.send_signal(signal.SIGINT)
    _, errors = child.communicate()
    assert (130, b"netdebug: interrupted\n") == (child.returncode, errors)
