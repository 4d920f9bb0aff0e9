"""Rules over weights that do not move: although they have gradients, or while others move."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tb_netdebug.checks.evidence.parameters import ParameterTable, parameters_of
from tb_netdebug.checks.evidence.progress import learns
from tb_netdebug.checks.evidence.warm_up import is_rising
from tb_netdebug.checks.finding import Evidence, Severity, Sign
from tb_netdebug.checks.history import History
from tb_netdebug.checks.rule import Rule, When
from tb_netdebug.checks.rules.weights_optimizer import is_fresh
from tb_netdebug.checks.tensors import Doubles, Flags
from tb_netdebug.checks.wording.idioms import Idiom
from tb_netdebug.checks.wording.phrases import agree, counted, percent
from tb_netdebug.core.records.facts import GradientsFact, OptimizerFact
from tb_netdebug.core.records.scalar_names import RATES
from tb_netdebug.core.records.step import Kind

HALVES = ("bfloat16", "float16")


class Streaks:
    """Counts for each parameter in how many samples in a row a condition held, and since which step.

    Samples in which a parameter was not seen do not count.
    """

    def __init__(self) -> None:
        self.looks: Doubles = np.zeros(0)
        self.since: Doubles = np.zeros(0)
        self._is_counting = False

    def note(self, step: int, is_so: Flags, is_seen: Flags) -> Doubles:
        if len(self.looks) < len(is_so):
            more = np.zeros(len(is_so) - len(self.looks))
            self.looks, self.since = np.concatenate([self.looks, more]), np.concatenate([self.since, more])
        if not self._is_counting and not is_so.any():
            return self.looks  # the usual case
        self.since = np.where(is_so & (self.looks == 0), step, self.since)
        self.looks = np.where(is_seen, np.where(is_so, self.looks + 1, 0), self.looks)
        self._is_counting = bool(self.looks.any())
        return self.looks


@dataclass(frozen=True, slots=True)
class UnchangedLimits:
    looks: float = 3  # in a row; a first step with a rate of 0 (warm-up) is one
    share: float = 0.95  # of a tensor's values that an update leaves unchanged, though they have gradients
    fallen: float = 0.05  # share of the first loss that is gone: beyond it, what moves is enough
    patience: float = 16  # steps, while others move
    back: float = 4  # samples in which weights were exactly the same after different updates


class UnchangedWeights(Rule):
    """Weights with a gradient and a learning rate keep their values."""

    slug = "unchanged-weights"
    when = When.SAMPLES
    needs = ("weights",)
    limits = UnchangedLimits()

    def __init__(self) -> None:
        self._still = Streaks()
        self._back = Streaks()
        self._start: Doubles = np.zeros(0)

    def update(self, history: History) -> Sign | None:
        never = self._never(history)
        if never is not None or history.updates.now is None:
            return never
        if learns(history, self.limits.fallen):
            return None
        known = parameters_of(history)
        return self._swallowed(history, known) or self._put_back(history, known)

    def _never(self, history: History) -> Sign | None:
        """Report that there are gradients, but no optimizer has ever stepped."""
        told = history.fact(OptimizerFact, OptimizerFact.NO_OPTIMIZER)
        if told is None or told.steps or told.moved or not told.gradients:
            return None
        count = told.batches or 0
        how = "were cleared without being used" if told.cleared else Idiom.ONLY_ADDED_UP
        return Sign(
            Severity.ERROR if told.cleared else Severity.WARNING,
            f"{Idiom.OPTIMIZER_STEP} was not called in {counted(count, 'step')} (0 such steps are right, "
            f"unless gradients are accumulated on purpose): the gradients {how}, and the weights stay as "
            "they are.",
            f"{Idiom.STEP_AFTER_BACKWARD}.",
            {"steps without optimizer.step()": Evidence(float(count), 0.0)},
            since=max(history.step - count + 1, 0),
            sureness=0.95 if told.cleared else 0.7,
        )

    def _swallowed(self, history: History, known: ParameterTable) -> Sign | None:
        kept = known.column(history, Kind.UPDATE, "zero_share")
        dead = known.column(history, Kind.GRADIENT, "zero_share")
        seen = ~np.isnan(kept) & known.trainable
        still = seen & (kept >= self.limits.share) & (dead <= 0.5)
        if still.any() and not has_rates(history):
            still[:] = False
        looks = self._still.note(history.step, still, seen)
        stuck = still & (looks >= self.limits.looks)
        if not stuck.any() or is_rising(history):
            return None
        is_all = not (seen & known.matrix & ~stuck).any()
        if not is_all and history.step < self.limits.patience:
            return None
        names = known.chosen(stuck)
        share = known.share(names) or stuck.sum() / seen.sum()
        precision = next((known.dtype[known.place[name]] for name in names), "")
        if precision in HALVES:
            why = (
                f"they are {precision}, which keeps {3 if precision == 'float16' else 2} digits, so a change "
                "that is small against the weight is rounded away"
            )
            advice = (
                "Keep the weights in float32 (no model.half() or model.bfloat16()) and compute in 16 bits "
                f"inside torch.autocast(device_type, dtype=torch.{precision}). Or raise the learning rate."
            )
        else:
            why = "the learning rate times the gradient is too small to change them, or something undoes it"
            advice = (
                "Raise the learning rate (1e-3 is usual for Adam, 1e-2 for SGD), and look for a schedule "
                "that has come down to almost 0, or a step that GradScaler or your own code leaves out."
            )
        return Sign(
            Severity.ERROR if is_all else Severity.WARNING if share >= 0.1 else Severity.INFO,
            f"{percent(float(kept[stuck].min()))} of the values of {counted(len(names), 'weight tensor')} "
            f"({percent(share)} of all weights) stayed exactly as they were in {self.limits.looks:.0f} "
            f"sampled steps (more than {percent(self.limits.share)} is too many), although they have "
            f"gradients: {why}.",
            advice,
            {
                "share of values that did not change": Evidence(float(kept[stuck].min()), self.limits.share),
                "precision": Evidence(precision or "unknown"),
            },
            names,
            since=int(self._still.since[stuck].min()),
            sureness=0.95,
        )

    def _put_back(self, history: History, known: ParameterTable) -> Sign | None:
        """Report weights that are those of the start before each step, whatever the steps have changed."""
        change = known.column(history, Kind.UPDATE, "mean")
        # Weights that were written after the step were sampled twice: before and after that.
        looks = known.column(history, Kind.WEIGHT, "count") / known.column(history, Kind.UPDATE, "count")
        start = known.column(history, Kind.WEIGHT, "mean") - change / looks
        if len(self._start) < len(start):
            self._start = np.concatenate([self._start, np.full(len(start) - len(self._start), np.nan)])
        # The changes of a last layer may add up to nothing: those of its classes cancel.
        size = known.column(history, Kind.UPDATE, "rms")
        seen = known.matrix & ~np.isnan(start) & (np.abs(change) > 1e-3 * size)
        same = seen & (np.abs(start - self._start) <= 1e-3 * np.abs(change))
        self._start = np.where(np.isnan(start), self._start, start)
        times = self._back.note(history.step, same, seen)
        stuck = same & (times >= self.limits.back)
        if not stuck.any() or stuck.sum() < 0.9 * seen.sum():
            return None
        return Sign(
            Severity.ERROR,
            "Each step changes the weights, but before each of the last "
            f"{self.limits.back + 1:.0f} sampled steps they had their old values again: something puts them "
            "back.",
            "Look between optimizer.step() and the next batch for load_state_dict(), a model or an "
            "optimizer that is created anew inside the loop, or code of your own that writes weights.",
            {"sampled steps with the same weights": Evidence(float(times[stuck].min()), self.limits.back)},
            known.chosen(stuck),
            since=int(self._back.since[stuck].min()),
            sureness=0.95,
        )


@dataclass(frozen=True, slots=True)
class FrozenLimits:
    looks: float = 6  # in a row, while others moved
    steps: float = 10  # and this many steps from the first of them to the last
    share: float = 0.05  # of all trainable weights; a small part may be meant for later


class FrozenWeights(Rule):
    """Trainable weights of layers that run have never moved, while the optimizer moved others."""

    slug = "frozen-weights"
    when = When.SAMPLES
    needs = ("updates",)
    limits = FrozenLimits()

    def __init__(self) -> None:
        self._still = Streaks()
        self._moved: Flags = np.zeros(0, bool)

    def _note_moves(self, moved: Flags) -> None:
        """Note what has moved: it is not cut off, such as an expert that no input was sent to for a while."""
        more = len(moved) - len(self._moved)
        self._moved = np.concatenate([self._moved, np.zeros(max(more, 0), bool)]) | moved

    def update(self, history: History) -> Sign | None:
        if history.updates.now is None:
            return self._all_frozen(history)
        known = parameters_of(history)
        kept = known.column(history, Kind.UPDATE, "zero_share")
        gradient = known.column(history, Kind.GRADIENT, "rms")
        seen = ~np.isnan(kept)
        if not (seen & known.matrix & (kept < 1)).any():
            return None  # nothing moves at all
        still = seen & (kept == 1) & ~(gradient > 0)
        looks = self._still.note(history.step, still, seen)
        self._note_moves(seen & (kept < 1))
        long = (looks >= self.limits.looks) & (history.step - self._still.since >= self.limits.steps)
        stuck = still & long & ~self._moved & known.trainable & known.matrix
        return self._sign(history, known, stuck, gradient) if stuck.any() else None

    @staticmethod
    def _all_frozen(history: History) -> Sign | None:
        """Report a model with everything frozen: Keras trains on silently where torch would raise."""
        told = history.fact(GradientsFact)
        if told is None or not told.all_frozen or history.updates.looks:
            return None
        count = told.frozen_total
        return Sign(
            Severity.ERROR,
            f"0 of {counted(count, 'weight tensor')} can be trained (at least 1 is needed): all are frozen "
            "(trainable = False), the optimizer is never called, and a step only computes the loss.",
            "Freeze the base only, `base.trainable = False`, and leave the layers trainable that are to "
            "learn; then call model.compile() again.",
            {"weight tensors that can be trained": Evidence(0.0, 1.0)},
            told.frozen,
            since=0,
            sureness=0.97,
        )

    def _is_called(self, history: History, known: ParameterTable, names: tuple[str, ...]) -> bool:
        """Return whether a layer is called as one that learns.

        It also counts if it is called without gradients although it is as random as at the start.
        """
        if any(known.called[known.place[name]] for name in names):
            return True
        told = history.fact(GradientsFact) or GradientsFact()
        without = {name for name in names if name.rpartition(".")[0] in (told.called_without_grad or ())}
        return bool(without) and is_fresh(history, known, without)

    def _sign(self, history: History, known: ParameterTable, stuck: Flags, gradient: Doubles) -> Sign:
        names = known.chosen(stuck)
        share = known.share(names) or len(names) / max(int(known.matrix.sum()), 1)
        is_meant = not self._is_called(history, known, names) or not has_rates(history)
        has_none = bool(np.isnan(gradient[stuck]).all())
        one = len(names) == 1
        none = "it gets no gradient at all" if one else "they get no gradient at all"
        why = none if has_none else f"{'its' if one else 'their'} gradient is exactly 0"
        since = int(self._still.since[stuck].min())
        is_much = share >= self.limits.share and not is_meant
        return Sign(
            Severity.WARNING if is_much else Severity.INFO,
            f"{counted(len(names), 'layer')} ({percent(share)} of the weights) "
            f"{agree(len(names), 'has', 'have')} not moved since step {since}, while others did (more than "
            f"{percent(self.limits.share)} of the weights is too many): {why}.",
            f"If they are to learn, find what cuts them off from the loss: {Idiom.DETACHING}, rounding, "
            f"units that are never active, an output that is not used. If not, say so with {Idiom.FREEZE}, "
            "which also saves time.",
            {"share of the weights that stay": Evidence(share, self.limits.share)},
            names,
            since=since,
            sureness=0.85 if is_much else 0.5,
        )


def has_rates(history: History) -> bool:
    """Return whether all learning rates are above 0; which weights a rate of 0 belongs to is not known."""
    rates = [curve.last for curve in history.curves(RATES)]
    return all(rate != 0 for rate in rates)
