"""The rule for a network that gives the same output whatever its input."""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass

import numpy as np

from tb_netdebug.checks.evidence.activation_layers import activation_layers
from tb_netdebug.checks.evidence.loss_course import course
from tb_netdebug.checks.finding import Evidence, Severity, Sign
from tb_netdebug.checks.history import History
from tb_netdebug.checks.rule import Rule, When
from tb_netdebug.checks.wording.phrases import number, percent
from tb_netdebug.core.records.facts import LossCallFact
from tb_netdebug.core.records.scalar_names import of_loss


@dataclass(frozen=True, slots=True)
class OutputLimits:
    looks: int = 6  # samples in a row with the same answer for each input
    # the first steps: an untrained deep network gives nearly the same output for all inputs
    ignored: int = 16
    spread: float = 1e-5  # standard deviation relative to the size, for a single output: rounding stays below
    narrow: float = 1e-3  # standard deviation relative to that of the targets, where these are known
    learned: float = 0.9  # a loss below this share of a constant answer's loss is not that of a constant
    least_rows: int = 4  # in a batch
    collapsed: float = 1e-3  # share of the targets' own spread that is left, where the network makes them


class ConstantOutput(Rule):
    """The outputs of the last layer are the same for all inputs of a batch, batch after batch."""

    slug = "constant-output"
    when = When.SAMPLES
    needs = ("activations",)
    limits = OutputLimits()

    def __init__(self) -> None:
        self._same: dict[str, deque[int]] = {}

    def update(self, history: History) -> Sign | None:
        seen, limits = history.activations, self.limits
        if seen.now is None:
            return None
        collapsed = self._collapsed(history)
        if collapsed is not None:
            return collapsed
        for place in np.flatnonzero(activation_layers(history).is_output & np.isfinite(seen.now.mean)):
            name = seen.names[place]
            how = self._constant(history, int(place))
            if how is None:
                self._same.pop(name, None)
                continue
            steps = self._same.setdefault(name, deque(maxlen=limits.looks))
            steps.append(history.step)
            if len(steps) == limits.looks and history.step >= limits.ignored and self._matters(history):
                return self._sign(name, how, steps[0])
        return None

    def _constant(self, history: History, place: int) -> str | None:
        """Return in words how constant the output is; None if it is not, or if that is not known."""
        seen, limits = history.activations, self.limits
        now, name = seen.now, seen.names[place]
        assert now is not None
        units = seen.units(name)
        count = units[-1].count if units else 1
        rows = now.count[place] / count
        if rows < limits.least_rows:
            return None
        size = max(abs(float(now.min[place])), abs(float(now.max[place])))
        if count == 1:
            narrow = self._beside_targets(history)
            if narrow is not None and narrow < limits.narrow:
                return (
                    f"the outputs of layer {name} vary by {percent(narrow)} of the spread of the targets "
                    f"(less than {percent(limits.narrow)} is too little)"
                )
            if now.std[place] <= limits.spread * size:
                return (
                    f"the outputs of layer {name} vary by {number(now.std[place], 1)} only, around "
                    f"{number(now.mean[place], 4)}"
                )
            return None
        if now.std[place] <= limits.spread * size:
            return f"all outputs of layer {name} are {number(now.mean[place], 4)}"
        summary = seen.summary(name)
        # A unit that does not depend on the row fills one bin, with one value for each row.
        if summary is None or len(summary.bins) > count or (summary.counts % int(rows)).any():
            return None
        return (
            f"each of the {count} outputs of layer {name} is the same for all {int(rows)} rows of a batch "
            "(to within 6 %)"
        )

    @staticmethod
    def _beside_targets(history: History) -> float | None:
        calls = history.known_facts(LossCallFact)
        if len(calls) != 1:
            return None
        key = next(iter(calls))
        given, wanted = (history.value(of_loss(key, f"{name}_std")) for name in ("input", "target"))
        # A loss for classes: class numbers have no spread to compare outputs with.
        if given is None or wanted is None or history.value(of_loss(key, "uniform")) is not None:
            return None
        return given / wanted if wanted > 0 else None

    def _collapsed(self, history: History) -> Sign | None:
        """Return the sign if the network makes the targets itself and makes the same ones of every input.

        It shows in the loss of a constant answer, which becomes tiny beside what it once was.
        """
        limits = self.limits
        for key, call in history.known_facts(LossCallFact).items():
            baseline = history.curve(of_loss(key, "baseline"))
            if not call.target_learns or baseline is None or history.step < limits.ignored:
                continue
            newest = baseline.tail(limits.looks)
            if len(newest) < limits.looks or not 0 < baseline.highest < math.inf:
                continue
            left = float(newest.max()) / baseline.highest
            if left <= limits.collapsed:
                return self._one_point(call.site, left, baseline.steps[-limits.looks])
        return None

    def _matters(self, history: History) -> bool:
        """Return whether the loss is no better than that of a constant answer.

        If that is not known, the loss is compared with its start.
        """
        return course(history).left > self.limits.learned

    def _one_point(self, site: str, left: float, since: int) -> Sign:
        limits = self.limits
        return Sign(
            Severity.WARNING,
            "The network makes both outputs and targets of the loss, and makes the same of every input: in "
            f"{limits.looks} batches in a row, {percent(left)} of the variance of the targets is left (up "
            f"to {percent(limits.collapsed)} counts as none). The loss is small, but nothing is learned.",
            "Add a term to the loss that keeps outputs apart: negative pairs (a contrastive loss), or a "
            "least spread of the outputs (VICReg). Or stop the gradient on one side, `.detach()`, and put "
            "a small network, the predictor, behind the other (SimSiam, BYOL).",
            {"share of the targets' spread that is left": Evidence(left, limits.collapsed)},
            where=(site,) if site else (),
            since=since,
            sureness=0.85,
        )

    def _sign(self, name: str, how: str, since: int) -> Sign:
        return Sign(
            Severity.WARNING,
            f"The network gives the same answer to every input: {how}, in {self.limits.looks} sampled "
            f"steps in a row ({self.limits.looks} are enough), and the loss is no better than that of a "
            "constant answer.",
            "Look for the first layer whose output does not depend on the input: dead or saturated units, "
            "an input that is constant or far too small or large, a learning rate so high that it ruined "
            "the weights (try 10 times less), weights that all began with the same value.",
            {"sampled steps with the same answers": Evidence(float(self.limits.looks), self.limits.looks)},
            where=(name,),
            since=since,
            sureness=0.85,
        )
