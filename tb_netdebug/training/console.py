"""One line per batch on the console: loss, batch size, gradient norm, memory and time, in columns."""

from __future__ import annotations

import io
import math
import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TextIO

from tb_netdebug.core.records.scalar_names import (
    BATCH_SIZE,
    CUDA,
    GPUS,
    GRADIENT_NORM,
    LOSS,
    MEMORY,
    NONFINITE_GRADIENTS,
    RSS,
    TIME_STEP,
)

# About a screen, so that a header is always in sight.
LINES_PER_HEADER = 30

MISSING = "-"

WIDTHS = {"step": 8, "loss": 12, "batch": 8, "grad norm": 12, "rss": 10, "gpu": 10, "time": 10}

# Which readings stand for the memory in use on GPUs, the best first: NVML's number for this process includes
# what torch's allocator does not know of; what is used on the whole device includes other people's programs.
DEVICE_PREFIXES = (GPUS, CUDA)
DEVICE_ENDINGS = ("/process", "/reserved", "/used")


class ConsoleLine:
    """Writes one line for each batch, and a header now and then, to `stream` (default: `sys.stdout`).

    It never raises: a stream that is closed or broken gets no more lines. Memory is read less often than
    batches come, so the last reading is shown until there is a new one.
    """

    def __init__(self, stream: TextIO | None = None) -> None:
        self._stream = stream
        self._terminal: Terminal | None = None
        self._memory: dict[str, float] = {}
        self._columns: tuple[str, ...] = ()
        self._lines = 0

    def write(self, step: int, scalars: Mapping[str, float]) -> None:
        """Write the line of one batch; a dash stands for what `scalars` does not hold."""
        stream = sys.stdout if self._stream is None else self._stream
        if stream is None:  # a program without a console
            return
        if self._terminal is None or self._terminal.stream is not stream:
            # Notebooks, test runners and redirections replace sys.stdout during a run.
            self._terminal, self._columns = Terminal(stream), ()
        if not self._terminal.broken:
            try:
                self._terminal.write(self._lines_for(step, scalars, self._terminal))
            except Exception as error:  # a user's stream may raise anything, and the run goes on
                self._terminal.broken = f"{type(error).__name__}: {error}"

    def _lines_for(self, step: int, scalars: Mapping[str, float], terminal: Terminal) -> str:
        self._memory.update((name, scalars[name]) for name in scalars if name.startswith(MEMORY))
        gpu = gpu_bytes(self._memory)
        cells = {
            "step": str(step),
            LOSS: number(scalars.get(LOSS)),
            "batch": count(scalars.get(BATCH_SIZE)),
            "grad norm": number(scalars.get(GRADIENT_NORM)),
            "rss": size(self._memory.get(RSS)),
            **({} if gpu is None else {"gpu": size(gpu)}),
            "time": duration(scalars.get(TIME_STEP), terminal.microsecond),
        }
        line = "".join([terminal.cell(text, WIDTHS[name]) for name, text in cells.items()])
        nonfinite = scalars.get(NONFINITE_GRADIENTS)
        if nonfinite:
            line += "  " + terminal.alarm(f"{nonfinite:.0f} non-finite gradients")
        return self._header_for(tuple(cells), terminal) + line + "\n"

    def _header_for(self, columns: tuple[str, ...], terminal: Terminal) -> str:
        due = columns != self._columns or self._lines == LINES_PER_HEADER
        self._lines = 1 if due else self._lines + 1
        self._columns = columns
        if not due:
            return ""
        return terminal.header("".join([name.rjust(WIDTHS[name]) for name in columns])) + "\n"


@dataclass(frozen=True, slots=True)
class Emphasis:
    """The escape sequences before and after a text that make it stand out."""

    before: str = ""
    after: str = ""

    def __call__(self, text: str) -> str:
        return f"{self.before}{text}{self.after}"


