"""The rule for activations that grow or shrink by orders of magnitude from layer to layer."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tb_netdebug.checks.evidence.activation_layers import activation_layers
from tb_netdebug.checks.evidence.loss_course import course
from tb_netdebug.checks.finding import Evidence, Severity, Sign
from tb_netdebug.checks.history import History
from tb_netdebug.checks.rule import Rule, When
from tb_netdebug.checks.wording.idioms import Idiom
from tb_netdebug.checks.wording.phrases import named, number


@dataclass(frozen=True, slots=True)
class ActivationScaleLimits:
    growth: float = 1e3  # from the first hidden layer to the last ones; ordinary networks stay within 100
    shrinking: float = 1e-4  # the other way round; ordinary deep ones without normalisation reach 1e-2
    least_layers: int = 5  # hidden linear maps; fewer do not make a trend
    trend: float = 0.8  # correlation of depth and the logarithm of the size
    looks: int = 3  # samples in a row
    learned: float = 0.7  # a loss below this share of its start means that the network copes


class ActivationScale(Rule):
    """The typical size of the outputs of linear maps, compared from the first hidden ones to the last."""

    slug = "activation-scale"
    when = When.SAMPLES
    needs = ("activations",)
    limits = ActivationScaleLimits()

    def update(self, history: History) -> Sign | None:
        seen, limits = history.activations, self.limits
        if seen.now is None or seen.looks < limits.looks:
            return None
        layers = activation_layers(history)
        is_counted = layers.maps & layers.is_hidden & (seen.now.rms > 0)
        if is_counted.sum() < limits.least_layers:
            return None
        rms = seen.past("rms", limits.looks)
        for root in dict.fromkeys(layers.roots):
            places = np.flatnonzero(is_counted & np.array([each == root for each in layers.roots]))
            places = places[np.argsort(layers.order[places], kind="stable")]
            if len(places) >= limits.least_layers:
                sign = self._judge(history, places, rms[:, places])
                if sign:
                    return sign
        return None

    def _judge(self, history: History, places: np.ndarray, rms: np.ndarray) -> Sign | None:
        """Return the sign if sizes change all along the depth.

        A single layer does not count: it may be a branch that begins at zero, or be scaled on purpose.
        """
        # Both ratios are the most cautious ones: between the extremes at both ends, over all samples.
        few, limits = max(len(places) // 6, 1), self.limits
        with np.errstate(all="ignore"):
            grown = float(np.nanmin(rms[:, -few:].min(axis=1) / rms[:, :few].max(axis=1)))
            shrunk = float(np.nanmax(rms[:, -few:].max(axis=1) / rms[:, :few].min(axis=1)))
            trend = float(np.corrcoef(np.arange(len(places)), np.log(rms[-1]))[0, 1])
        # Written so that a trend of NaN, as of sizes that are all equal, counts as none.
        if not (grown > limits.growth or 0 < shrunk < limits.shrinking) or not abs(trend) > limits.trend:
            return None
        seen = course(history)
        learns = len(seen.values) > 8 and float(seen.values[-8:].mean()) < limits.learned * seen.start
        names = [history.activations.names[place] for place in places]
        is_growth = grown > limits.growth
        return self._sign(
            [names[0], names[-1]], grown if is_growth else shrunk, rms[-1], is_growth, not learns
        )

    def _sign(self, names: list[str], ratio: float, rms: np.ndarray, is_growth: bool, hurts: bool) -> Sign:
        verb, limit = ("grow", self.limits.growth) if is_growth else ("shrink", self.limits.shrinking)
        what = "as large" if is_growth else "smaller"
        times, most = (ratio, limit) if is_growth else (1 / ratio, 1 / limit)
        return Sign(
            Severity.WARNING if hurts else Severity.INFO,
            f"The outputs of the layers {verb} from layer to layer: their typical size is {number(rms[0])} "
            f"in {named(names[0])} and {number(rms[-1])} in {named(names[-1])}, {number(times, 2)} times "
            f"{what} (more than {number(most)} times is too much). Gradients do the same on their way back.",
            f"Use an initialisation that keeps the size, such as {Idiom.HE_START_OF_LAYER}, or put a "
            f"normalisation ({Idiom.LAYER_NORM}, {Idiom.BATCH_NORM}) behind each layer.",
            {
                "size in the last hidden layers beside the first": Evidence(ratio, limit),
                f"typical size in {names[0]}": Evidence(float(rms[0])),
                f"typical size in {names[-1]}": Evidence(float(rms[-1])),
            },
            where=tuple(names),
            sureness=0.85,
        )
