"""The engine: records in, findings out, whatever the rules are."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import ClassVar

import pytest

from tb_netdebug.checks.engine import Engine
from tb_netdebug.checks.evaluation import is_evaluation
from tb_netdebug.checks.finding import Evidence, Finding, Severity, Sign, verdict
from tb_netdebug.checks.history import History
from tb_netdebug.checks.rule import Rule, When
from tb_netdebug.core.records.facts import OptimizerFact
from tb_netdebug.core.records.step import Kind, StepRecord
from tests.support.stories import graph, record, sample


@dataclass(frozen=True, slots=True)
class Limits:
    loss: float = 5.0


def sign(severity: Severity, *where: str, since: int | None = None) -> Sign:
    return Sign(severity, f"{severity.text} it is", "mend it", {"loss": Evidence(7.0, 5.0)}, where, since)


class HighLoss(Rule):
    """A warning while the loss is above a threshold, an error when it is no number."""

    slug = "high-loss"
    when = When.STEPS
    needs = ("loss",)
    limits = Limits()

    def update(self, history: History) -> Sign | None:
        for each in history.recent:
            loss = each.scalars.get("loss", 0.0)
            if not math.isfinite(loss):
                return sign(Severity.ERROR, since=each.step)
            if loss > self.limits.loss:
                return sign(Severity.WARNING, since=each.step)
        return None


class Zeros(Rule):
    """All weights of a tensor are zero."""

    slug = "zeros"
    when = When.SAMPLES
    needs = ("weights",)

    def update(self, history: History) -> Sign | None:
        now = history.weights.now
        if now is None:
            return None
        names = [
            name for name, share in zip(history.weights.names, now.zero_share, strict=True) if share == 1
        ]
        return sign(Severity.WARNING, *names) if names else None


class StepSummarizer(Rule):
    """Remembers the steps in which it was asked."""

    slug = "looks"
    when = When.SAMPLES
    steps: ClassVar[list[int]] = []

    def update(self, history: History) -> Sign | None:
        self.steps.append(history.step)
        return None


class Told(Rule):
    """A fact of a kind, with its places one sign each."""

    slug = "told"
    when = When.FACTS
    needs = ("optimizer",)

    def update(self, history: History) -> Iterable[Sign]:
        return [sign(Severity.INFO, *(fact.missing or ())) for fact in history.facts(OptimizerFact)]


class Broken(Rule):
    slug = "broken"
    when = When.STEPS
    calls: ClassVar[int] = 0

    def update(self, history: History) -> Sign | None:
        type(self).calls += 1
        raise ZeroDivisionError("no")


RULES = (HighLoss, Zeros, Told)


def training(steps: int = 100) -> list[StepRecord]:
    """The loss is high from step 40 to 44 and no number at step 71; a tensor is zero in each tenth step."""
    losses = {**dict.fromkeys(range(40, 45), 6.0), 71: math.nan}
    return [
        record(
            step,
            {"loss": losses.get(step, 1.0)},
            [sample(Kind.WEIGHT, name, [0.0, 0.0]) for name in ("b.weight", "a.weight")]
            if step % 10 == 0
            else [],
            [("optimizer", {"id": step, "missing": [f"p{step}"]})] if step in (3, 50) else [],
        )
        for step in range(steps)
    ]


def found(batches: Iterable[Sequence[StepRecord]]) -> list[Finding]:
    engine = Engine(rules=RULES)
    for batch in batches:
        engine.feed(batch)
    engine.finish()
    assert engine.broken == {}
    return engine.findings


def test_what_is_found() -> None:
    """First and last step, the worst severity, all places."""
    high, zeros, told = found([training()])
    assert (Severity.ERROR, 40, 71) == (high.severity, high.first_step, high.last_step)
    assert "error it is" == high.message
    assert (0, 90, ["b.weight", "a.weight"]) == (zeros.first_step, zeros.last_step, zeros.where)
    assert (3, 50, ["p3", "p50"]) == (told.first_step, told.last_step, told.where)


@pytest.mark.parametrize("size", [1, 7, 16, 33])
def test_the_division_into_calls_changes_nothing(size: int) -> None:
    records = training()
    divided = [records[start : start + size] for start in range(0, len(records), size)]
    assert [each.as_dict() for each in found([records])] == [each.as_dict() for each in found(divided)]


def test_news_are_told_once_and_when_they_get_worse() -> None:
    engine = Engine(rules=RULES)
    told = [[each.rule for each in engine.feed([one])] for one in training()]
    assert {0: ["zeros"], 3: ["told"], 47: ["high-loss"], 71: ["high-loss"]} == {
        step: rules for step, rules in enumerate(told) if rules
    }


class Passing(Rule):
    """A loss above a threshold, taken back once it is below."""

    slug = "passing"
    when = When.STEPS

    def update(self, history: History) -> Sign:
        is_high = history.scalars["loss"] > 5.0
        return (
            sign(Severity.WARNING)
            if is_high
            else Sign(Severity.INFO, "It is over.", "rest", {}, is_over=True)
        )


def test_what_is_over_is_a_note_until_it_is_said_again() -> None:
    engine = Engine(rules=(Passing,))
    told = [
        [each.severity for each in engine.feed([record(step, {"loss": float(level)}) for step in steps])]
        for level, steps in [(1, range(16)), (9, range(16, 32)), (1, range(32, 64)), (9, range(64, 80))]
    ]
    assert [[], [Severity.WARNING], [], [Severity.WARNING]] == told
    engine.feed([record(step, {"loss": 1.0}) for step in range(80, 96)])
    (over,) = engine.findings
    assert (Severity.INFO, 31, 79) == (over.severity, over.first_step, over.last_step)
    assert ("warning it is It is over.", "rest") == (over.message, over.advice)


def test_places_are_in_the_order_of_execution() -> None:
    engine = Engine(rules=RULES)
    engine.describe(graph=graph(("a.weight", "Linear"), ("b.weight", "Linear")))
    engine.feed(training(1))
    assert [["a.weight", "b.weight"]] == [each.where for each in engine.findings]


def test_a_broken_rule_is_asked_once_and_costs_no_other() -> None:
    engine = Engine(rules=(Broken, HighLoss))
    engine.feed(training())
    assert {"broken": "ZeroDivisionError: no"} == engine.broken
    assert 1 == Broken.calls
    assert ["high-loss"] == [each.rule for each in engine.findings]


def test_late_samples_are_no_steps() -> None:
    """The flight recorder gives them out after later steps."""
    engine = Engine(rules=RULES)
    engine.feed(training(30))
    engine.feed([record(12, {}, [sample(Kind.WEIGHT, "late.weight", [0.0])])])
    assert 30 == engine.history.steps
    assert "late.weight" not in engine.history.weights.place


def test_what_could_not_be_judged_is_said() -> None:
    engine = Engine(rules=RULES)
    engine.feed([record(0, {"loss": 1.0})])
    assert {"zeros", "told"} == engine.not_judged.keys()
    assert "watch(weights=True)" in engine.not_judged["zeros"]


def test_checks_are_switched_off_and_set() -> None:
    engine = Engine({"zeros": False, "told": True, "high-loss": {"loss": 10}}, rules=RULES)
    engine.feed(training(60))
    engine.finish()
    assert ["told"] == [each.rule for each in engine.findings]


@pytest.mark.parametrize(
    ("checks", "said"),
    [
        ({"nothing": False}, "no check 'nothing'"),
        ({"high-loss": {"los": 1}}, "it has: loss"),
        ({"high-loss": {"loss": "x"}}, "is a number"),
        ({"high-loss": {"loss": True}}, "is a number"),
        ({"high-loss": 3}, "True, False, or thresholds"),
        ({"zeros": {"x": 1}}, "it has: none"),
    ],
)
def test_wishes_that_cannot_be(checks: dict[str, object], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        Engine(checks, rules=RULES)


def test_the_verdict_is_the_worst() -> None:
    high, zeros, told = found([training()])
    assert ["sick", "suspect", "healthy", "healthy"] == [
        verdict([told, high, zeros]), verdict([zeros, told]), verdict([told]), verdict([]),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("name", "is_one"),
    [
        ("scalar/val_loss", True),
        ("Loss/validation", True),
        ("scalar/evalLoss", True),
        ("test-loss", True),
        ("loss", False),
        ("scalar/value_loss", False),
        ("scalar/val_accuracy", False),
    ],
)
def test_losses_on_other_data_are_known_by_their_names(name: str, is_one: bool) -> None:
    assert is_evaluation(name) is is_one


def blown_up(severity: Severity) -> type[Rule]:
    """A cause of this severity, seen from the first step on."""

    class LearningRate(Rule):
        slug = "learning-rate-high"
        when = When.STEPS

        def update(self, history: History) -> Sign | None:
            return sign(severity, since=0)

    return LearningRate


class NoNumber(HighLoss):
    slug = "nonfinite-loss"


def test_a_cause_has_its_consequences_below_it() -> None:
    """And is as bad as the worst of them."""
    engine = Engine(rules=(NoNumber, blown_up(Severity.WARNING)))
    engine.feed(training())
    cause, effect = engine.findings
    assert ("learning-rate-high", None, ["nonfinite-loss"]) == (cause.rule, cause.cause, cause.consequences)
    assert ("nonfinite-loss", "learning-rate-high", []) == (effect.rule, effect.cause, effect.consequences)
    assert (Severity.ERROR, Severity.ERROR) == (cause.severity, effect.severity)


def test_a_note_explains_nothing() -> None:
    engine = Engine(rules=(NoNumber, blown_up(Severity.INFO)))
    engine.feed(training())
    assert [None, None] == [each.cause for each in engine.findings]
    assert ["nonfinite-loss", "learning-rate-high"] == [each.rule for each in engine.findings]


@pytest.mark.parametrize(
    ("odd", "seen"),
    [([], []), ([(99, math.inf)], [99]), ([(99, 2.0)], []), ([(98, math.nan), (99, 0.0)], [98])],
)
def test_samples_of_every_step_are_judged_now_and_then(odd: list[tuple[int, float]], seen: list[int]) -> None:
    """Sixty-four and what has been saved meanwhile at once, then every eighth, and whatever is not finite."""
    values = dict(odd)
    StepSummarizer.steps.clear()
    engine = Engine(rules=[StepSummarizer])
    engine.feed(
        record(step, {"loss": 1.0}, [sample(Kind.WEIGHT, "a", [1.0, values.get(step, 1.0)])])
        for step in range(120)
    )
    assert [*range(73), *sorted([80, 88, 96, 104, 112, *seen])] == StepSummarizer.steps
    assert 120 == engine.history.curve("loss").count  # type: ignore[union-attr]


def test_samples_that_come_seldom_are_all_judged() -> None:
    StepSummarizer.steps.clear()
    engine = Engine(rules=[StepSummarizer])
    steps = [*range(40), *range(40, 4000, 9), *range(4000, 4030)]
    engine.feed(record(step, {"loss": 1.0}, [sample(Kind.WEIGHT, "a", [1.0])]) for step in steps)
    assert steps == StepSummarizer.steps
