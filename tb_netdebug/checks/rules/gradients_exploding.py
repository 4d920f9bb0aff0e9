"""The rule for gradients that grow without bound: from step to step, or from layer to layer."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from tb_netdebug.checks.evidence.loss_curves import loss_of
from tb_netdebug.checks.evidence.parameters import Integers, ParameterTable, parameters_of
from tb_netdebug.checks.finding import Evidence, Severity, Sign
from tb_netdebug.checks.history import History
from tb_netdebug.checks.rule import Rule, When
from tb_netdebug.checks.tensors import Doubles
from tb_netdebug.checks.wording.idioms import Idiom
from tb_netdebug.checks.wording.phrases import number
from tb_netdebug.core.records.scalar_names import GRADIENT_NORM
from tb_netdebug.core.records.step import Kind

CLIP = (
    f"{Idiom.CLIP_THEM}. Lower the learning rate, scale inputs and targets to about -1 to 1, and start the "
    f"weights with {Idiom.HE_START} or, in a recurrent network, {Idiom.ORTHOGONAL_START}."
)


@dataclass(frozen=True, slots=True)
class ExplodingLimits:
    growth: float = 100.0  # of the norm, relative to its own past; single batches of healthy runs reach 30
    norm: float = 1000.0  # at the start, when such a step replaces the weights; 0.1 to 10 is usual
    replaced: float = 0.5  # update relative to the weight: nothing of the start is left
    worse: float = 3.0  # times: how much higher the loss has become
    depth: float = 1e4  # gradient of the first layers' biases relative to that of the last
    looks: float = 3  # in a row, for `depth`


class ExplodingGradients(Rule):
    """The norm of the gradients grows by orders of magnitude and takes the loss along."""

    slug = "exploding-gradients"
    when = When.SAMPLES
    needs = ("gradients",)
    limits = ExplodingLimits()

    def __init__(self) -> None:
        self._deep: dict[int, int] = {}
        self._replaced = -1

    def update(self, history: History) -> Sign | None:
        return self._grown(history) or self._jumped(history) or self._across(history)

    def _grown(self, history: History) -> Sign | None:
        """Compare the last four norms with the median of those before them."""
        curve = history.curve(GRADIENT_NORM)
        if curve is None or curve.count < 2:
            return None
        # A cheap test first: without such a range there is no such growth.
        if curve.highest < self.limits.growth * curve.lowest:
            return None
        norms = curve.tail(64)
        norms = norms[norms > 0]
        if len(norms) < 2:
            return None
        few = min(4, len(norms) // 2)
        before, now = float(np.median(norms[:-few])), float(np.median(norms[-few:]))
        if now < self.limits.growth * before or not self._is_worse(history):
            return None
        return self._sign(
            f"The norm (overall size) of the gradients has grown {number(now / before)}-fold, from "
            f"{number(before)} to {number(now)} (more than {number(self.limits.growth)}-fold is too much), "
            "and the loss has grown with it.",
            {"growth of the gradient norm": Evidence(now / before, self.limits.growth)},
            since=curve.steps[-few],
        )

    def _jumped(self, history: History) -> Sign | None:
        """Look for a norm so large that the first updates replace the weights."""
        norm = history.value(GRADIENT_NORM)
        known = parameters_of(history)
        if norm is not None and norm >= self.limits.norm and history.updates.now is not None:
            update = known.column(history, Kind.UPDATE, "rms")
            weight = known.column(history, Kind.WEIGHT, "rms")
            ratio = (update / np.where(weight > 0, weight, np.nan))[known.matrix]
            if np.isfinite(ratio).any() and np.nanmedian(ratio) >= self.limits.replaced:
                self._replaced = history.step if self._replaced < 0 else self._replaced
        if self._replaced < 0 or not self._is_worse(history):
            return None
        curve = history.curve(GRADIENT_NORM)
        highest = curve.highest if curve is not None else math.nan
        return self._sign(
            f"The norm (overall size) of the gradients was {number(highest)} (more than "
            f"{number(self.limits.norm)} is too much): a single step with them overwrote the weights, and "
            "the loss grew.",
            {"gradient norm": Evidence(highest, self.limits.norm)},
            since=self._replaced,
        )

    def _is_worse(self, history: History) -> bool:
        curve = loss_of(history)
        if curve is None or not curve.count:
            # Without a loss, only the gradients can tell.
            return True
        if curve.nonfinite:
            return True
        # Of a short run only the newer half, so that the first loss is not compared with itself.
        newest = float(np.mean(curve.tail(4)[-min(4, max(curve.count // 2, 1)) :]))
        return newest > 0 and newest >= self.limits.worse * max(abs(curve.first), 1e-12)

    def _across(self, history: History) -> Sign | None:
        """Compare layers by the gradients of their biases, which do not depend on the size of the inputs."""
        if history.gradients.now is None:
            return None
        known = parameters_of(history)
        rms = known.column(history, Kind.GRADIENT, "rms")
        for model, chain in enumerate(known.chains):
            sign = self._deepened(history, known, rms, model, chain)
            if sign is not None:
                return sign
        return None

    def _deepened(
        self, history: History, known: ParameterTable, rms: Doubles, model: int, chain: Integers
    ) -> Sign | None:
        biases = chain[(rms[chain] > 0) & ~known.matrix[chain] & ~known.table[chain]]
        if len(biases) < 4:
            return None
        few = max(1, len(biases) // 4)
        first, last = float(np.median(rms[biases[:few]])), float(rms[biases[-few:]].max())
        if not first >= self.limits.depth * last or not is_harmful(history, known):
            self._deep[model] = 0
            return None
        self._deep[model] = self._deep.get(model, 0) + 1
        if self._deep[model] < self.limits.looks:
            return None
        head, tail = known.names[biases[0]], known.names[biases[-1]]
        return self._sign(
            f"The gradient of {head} is {number(first / last, 2)} times that of {tail} (more than "
            f"{number(self.limits.depth)} times is too much): it grows on its way back through the layers.",
            {"gradient of the first against the last layers": Evidence(first / last, self.limits.depth)},
            where=tuple(known.names[place] for place in biases[:few]),
        )

    def _sign(
        self,
        message: str,
        evidence: dict[str, Evidence],
        *,
        since: int | None = None,
        where: tuple[str, ...] = (),
    ) -> Sign:
        return Sign(
            Severity.ERROR if not where else Severity.WARNING, message, CLIP, evidence, where, since, 0.9
        )


def is_harmful(history: History, known: ParameterTable) -> bool:
    """Return whether the gradients are typically at least as large as the weights."""
    gradient = known.column(history, Kind.GRADIENT, "rms")
    weight = known.column(history, Kind.WEIGHT, "rms")
    both = known.matrix & (gradient > 0) & (weight > 0)
    return bool(both.any()) and float(np.median(gradient[both] / weight[both])) >= 1.0
