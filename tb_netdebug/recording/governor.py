"""Decide how often to sample: as often as the budget allows, and always when something happens."""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass

# The first steps show most mistakes (initialisation, loss at start), so all of them are sampled, on credit
# that later steps pay back.
FIRST_STEPS = 8
# After them a step is sampled, paid for or not, at the latest when the run is longer by this share than it
# was at the last sample: a short run of a small network is over before its budget could pay for any. In a
# long run that adds up to nothing: 30 samples in the first 1000 steps, 30 more until the millionth. A sample
# that takes longer than a step, and long enough to be noticed, has to be paid for.
GROWTH_BETWEEN_SAMPLES = 0.25
UNNOTICED_SECS = 0.02
SAMPLES_COMPARED = 9
# After trouble this many steps in a row are sampled; further trouble within STEPS_BETWEEN_ALERTS is no news.
STEPS_AROUND_TROUBLE = 16
STEPS_BETWEEN_ALERTS = 1000
# Savings beyond this many samples are forfeited: a long pause must not buy a burst later. Nor may a debt stop
# sampling for ever when the samples that caused it were unusually slow.
MOST_SAVED_SAMPLES = 2.0
MOST_OWED_SAMPLES = 2.0 * STEPS_AROUND_TROUBLE
# Samples get this share of what a step earns even where ordinary steps alone exceed the budget: very short
# steps would otherwise never be sampled.
SHARE_OF_SAMPLES = 0.1
# The gradient norm of ordinary steps may take this share of the budget. Every step gets it unless steps are
# so short that reading all gradients is expensive: then every second, third … at least every 16th.
SHARE_OF_NORMS = 0.25
MOST_STEPS_BETWEEN_NORMS = 16
# In the steps between, a glance at one small gradient, which a NaN reaches on its way back, may take this
# share of what norms may take.
SHARE_OF_GLANCES = 0.5
# A part of the budget is reserved for what our clocks do not see: the framework's dispatch to its hooks, the
# cache lines that we evict, the writer's thread holding the interpreter lock. Measured from outside, it is
# about a fifth.
SHARE_OF_UNSEEN = 0.25
# Estimates follow the last 1 / SMOOTHING observations.
SMOOTHING = 0.1


@dataclass(slots=True)
class Estimate:
    """A running mean that starts at its first observation."""

    value: float = 0.0
    seen: int = 0

    def observe(self, value: float) -> None:
        self.seen += 1
        weight = 1.0 / self.seen if self.seen * SMOOTHING < 1.0 else SMOOTHING
        self.value += weight * (value - self.value)


