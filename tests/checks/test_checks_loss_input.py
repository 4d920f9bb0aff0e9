"""Rules over what a loss function is given, on trainings made up number by number."""

from __future__ import annotations

from typing import Any

import pytest

from tb_netdebug.checks.engine import Engine
from tb_netdebug.checks.finding import Finding, Severity
from tb_netdebug.checks.rules.loss_input import RULES
from tb_netdebug.core.records.step import StepRecord
from tests.support.loss_calls import call
from tests.support.stories import judged, record


def training(fact: dict[str, Any], steps: int = 40, **numbers: float) -> list[StepRecord]:
    """A call that is measured with the same numbers in each step."""
    scalars = {f"probe/loss/0/{name}": value for name, value in numbers.items()}
    return [record(step, scalars, facts=[("loss-call", fact)] if step == 0 else ()) for step in range(steps)]


def found(fact: dict[str, Any], steps: int = 40, **numbers: float) -> dict[str, Finding]:
    return judged(RULES, training(fact, steps, **numbers))


PROBABILITIES = {"value": 2.3, "row_sum_error": 2e-8, "outside_01": 0.0, "row_logsumexp_error": 2.4}
SCORES = {"value": 2.3, "row_sum_error": 1.2, "outside_01": 0.6, "row_logsumexp_error": 2.5}
LOGARITHMS = {"value": 2.3, "row_sum_error": 24.0, "outside_01": 1.0, "row_logsumexp_error": 1e-7}


# ---- loss-input-softmaxed


def test_rows_that_add_up_to_one_are_probabilities_and_said_at_once() -> None:
    """One batch of them is enough, and the lowest loss that is left is told."""
    engine = Engine(rules=RULES)
    news = engine.feed(training(call("cross_entropy", last_layer=None), steps=1, **PROBABILITIES))
    assert ["loss-input-softmaxed"] == [each.rule for each in news]
    assert news[0].severity is Severity.ERROR
    assert news[0].first_step == 0
    assert news[0].where == ["train.py:41"]
    assert round(news[0].evidence["lowest loss that can be reached"].value, 2) == 1.46


@pytest.mark.parametrize(
    ("function", "layer"), [("cross_entropy", "Softmax"), ("binary_cross_entropy_with_logits", "Sigmoid")]
)
def test_the_last_layer_tells_it_without_numbers(function: str, layer: str) -> None:
    """The fact of the call alone is enough."""
    finding = found(call(function, last_layer=layer))["loss-input-softmaxed"]
    assert finding.severity is Severity.ERROR
    assert layer in finding.message


@pytest.mark.parametrize("numbers", [SCORES, {**PROBABILITIES, "outside_01": 0.1}, {"row_sum_error": 1e-3}])
def test_scores_are_fine(numbers: dict[str, float]) -> None:
    """Also when their rows happen to add up to 1, or nearly do."""
    assert {} == found(call("cross_entropy"), **numbers)


def test_few_rows_may_add_up_to_one_by_chance() -> None:
    assert {} == found(call("cross_entropy", target_shape=[4]), **PROBABILITIES)


def test_sixteen_bit_probabilities_are_not_exact() -> None:
    """Their rows add up to 1 within a hundredth."""
    numbers = {**PROBABILITIES, "row_sum_error": 3e-3}
    assert {} == found(call("cross_entropy", last_layer=None), **numbers)
    assert found(call("cross_entropy", last_layer=None, input_dtype="bfloat16"), **numbers)


def test_log_softmax_twice_is_harmless() -> None:
    """It is worth knowing, no more."""
    finding = found(call("cross_entropy", last_layer="LogSoftmax"), **LOGARITHMS)["loss-input-softmaxed"]
    assert finding.severity is Severity.INFO


BETWEEN = {"outside_01": 0.0, "input_min": 0.1, "input_max": 0.9, "input_mean": 0.5, "target_mean": 0.5}


def yes_or_no(**more: float) -> dict[str, Finding]:
    fact = call("binary_cross_entropy_with_logits", last_layer=None, target_shape=[32, 1])
    return found(fact, **{**BETWEEN, "target_min": 0.0, "target_max": 1.0, **more})


def test_scores_that_never_leave_zero_to_one_come_from_a_sigmoid() -> None:
    """Where no layer tells it, many steps do."""
    finding = yes_or_no()["loss-input-softmaxed"]
    assert finding.severity is Severity.ERROR
    assert finding.first_step == 0


