"""The view of `netdebug watch` as lines of text, the same on a screen, in a pipe and in a file."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from rich.cells import cell_len
from rich.text import Text

from tb_netdebug.cli.dates import date_text, is_date
from tb_netdebug.cli.harmless import fitted, harmless
from tb_netdebug.cli.layer_rows import LayerRow
from tb_netdebug.cli.sparkline import sparkline
from tb_netdebug.cli.vital_signs import OWN_PREFIX, Trend, VitalSigns
from tb_netdebug.cli.watch_cells import (
    ALARM,
    ago,
    inactive_cell,
    memory_text,
    norm_cell,
    packed,
    padded,
    phase_bar,
    ratio_cell,
)
from tb_netdebug.training.console import duration, number, size

LEAST_WIDTH = 20
NARROW, NARROWER = 64, 48
MOST_NAME_CELLS = 48
MOST_FINDINGS = 3
MOST_LINES_OF_FINDING = 3
WHOLE_MODEL = "(the model)"
STATE_STYLES = {"live": "bold green", "ended": "blue", "idle": "yellow"}
KEYS = "q: quit   tab or arrows: another run"


@dataclass(frozen=True, slots=True)
class RunLine:
    """A run in the list; None for what was not read yet."""

    name: str
    state: str
    last_step: int | None = None
    loss: float | None = None


@dataclass(frozen=True, slots=True)
class View:
    """All that is shown at one moment."""

    logdir: str
    runs: Sequence[RunLine] = ()
    chosen: int = 0
    signs: VitalSigns | None = None
    layers: Sequence[LayerRow] = ()
    message: str = ""
    complaints: Sequence[str] = ()
    more_runs: int = 0
    folder: str = ""  # the common folder of all runs, ending in a slash; the list leaves it out
    now: float = field(default_factory=time.time)


class Page:
    """Draws views at a given width; with `height` None, as long as they take."""

    def __init__(
        self, width: int, height: int | None = None, *, most_layers: int = 20, ascii_only: bool = False
    ):
        self._width = max(width, LEAST_WIDTH)
        self._height = height
        self._most_layers = most_layers
        self._label, self._value = (15, 11) if width >= NARROWER else (10, 9)
        self._ascii_only = ascii_only

    def lines(self, view: View) -> list[Text]:
        lines = self._paper(view) if self._height is None else self._screen(view, self._height)
        for line in lines:
            line.truncate(self._width)  # below 40 columns not everything fits
        return lines

    def _paper(self, view: View) -> list[Text]:
        return [*self._above(view), *self._layers(view.layers, self._most_layers)]

    def _screen(self, view: View, height: int) -> list[Text]:
        lines = self._above(view)
        room = height - len(lines) - 4  # an empty line, the header, "and N more", the keys
        lines = (lines + self._layers(view.layers, min(self._most_layers, room)))[: height - 1]
        lines += [Text() for _ in range(height - 1 - len(lines))]
        return [*lines, Text(fitted(KEYS, self._width), "dim")]

    def _above(self, view: View) -> list[Text]:
        """Return everything above the table of layers."""
        lines = [*self._title(view), *self._runs(view)]
        if view.signs is not None:
            lines += [Text(), *self._signs(view.signs, view.now)]
        if view.message:
            lines += [Text(), *self._wrapped(view.message, "yellow")]
        return lines

    # ---- parts -------------------------------------------------------------------------------------------

    def _title(self, view: View) -> Iterator[Text]:
        count = f"{len(view.runs) + view.more_runs} runs" if len(view.runs) + view.more_runs != 1 else "1 run"
        room = self._width - len("NetDebug  ") - len(count) - 1
        place = fitted(view.logdir.rstrip("/") + "/" + view.folder if view.folder else view.logdir, room)
        gap = " " * (room - cell_len(place) + 1)
        yield Text.assemble(("NetDebug", "bold"), "  ", place, gap, (count, "dim"))
        for complaint in view.complaints:
            yield from self._wrapped(complaint, "red")

    def _runs(self, view: View) -> Iterator[Text]:
        """Yield the list of runs, as many around the chosen one as fit."""
        if len(view.runs) + view.more_runs < 2:
            return
        room = len(view.runs) if self._height is None else max(self._height // 4, 3)
        first = min(max(view.chosen - room // 2, 0), max(len(view.runs) - room, 0))
        shown = view.runs[first : first + room]
        for place, run in enumerate(shown, start=first):
            yield self._run_line(run, view.folder, is_chosen=place == view.chosen)
        hidden = len(view.runs) + view.more_runs - len(shown)
        if hidden:
            yield Text(f"  and {hidden} more", "dim")

    def _run_line(self, run: RunLine, folder: str, *, is_chosen: bool) -> Text:
        step = f"step {run.last_step}" if run.last_step is not None else ""
        loss = f"loss {number(run.loss)}" if run.loss is not None else ""
        style = "" if run.loss is None or math.isfinite(run.loss) else ALARM
        cells = [(run.state.ljust(10), STATE_STYLES.get(run.state, "dim"))]
        if self._width >= NARROW:
            cells.append((step.ljust(14), ""))
        gap = 16 - len(loss) if self._width >= NARROW else 12 - len(loss)
        used = 3 + sum(len(text) for text, _ in cells) + len(loss) + max(gap, 0)
        room = max(min(self._width - used, MOST_NAME_CELLS), 1)
        name = padded(fitted(run.name.removeprefix(folder), room), room + 1)
        mark = (">" if self._ascii_only else "▸") if is_chosen else " "
        line = Text.assemble(f"{mark} ", (name, "bold" if is_chosen else ""), *cells, (loss, style))
        line.truncate(self._width)
        return line

    def _signs(self, signs: VitalSigns, now: float) -> Iterator[Text]:
        yield from self._heading(signs, now)
        if signs.complaint and signs.complaint.rstrip(".") not in signs.reason:
            yield from self._wrapped(signs.complaint, "red")
        yield from self._findings(signs)
        for name, course in signs.courses.items():
            yield self._course(name, course)
        yield from self._step_time(signs)
        if signs.memory:
            more = Text(memory_text(signs.memory), "dim")
            yield self._row("memory", size(signs.memory.get("memory/rss")), more)
        if signs.sampled_every is not None:
            cost = (
                "" if signs.overhead is None else f"recording takes {100 * signs.overhead:.1f} % of the time"
            )
            yield self._row("samples", f"1 in {signs.sampled_every:.0f}", Text(cost, "dim"))
        if signs.gaps:
            places = "1 place" if signs.gaps == 1 else f"{signs.gaps} places"
            yield self._row("gaps", str(signs.gaps), Text(f"{places} of the files cannot be read", "yellow"))
        if signs.ranks > 1:
            yield self._row("ranks", str(signs.ranks), Text("rank 0 is shown", "dim"))

    def _findings(self, signs: VitalSigns) -> Iterator[Text]:
        """Yield the findings of the trainer's checks; on a screen only a few lines of them."""
        if signs.verdict == "healthy":
            yield Text("no sign of trouble", "green")
        if signs.verdict is None and signs.reason and self._height is not None:
            yield Text("not judged yet: run netdebug check", "dim")  # the layers need the space
        elif signs.verdict in (None, "unknown") and signs.reason:
            yield from self._wrapped(signs.reason, "bold" if signs.verdict else "dim")
        most = len(signs.found) if self._height is None else MOST_FINDINGS
        for severity, sentence in signs.found[:most]:
            style = ALARM if severity == "error" else "yellow"
            lines = list(self._wrapped(f"{severity.upper()} {sentence}", style))
            yield from lines if self._height is None else lines[:MOST_LINES_OF_FINDING]
        if len(signs.found) > most:
            yield Text(f"and {len(signs.found) - most} more", "dim")

    def _heading(self, signs: VitalSigns, now: float) -> Iterator[Text]:
        parts = [signs.state]
        if signs.last_step is not None:
            parts.append(f"step {signs.last_step}")
        if signs.state == "live" and signs.steps_per_sec is not None:
            parts.append(f"{signs.steps_per_sec:.3g} steps/s")
        elif signs.last_time is not None:
            parts.append(self._moment(signs.last_time, now))
        facts = Text(fitted(", ".join(parts), self._width), STATE_STYLES.get(signs.state, "dim"))
        name = fitted(signs.name, self._width)
        gap = self._width - cell_len(name) - len(facts)
        if gap >= 2:
            yield Text.assemble((name + " " * gap, "bold"), facts)
        else:
            yield from (Text(name, "bold"), facts)

    def _moment(self, then: float, now: float) -> str:
        """Return how long ago a moment was, or its date where the text is not redrawn.

        On paper, "a minute ago" would soon be wrong.
        """
        if self._height is None or not is_date(then):
            return date_text(then)
        return f"{ago(now - then)} ago"

    def _course(self, name: str, course: Trend) -> Text:
        label = "gradient norm" if name == "gradient_norm" else name.removeprefix(OWN_PREFIX)
        if label == "gradient norm" and self._width < NARROWER:
            label = "grad norm"
        line = Text(sparkline(course.values, self._rest, ascii_only=self._ascii_only), "cyan")
        line.highlight_regex("[×x]+", "bold red")
        style = "" if math.isfinite(course.last) else ALARM
        return self._row(label, number(course.last), line, style)

    def _step_time(self, signs: VitalSigns) -> Iterator[Text]:
        if signs.step_secs is None or not signs.step_secs > 0:
            return
        other = max(signs.step_secs - sum(signs.phase_secs.values()), 0.0)
        parts = {**signs.phase_secs, "other": other} if signs.phase_secs else {}
        micro = "us" if self._ascii_only else "µs"
        yield self._row("step time", duration(signs.step_secs, micro), phase_bar(parts, self._rest))
        told = [f"{name} {duration(secs, micro)}" for name, secs in parts.items()]
        indent = self._width - self._rest if self._width >= NARROW else 2
        for line in packed(told, self._width - indent):
            yield Text(" " * indent + line, "dim")

    def _layers(self, layers: Sequence[LayerRow], most: int) -> list[Text]:
        if not layers or most < 1:
            return []
        shown = layers[:most]
        step = max(layer.step for layer in layers)
        columns = self._layer_columns()
        room = self._width - sum(width for _, width in columns)
        title = "layer, worst first" if step < 0 else f"layer, worst first (step {step})"
        header = padded(title if len(title) < room else "layer", room) + "".join(
            name.rjust(width) for name, width in columns
        )
        rows = [self._layer(layer, room, [name for name, _ in columns], dict(columns)) for layer in shown]
        hidden = len(layers) - len(shown)
        rest = [Text(f"and {hidden} more", "dim")] if hidden else []
        return [Text(), Text(header, "bold"), *rows, *rest]

    def _layer_columns(self) -> list[tuple[str, int]]:
        weight = [("weight", 10)] if self._width >= NARROW else []
        if self._width >= NARROWER:
            return [*weight, ("gradient", 10), ("update/w", 10), ("inactive", 10)]
        return [("gradient", 9), ("upd/w", 9), ("inact", 6)]

    def _layer(self, layer: LayerRow, room: int, names: Sequence[str], widths: dict[str, int]) -> Text:
        cells = {
            "weight": norm_cell(layer, "weight"),
            "gradient": norm_cell(layer, "gradient"),
            **dict.fromkeys(("update/w", "upd/w"), ratio_cell(layer)),
            **dict.fromkeys(("inactive", "inact"), inactive_cell(layer)),
        }
        line = Text(padded(fitted(layer.name or WHOLE_MODEL, room - 1), room))
        for name in names:
            text, style = cells[name]
            line.append(" " * max(widths[name] - len(text), 1)).append(text, style)
        return line

    # ---- pieces ------------------------------------------------------------------------------------------

    @property
    def _rest(self) -> int:
        """The columns left on a line after label and value."""
        return max(self._width - self._label - self._value - 2, 1)

    def _row(self, label: str, value: str, rest: Text, style: str = "") -> Text:
        name = padded(fitted(label, self._label - 1), self._label)
        line = Text(name).append(" " * max(self._value - len(value), 0)).append(value, style).append("  ")
        line.append_text(rest)
        line.truncate(self._width, overflow="ellipsis")
        return line

    def _wrapped(self, text: str, style: str) -> Iterator[Text]:
        for line in packed(harmless(text).split(" "), self._width, between=" "):
            yield Text(fitted(line, self._width), style)
