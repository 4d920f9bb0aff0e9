"""Rules over the weights before the first step: all the same, or of a size that no signal survives."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tb_netdebug.checks.evidence.parameters import ParameterTable, parameters_of
from tb_netdebug.checks.finding import Evidence, Severity, Sign
from tb_netdebug.checks.history import History
from tb_netdebug.checks.rule import Rule, When
from tb_netdebug.checks.rules.gradients_vanishing import ends
from tb_netdebug.checks.tensors import Doubles, Flags
from tb_netdebug.checks.wording.idioms import Idiom
from tb_netdebug.checks.wording.phrases import counted, number
from tb_netdebug.core.records.step import Kind


class InitialWeights:
    """The weights before the first update: they are sampled after it, so it is subtracted."""

    def __init__(self, history: History, known: ParameterTable) -> None:
        look = {
            name: known.column(history, Kind.WEIGHT, name) for name in ("mean", "std", "min", "max", "rms")
        }
        move = {name: known.column(history, Kind.UPDATE, name) for name in look}
        move = {name: np.nan_to_num(values) for name, values in move.items()}
        self.mean: Doubles = look["mean"] - move["mean"]
        self.seen: Flags = ~np.isnan(self.mean)
        # If all were the same, their spread now is that of the update, and so are the extremes.
        span = move["max"] - move["min"]
        close = 1e-4 * np.abs(self.mean) + 1e-3 * span + 1e-12
        self.constant: Flags = (
            self.seen
            & (np.abs(look["min"] - move["min"] - self.mean) <= close)
            & (np.abs(look["max"] - move["max"] - self.mean) <= close)
            & (np.abs(look["std"] - move["std"]) <= close)
        )
        self.zero: Flags = self.constant & (np.abs(self.mean) <= close)
        self.rms: Doubles = look["rms"]


@dataclass(frozen=True, slots=True)
class InitConstantLimits:
    looks: float = 3  # samples in which weights that were zero at the start have stayed zero
    spread: float = 1e-6  # of a layer's bias gradients relative to their size: the units are all alike


class InitConstant(Rule):
    """All weights of a hidden layer start with the same value, so all its units stay the same for ever."""

    slug = "init-constant"
    when = When.SAMPLES
    needs = ("weights",)
    limits = InitConstantLimits()

    def __init__(self) -> None:
        self._start: InitialWeights | None = None
        self._names: tuple[str, ...] = ()
        self._step = 0
        self._looks = 0

    def update(self, history: History) -> Sign | None:
        if history.weights.now is None or self._looks > self.limits.looks:
            return None
        known = parameters_of(history)
        self._looks += 1
        if self._start is None:
            self._start, self._step = InitialWeights(history, known), history.step
            self._names = tuple(known.names)
        if self._names != tuple(known.names):
            return None  # the network has grown: its new layers did not start with the others
        return self._alike(history, known, self._start) or self._zeros(history, known, self._start)

    def _alike(self, history: History, known: ParameterTable, start: InitialWeights) -> Sign | None:
        hidden = known.matrix & known.trainable & ~known.last & start.seen
        constant = hidden & start.constant
        if not constant.any():
            return None
        places: list[int] = np.flatnonzero(constant).tolist()
        alike = [place for place in places if self._has_alike_units(history, known, place)]
        # Without biases: two consecutive layers that start so have nothing to distinguish their units.
        other = constant & ~start.zero
        all_alike = other.sum() >= 2 and not (hidden & ~other).any()
        if not alike and not all_alike:
            return None
        names = tuple(known.names[place] for place in (alike or places))
        value = float(start.mean[known.place[names[0]]])
        return self._sign(names, f"all weights of {names[0]} had the same value, {number(value)}", 0.97)

    def _has_alike_units(self, history: History, known: ParameterTable, place: int) -> bool:
        """Return whether the gradients of a layer's biases are equal: then all its units do the same."""
        weight = known.names[place]
        bias = known.place.get(f"{weight.rpartition('.')[0]}.bias" if "." in weight else "bias")
        if bias is None:
            return False
        low, high, rms = (
            float(known.column(history, Kind.GRADIENT, name)[bias]) for name in ("min", "max", "rms")
        )
        return rms > 0 and high - low <= self.limits.spread * rms

    def _zeros(self, history: History, known: ParameterTable, start: InitialWeights) -> Sign | None:
        """Judge layers that are all zero with gradients that are zero as well: nothing ever changes."""
        gradient = known.column(history, Kind.GRADIENT, "zero_share")
        weight = known.column(history, Kind.WEIGHT, "zero_share")
        seen = known.matrix & known.trainable & start.seen
        stuck = seen & start.zero & (gradient == 1) & (weight == 1)
        # One layer at zero hides those before it for a step; if most are, nothing can start.
        is_clear = stuck.sum() >= 0.5 * seen.sum() and not (seen & start.zero & ~stuck).any()
        if stuck.sum() < 2 or (self._looks < self.limits.looks and not is_clear):
            return None
        names = known.chosen(stuck)
        return self._sign(names, f"all weights of {names[0]} were 0 and still are", 0.95)

    def _sign(self, names: tuple[str, ...], what: str, sureness: float) -> Sign:
        return Sign(
            Severity.ERROR,
            f"At the start {what}: all its units do the same, get the same gradient and stay the same, as "
            f"if there were only one. {counted(len(names), 'layer is', 'layers are')} like that (0 should "
            "be).",
            f"Start weights with random values: leave {Idiom.FRAMEWORK}'s own, or {Idiom.HE_START_CALL}. "
            "Only biases, and the last layer of a branch that is added to something, may start at 0.",
            {"layers that start with one value": Evidence(float(len(names)), 0.0)},
            names,
            since=self._step,
            sureness=sureness,
        )


