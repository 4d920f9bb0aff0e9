"""Cells, bars and texts from which `watch_page.py` builds the terminal view."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence

from rich.cells import cell_len
from rich.text import Text

from tb_netdebug.checks.wording.phrases import percent
from tb_netdebug.cli.layer_rows import LayerRow
from tb_netdebug.cli.vital_signs import PHASES
from tb_netdebug.training.console import MISSING, size

ALARM = "bold white on red"
# The bar shows letters as well: not every person and not every terminal can tell the colours apart.
PHASE_STYLES = {
    "data": "magenta",
    "forward": "cyan",
    "backward": "blue",
    "optimizer": "green",
    "other": "dim",
}
OTHER_MARK = "."
NOT_FINITE = "NaN/Inf"

Cell = tuple[str, str]  # text and style


def padded(text: str, width: int) -> str:
    return text + " " * (width - cell_len(text))


def packed(words: Sequence[str], width: int, *, between: str = "  ") -> Iterator[str]:
    """Yield lines of words, each with as many as fit."""
    line = ""
    for word in words:
        longer = f"{line}{between}{word}" if line else word
        if line and cell_len(longer) > width:
            yield line
            longer = word
        line = longer
    if line:
        yield line


def phase_bar(parts: Mapping[str, float], width: int) -> Text:
    """Return a bar of the phases by time: D data, F forward, B backward, O optimizer."""
    total = sum(parts.values())
    if not 0 < total < math.inf:
        return Text()
    # Each phase gets at least one letter; the longest absorbs what rounding added or lost.
    marks = {name: max(round(secs / total * width), 1) for name, secs in parts.items() if secs > 0}
    longest = max(marks, key=lambda name: parts[name])
    marks[longest] = max(width - sum(marks.values()) + marks[longest], 1)
    letters = {name: name[0].upper() if name in PHASES else OTHER_MARK for name in marks}
    return Text.assemble(*((letters[name] * count, PHASE_STYLES[name]) for name, count in marks.items()))


def memory_text(memory: Mapping[str, float]) -> str:
    """Return the memory of the GPUs and the free memory of the host."""
    told = []
    for name, value in sorted(memory.items()):
        short = name.removeprefix("memory/")
        if short.startswith(("gpu", "cuda")) and short.endswith(("/process", "/used", "/allocated")):
            told.append(f"{short} {size(value)}")
    if "memory/host_available" in memory:
        told.append(f"{size(memory['memory/host_available'])} free on this host")
    return ", ".join(told)


def norm_cell(layer: LayerRow, kind: str) -> Cell:
    if kind in layer.nonfinite:
        return NOT_FINITE, ALARM
    return short(getattr(layer, kind)), ""


def ratio_cell(layer: LayerRow) -> Cell:
    if "update" in layer.nonfinite:
        return NOT_FINITE, ALARM
    return short(layer.ratio), "yellow" if layer.concern > 1.0 and not math.isnan(layer.ratio) else ""


def inactive_cell(layer: LayerRow) -> Cell:
    if "activation" in layer.nonfinite:
        return NOT_FINITE, ALARM
    return (MISSING if math.isnan(layer.inactive) else percent(layer.inactive)), ""


def short(value: float) -> str:
    if math.isnan(value):
        return MISSING
    if value == 0:
        return "0"
    return f"{value:.1e}" if not 1e-3 <= abs(value) < 1e4 else f"{value:#.3g}"


def ago(secs: float) -> str:
    for unit, length in (("day", 86400), ("h", 3600), ("min", 60)):
        if secs >= 2 * length:
            return f"{secs / length:.0f} {unit}{'s' if unit == 'day' else ''}"
    return f"{max(secs, 0):.0f} s"
