"""Rules over the mode of the model, train or eval; `RULES` also has those over the learning rate."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tb_netdebug.checks.evaluation import is_evaluation_number
from tb_netdebug.checks.finding import Evidence, Severity, Sign
from tb_netdebug.checks.history import History
from tb_netdebug.checks.rule import Rule, When
from tb_netdebug.checks.rules.learning_rates import LearningRateHigh, LearningRateZero
from tb_netdebug.checks.wording.idioms import Idiom
from tb_netdebug.checks.wording.phrases import agree, counted, listed, percent
from tb_netdebug.core.records.facts import ModesFact, Names
from tb_netdebug.core.records.scalar_names import (
    EVAL_MODULES,
    EVALUATIONS,
    MODE_MODULES,
    OWN,
    TRAIN_MODE_EVALUATIONS,
)


def remark(names: Sequence[str]) -> str:
    """Return the names in brackets, to stand behind a noun."""
    return f" ({listed(names)})" if names else ""


@dataclass(frozen=True, slots=True)
class EvalLimits:
    share: float = 1.0  # of dropout and batch-norm layers: a program that sets only some to eval means it


class EvalModeTraining(Rule):
    """The model trains in eval mode: no dropout, and batch norm learns no statistics."""

    slug = "eval-mode-training"
    when = When.FACTS
    needs = ("modes",)
    limits = EvalLimits()

    def __init__(self) -> None:
        self._since: int | None = None
        self._seen = (0.0, 0.0)

    def update(self, history: History) -> Sign | None:
        for record in history.recent:
            modules = record.scalars.get(MODE_MODULES)
            if modules:
                in_eval = record.scalars.get(EVAL_MODULES, 0.0)
                self._take(record.step, in_eval, modules)
        return self._sign(history.fact(ModesFact) or ModesFact()) if self._since is not None else None

    def _take(self, step: int, in_eval: float, modules: float) -> None:
        if in_eval < self.limits.share * modules:
            self._since = None
        elif self._since is None:
            self._since, self._seen = step, (in_eval, modules)

    def _sign(self, fact: ModesFact) -> Sign:
        names = fact.eval
        in_eval, modules = self._seen
        # The model itself is in train mode, so somebody has set just these layers to eval.
        is_meant = fact.root_eval is False
        return Sign(
            Severity.INFO if is_meant else Severity.ERROR,
            f"{in_eval:.0f} of {modules:.0f} dropout and batch-norm layers{remark(names)} "
            f"{agree(in_eval, 'is', 'are')} in eval mode while the model trains "
            f"({percent(self.limits.share)} is too many): dropout does nothing, and batch norm uses "
            "statistics that are never updated.",
            f"{Idiom.USE_TRAINING_MODE}.",
            {"layers in eval mode": Evidence(in_eval, self.limits.share * modules)},
            where=names,
            since=self._since,
            sureness=0.9,
        )


@dataclass(frozen=True, slots=True)
class TrainLimits:
    calls: float = 2  # in a row: a single one may be a sample or a target
    steps: float = 8  # before it is known how often single calls come
    often: float = 0.5  # share of the steps: single calls that come this often are part of training


class TrainModeEvaluating(Rule):
    """An evaluation runs with dropout on, and batch norm learns from the test data."""

    slug = "train-mode-evaluating"
    when = When.FACTS
    needs = ("modes",)
    limits = TrainLimits()

    def __init__(self) -> None:
        self._step = -1
        self._steps = self._with_calls = 0
        self._since: int | None = None
        self._evaluated = -1  # a step that had calls without gradients and an evaluation loss
        self._calls = 0.0

    def update(self, history: History) -> Sign | None:
        since, self._step = self._step, history.step
        for record in history.recent:
            if record.step > since:
                self._take(record.step, record.scalars)
        fact = history.fact(ModesFact) or ModesFact()
        places = fact.functional_dropout
        if places and self._evaluated >= 0:
            return self._dropping(places)
        if self._since is None or fact.evaluating_root_train is False:
            return None  # dropout alone is on: many samples of one answer
        is_loop = self._calls >= self.limits.calls
        is_rare = self._steps >= self.limits.steps and self._with_calls <= self.limits.often * self._steps
        return self._sign(fact.evaluating_in_train) if is_loop or is_rare else None

    def _take(self, step: int, scalars: Mapping[str, float]) -> None:
        self._steps += 1
        calls = scalars.get(EVALUATIONS)
        if not calls:
            return
        self._with_calls += 1
        if not has_evaluation(scalars):
            return
        self._evaluated = step if self._evaluated < 0 else self._evaluated
        in_train = scalars.get(TRAIN_MODE_EVALUATIONS, 0.0)
        # All calls of this step were in train mode, and they are more than in any such step before.
        if in_train == calls > self._calls:
            self._since, self._calls = step if self._since is None else self._since, calls

    def _dropping(self, places: Names) -> Sign:
        return Sign(
            Severity.WARNING,
            f"The model was evaluated in eval mode, but {counted(len(places), 'line')} of it still dropped "
            f"units at random (0 are right): {listed(places)}. There, dropout is called without "
            "`training=`, which is True by default. The loss of the evaluation is wrong.",
            "Write `F.dropout(x, p, training=self.training)`, or use an `nn.Dropout` layer, which knows "
            "its mode. Where it is intended, for example to draw several answers, write `training=True`.",
            {"lines that drop units in eval mode": Evidence(float(len(places)), 0.0)},
            since=self._evaluated,
            sureness=0.85,
        )

    def _sign(self, names: Names) -> Sign:
        return Sign(
            Severity.WARNING,
            f"At step {self._since} the model was evaluated in train mode{remark(names)}, in "
            f"{counted(self._calls, 'call')} without gradients (0 are right): dropout drops units at "
            "random, and batch norm uses the statistics of each batch and learns from the data that it is "
            "tested on. The loss of the evaluation is wrong.",
            "Call `model.eval()` before an evaluation and `model.train()` after it.",
            {"calls in train mode": Evidence(self._calls, 0.0)},
            where=names,
            since=self._since,
            sureness=0.85,
        )


def has_evaluation(scalars: Mapping[str, float]) -> bool:
    """Return whether the step has a loss or another number of an evaluation.

    Without one, calls without gradients may be anything: a teacher, a target, a sample.
    """
    return any(name.startswith(OWN) and is_evaluation_number(name.removeprefix(OWN)) for name in scalars)


RULES: tuple[type[Rule], ...] = (EvalModeTraining, TrainModeEvaluating, LearningRateZero, LearningRateHigh)