@dataclass(frozen=True, slots=True)
class InitScaleLimits:
    gain: float = 3.0  # spread of the weights times sqrt(fan_in): 0.6 is torch's default, 1 to 2 is usual
    least: float = 0.1  # the same at the lower end
    growth: float = 100.0  # times: the signal from the inputs to the last layer, or its inverse
    fading: float = 1e-5  # gradient of the first layer relative to the last one
    share: float = 0.5  # of the layers are out of these bounds


class InitScale(Rule):
    """The weights start so large that signals explode from layer to layer, or so small that they fade."""

    slug = "init-scale"
    when = When.SAMPLES
    needs = ("weights", "activations")
    limits = InitScaleLimits()

    def __init__(self) -> None:
        self._is_done = False

    def update(self, history: History) -> Sign | None:
        if self._is_done or history.weights.now is None or history.activations.now is None:
            return None
        self._is_done = True
        known = parameters_of(history)
        gain = self._gains(history, known)
        seen = np.isfinite(gain)
        if not seen.any():
            return None
        high = seen & (np.nan_to_num(gain) >= self.limits.gain)
        if high.sum() >= self.limits.share * seen.sum():
            growth = signal_growth(history, known)
            return self._sign(known, high, gain, growth, growth >= self.limits.growth)
        hidden = seen & ~known.last  # a last layer that starts close to zero is good practice
        low = hidden & (np.where(hidden, gain, 1.0) <= self.limits.least)
        if low.sum() >= max(self.limits.share * hidden.sum(), 1):
            growth, fading = signal_growth(history, known, hidden=True), gradient_fading(history, known)
            is_faint = growth <= 1.0 / self.limits.growth
            is_lost = is_faint or fading <= self.limits.fading
            return self._sign(known, low, gain, growth, is_lost, None if is_faint else fading)
        return None

    def _gains(self, history: History, known: ParameterTable) -> Doubles:
        start = InitialWeights(history, known)
        move = np.nan_to_num(known.column(history, Kind.UPDATE, "rms"))
        # After a step that changed them altogether, nobody knows how they started.
        clean = known.matrix & known.trainable & (move <= 0.3 * start.rms) & ~start.constant
        return np.where(clean, start.rms * np.sqrt(known.fan_in), np.nan)

    def _sign(
        self,
        known: ParameterTable,
        bad: Flags,
        gains: Doubles,
        growth: float,
        is_bad: bool,
        fading: float | None = None,
    ) -> Sign:
        """Return the sign; `fading` is given if not the signal is lost but the gradient that comes back."""
        gain = float(np.median(gains[bad]))
        is_high = gain > 1
        what = "large" if is_high else "small"
        limit = self.limits.gain if is_high else self.limits.least
        bound = self.limits.growth if is_high else 1.0 / self.limits.growth
        what_then, evidence = self._growth(growth, bound)
        if is_bad and fading is not None:
            what_then, evidence = self._fading(fading)
        return Sign(
            Severity.WARNING if is_bad else Severity.INFO,
            f"The weights of {counted(bad.sum(), 'layer')} start too {what}: their spread "
            f"(standard deviation) is {number(gain, 2)} times the usual one, which is 1 / sqrt(number of "
            f"inputs of a unit); {'more' if is_high else 'less'} than {number(limit)} times is too {what}. "
            f"{what_then}",
            f"Leave the weights as {Idiom.FRAMEWORK} starts them, or take {Idiom.HE_START_CALL} with ReLU, "
            f"{Idiom.GLOROT_START} with tanh. A normalisation between the layers makes it matter less.",
            {
                "spread of the weights against the usual one": Evidence(gain, limit),
                **evidence,
            },
            known.chosen(bad),
            sureness=0.85 if is_bad else 0.5,
        )

    def _growth(self, growth: float, bound: float) -> tuple[str, dict[str, Evidence]]:
        then = f"becomes {number(growth)} times as strong"
        if growth < 1.0:
            then = f"becomes {number(1.0 / growth)} times weaker" if growth else "fades to 0"
        told = (
            f"From the inputs to the last layers the signal {then} (more than {number(self.limits.growth)} "
            "times is too much)."
        )
        return told, {"growth of the signal": Evidence(growth, bound)}

    def _fading(self, fading: float) -> tuple[str, dict[str, Evidence]]:
        limit = self.limits.fading
        then = f"{number(1.0 / fading)} times smaller than" if fading else "0 beside"
        told = (
            f"The gradient of the first layer is {then} that of the last one (more than "
            f"{number(1.0 / limit)} times is too much): it hardly learns."
        )
        return told, {"gradient of the first against the last layer": Evidence(fading, limit)}


