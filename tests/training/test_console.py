"""The line per batch: columns that line up, alarms on terminals, and no harm from a broken stream."""

from __future__ import annotations

import io
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tb_netdebug.training.console import LINES_PER_HEADER, ConsoleLine, count, duration, number, size

NAN, INF = float("nan"), float("inf")

BATCHES: list[dict[str, float]] = [
    {"loss": 2.302585, "batch_size": 64.0, "time/step": 0.412},
    {"loss": 2.1, "batch_size": 64.0, "gradient_norm": 1.842, "time/step": 0.0345, "memory/rss": 1.213e9},
    {"loss": NAN, "batch_size": 64.0, "gradient_norm": INF, "nonfinite_gradients": 120.0},
    {"loss": 1.3e-7, "batch_size": 16384.0, "gradient_norm": 2.4e8, "time/step": 0.000426},
]
GPU: dict[str, float] = {"loss": 0.5, "memory/rss": 9.9e8, "memory/gpu0/process": 3.5e9}


def lines(*batches: dict[str, float]) -> str:
    stream = io.StringIO()
    console = ConsoleLine(stream)
    for step, scalars in enumerate(batches, start=1):
        console.write(step, scalars)
    return stream.getvalue()


def run_python(script: str, **options: Any) -> subprocess.CompletedProcess[bytes]:
    decisive = (
        "PYTHONUNBUFFERED",
        "NO_COLOR",
        "FORCE_COLOR",
        "TTY_COMPATIBLE",
        "TTY_INTERACTIVE",
        "COLORTERM",
    )
    environment = {name: value for name, value in os.environ.items() if name not in decisive}
    environment |= options.pop("environment", {})
    command = [sys.executable, "-c", "from tb_netdebug.training.console import ConsoleLine\n" + script]
    return subprocess.run(command, env=environment, timeout=60, check=False, **options)


def test_columns_line_up() -> None:
    """A header and a line per batch, aligned right; what is missing is a dash, memory is remembered."""
    assert lines(*BATCHES) == (
        "    step        loss   batch   grad norm       rss      time\n"
        "       1      2.3026      64           -         -    412 ms\n"
        "       2      2.1000      64      1.8420   1.21 GB   34.5 ms\n"
        "       3         NaN      64         Inf   1.21 GB         -  120 non-finite gradients\n"
        "       4   1.300e-07   16384   2.400e+08   1.21 GB    426 µs\n"
    ).replace("µs", "us")


def test_a_column_for_gpus_appears_with_the_first_reading() -> None:
    """The header is written again when there is a new column."""
    assert lines({"loss": 1.0}, GPU, {"loss": 0.25}) == (
        "    step        loss   batch   grad norm       rss      time\n"
        "       1      1.0000       -           -         -         -\n"
        "    step        loss   batch   grad norm       rss       gpu      time\n"
        "       2      0.5000       -           -    990 MB   3.50 GB         -\n"
        "       3      0.2500       -           -    990 MB   3.50 GB         -\n"
    )


@pytest.mark.parametrize(
    ("memory", "shown"),
    [
        ({"memory/gpu0/used": 7e9, "memory/gpu1/used": 1e9}, "8.00 GB"),
        ({"memory/gpu0/used": 7e9, "memory/cuda0/reserved": 2e9, "memory/cuda0/allocated": 1e9}, "2.00 GB"),
        ({"memory/gpu0/process": 3e9, "memory/gpu1/process": 1e9, "memory/cuda0/reserved": 2e9}, "4.00 GB"),
    ],
)
def test_gpu_memory_is_the_best_known(memory: dict[str, float], shown: str) -> None:
    """This process by NVML, else by torch's allocator, else all that is used; summed over devices."""
    assert shown in lines(memory)


def test_a_header_comes_now_and_then() -> None:
    """Once a screen the header is repeated."""
    written = lines(*[{"loss": 1.0}] * (2 * LINES_PER_HEADER + 1)).splitlines()
    headers = [number for number, line in enumerate(written) if line.startswith("    step")]
    assert headers == [0, LINES_PER_HEADER + 1, 2 * (LINES_PER_HEADER + 1)]


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "-"), (0.0, "0.0000"), (-0.5, "-0.5000"), (1e-3, "0.0010"), (9.99e-4, "9.990e-04"),
        (99999.0, "99999.0000"), (1e5, "1.000e+05"), (NAN, "NaN"), (INF, "Inf"), (-INF, "-Inf"),
    ],
)  # fmt: skip
def test_numbers(value: float | None, text: str) -> None:
    """Four decimals where they say enough, else a power of ten."""
    assert number(value) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "-"), (0.0, "0.00 B"), (999.0, "999 B"), (999.6, "1.00 kB"), (1.213e9, "1.21 GB"),
        (34.5e6, "34.5 MB"), (9.996e6, "10.0 MB"), (99.96e6, "100 MB"), (5.1e15, "5100 TB"), (NAN, "NaN"),
    ],
)  # fmt: skip
def test_sizes(value: float | None, text: str) -> None:
    """Three digits and a unit, also where rounding reaches the next one."""
    assert size(value) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "-"),
        (4.26e-7, "0.43 us"),
        (0.0345, "34.5 ms"),
        (0.9996, "1.00 s"),
        (1234.5, "1234 s"),
        (INF, "Inf"),
    ],
)
def test_durations(value: float | None, text: str) -> None:
    """Three digits and a unit; seconds are the longest."""
    assert duration(value, "us") == text


