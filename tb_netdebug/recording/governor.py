"""How often to look: as often as the budget allows, and always when something happens."""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass

# The first steps show most mistakes (initialisation, loss at start), so they are all sampled, on credit that
# the steps after them pay back.
FIRST_STEPS = 8
# Then one is sampled, paid for or not, at the latest when a training is by this share longer than at the
# last one: a short training of a small network is over before its budget could pay for any. In a long one
# that adds up to nothing: 30 samples in the first 1000 steps, 30 more until the millionth. Where a sample
# takes longer than a step, and than anybody would notice, it has to be paid for.
GROWTH_BETWEEN_SAMPLES = 0.25
UNNOTICED_SECS = 0.02
SAMPLES_COMPARED = 9
# After trouble so many steps are sampled in a row, and then for so long trouble is not news any more.
STEPS_AROUND_TROUBLE = 16
STEPS_BETWEEN_ALERTS = 1000
# Savings beyond this many samples are forfeited: a long pause must not buy a burst later. Nor may a debt keep
# us from looking for ever, when the samples that made it were unusually slow.
MOST_SAVED_SAMPLES = 2.0
MOST_OWED_SAMPLES = 2.0 * STEPS_AROUND_TROUBLE
# Of what a step earns, this share goes to samples even where ordinary steps alone cost more than the budget:
# very short steps would otherwise never be looked at.
SHARE_OF_SAMPLES = 0.1
# The gradient norm of ordinary steps may take this share of the budget. It is there in every step unless a
# step is so short that reading all gradients is dear: then in every second, third … at least every 16th.
SHARE_OF_NORMS = 0.25
MOST_STEPS_BETWEEN_NORMS = 16
# In the steps between, a look at one small gradient, which NaN on its way back gets into, may take this share
# of what norms may.
SHARE_OF_GLANCES = 0.5
# A part of the budget is kept for what no clock of ours sees: the framework's way through its hooks, what we
# push out of the caches, the writer's thread holding the interpreter. Measured from outside, it is about a
# fifth.
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
        self.value += max(SMOOTHING, 1.0 / self.seen) * (value - self.value)


class Governor:
    """Decides after each step whether the next one is sampled.

    With a period: every so many steps. Else each step earns `overhead` of its own time, what we spend is
    deducted, and a sample is taken when the savings cover it: so the mean cost stays within the budget by
    construction, whatever the costs turn out to be. Costs of other threads of ours count as well.
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
        """Whether step 0 is sampled."""
        return True

    def next(self, *, sampled: bool, user_secs: float, spent_secs: float, agreed: bool | None = None) -> bool:
        """Whether the step after this one is sampled; `user_secs` is this step's time without ours.

        `agreed` is what all processes of the training have agreed on for that step, None without others.
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
        """The next step that would be sampled, as far as can be told now, and whether it will be in any case:
        what this process proposes to others. The first step of all has this number. From any thread."""
        steps = self._steps
        if self._period is not None:
            return first + -(-steps // self._period) * self._period, True
        if steps < self._dense_until:
            return first + steps, True
        owed = self._price - self._savings_secs
        earned = self._overhead * self._user_secs.value
        saved = max(earned - self._plain_secs.value, SHARE_OF_SAMPLES * earned)
        ahead = math.ceil(owed / saved) if owed > 0 and saved > 0 else 1
        if self._is_cheap:
            ahead = min(ahead, math.ceil(self._last_sampled * (1.0 + GROWTH_BETWEEN_SAMPLES)) - steps)
        return first + steps + max(ahead, 1), False

    def norm_is_due(self) -> bool:
        """Whether the step after this one gets its gradient norm, sampled or not."""
        return self._steps % self._steps_per_norm == 0

    def norm_cost(self, secs: float) -> None:
        """What the gradient norm of an ordinary step took."""
        self._norm_secs.observe(secs)
        if self._period is None:
            share = self._norm_share_secs = SHARE_OF_NORMS * self._overhead * self._user_secs.value
            if self._steps_per_norm > 1 and self.glance_is_due():
                share -= self._glance_secs.value
            wanted = math.ceil(self._norm_secs.value / share) if share > 0 else 1
            self._steps_per_norm = min(wanted, MOST_STEPS_BETWEEN_NORMS)

    def glance_is_due(self) -> bool:
        """Whether a step without its norm gets a look at one gradient: norms are rarer for it, so all of them
        together cost as much as norms alone. Not where they are as rare as can be already."""
        share, glance = self._norm_share_secs, self._glance_secs.value
        is_paid = share > 0 and self._norm_secs.value <= (share - glance) * MOST_STEPS_BETWEEN_NORMS
        return is_paid and glance <= SHARE_OF_GLANCES * share

    def glance_cost(self, secs: float) -> None:
        """What the look at one gradient took."""
        self._glance_secs.observe(secs)

    def alert(self) -> bool:
        """Something happened: sample the next steps. False when that was said not long ago."""
        if self._steps < self._next_alert:
            return False
        self._next_alert = self._steps + STEPS_BETWEEN_ALERTS
        self._dense_until = max(self._dense_until, self._steps + STEPS_AROUND_TROUBLE)
        return True

    @property
    def share(self) -> float:
        """What we have cost so far, as a share of the training's own time."""
        return self.spent_secs / self.training_secs if self.training_secs > 0 else 0.0

    @property
    def _price(self) -> float:
        """What a sample costs more than an ordinary step."""
        return max(self._sample_secs.value - self._plain_secs.value, 0.0)

    @property
    def _is_cheap(self) -> bool:
        """Nobody would notice a sample more."""
        return self._undisturbed_secs <= max(self._user_secs.value, UNNOTICED_SECS)

    def _is_due(self) -> bool:
        """Whether or not the savings cover it."""
        if self._steps < self._dense_until:
            return True
        return self._is_cheap and self._steps > self._last_sampled * (1.0 + GROWTH_BETWEEN_SAMPLES)

    def _observe(self, *, sampled: bool, user_secs: float, spent_secs: float) -> None:
        self.spent_secs += spent_secs
        self.training_secs += user_secs
        if self._steps == 1:
            return  # the first step pays for imports, allocations and autotuning, ours and the framework's
        # A step that waited (for data, for a debugger) earns no more than two ordinary ones before it, and
        # says no more about how long steps take: else norms would seem cheap for many steps afterwards.
        counted = min(user_secs, 2.0 * self._user_secs.value) if self._user_secs.seen else user_secs
        self._user_secs.observe(counted)
        if sampled:  # on a busy machine most of them take long because others had the processors
            self._last_samples.append(spent_secs)
            self._undisturbed_secs = min(self._last_samples)
        (self._sample_secs if sampled else self._plain_secs).observe(spent_secs)
        earned = self._overhead * counted
        ordinary = min(spent_secs, self._plain_secs.value) if sampled else spent_secs
        saved = max(earned - ordinary, SHARE_OF_SAMPLES * earned) - (spent_secs - ordinary)
        sample = self._sample_secs.value
        saved = min(self._savings_secs + saved, MOST_SAVED_SAMPLES * sample)
        self._savings_secs = max(saved, -MOST_OWED_SAMPLES * sample)
