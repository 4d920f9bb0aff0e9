"""Rules over gradients that are missing, zero or never cleared.

Exploding and vanishing gradients have modules of their own.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from tb_netdebug.checks.evidence.loss_curves import loss_of
from tb_netdebug.checks.evidence.parameters import ParameterTable, parameters_of
from tb_netdebug.checks.finding import Evidence, Severity, Sign
from tb_netdebug.checks.history import History
from tb_netdebug.checks.rule import Rule, When
from tb_netdebug.checks.rules.gradients_exploding import ExplodingGradients
from tb_netdebug.checks.rules.gradients_vanishing import VanishingGradients
from tb_netdebug.checks.rules.weights_optimizer import is_fresh
from tb_netdebug.checks.rules.weights_still import Streaks
from tb_netdebug.checks.tensors import Flags
from tb_netdebug.checks.wording.idioms import Idiom
from tb_netdebug.checks.wording.phrases import agree, counted, number, percent
from tb_netdebug.core.records.facts import GradientsFact
from tb_netdebug.core.records.scalar_names import GRADIENT_NORM, GRADIENTS_KEPT
from tb_netdebug.core.records.step import Kind

ZERO_LOSS = 1e-9
# In the first batches a loss may be 0 by chance.
STEPS_AT_ZERO = 24


@dataclass(frozen=True, slots=True)
class GradientZeroLimits:
    looks: float = 5  # in a row; a layer that starts at zero hides those before it for one step only
    steps: float = 8  # and this many steps from the first of them to the last
    share: float = 0.1  # of all weights; a second output that is not used yet is smaller


class ZeroGradients(Rule):
    """The gradients of whole layers are exactly zero again and again: nothing reaches them."""

    slug = "zero-gradients"
    when = When.SAMPLES
    needs = ("gradients",)
    limits = GradientZeroLimits()

    def __init__(self) -> None:
        self._zero = Streaks()

    def update(self, history: History) -> Sign | None:
        if history.gradients.now is None:
            return None
        known = parameters_of(history)
        zeros = known.column(history, Kind.GRADIENT, "zero_share")
        looks = self._zero.note(history.step, zeros == 1.0, ~np.isnan(zeros))
        if not looks.any():
            return None
        long = (looks >= self.limits.looks) & (history.step - self._zero.since >= self.limits.steps)
        stuck = long & known.matrix & known.trainable
        if not stuck.any() or is_fitted(history):
            return None
        seen = known.matrix & ~np.isnan(zeros)
        return self._sign(history, known, stuck, seen)

    def _sign(self, history: History, known: ParameterTable, stuck: Flags, seen: Flags) -> Sign | None:
        names, is_all = known.chosen(stuck), bool((stuck == seen).all())
        share = known.share(names) or len(names) / max(int(seen.sum()), 1)
        since = int(self._zero.since[stuck].min())
        is_much = share >= self.limits.share
        what = "all layers" if is_all else f"{len(names)} of {seen.sum()} layers"
        return Sign(
            Severity.ERROR if is_all else Severity.WARNING if is_much else Severity.INFO,
            f"The gradients of {what} ({percent(share)} of the weights) have been exactly 0 in every sampled "
            f"step since step {since} (more than {percent(self.limits.share)} of the weights for "
            f"{self.limits.looks:.0f} sampled steps is too many): these weights cannot learn.",
            f"Look at the operations between these layers and the loss. {Idiom.ROUND}, sign, argmax, a "
            "comparison and a clamp outside its range have slope 0; so do ReLU units that are never "
            "active, and a loss that is multiplied by 0. Remove such operations and see whether the "
            "gradients come back.",
            {
                "share of weights without gradient": Evidence(share, self.limits.share),
                "sampled steps": Evidence(float(self._zero.looks[stuck].min()), self.limits.looks),
            },
            names,
            since=since,
            sureness=0.9 if is_much else 0.5,
        )


def is_fitted(history: History) -> bool:
    """Return whether the loss is 0, so that nothing is left to learn.

    A margin that is kept and a reward that was not given have such a loss. A loss that was never anything but
    0 is no loss.
    """
    curve = loss_of(history)
    if curve is None or not (np.abs(curve.tail(4)) <= ZERO_LOSS).any():
        return False
    was_more = max(abs(curve.highest), abs(curve.lowest)) > ZERO_LOSS
    return was_more or curve.count < STEPS_AT_ZERO


@dataclass(frozen=True, slots=True)
class MissingLimits:
    share: float = 0.1  # of all trainable weights; an unused head is smaller
    most: float = 0.5  # from here on the run is spoiled


class NoGradient(Rule):
    """Trainable weights in an optimizer that never get a gradient: cut off, or not used."""

    slug = "no-gradient"
    when = When.FACTS
    needs = ("optimizer",)
    limits = MissingLimits()

    def update(self, history: History) -> Iterator[Sign]:
        for fact in history.facts(GradientsFact):
            if fact.detached:
                yield self._detached()
            elif fact.none:
                yield self._missing(history, fact)

    def _detached(self) -> Sign:
        return Sign(
            Severity.ERROR,
            "The loss has no grad_fn, so the way back to the weights is lost: 0 of the weights get a "
            "gradient from it.",
            "Look for .detach(), .item(), .numpy(), torch.no_grad() or a new torch.tensor(...) between the "
            "model and the loss, and for argmax or a comparison: each of them cuts the way back.",
            {"gradients": Evidence("none")},
            sureness=0.98,
        )

    def _missing(self, history: History, fact: GradientsFact) -> Sign:
        known = parameters_of(history)
        names, called_without_grad = fact.none, fact.called_without_grad or ()
        without = {name for name in names if owner_of(name) in called_without_grad}
        if without and not is_fresh(history, known, without):
            without = set()  # a pretrained part that is frozen on purpose
        cut = [name for name in names if name in without or is_cut(known, name, fact)]
        share, share_cut = known.share(names), known.share(cut)
        is_first = any(name in cut for name in first_matrices(known))
        is_most = share_cut >= self.limits.most
        is_much = is_first or share_cut >= self.limits.share
        whose = agree(len(names), "its layer is", "their layers are")
        if without or (called_without_grad and not cut):
            why = f"{whose} called only inside torch.no_grad()"
        elif cut:
            why = f"{whose} called, but no gradient comes back to the output"
        else:
            why = f"{whose} never called"
        first = " The first layer is one of them." if is_first else ""
        return Sign(
            Severity.ERROR if is_most else Severity.WARNING if is_much else Severity.INFO,
            f"{counted(len(names), 'weight tensor')} ({percent(share)} of all weights) got no gradient in "
            f"the last {counted(fact.steps, 'step')} of the optimizer (more than "
            f"{percent(self.limits.share)}, or the first layer, is too much): {why}.{first}",
            f"If they are meant to learn, look for {Idiom.DETACHING_CALLS} between these layers and the "
            f"loss, and whether {Idiom.FORWARD_METHOD} uses their output. If not, say so: {Idiom.FREEZE}.",
            {"share of weights without gradient": Evidence(share, self.limits.share)},
            names,
            sureness=0.95 if is_most else 0.85 if is_much else 0.5,
        )


def is_cut(known: ParameterTable, name: str, fact: GradientsFact) -> bool:
    """Return whether a parameter's layer is called like those that learn.

    If the fact does not say, the first batch decides.
    """
    owner = owner_of(name)
    if owner in (fact.called or ()):
        return True
    if owner in (fact.called_without_grad or ()) or owner in (fact.uncalled or ()):
        return False
    place = known.place.get(name)
    return place is None or bool(known.called[place])


def owner_of(name: str) -> str:
    """Return the name of a parameter's layer."""
    return name.rpartition(".")[0]