class Governor:
    """Decides after each step whether the next one is sampled.

    With a period, every so many steps. Otherwise each step earns `overhead` of its own time, what we spend is
    deducted, and a sample is taken when the savings cover it. So the mean cost stays within the budget by
    construction, whatever the costs turn out to be. The costs of our other threads count as well.
    """

    def __init__(self, *, period: int | None, overhead: float) -> None:
        self._period = period
        self._overhead = overhead * (1.0 - SHARE_OF_UNSEEN)
        self._savings_secs = 0.0
        self._sample_secs = Estimate()
        self._last_samples: deque[float] = deque(maxlen=SAMPLES_COMPARED)
        self._undisturbed_secs = 0.0
        self._plain_secs = Estimate()
        self._user_secs = Estimate()
        self._norm_secs = Estimate()
        self._glance_secs = Estimate()
        self._norm_share_secs = 0.0  # what norms may take of each step
        self._steps_per_norm = 1
        self._steps = 0
        self._dense_until = FIRST_STEPS
        self._last_sampled = 0
        self._next_alert = 0
        self.spent_secs = 0.0
        self.training_secs = 0.0

    def first(self) -> bool:
        """Return whether step 0 is sampled."""
        return True

    def next(self, *, sampled: bool, user_secs: float, spent_secs: float, agreed: bool | None = None) -> bool:
        """Return whether the next step is sampled; `user_secs` is this step's time without ours.

        `agreed` is what all processes of the run have agreed on for that step; None without other processes.
        """
        self._steps += 1
        self._observe(sampled=sampled, user_secs=user_secs, spent_secs=spent_secs)
        if self._period is not None:
            return self._steps % self._period == 0
        if agreed is not None:
            is_wanted = agreed or self._steps < self._dense_until
        else:
            is_wanted = self._is_due() or self._savings_secs >= self._price
        if is_wanted:
            self._last_sampled = self._steps
        return is_wanted

    def wanted(self, first: int = 0) -> tuple[int, bool]:
        """Return the next step that would be sampled, and whether it will be in any case.

        This is a forecast, which the process proposes to the others. `first` is the number of the first step
        of all. Callable from any thread.
        """
        steps = self._steps
        if self._period is not None:
            return first + -(-steps // self._period) * self._period, True
        if steps < self._dense_until:
            return first + steps, True
        # Forecast how many steps earn what is still owed.
        owed = self._price - self._savings_secs
        earned = self._overhead * self._user_secs.value
        saved = max(earned - self._plain_secs.value, SHARE_OF_SAMPLES * earned)
        ahead = math.ceil(owed / saved) if owed > 0 and saved > 0 else 1
        if self._is_cheap:
            ahead = min(ahead, math.ceil(self._last_sampled * (1.0 + GROWTH_BETWEEN_SAMPLES)) - steps)
        return first + steps + max(ahead, 1), False

    def norm_is_due(self) -> bool:
        """Return whether the next step gets its gradient norm, sampled or not."""
        return self._steps % self._steps_per_norm == 0

    def norm_cost(self, secs: float) -> None:
        """Take the cost of the gradient norm of an ordinary step."""
        self._norm_secs.observe(secs)
        if self._period is None:
            share = self._norm_share_secs = SHARE_OF_NORMS * self._overhead * self._user_secs.value
            # Glances are paid from the same share.
            if self._steps_per_norm > 1 and self.glance_is_due():
                share -= self._glance_secs.value
            wanted = math.ceil(self._norm_secs.value / share) if share > 0 else 1
            self._steps_per_norm = min(wanted, MOST_STEPS_BETWEEN_NORMS)

    def glance_is_due(self) -> bool:
        """Return whether a step without its norm gets a glance at one gradient.

        Norms become rarer for it, so that all of them together cost as much as norms alone. There is no
        glance where norms are as rare as they may be already.
        """
        share, glance = self._norm_share_secs, self._glance_secs.value
        is_paid = share > 0 and self._norm_secs.value <= (share - glance) * MOST_STEPS_BETWEEN_NORMS
        return is_paid and glance <= SHARE_OF_GLANCES * share

    def glance_cost(self, secs: float) -> None:
        """Take the cost of a glance at one gradient."""
        self._glance_secs.observe(secs)

    def alert(self) -> bool:
        """Sample the next steps because something happened; return False if that was reported recently."""
        if self._steps < self._next_alert:
            return False
        self._next_alert = self._steps + STEPS_BETWEEN_ALERTS
        self._dense_until = max(self._dense_until, self._steps + STEPS_AROUND_TROUBLE)
        return True

    @property
    def share(self) -> float:
        """The share of the run's own time that monitoring has cost so far."""
        return self.spent_secs / self.training_secs if self.training_secs > 0 else 0.0

    @property
    def _price(self) -> float:
        """The cost of a sample beyond that of an ordinary step."""
        return max(self._sample_secs.value - self._plain_secs.value, 0.0)

    @property
    def _is_cheap(self) -> bool:
        """Whether nobody would notice one more sample."""
        return self._undisturbed_secs <= max(self._user_secs.value, UNNOTICED_SECS)

    def _is_due(self) -> bool:
        """Return whether the next step is sampled regardless of the savings."""
        if self._steps < self._dense_until:
            return True
        return self._is_cheap and self._steps > self._last_sampled * (1.0 + GROWTH_BETWEEN_SAMPLES)

    def _observe(self, *, sampled: bool, user_secs: float, spent_secs: float) -> None:
        self.spent_secs += spent_secs
        self.training_secs += user_secs
        if self._steps == 1:
            return  # the first step pays for imports, allocations and autotuning, ours and the framework's
        # A step that waited (for data, for a debugger) counts as no more than two ordinary ones, both in what
        # it earns and as an estimate of how long steps take: norms would otherwise seem cheap for many steps
        # afterwards.
        counted = min(user_secs, 2.0 * self._user_secs.value) if self._user_secs.seen else user_secs
        self._user_secs.observe(counted)
        if sampled:
            # On a busy machine most samples are slow because others had the processors: use the fastest of
            # the last.
            self._last_samples.append(spent_secs)
            self._undisturbed_secs = min(self._last_samples)
        (self._sample_secs if sampled else self._plain_secs).observe(spent_secs)
        earned = self._overhead * counted
        # Only the ordinary part of the cost is limited by SHARE_OF_SAMPLES; what a sample adds is deducted in
        # full.
        ordinary = min(spent_secs, self._plain_secs.value) if sampled else spent_secs
        saved = max(earned - ordinary, SHARE_OF_SAMPLES * earned) - (spent_secs - ordinary)
        sample = self._sample_secs.value
        saved = min(self._savings_secs + saved, MOST_SAVED_SAMPLES * sample)
        self._savings_secs = max(saved, -MOST_OWED_SAMPLES * sample)
