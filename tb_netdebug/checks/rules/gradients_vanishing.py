"""The rule for gradients that fade on their way back, so that the first layers do not learn."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tb_netdebug.checks.evidence.parameters import Integers, ParameterTable, parameters_of
from tb_netdebug.checks.evidence.progress import learns, progress_of
from tb_netdebug.checks.finding import Evidence, Severity, Sign
from tb_netdebug.checks.history import History
from tb_netdebug.checks.rule import Rule, When
from tb_netdebug.checks.tensors import Doubles
from tb_netdebug.checks.wording.idioms import Idiom
from tb_netdebug.checks.wording.phrases import number, percent
from tb_netdebug.core.records.step import Kind

# A ratio below this is reported as nothing: nobody can picture the number.
FADED = 1e-14


@dataclass(frozen=True, slots=True)
class VanishingLimits:
    ratio: float = 1e-4  # gradient of the first layers relative to the last; 0.01 is usual in deep ones
    update: float = 1e-5  # change of the first layers in one step, relative to their size; 1e-3 is usual
    tiny: float = 1e-6  # a ratio below this is too small even where Adam brings updates to their usual size
    looks: float = 6  # in a row
    steps: float = 16  # nothing is reported before
    patience: float = 30  # nor before this step, if updates have their usual size
    fallen: float = 0.1  # share of the first loss that is gone: a network beyond it learns
    layers: float = 4  # fewer layers are not deep enough for gradients to vanish


class VanishingGradients(Rule):
    """The gradient shrinks from layer to layer; the first layers get next to nothing and do not move."""

    slug = "vanishing-gradients"
    when = When.SAMPLES
    needs = ("gradients",)
    limits = VanishingLimits()

    def __init__(self) -> None:
        self._looks: dict[int, int] = {}
        self._since: dict[int, int] = {}

    def update(self, history: History) -> Sign | None:
        if history.gradients.now is None:
            return None
        if learns(history, self.limits.fallen):
            self._looks.clear()
            return None
        known = parameters_of(history)
        rms = known.column(history, Kind.GRADIENT, "rms")
        for model, chain in enumerate(known.chains):
            if len(known.layers[model]) < self.limits.layers:
                continue
            sign = self._judge(history, known, rms, model, chain)
            if sign is not None:
                return sign
        return None

    def _judge(
        self, history: History, known: ParameterTable, rms: Doubles, model: int, chain: Integers
    ) -> Sign | None:
        there = chain[~np.isnan(rms[chain])]
        layers = there[known.matrix[there] & known.trainable[there]]
        if len(layers) < self.limits.layers:
            return None
        first, last, ratio = ends(rms, there, layers)
        moved = update_ratio(history, known, first)
        is_still = moved < self.limits.update
        if not ratio < (self.limits.ratio if is_still else self.limits.tiny):
            self._looks[model] = 0
            return None
        if not self._looks.get(model):
            self._since[model] = history.step
        self._looks[model] = self._looks.get(model, 0) + 1
        if self._looks[model] < self.limits.looks or not self._is_stuck(history, is_still):
            return None
        low = layers[rms[layers] < rms[last] * self.limits.ratio]
        return self._sign(known, first, last, low, ratio, moved, self._since[model])

    def _is_stuck(self, history: History, is_still: bool) -> bool:
        progress = progress_of(history)
        if history.step < (self.limits.steps if is_still else self.limits.patience):
            return False
        return progress is None or progress.fallen < self.limits.fallen

    def _sign(
        self,
        known: ParameterTable,
        first: int,
        last: int,
        low: Integers,
        ratio: float,
        moved: float,
        since: int,
    ) -> Sign:
        change = f" In a step they change by {percent(moved)} of their size." if moved > 0 else ""
        far = f"is {number(1 / ratio, 2)} times smaller than" if ratio > FADED else "has vanished beside"
        return Sign(
            Severity.WARNING,
            f"The gradient of {known.names[first]}, one of the first layers, {far} that of "
            f"{known.names[last]} (limit: {number(1 / self.limits.ratio)} times): it fades on its way back "
            f"through the layers.{change} The loss does not fall.",
            "Use ReLU, LeakyReLU or GELU instead of sigmoid or tanh between the layers; add a "
            "normalisation (BatchNorm, LayerNorm) and shortcuts (x + layer(x)); start the weights with "
            f"{Idiom.HE_START}; or use fewer layers.",
            {
                "gradient of the first against the last layers": Evidence(ratio, self.limits.ratio),
                "change in a step against the size of the weights": Evidence(moved, self.limits.update),
            },
            tuple(known.names[place] for place in low),
            since=since,
            sureness=0.9,
        )


def ends(rms: Doubles, there: Integers, layers: Integers) -> tuple[int, int, float]:
    """Return the strongest of the first layers, the strongest of the last with their biases, and their ratio.

    The ratio is that of their gradients. A gradient of 0 counts when its neighbour's is tiny: it has faded
    below what floats hold.
    """
    few = max(1, len(layers) // 4)
    head = layers[:few]
    tail = there[np.flatnonzero(there == layers[-few])[0] :]
    first, last = int(head[rms[head].argmax()]), int(tail[rms[tail].argmax()])
    if rms[last] <= 0:
        return first, last, np.nan
    if rms[first] == 0:
        alive = rms[layers][rms[layers] > 0]
        faded = len(alive) > 0 and alive[0] < rms[last] * 1e-8
        return first, last, 0.0 if faded else np.nan
    return first, last, float(rms[first] / rms[last])


def update_ratio(history: History, known: ParameterTable, place: int) -> float:
    """Return update relative to weight.

    It is 0 if updates are not recorded: then gradients and loss decide.
    """
    update = known.column(history, Kind.UPDATE, "rms")[place]
    weight = known.column(history, Kind.WEIGHT, "rms")[place]
    if np.isnan(update) or not weight > 0:
        return 0.0
    return float(update / weight)