def first_matrices(known: ParameterTable) -> list[str]:
    """Return the first matrix of each model that has several: others may carry the gradient around it."""
    found = []
    for chain in known.chains:
        matrices = [place for place in chain.tolist() if known.matrix[place] and known.called[place]]
        if len(matrices) > 1 and known.trainable[matrices[0]]:
            found.append(known.names[matrices[0]])
    return found


@dataclass(frozen=True, slots=True)
class KeptLimits:
    probes: float = 4  # probes that still found the old gradients
    share: float = 0.8  # of the last probes
    growth: float = 2.0  # of the gradient norm, compared with its start: sums of gradients grow


class GradNotCleared(Rule):
    """The gradients of earlier steps are never cleared, so each step follows the sum of all."""

    slug = "grad-not-cleared"
    when = When.STEPS
    needs = ("gradient-norm",)
    limits = KeptLimits()

    def update(self, history: History) -> Sign | None:
        kept = history.curve(GRADIENTS_KEPT)
        if kept is None or kept.count < self.limits.probes:
            return None
        values = kept.tail(16)
        share = float(values.mean())
        if values.sum() < self.limits.probes or share < self.limits.share:
            return None
        # Clipping hides the growth; nobody keeps gradients beyond their step on purpose.
        growth = norm_growth(history)
        has_grown = growth >= self.limits.growth
        return Sign(
            Severity.ERROR if has_grown else Severity.WARNING,
            f"In {percent(share)} of the last steps the gradients of the previous step were still there "
            f"(more than {percent(self.limits.share)} is too many): backward() adds to them, so each step "
            "follows the sum of all gradients so far."
            + (
                f" Their size has grown {number(growth, 2)}-fold ({number(self.limits.growth)}-fold is a "
                "lot)." * has_grown
            ),
            "Call optimizer.zero_grad() once a step, before loss.backward(). To add up the gradients of "
            "several batches on purpose, call it right after optimizer.step().",
            {
                "share of steps with old gradients": Evidence(share, self.limits.share),
                "growth of the gradient norm": Evidence(growth, self.limits.growth),
            },
            since=kept.steps[0],
            sureness=0.9,
        )


def norm_growth(history: History) -> float:
    """Return the highest mean of four consecutive norms, relative to the first norm."""
    curve = history.curve(GRADIENT_NORM)
    if curve is None or curve.count < 6:
        return 0.0
    first = curve.first
    norms = curve.tail(64)
    if first <= 0 or len(norms) < 6:
        return 0.0
    return float(np.convolve(norms, np.full(4, 0.25), "valid").max() / first)


RULES: tuple[type[Rule], ...] = (
    ExplodingGradients,
    VanishingGradients,
    ZeroGradients,
    NoGradient,
    GradNotCleared,
)
