"""Rules over the outputs of layers. Scale, saturation and constant outputs have modules of their own."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from tb_netdebug.checks.evidence.activation_layers import activation_layers, active_in
from tb_netdebug.checks.evidence.activation_scores import unheard_classes
from tb_netdebug.checks.evidence.activation_starved import idle, starved
from tb_netdebug.checks.evidence.loss_course import course
from tb_netdebug.checks.finding import Evidence, Severity, Sign
from tb_netdebug.checks.history import History
from tb_netdebug.checks.rule import Rule, When
from tb_netdebug.checks.rules.activation_output import ConstantOutput
from tb_netdebug.checks.rules.activation_saturation import SaturatedUnits
from tb_netdebug.checks.rules.activation_scale import ActivationScale
from tb_netdebug.checks.wording.idioms import Idiom
from tb_netdebug.checks.wording.phrases import named, percent


@dataclass(frozen=True, slots=True)
class DeadUnitsLimits:
    looks: int = 12  # samples in a row without a single value above 0; published: 1 to 3, or the last only
    share: float = (
        0.5  # of a layer's units; published: the same. Healthy nets lose some, and do not miss them
    )
    values: float = 32.0  # how often a living unit was active in that time, at least
    least_units: int = 4  # in a layer with fewer units, one dead unit is a large share
    variation: float = (
        0.02  # how far that share may vary between samples where only gradients show it: beyond, it is chance
    )
    ignored: int = 4  # the first steps: the very first update may kill many units for a while
    missed: float = 0.1  # of the loss of guessing: a network below this does without its dead units


class DeadUnits(Rule):
    """Units of a rectifier that are 0 for every input of many samples: no gradient comes through them."""

    slug = "dead-units"
    when = When.SAMPLES
    needs = ("activations",)
    limits = DeadUnitsLimits()

    def update(self, history: History) -> Iterable[Sign] | None:
        seen, limits = history.activations, self.limits
        if history.step < limits.ignored + limits.looks:
            return None
        silent = idle(history, limits.looks, limits.share, limits.variation)
        signs = [self._sign(history, *each, history.gradients.steps[-limits.looks]) for each in silent]
        if seen.now is None or seen.looks < limits.looks:
            return signs
        # With this many dead units, at least that share of all values is 0, which is quick to see.
        layers, zeros = activation_layers(history), seen.past("zero_share", limits.looks)
        is_worth_a_look = (np.fmin.reduce(zeros, axis=0) >= limits.share - 1e-9) | layers.is_output
        places = np.flatnonzero(is_worth_a_look & layers.rectifies)
        return signs + [sign for place in places if (sign := self._judge(history, int(place)))]

    def _judge(self, history: History, place: int) -> Sign | None:
        seen, limits = history.activations, self.limits
        name = seen.names[place]
        units = seen.units(name)[-limits.looks :]
        if seen.now is None or len(units) < limits.looks or units[-1].count < limits.least_units:
            return None
        count = units[-1].count
        dead = count - active_in(units)
        share = dead / count
        unheard = unheard_classes(history, place, dead, count, limits.looks)
        if share == 1.0 or not (share > limits.share or unheard):
            return None  # fully dead layers are reported by dead-layer
        zeros = seen.past("zero_share", limits.looks)[:, place]
        # Rare activity is not death: experts, sparse codes and single inputs are silent most of the time.
        # All activity of the layer, shared among its living units: how often one of them was active.
        inputs = float(seen.now.count[place]) / count * limits.looks
        occasions = inputs * (1.0 - float(zeros.mean())) / (1.0 - share)
        if occasions < limits.values:
            return None
        return unheard or self._sign(history, name, share, count, seen.steps[-limits.looks])

    def _sign(self, history: History, name: str, share: float, count: int, since: int) -> Sign:
        limits = self.limits
        left = course(history).left
        is_missed = not left < limits.missed
        without = (
            f" The network learns without them: the loss is down to {percent(left)} of that of guessing, "
            f"or of its start (below {percent(limits.missed)} they are not missed)."
        )
        return Sign(
            Severity.WARNING if is_missed else Severity.INFO,
            f"{round(share * count)} of {count} units of {named(name)} were at 0 for every input of the "
            f"last {limits.looks} sampled steps (more than {percent(limits.share)} is too many). A unit "
            f"that is 0 passes no gradient on: they no longer learn.{'' if is_missed else without}",
            f"Lower the learning rate, use {Idiom.LEAKY_RELU} or {Idiom.GELU} in its place, and see that "
            "the layer before it is not initialised with large negative biases; inputs should have mean 0.",
            {
                "share of dead units": Evidence(share, limits.share),
                "sampled steps": Evidence(float(limits.looks)),
                "units": Evidence(float(count)),
            },
            where=(name,),
            since=since,
            sureness=0.9,
        )


@dataclass(frozen=True, slots=True)
class DeadLayerLimits:
    looks: int = 5  # samples in a row in which everything is 0
    values: float = 64.0  # values that must have been seen: with one unit and a batch of one, 0 is common


class DeadLayer(Rule):
    """A rectifier whose whole output is 0, so that nothing before it learns."""

    slug = "dead-layer"
    when = When.SAMPLES
    needs = ("activations",)
    limits = DeadLayerLimits()

    def update(self, history: History) -> Iterable[Sign] | None:
        seen = history.activations
        signs = list(starved(history, self.limits.looks))
        if seen.now is None or seen.looks < self.limits.looks:
            return signs
        zeros = seen.past("zero_share", self.limits.looks)
        with np.errstate(invalid="ignore"):
            is_dead = (zeros == 1.0).all(axis=0) & activation_layers(history).rectifies
            is_dead &= seen.now.count * self.limits.looks >= self.limits.values
        signs += [self._sign(history, seen.names[place]) for place in np.flatnonzero(is_dead)]
        return signs

    def _sign(self, history: History, name: str) -> Sign:
        looks = self.limits.looks
        return Sign(
            Severity.ERROR,
            f"The whole output of {named(name)} is 0, for every input of the last {looks} sampled steps "
            f"({looks} in a row are enough): nothing of the inputs gets through, and the layers before it "
            "no longer learn.",
            f"Lower the learning rate (10 times to begin with), use {Idiom.LEAKY_RELU} in its place, and "
            "look at the weights and biases of the layer before it: large negative biases make everything "
            "0.",
            {"share of zeros": Evidence(1.0, 1.0), "sampled steps": Evidence(float(looks), float(looks))},
            where=(name,),
            since=history.activations.steps[-looks],
            sureness=0.97,
        )


RULES: tuple[type[Rule], ...] = (DeadUnits, DeadLayer, SaturatedUnits, ActivationScale, ConstantOutput)