@pytest.mark.parametrize(
    "numbers",
    [
        {"input_min": -0.1, "outside_01": 0.1},
        {"input_min": 0.0},
        {"input_min": 0.45, "input_max": 0.55, "target_mean": 0.62},
    ],
)
def test_scores_near_zero_are_no_probabilities(numbers: dict[str, float]) -> None:
    """An untrained network, one that ends in a ReLU, and one that says yes as often as it should."""
    assert {} == yes_or_no(**numbers)


def test_one_step_outside_tells_that_they_are_scores() -> None:
    records = training(call("binary_cross_entropy_with_logits", last_layer=None), **BETWEEN)
    records[3].scalars["probe/loss/0/input_max"] = 1.4
    assert {} == judged(RULES, records)


# ---- loss-input-logits


@pytest.mark.parametrize("numbers", [SCORES, PROBABILITIES])
def test_nll_wants_logarithms(numbers: dict[str, float]) -> None:
    """Raw scores and probabilities are both wrong, and named."""
    finding = found(call("nll_loss"), **numbers)["loss-input-logits"]
    assert finding.severity is Severity.ERROR
    assert finding.first_step == 0
    assert ("probabilities, but" in finding.message) == (numbers is PROBABILITIES)


def test_logarithms_are_what_nll_wants() -> None:
    """Also those of 16-bit numbers."""
    assert {} == found(call("nll_loss"), **LOGARITHMS)
    assert {} == found(call("nll_loss"), **{**LOGARITHMS, "row_logsumexp_error": 0.02})


def test_kl_div_wants_logarithms() -> None:
    """A logarithm of a probability is never above 0."""
    assert {} == found(call("kl_div"), value=0.2, input_min=-7.0, input_max=-0.01)
    finding = found(call("kl_div"), value=-0.2, input_min=0.0, input_max=0.9, outside_01=0.0)
    assert finding["loss-input-logits"].severity is Severity.ERROR


# ---- loss-input-shape


def test_a_difference_that_a_program_writes_itself() -> None:
    """Told at once, with both shapes."""
    told = ("difference", {"id": "difference1", "prediction_shape": [50, 1], "shape": [50, 50]})
    finding = judged(RULES, [record(0, {"loss": 1.0}, facts=[told])])["loss-input-shape"]
    assert (Severity.ERROR, 0) == (finding.severity, finding.first_step)
    assert 2500 == finding.evidence["pairs that are compared"].value
    assert "[50, 1]" in finding.message
    assert "[50, 50]" in finding.message


def shapes(given: list[int], wanted: list[int], **more: Any) -> Severity | None:
    fact = call("mse_loss", input_shape=given, target_shape=wanted, broadcasts=given != wanted, **more)
    finding = found(fact).get("loss-input-shape")
    return finding.severity if finding else None


def test_a_column_against_a_row_is_an_error_at_once() -> None:
    """32 predictions are compared with all 32 targets."""
    fact = call("mse_loss", input_shape=[32, 1], target_shape=[32], broadcasts=True)
    finding = found(fact, steps=1)["loss-input-shape"]
    assert (Severity.ERROR, 0) == (finding.severity, finding.first_step)
    assert (1024.0, 32.0) == (
        finding.evidence["pairs that are compared"].value,
        finding.evidence["pairs that are compared"].limit,
    )


@pytest.mark.parametrize(
    ("given", "wanted", "severity"),
    [
        ([32], [32, 1], Severity.ERROR),
        ([16, 9, 1], [16, 9, 9], Severity.WARNING),
        ([32, 1], [], None),
        ([32, 1], [1], None),
        ([32, 5], [5], None),
        ([32, 5], [32, 5], None),
    ],
)
def test_shapes(given: list[int], wanted: list[int], severity: Severity | None) -> None:
    """A single number as target is meant, and one row of targets for all rows may be."""
    assert severity is shapes(given, wanted)


def test_all_pairs_on_purpose() -> None:
    """Quantiles of agents are compared with all others: both sides have a dimension for it."""
    assert Severity.INFO is shapes([8, 5, 1], [8, 1, 5], reduction="none")


def test_cross_entropy_over_one_class() -> None:
    finding = found(call("cross_entropy", input_shape=[32, 1], num_classes=1))["loss-input-shape"]
    assert finding.severity is Severity.ERROR


# ---- loss-input-range