def signal_growth(history: History, known: ParameterTable, *, hidden: bool = False) -> float:
    """Return how much stronger the output of the last layer is than the inputs of the network.

    With `hidden` it is the last hidden layer. Without known inputs, the outputs of the first layer stand for
    them.
    """
    seen, inputs = history.activations, history.tensors
    if seen.now is None:
        return 1.0
    owners = dict.fromkeys(known.names[place].rpartition(".")[0] for place in np.flatnonzero(known.matrix))
    layers = [name for name in history.layers.in_order(owners) if name in seen.place]
    if len(layers) < 2:
        return 1.0
    ends_at = layers[-2] if hidden else layers[-1]
    first, last = (float(seen.now.rms[seen.place[name]]) for name in (layers[0], ends_at))
    if inputs.now is not None and "input/0" in inputs.place:
        given = float(inputs.now.rms[inputs.place["input/0"]])
        first = given if given > 0 else first
    return last / first if first > 0 and last >= 0 else 1.0


def gradient_fading(history: History, known: ParameterTable) -> float:
    """Return the smallest ratio of the gradients at both ends of a model.

    The outputs do not show it, because biases alone may keep them up.
    """
    rms = known.column(history, Kind.GRADIENT, "rms")
    ratios = []
    for chain in known.chains:
        there = chain[~np.isnan(rms[chain])]
        layers = there[known.matrix[there]]
        if len(layers) >= 3:
            ratios.append(ends(rms, there, layers)[2])
    return min((ratio for ratio in ratios if not np.isnan(ratio)), default=1.0)
