"""Rules over time: single slow steps, and a run that stood still."""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from tb_netdebug.checks.finding import Evidence, Severity, Sign
from tb_netdebug.checks.history import History
from tb_netdebug.checks.rule import Rule, When
from tb_netdebug.checks.wording.phrases import counted, percent, span
from tb_netdebug.core.records.scalar_names import EVALUATIONS, GRAPH_TRACED, PAUSED, TIME_STEP, WAITED

STEPS_KEPT = 512


@dataclass(frozen=True, slots=True)
class OutlierLimits:
    steps: float = 64  # before it is known what is usual
    skipped: float = 8  # the first steps compile, start workers and fill caches
    factor: float = 8.0  # times the median; a busy machine doubles or triples a step
    secs: float = 0.1  # beyond the median: less than that is the scheduler of a busy machine
    count: float = 3  # slow steps; one or two may have a reason of their own
    share: float = 0.3  # of the whole time: worth a warning
    lost_secs: float = 1.0  # in all: a busy machine takes half a second from a short run now and then
    info_share: float = 0.1


class StepTimeOutlier(Rule):
    """A few steps take many times as long as the others, and a good part of all time."""

    slug = "step-time-outlier"
    when = When.STEPS
    needs = ("time",)
    limits = OutlierLimits()

    def __init__(self) -> None:
        self._secs: deque[tuple[int, float]] = deque(maxlen=STEPS_KEPT)
        self._seen = 0

    def update(self, history: History) -> Sign | None:
        for record in history.recent:
            secs = record.scalars.get(TIME_STEP)
            self._seen += 1
            # An evaluation takes its time, and is meant to; so does a graph that is traced anew.
            is_special = record.scalars.get(EVALUATIONS) or record.scalars.get(GRAPH_TRACED)
            if secs is not None and self._seen > self.limits.skipped and not is_special:
                # the time that another program on this machine took is not the run's
                self._secs.append((record.step, secs - record.scalars.get(WAITED, 0.0)))
        return self._judge() if len(self._secs) >= self.limits.steps else None

    def _judge(self) -> Sign | None:
        limits = self.limits
        times = [secs for _, secs in self._secs]
        if max(times) < limits.secs:
            return None
        usual = median(times)
        bound = max(limits.factor * usual, usual + limits.secs)
        slow = [(step, secs) for step, secs in self._secs if secs > bound]
        lost = sum(secs - usual for _, secs in slow)
        share = lost / sum(times)
        if len(slow) < limits.count or share < limits.info_share:
            return None
        slowest = max(secs for _, secs in slow)
        return Sign(
            Severity.WARNING if share >= limits.share and lost >= limits.lost_secs else Severity.INFO,
            f"{len(slow)} of the last {len(times)} steps took more than {span(bound)} (up to "
            f"{span(slowest)}), where {span(usual)} is usual: {percent(share)} of all time "
            f"({percent(limits.share)} is too much). They come {rhythm([step for step, _ in slow])}.",
            "Look at what happens only in those steps: saving, logging, drawing, an evaluation, a data "
            "loader that refills, a batch that is longer than the others. The Resources page shows in which "
            "part of the step the time goes.",
            {
                "share of all time": Evidence(share, limits.share),
                "slow steps": Evidence(float(len(slow)), limits.count),
                "slowest step in seconds": Evidence(slowest, bound),
            },
            since=slow[0][0],
            sureness=0.7,
        )


def rhythm(steps: Sequence[int]) -> str:
    """Return how the steps follow each other, as the end of a sentence."""
    gaps = [later - step for step, later in itertools.pairwise(steps)]
    usual = median(gaps)
    if 2.0 * usual < sum(gaps) / len(gaps):
        return "in bursts"
    return "one after the other" if usual < 2 else f"about every {counted(usual, 'step')}"


@dataclass(frozen=True, slots=True)
class StalledLimits:
    secs: float = 300.0  # others wait for half an hour; evaluations and saving rarely take five minutes
    factor: float = 50.0  # times the usual time between two steps


class Stalled(Rule):
    """For a long time there was no step."""

    slug = "stalled"
    when = When.STEPS
    needs = ("time",)
    limits = StalledLimits()

    def __init__(self) -> None:
        self._last: float | None = None
        self._gaps: deque[float] = deque(maxlen=128)

    def update(self, history: History) -> list[Sign]:
        signs = []
        for record in history.recent:
            gap = record.wall_time - self._last if self._last is not None else 0.0
            gap -= record.scalars.get(PAUSED, 0.0)
            self._last = record.wall_time
            if len(self._gaps) >= 4 and gap > self.limits.secs:
                usual = median(self._gaps)
                if gap > self.limits.factor * usual:
                    signs.append(self._sign(gap, usual, record.step, bool(record.scalars.get(EVALUATIONS))))
            self._gaps.append(gap)
        return signs

    def _sign(self, gap: float, usual: float, step: int, is_evaluation: bool) -> Sign:
        return Sign(
            Severity.INFO if is_evaluation else Severity.WARNING,
            f"Before step {step} nothing happened for {span(gap)}, where {span(usual)} are usual (more than "
            f"{span(max(self.limits.secs, self.limits.factor * usual))} is called a stall)"
            + (", in which the model was evaluated." if is_evaluation else "."),
            "Was the machine asleep, or the disk or network unavailable? Waiting for another process is "
            "usual, too: `py-spy dump --pid PID` shows where a training hangs while it does.",
            {"seconds without a step": Evidence(gap, self.limits.secs), "usual seconds": Evidence(usual)},
            since=step,
            sureness=0.8,
        )
