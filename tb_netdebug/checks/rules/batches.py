"""Rules over the batches: the same one again and again, or batches that come late."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from tb_netdebug.checks.finding import Evidence, Severity, Sign
from tb_netdebug.checks.history import History
from tb_netdebug.checks.rule import Rule, When
from tb_netdebug.checks.wording.idioms import Idiom
from tb_netdebug.checks.wording.phrases import counted, percent, span
from tb_netdebug.core.records.scalar_names import (
    BATCH_ID,
    BATCH_IS_SLICE,
    BATCH_SHARE,
    EVALUATIONS,
    LOADER_BATCHES,
    LOADER_RESTARTS,
    RANDOM_SET_BACK,
    TIME_DATA,
    TIME_FORWARD,
    TIME_STEP,
)

# The steps with random draws that are remembered; more of them say nothing new.
DRAWS_KEPT = 64
ADVICE = (
    "Take the next batch in each step: `for inputs, labels in loader:`, not `next(iter(loader))`; or slice "
    "the data by the number of the step. Training on one batch on purpose is fine."
)
SEED = " The seed is set again in each step, so every random draw repeats."
SEED_ADVICE = (
    "Set the seed once, before the loop over steps: neither the loop nor what it calls should call "
    "`torch.manual_seed(0)`."
)


@dataclass(frozen=True, slots=True)
class RepeatedLimits:
    steps: float = 20  # a small dataset without shuffling comes round again, but never at once
    restarts: float = 0.8  # share of the steps with an iterator made anew, or the random state reset
    slice_share: float = 0.5  # of the whole tensor: a training split is bigger, a batch is smaller


class InputRepeatedBatch(Rule):
    """Every step trains on the same batch, though there is more data."""

    slug = "input-repeated-batch"
    when = When.STEPS
    needs = ("inputs",)
    limits = RepeatedLimits()

    def __init__(self) -> None:
        self._batch: float | None = None
        self._looks = 0
        self._since = 0
        self._slice = 1.0
        # For each step that drew random numbers: whether the random state was reset since the last such step.
        self._drawn: deque[bool] = deque(maxlen=DRAWS_KEPT)

    def update(self, history: History) -> Sign | None:
        for record in history.recent:
            batch = record.scalars.get(BATCH_ID)
            if batch is None:
                continue
            if batch != self._batch:
                self._batch, self._looks, self._since = batch, 0, record.step
                self._drawn.clear()
            self._looks += 1
            if RANDOM_SET_BACK in record.scalars:
                self._drawn.append(record.scalars[RANDOM_SET_BACK] == 1.0)
            self._slice = record.scalars.get(BATCH_SHARE, self._slice)
        return self._judge(history) if self._looks >= self.limits.steps else None

    def _judge(self, history: History) -> Sign:
        batches = last_of(history, LOADER_BATCHES)
        more = f" Yet the data have {batches:.0f} batches." if batches > 1 else ""
        why = SEED if self._is_seeded() else self._why(history, batches)
        return Sign(
            Severity.WARNING if why else Severity.INFO,
            f"The last {self._looks} batches that were sampled are the same ({self.limits.steps:.0f} are "
            f"enough).{more}{why}",
            SEED_ADVICE if why is SEED else ADVICE,
            {
                "same batches in a row": Evidence(float(self._looks), self.limits.steps),
                "batches that the loader has": Evidence(batches or "unknown"),
            },
            where=("input/0",),
            since=self._since,
            sureness=0.9,
        )

    def _is_seeded(self) -> bool:
        drawn, limits = self._drawn, self.limits
        return len(drawn) >= limits.steps / 2 and sum(drawn) >= limits.restarts * len(drawn)

    def _why(self, history: History, batches: float) -> str:
        """Return the sign that there is more data, as a sentence; empty if the batch may be all of it."""
        restarts = last_of(history, LOADER_RESTARTS)
        if batches > 1 and restarts >= self.limits.restarts * history.steps:
            times = counted(restarts, "time")
            return f" The loader was restarted {times}, each time from its first batch."
        is_slice = last_of(history, BATCH_IS_SLICE) == 1.0 and self._slice < self.limits.slice_share
        return " Yet it is a slice of a larger tensor." if is_slice else ""


def last_of(history: History, name: str) -> float:
    """Return the newest value of a scalar, or 0 if there is none."""
    curve = history.curve(name)
    return curve.last if curve is not None and curve.count else 0.0


@dataclass(frozen=True, slots=True)
class WaitLimits:
    share: float = 0.5  # of the step time: half of the run is waiting
    share_without_loader: float = 0.7  # where no DataLoader was seen, it may be work of another kind
    info_share: float = 0.2  # worth knowing; others begin to call it critical here
    wait_secs: float = 0.004  # a tiny network waits for anything, and nobody minds
    steps: float = 24  # the first steps start workers and fill caches
    skipped: float = 4


# A recording does not separate the loader's time from that of other work in the loop.
LOADING = (
    f"{Idiom.LOAD_BESIDE}; load and convert data once before the training where it fits into memory. If "
    "the loop itself prints, saves or pauses between two steps, do that less often."
)
WITHOUT_LOADER = (
    "No loader was seen, so look at the code between two steps. If it makes the batch, "
    f"{Idiom.LET_LOADER_WORK}, or do it once before the training. If it prints, saves, pauses or trains "
    "something else, do that less often."
)


class DataWait(Rule):
    """Most of the step time goes by before the model is called."""

    slug = "data-wait"
    when = When.STEPS
    needs = ("time",)
    limits = WaitLimits()

    def __init__(self) -> None:
        self._waits: deque[tuple[int, float, float]] = deque(maxlen=64)

    def update(self, history: History) -> Sign | None:
        for record in history.recent:
            scalars = record.scalars
            wait, whole = scalars.get(TIME_DATA), scalars.get(TIME_STEP)
            if TIME_FORWARD not in scalars or scalars.get(EVALUATIONS):
                continue  # calls in parts and evaluations in between are not waiting for data
            if wait is not None and whole:
                self._waits.append((record.step, wait, whole))
        known = [each for each in self._waits if each[0] >= self.limits.skipped]
        if len(known) < self.limits.steps:
            return None
        has_loader = last_of(history, LOADER_BATCHES) > 0
        return self._judge(known, has_loader=has_loader)

    def _judge(self, known: Sequence[tuple[int, float, float]], *, has_loader: bool) -> Sign | None:
        limits = self.limits
        limit = limits.share if has_loader else limits.share_without_loader
        wait = median(wait for _, wait, _ in known)
        share = median(wait / whole for _, wait, whole in known)
        if wait < limits.wait_secs or share < limits.info_share:
            return None
        return Sign(
            Severity.WARNING if share >= limit else Severity.INFO,
            f"In half of the last {len(known)} steps, the model waited for its batch for {percent(share)} "
            f"of the time or more ({span(wait)}; {percent(limit)} is too much): for data, or for other "
            "work that the loop does between two steps.",
            LOADING if has_loader else WITHOUT_LOADER,
            {
                "share of the step time": Evidence(share, limit),
                "seconds before the model is called": Evidence(wait, limits.wait_secs),
            },
            since=known[0][0],
            sureness=0.85,
        )