def targets(layer: str | None, low: float, high: float, **more: float) -> Finding | None:
    numbers = {"target_min": low, "target_max": high, "target_mean": (low + high) / 2, **more}
    fact = call("mse_loss", last_layer=layer, target_shape=[32, 1])
    return found(fact, **{"input_min": -0.3, "input_max": 0.4, **numbers}).get("loss-input-range")


@pytest.mark.parametrize(
    ("layer", "low", "high", "severity"),
    [
        ("Tanh", -1.0, 1.0, None),
        ("Tanh", -1.1, 1.1, None),
        ("Tanh", -3.0, 3.0, Severity.WARNING),
        ("Sigmoid", 0.0, 255.0, Severity.ERROR),
        ("Sigmoid", -0.05, 1.05, None),
        ("ReLU", -2.0, 3.0, Severity.WARNING),
        ("ReLU", 0.0, 30.0, None),
        ("Linear", -100.0, 100.0, None),
        (None, -100.0, 100.0, None),
    ],
)
def test_targets_that_the_last_layer_cannot_reach(
    layer: str | None, low: float, high: float, severity: Severity | None
) -> None:
    """Some noise beyond the border is usual; when their mean lies beyond, the case is hopeless."""
    finding = targets(layer, low, high)
    assert severity is (finding.severity if finding else None)


def test_far_targets_are_said_at_once() -> None:
    """Nearer ones only after three batches."""
    fact = call("mse_loss", last_layer="Tanh")
    assert found(fact, steps=1, target_min=-3.0, target_max=3.0, target_mean=0.0)
    assert {} == found(fact, steps=1, target_min=-1.3, target_max=1.3, target_mean=0.0)


def test_a_border_that_no_layer_tells() -> None:
    """Outputs that come to 0 again and again and never below are those of a ReLU somewhere in the code."""
    finding = targets(None, -2.0, 2.0, input_min=0.0, input_max=1.7)
    assert finding is not None
    assert finding.severity is Severity.WARNING
    assert targets(None, -2.0, 2.0, input_min=0.1, input_max=1.7) is None


def test_yes_and_no_are_one_and_zero() -> None:
    """Targets of -1 and 1 are none for binary cross entropy."""
    fact = call("binary_cross_entropy_with_logits")
    assert (
        found(fact, steps=1, target_min=-1.0, target_max=1.0)["loss-input-range"].severity is Severity.ERROR
    )
    assert {} == found(fact, target_min=0.0, target_max=1.0)
    assert {} == found(fact, target_min=0.1, target_max=0.9)


def test_another_number_of_classes_than_said() -> None:
    """`num_classes` of watch() is held against the scores."""
    records = training(call("cross_entropy"), **SCORES)
    for classes, count in ((10, 0), (7, 1)):
        engine = Engine(rules=RULES)
        engine.describe(info={"settings": {"num_classes": classes}})
        engine.feed(records)
        assert count == len(engine.findings)


def test_thresholds_can_be_set() -> None:
    """By their names, as users do."""
    records = training(call("nll_loss"), **SCORES)
    assert {} == judged(RULES, records, checks={"loss-input-logits": {"row_logsumexp_error": 5}})


# ---- loss-input-range, of what divides a loss


def divided(*ends: tuple[float, float]) -> dict[str, Finding]:
    """A loss by hand, divided by sums between these ends in each step."""
    return judged(
        RULES,
        [
            record(step, {"probe/divisor/0/min": low, "probe/divisor/0/max": high})
            for step, (low, high) in enumerate(ends * 20)
        ],
    )


@pytest.mark.parametrize("ends", [((-40.0, -40.0), (900.0, 900.0)), ((-40.0, 900.0),)])
def test_a_divisor_on_both_sides_of_zero(ends: tuple[tuple[float, float], ...]) -> None:
    """From step to step, or among the rows of a batch."""
    said = divided(*ends)["loss-input-range"]
    assert (Severity.WARNING, -40.0, 900.0) == (
        said.severity, said.evidence["lowest divisor"].value, said.evidence["highest divisor"].value
    )  # fmt: skip


@pytest.mark.parametrize("ends", [(1.0, 900.0), (0.0, 900.0), (-900.0, -3.0), (-1e-4, 900.0)])
def test_a_divisor_on_one_side_of_zero(ends: tuple[float, float]) -> None:
    """Also where rounding brings it a little below."""
    assert {} == divided(ends)