def test_batch_sizes_are_whole_numbers() -> None:
    """A million samples are not written as a power of ten."""
    assert [count(1048576.0), count(None), count(NAN)] == ["1048576", "-", "NaN"]


@pytest.mark.parametrize("encoding", ["utf-8", "ascii", "latin-1", "utf-16", "cp437"])
def test_any_encoding(tmp_path: Path, encoding: str) -> None:
    """A stream gets letters that it has, and one byte order mark at most."""
    path = tmp_path / "out.txt"
    with path.open("w", encoding=encoding) as stream:
        console = ConsoleLine(stream)
        stream.write("before\n")
        console.write(1, BATCHES[3])
        stream.write("after\n")
    micro = "us" if encoding == "ascii" else "µs"
    expected = ["before", lines(BATCHES[3]).splitlines()[0], "after"]
    written = path.read_text(encoding=encoding).splitlines()
    assert [written[0], written[1], written[3]] == expected
    assert written[2].endswith(f"426 {micro}")


def test_every_line_is_out_at_once(tmp_path: Path) -> None:
    """Nothing waits in a buffer for the next line."""
    path = tmp_path / "out.txt"
    with path.open("w", encoding="ascii") as stream:
        ConsoleLine(stream).write(1, BATCHES[3])
        assert lines(BATCHES[3]) == path.read_text(encoding="ascii")


def test_a_replaced_stdout_is_followed(capsys: pytest.CaptureFixture[str]) -> None:
    """By default the line goes where `print` would go at that moment, with a header first."""
    console = ConsoleLine()
    console.write(1, BATCHES[0])
    first = capsys.readouterr().out
    with pytest.MonkeyPatch.context() as patch:
        other = io.StringIO()
        patch.setattr(sys, "stdout", other)
        console.write(1, BATCHES[0])
        patch.setattr(sys, "stdout", None)
        console.write(1, BATCHES[0])
    assert first.splitlines()[1:] == other.getvalue().splitlines()[1:]
    assert first.splitlines()[0] == other.getvalue().splitlines()[0]


def test_a_closed_stream_is_left_alone() -> None:
    """Writing to it goes on quietly."""
    stream = io.StringIO()
    console = ConsoleLine(stream)
    stream.close()
    console.write(1, BATCHES[0])
    console.write(2, BATCHES[0])


def test_odd_streams_and_odd_scalars_do_not_raise() -> None:
    """Neither an object that is hardly a stream nor a scalar that is no number stops the training."""
    ConsoleLine(object()).write(1, BATCHES[0])  # type: ignore[arg-type]
    ConsoleLine(io.StringIO()).write(1, {"loss": "high"})  # type: ignore[dict-item]


@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_a_broken_pipe_does_not_change_how_the_program_ends(unbuffered: str) -> None:
    """`train | head` ends the reader early: no traceback, no message, and the program's own exit status."""
    script = "import sys\nconsole = ConsoleLine()\n"
    script += "[console.write(i, {'loss': 1.0}) for i in range(9)]\nsys.exit(3)"
    reader, writer = os.pipe()
    os.close(reader)
    ended = run_python(
        script, stdout=writer, stderr=subprocess.PIPE, environment={"PYTHONUNBUFFERED": unbuffered}
    )
    os.close(writer)
    assert (ended.returncode, ended.stderr) == (3, b"")


def test_a_pipe_that_does_not_wait_loses_lines_and_nothing_else() -> None:
    """A full non-blocking pipe neither raises nor blocks."""
    script = "import os\nos.set_blocking(1, False)\nconsole = ConsoleLine()\n"
    script += "[console.write(i, {'loss': 1.0}) for i in range(5000)]"
    reader, writer = os.pipe()
    ended = run_python(script, stdout=writer, stderr=subprocess.PIPE)
    os.close(writer)
    os.close(reader)
    assert (ended.returncode, ended.stderr) == (0, b"")


def on_a_terminal(script: str, **environment: str) -> str:
    """What `script` writes when its output is a pseudo-terminal."""
    controller, terminal = os.openpty()
    settings = {"TERM": "xterm-256color", **environment}
    ended = run_python(script, stdout=terminal, stderr=subprocess.PIPE, environment=settings)
    os.close(terminal)
    assert (ended.returncode, ended.stderr) == (0, b"")
    shown = os.read(controller, 1 << 16).decode("utf-8")
    os.close(controller)
    return shown.replace("\r\n", "\n")


SHOW = f"nan, inf = float('nan'), float('inf')\nconsole = ConsoleLine()\nconsole.write(3, {BATCHES[2]!r})"
RED, BOLD, REVERSE, END = "\x1b[1;37;41m", "\x1b[1m", "\x1b[1;7m", "\x1b[0m"


def test_alarms_stand_out_on_a_terminal() -> None:
    """NaN and Inf are on red, the header is bold, and the columns still line up."""
    assert on_a_terminal(SHOW) == (
        f"{BOLD}    step        loss   batch   grad norm       rss      time{END}\n"
        f"       3         {RED}NaN{END}      64         {RED}Inf{END}         -         -"
        f"  {RED}120 non-finite gradients{END}\n"
    )


def test_no_color_is_heeded() -> None:
    """With NO_COLOR an alarm is shown in reverse."""
    assert f"{REVERSE}NaN{END}" in on_a_terminal(SHOW, NO_COLOR="1")


def test_a_dumb_terminal_gets_plain_text() -> None:
    """Without colours there are no escape sequences."""
    assert "\x1b" not in on_a_terminal(SHOW, TERM="dumb")
