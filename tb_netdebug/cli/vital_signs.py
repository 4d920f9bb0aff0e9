"""The state of a run in numbers: what `netdebug watch` shows, taken from the reader."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from tb_netdebug.cli.watched_source import WatchedRun
    from tb_netdebug.core.eventlog.reader.views import ScalarColumns

Doubles = NDArray[np.float64]

PHASES = ("data", "forward", "backward", "optimizer")
# The window for speed and phases: long enough to be steady, short enough to be current.
RECENT_STEPS = 50
STEPS_OF_SAMPLING = 500
# Points per curve over the whole run; a terminal has no more columns than this.
COURSE_POINTS = 400
FIRST = ("loss", "gradient_norm")
NONFINITE_GRADIENTS = "nonfinite_gradients"
MEMORY_PREFIX = "memory/"
OWN_PREFIX = "scalar/"
MOST_OWN_SCALARS = 6


@dataclass(frozen=True, slots=True)
class Trend:
    """A scalar over the run; NaN in `values` where one of the values was not finite. `last` is unchanged."""

    values: Doubles
    last: float


@dataclass(frozen=True, slots=True)
class VitalSigns:
    """What one screen shows of a run; None or empty for what was not recorded."""

    name: str
    state: str
    complaint: str = ""
    steps: int | None = None
    last_step: int | None = None
    last_time: float | None = None
    steps_per_sec: float | None = None
    step_secs: float | None = None
    phase_secs: Mapping[str, float] = field(default_factory=dict)
    courses: Mapping[str, Trend] = field(default_factory=dict)
    memory: Mapping[str, float] = field(default_factory=dict)
    sampled_every: float | None = None
    overhead: float | None = None
    gaps: int = 0
    ranks: int = 1
    verdict: str | None = None
    reason: str = ""
    """Why the verdict is "unknown" or missing, and what to do."""
    found: Sequence[tuple[str, str]] = ()
    """The severity, and a sentence with rule, step and message, of each finding above a note."""


def vital_signs(run: WatchedRun) -> VitalSigns:
    """Read what one screen needs; the cost does not grow with the length of the run."""
    details = run.details()
    names: list[str] = details["scalars"]
    recent = recent_means(run, names, details["last_step"])
    return VitalSigns(
        name=run.name,
        state=details["state"],
        complaint=details["complaint"] or "",
        steps=details["steps"],
        last_step=details["last_step"],
        last_time=details["last_time"],
        steps_per_sec=steps_per_sec(run, names, details["last_step"]),
        step_secs=recent.get("step"),
        phase_secs={phase: recent[phase] for phase in PHASES if phase in recent},
        courses=courses(run, names),
        memory=newest(run, [name for name in names if name.startswith(MEMORY_PREFIX)]),
        sampled_every=sampled_every(run, names, details["last_step"]),
        overhead=newest(run, ["monitor/overhead"]).get("monitor/overhead"),
        gaps=details["gaps"] or 0,
        ranks=len(details["ranks"] or [0]),
        verdict=details["verdict"],
        reason=details.get("reason") or "",  # a server of an older version sends none
        found=[
            (found["severity"], f"{found['rule']} since step {found['first_step']}: {found['message']}")
            for found in details["findings"]
            if found["severity"] != "info" and not found.get("cause")
        ],
    )


def recent_means(run: WatchedRun, names: Sequence[str], last_step: int | None) -> dict[str, float]:
    """Return the median time of the last RECENT_STEPS steps, by phase."""
    wanted = [name for name in ("time/step", *(f"time/{phase}" for phase in PHASES)) if name in names]
    if last_step is None or not wanted:
        return {}
    view = run.scalars(wanted, first=last_step - RECENT_STEPS + 1, points=RECENT_STEPS)
    means = {}
    for name, columns in view.scalars.items():
        values = columns.mean[np.isfinite(columns.mean)]
        if len(values):
            means[name.removeprefix("time/")] = float(np.median(values))
    return means


def steps_per_sec(run: WatchedRun, names: Sequence[str], last_step: int | None) -> float | None:
    """Return the speed over the last RECENT_STEPS steps, or None if it is not known."""
    clock = next((name for name in ("time/step", "loss") if name in names), None)
    if last_step is None or clock is None:
        return None
    view = run.scalars([clock], first=last_step - RECENT_STEPS + 1, points=RECENT_STEPS)
    columns = view.scalars.get(clock)
    if columns is None or len(columns.time) < 2:
        return None
    took = float(columns.time[-1] - columns.time[0])
    return float(columns.step[-1] - columns.step[0]) / took if took > 0 else None


def courses(run: WatchedRun, names: Sequence[str]) -> dict[str, Trend]:
    """Return the curves of loss and gradient norm, then of at most MOST_OWN_SCALARS of the user's scalars.

    In a run of another tool, every scalar counts as the user's.
    """
    is_ours = "time/step" in names
    own = [name for name in names if name.startswith(OWN_PREFIX) or (not is_ours and name not in FIRST)]
    wanted = [name for name in FIRST if name in names] + own[:MOST_OWN_SCALARS]
    view = run.scalars([*wanted, NONFINITE_GRADIENTS], points=COURSE_POINTS).scalars if wanted else {}
    found = {name: course(view[name]) for name in wanted if name in view and len(view[name].mean)}
    nonfinite = view.get(NONFINITE_GRADIENTS)
    if "gradient_norm" in found and nonfinite is not None:
        found["gradient_norm"] = without(found["gradient_norm"], view["gradient_norm"], nonfinite)
    return found


def course(columns: ScalarColumns) -> Trend:
    # `bad` counts the values of each point that were not finite; their mean is without them.
    return Trend(np.where(columns.bad > 0, np.nan, columns.mean), float(columns.end[-1]))


def without(norm: Trend, columns: ScalarColumns, nonfinite: ScalarColumns) -> Trend:
    """Return the norm without the points at which some gradients were not finite.

    The recorded norm is that of the finite gradients alone, so it is meaningless there.
    """
    steps = nonfinite.step[nonfinite.max > 0]
    places = np.searchsorted(columns.last, steps)
    values = norm.values.copy()
    values[places[places < len(values)]] = np.nan
    return Trend(values, norm.last if nonfinite.end[-1] == 0 else float("nan"))


def sampled_every(run: WatchedRun, names: Sequence[str], last_step: int | None) -> float | None:
    """Return the mean distance between full samples, in steps."""
    if last_step is None or "monitor/every" not in names:
        return None
    view = run.scalars(["monitor/every"], first=last_step - STEPS_OF_SAMPLING, points=STEPS_OF_SAMPLING)
    columns = view.scalars.get("monitor/every")
    return float(np.average(columns.mean, weights=columns.count)) if columns and len(columns.mean) else None


def newest(run: WatchedRun, names: Sequence[str]) -> dict[str, float]:
    """Return the last value of each scalar."""
    view = run.scalars(names, points=1).scalars if names else {}
    return {name: float(columns.end[-1]) for name, columns in view.items() if len(columns.end)}