class Terminal:
    """A stream to write text to, and what it can show; it may also be a file or a pipe."""

    def __init__(self, stream: TextIO) -> None:
        self.stream = stream
        self.broken = ""  # why nothing more is written to it
        self.header, self.alarm = looks(stream)
        self._encoding = getattr(stream, "encoding", None) or "ascii"
        self.microsecond = "µs" if encoded("µ", self._encoding) else "us"
        self._raw = raw_stream(stream, self._encoding)

    def cell(self, text: str, width: int) -> str:
        """Return `text` as a column, aligned right; anything but an ordinary number stands out."""
        if text[-1] not in "Nf":  # NaN, Inf
            return text.rjust(width)
        return " " * (width - len(text)) + self.alarm(text)

    def write(self, text: str) -> None:
        """Write the text at once; raise what the stream raises."""
        self.stream.flush()
        if self._raw is None:
            self.stream.write(text)
            self.stream.flush()
            return
        # Bypass the buffer: what a broken pipe leaves in it would turn the program's exit status into 120.
        rest = text.replace("\n", os.linesep).encode(self._encoding, "replace")
        while rest:
            written = self._raw.write(rest)
            if written is None:  # it does not wait for a slow reader, so neither does this
                return
            rest = rest[written:]


def raw_stream(stream: TextIO, encoding: str) -> io.RawIOBase | None:
    """Return the unbuffered file below `stream`, if it is an ordinary one that takes lines as bytes."""
    if type(stream) is not io.TextIOWrapper or encoded("a", encoding) != b"a":
        return None
    raw = getattr(stream.buffer, "raw", stream.buffer)  # with python -u there is no buffer between
    return raw if isinstance(raw, io.RawIOBase) else None


def encoded(text: str, encoding: str) -> bytes:
    """Return `text` as bytes; empty if the encoding lacks its letters or is unknown."""
    try:
        return text.encode(encoding)
    except (UnicodeError, LookupError):
        return b""


def looks(stream: TextIO) -> tuple[Emphasis, Emphasis]:
    """Return the emphasis of headers and alarms: plain unless `stream` is a terminal that can do better."""
    try:
        if not stream.isatty():
            return Emphasis(), Emphasis()
    except (AttributeError, ValueError):  # no such method, or closed
        return Emphasis(), Emphasis()
    # Imported here because it takes 60 ms, and most runs write into a file.
    from rich.color import ColorSystem
    from rich.console import Console
    from rich.style import Style

    console = Console(file=stream)
    if not console.color_system or console.legacy_windows:
        return Emphasis(), Emphasis()
    styles = Style(bold=True), Style(bold=True, color="white", bgcolor="red")
    if console.no_color:
        styles = styles[0], Style(bold=True, reverse=True)
    header, alarm = (style.render("\0", color_system=ColorSystem.STANDARD).split("\0") for style in styles)
    return Emphasis(*header), Emphasis(*alarm)


def gpu_bytes(memory: Mapping[str, float]) -> float | None:
    """Return what this process holds on all GPUs, as well as that is known; None without a GPU."""
    names = [name for name in memory if name.startswith(DEVICE_PREFIXES)]
    for ending in DEVICE_ENDINGS:
        sizes = [memory[name] for name in names if name.endswith(ending)]
        if sizes:
            return sum(sizes)
    return None


def number(value: float | None) -> str:
    """Return four decimals, so that the points align; powers of ten where those would hide the digits."""
    if value is None:
        return MISSING
    if not math.isfinite(value):
        return nonfinite_text(value)
    return f"{value:.4f}" if 1e-3 <= abs(value) < 1e5 or value == 0 else f"{value:.3e}"


def count(value: float | None) -> str:
    if value is None:
        return MISSING
    return f"{value:.0f}" if math.isfinite(value) else nonfinite_text(value)


def size(value_bytes: float | None) -> str:
    """Return bytes as `1.21 GB`."""
    return scaled(value_bytes, 1.0, ("B", "kB", "MB", "GB", "TB"))


def duration(value_secs: float | None, microsecond: str) -> str:
    """Return seconds as `34.5 ms`."""
    return scaled(value_secs, 1e6, (microsecond, "ms", "s"))


def scaled(value: float | None, factor: float, units: tuple[str, ...]) -> str:
    """Return three digits and the unit; each unit is 1000 times the one before it."""
    if value is None:
        return MISSING
    if not math.isfinite(value):
        return nonfinite_text(value)
    value *= factor
    for unit in units[:-1]:
        if abs(value) < 999.5:
            return f"{three_digits(value)} {unit}"
        value /= 1000
    return f"{three_digits(value)} {units[-1]}"


def three_digits(value: float) -> str:
    decimals = 2 if abs(value) < 9.995 else 1 if abs(value) < 99.95 else 0
    return f"{value:.{decimals}f}"


def nonfinite_text(value: float) -> str:
    return "NaN" if math.isnan(value) else "Inf" if value > 0 else "-Inf"
