"""The rule for tanh and sigmoid units that are at the flat ends of their curve, where gradients vanish."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from tb_netdebug.checks.evidence.activation_layers import EDGES, activation_layers, active_in
from tb_netdebug.checks.evidence.loss_course import course
from tb_netdebug.checks.finding import Evidence, Severity, Sign
from tb_netdebug.checks.history import History
from tb_netdebug.checks.rule import Rule, When
from tb_netdebug.checks.tensors import Doubles, Numbers
from tb_netdebug.checks.wording.idioms import Idiom
from tb_netdebug.checks.wording.phrases import counted, named, percent
from tb_netdebug.core.stats.sketch import LOWER, UPPER


@dataclass(frozen=True, slots=True)
class SaturatedLimits:
    slope: float = (
        0.15  # of the steepest slope, on average: about what is left with half of the outputs at the ends
    )
    share: float = 0.5  # of the units, each of them at the ends for every input; published: the same
    error_slope: float = 0.02
    looks: int = 4  # samples in a row, if it was so from the first one: it was built like that
    late_looks: int = 12  # samples in a row, if it came later
    least_values: int = 64  # in a sample
    learned: float = 0.6  # a loss below this share of its start learns nevertheless: sure of its answers


class SaturatedUnits(Rule):
    """Hidden tanh or sigmoid units that stay where their slope is nearly 0."""

    slug = "saturated-units"
    when = When.SAMPLES
    needs = ("activations",)
    limits = SaturatedLimits()

    def __init__(self) -> None:
        self._looked: dict[str, int] = {}
        self._began: dict[str, tuple[int, int]] = {}  # the sample and the step at which the layer saturated

    def update(self, history: History) -> Iterable[Sign] | None:
        seen, layers = history.activations, activation_layers(history)
        if seen.now is None or not layers.squashes.any():
            return None
        finite = seen.now.count - seen.now.nonfinite
        watched = layers.squashes & layers.is_hidden & (finite >= self.limits.least_values)
        slopes = self._slopes(history, seen.now, layers.classes, watched)
        signs = []
        for place in np.flatnonzero(watched):
            sign = self._judge(history, seen.names[place], layers.classes[place], float(slopes[place]))
            signs += [sign] if sign else []
        return signs

    @staticmethod
    def _slopes(history: History, now: Numbers, classes: list[str], watched: np.ndarray) -> Doubles:
        """Return the mean slope of each layer as a share of the steepest.

        It follows from the moments of the outputs: 1 - y² for tanh, 4 y (1 - y) for sigmoid. Curves with
        corners need the bins of the histogram.
        """
        slopes: Doubles = 1.0 - now.rms**2
        for place in np.flatnonzero(watched):
            if classes[place] == "Sigmoid":
                slopes[place] = 4.0 * (now.mean[place] - now.rms[place] ** 2)
            elif classes[place].startswith("Hard"):
                slopes[place] = 1.0 - _share_at_ends(
                    history, history.activations.names[place], classes[place]
                )
        return slopes

    def _judge(self, history: History, name: str, class_name: str, slope: float) -> Sign | None:
        limits = self.limits
        look = self._looked[name] = self._looked.get(name, 0) + 1
        # With that share of units at their ends, the mean slope is at most the rest. So the bits of the
        # units, which take longer to read, are read only then.
        share = self._share_of_units(history, name) if slope < 1.0 - limits.share else 0.0
        if slope >= limits.slope and share <= limits.share:
            self._began.pop(name, None)
            return None
        began, since = self._began.setdefault(name, (look, history.step))
        if look - began + 1 < (limits.looks if began == 1 else limits.late_looks):
            return None
        seen = course(history)
        learns = len(seen.values) > 8 and float(seen.values[-8:].mean()) < limits.learned * seen.start
        is_error = began == 1 and slope < limits.error_slope
        severity = Severity.INFO if learns else Severity.ERROR if is_error else Severity.WARNING
        return self._sign(name, slope, share, look - began + 1, severity, since)

    def _share_of_units(self, history: History, name: str) -> float:
        """Return the share of units that were at the ends for every input of the last samples."""
        units = history.activations.units(name)[-self.limits.late_looks :]
        if len(units) < self.limits.late_looks or not units[-1].count:
            return 0.0
        return 1.0 - active_in(units) / units[-1].count

    def _sign(
        self, name: str, slope: float, share: float, looks: int, severity: Severity, since: int
    ) -> Sign:
        limits = self.limits
        evidence = {"mean slope": Evidence(slope, limits.slope), "sampled steps": Evidence(float(looks))}
        units = ""
        if share > limits.share:
            evidence["share of units at the ends for every input"] = Evidence(share, limits.share)
            units = f", and {percent(share)} of its units are there for every input"
        return Sign(
            severity,
            f"The outputs of {named(name)} are at the flat ends of its curve, in "
            f"{counted(looks, 'sampled step')} in a row{units}: the slope there is "
            f"{percent(max(slope, 0.0))} of the steepest on average (less than {percent(limits.slope)} is "
            "too little). Gradients shrink by that, and the layers before it hardly learn.",
            "Make its inputs smaller: scale the inputs of the network to mean 0 and spread 1, use the "
            f"default initialisation (or {Idiom.GLOROT_START_OF_LAYER}), put {Idiom.LAYER_NORM} before it, "
            f"lower the learning rate, or use {Idiom.RELU} in its place.",
            evidence,
            where=(name,),
            since=since,
            sureness=0.85,
        )


def _share_at_ends(history: History, name: str, class_name: str) -> float:
    summary = history.activations.summary(name)
    if summary is None or not summary.count:
        return 0.0
    low, high = EDGES[class_name]
    is_end = (LOWER[summary.bins] >= high) | (UPPER[summary.bins] <= low)
    return float(summary.counts[is_end].sum()) / summary.count
