"""The checks of values that are no numbers, and of sixteen bits."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import numpy as np
import pytest

from tb_netdebug.checks.finding import Finding, Severity
from tb_netdebug.checks.rules.numbers import RULES
from tb_netdebug.core.records.graph import Graph
from tb_netdebug.core.records.step import Kind, Sample, StepRecord
from tests.support.networks import linears, network, samples
from tests.support.stories import judged, record, sample

NAN, INF = math.nan, math.inf
HEALTHY = {"loss": 1.0, "nonfinite_gradients": 0.0, "gradient_norm": 1.0}


def found(records: Iterable[StepRecord], layers: Graph | None = None, **checks: Any) -> dict[str, Finding]:
    return judged(RULES, records, layers=layers, checks=checks)


def steps(count: int, **scalars: float) -> list[StepRecord]:
    return [record(step, {**HEALTHY, **scalars}) for step in range(count)]


def at(
    step: int, *, facts: Iterable[Any] = (), looks: Iterable[Sample] = (), **scalars: float
) -> list[StepRecord]:
    """Healthy steps up to this one, in which something happens."""
    return [*steps(step), record(step, {**HEALTHY, **scalars}, looks, facts)]


def test_numbers_are_healthy() -> None:
    records = [
        record(step, HEALTHY, samples(kind, {"0.weight": 1.0}))
        for step, kind in enumerate([Kind.WEIGHT, Kind.GRADIENT, Kind.UPDATE, Kind.ACTIVATION, Kind.TENSOR])
    ]
    assert {} == found(records)


@pytest.mark.parametrize("value", [NAN, INF, -INF])
def test_a_loss_that_is_no_number(value: float) -> None:
    """Told at its very step, with the last one that was."""
    finding = found(at(37, loss=value))["nonfinite-loss"]
    assert (Severity.ERROR, 37, 37) == (finding.severity, finding.first_step, finding.last_step)
    assert "the last finite loss was 1" in finding.message


@pytest.mark.parametrize("nonfinite", [0.0, 5.0])
def test_what_a_loss_does_to_the_weights(nonfinite: float) -> None:
    """log(-x) has a slope: where the gradients were counted, and are numbers, none is said to be lost."""
    finding = found(at(37, loss=NAN, nonfinite_gradients=nonfinite))["nonfinite-loss"]
    assert ("it writes NaN into the weights" in finding.message) is (nonfinite > 0)
    assert ("it writes no NaN into the weights" in finding.message) is (nonfinite == 0)


def test_batches_that_the_program_leaves_out() -> None:
    """By their share of the last 32; a step may hold many."""
    for count, apart, severity in [(1, 40, Severity.INFO), (1, 2, Severity.WARNING), (16, 1, Severity.ERROR)]:
        records = steps(40)
        for each in records[5::apart]:
            each.scalars["probe/gradients_left_out"] = float(count)
        finding = found(records)["nonfinite-gradient"]
        assert (severity, 5) == (finding.severity, finding.first_step)


def test_the_share_of_batches_left_out_is_that_of_the_newest() -> None:
    """Not that of the moment in which it became a warning."""
    records = steps(60)
    for each in records[40:]:
        each.scalars["probe/gradients_left_out"] = 1.0
    finding = found(records)["nonfinite-gradient"]
    assert (Severity.WARNING, 40, 59) == (finding.severity, finding.first_step, finding.last_step)
    assert "left out 50 %" in finding.message
    assert 0.5 == finding.evidence["share of batches left out"].value


def test_a_logged_loss_counts_when_no_other_is_given() -> None:
    records = [
        record(step, {"scalar/d_loss": 1.0, "scalar/g_loss": NAN if step else 2.0}) for step in range(3)
    ]
    assert 1 == found(records)["nonfinite-loss"].first_step
    assert {} == found([record(0, {"loss": 1.0, "scalar/eval_loss": NAN, "scalar/aux_loss": NAN})])


def test_the_loss_names_where_it_came_from() -> None:
    fact = ("first-nonfinite", {"where": "norm", "class_name": "Norm", "what": "output", "kind": "NaN"})
    assert "the output of norm" in found(at(5, facts=[fact], loss=NAN))["nonfinite-loss"].message


def test_older_records_of_a_loss_have_the_line_of_backward() -> None:
    """It is not taken for that of the operation."""
    fact = {"what": "loss", "operations": ["Log"], "operation": "log", "site": "train.py:9", "kind": "NaN"}
    finding = found(at(5, facts=[("first-nonfinite", fact)], loss=NAN))["nonfinite-loss"]
    assert (
        'its line is not known (check_numerics="ops" finds it): backward is called at train.py:9.'
        in finding.message
    )
    assert "line" not in finding.evidence


def test_what_a_gradient_scaler_leaves_out_is_no_fault() -> None:
    """In mixed precision that happens now and then."""
    skipped = {"nonfinite_gradients": 7.0, "probe/loss_scale_skipped": 1.0, "probe/loss_scale": 1024.0}
    assert {} == found(at(20, **skipped))
    assert Severity.INFO == found(at(20, loss=INF, **skipped))["nonfinite-loss"].severity


def test_a_gradient_that_is_no_number() -> None:
    """With the tensors that hold it."""
    looks = [sample(Kind.GRADIENT, "0.weight", [1.0, NAN]), sample(Kind.GRADIENT, "1.weight", [1.0, 2.0])]
    finding = found(at(9, looks=looks, nonfinite_gradients=1.0))["nonfinite-gradient"]
    assert (Severity.ERROR, 9, ["0.weight"]) == (finding.severity, finding.first_step, finding.where)
    assert 1.0 == finding.evidence["values that are no numbers"].value


def test_a_network_that_steps_on_such_gradients_is_lost_beside_one_that_does_not() -> None:
    """The batch that is left out belongs to another network."""
    skipped = {"probe/gradients_left_out": 1.0, "probe/step_left_out": 1.0}
    beside = found(at(9, nonfinite_gradients=1.0, **skipped))["nonfinite-gradient"]
    assert Severity.ERROR is beside.severity
    alone = found([*steps(9), record(9, {"loss": 1.0, "nonfinite_gradients": 1.0})])["nonfinite-gradient"]
    assert Severity.INFO is alone.severity


def test_a_weight_that_is_no_number() -> None:
    looks = [sample(Kind.WEIGHT, "0.weight", [1.0, NAN, INF]), sample(Kind.WEIGHT, "1.weight", [1.0])]
    finding = found(at(9, looks=looks))["nonfinite-weight"]
    assert (Severity.ERROR, 9, ["0.weight"]) == (finding.severity, finding.first_step, finding.where)
    assert finding.message.startswith("2 values (67 %)")


def test_a_frozen_mask_of_infinities_is_meant() -> None:
    layers = network(("0", "Mask", {"mask": (2,)}), frozen=["0.mask"])
    assert {} == found(at(3, looks=[sample(Kind.WEIGHT, "0.mask", [0.0, -INF])]), layers)
    assert "nonfinite-weight" in found(at(3, looks=[sample(Kind.WEIGHT, "0.mask", [0.0, NAN])]), layers)


def test_the_first_layer_of_a_nan_is_named() -> None:
    fact = {"where": "1", "class_name": "Sqrt", "what": "output", "kind": "NaN", "inputs_finite": True}
    finding = found(at(12, facts=[("first-nonfinite", fact)], loss=NAN), linears(3))["nonfinite-activation"]
    assert (12, ["1"]) == (finding.first_step, finding.where)
    assert "1 (Sqrt)" in finding.message
    assert "from finite inputs and weights" in finding.message


@pytest.mark.parametrize("value", [NAN, INF])
def test_the_advice_against_bad_data_finds_infinities_too(value: float) -> None:
    finding = found(at(3, looks=[sample(Kind.TENSOR, "input/0", [1.0, value])]))["nonfinite-input"]
    assert "~torch.isfinite(x).all(1)" in finding.advice


def test_a_layer_that_computes_with_a_bad_constant_was_given_finite_inputs() -> None:
    fact = {"where": "1", "what": "output", "kind": "NaN", "inputs_finite": False, "tensor": "operand"}
    finding = found(at(12, facts=[("first-nonfinite", fact)], loss=NAN), linears(3))["nonfinite-activation"]
    assert "an operation there was given a tensor that holds such values already" in finding.message
    assert "inputs" not in finding.message
    assert "inputs_finite" not in finding.evidence


@pytest.mark.parametrize(
    ("values", "is_bad"), [([1.0, NAN], True), ([1.0, INF], True), ([1.0, -INF], False), ([-INF, -INF], True)]
)
def test_masks_of_minus_infinity_are_meant(values: list[float], is_bad: bool) -> None:
    """Among numbers; a layer that puts out nothing else is broken."""
    looks = [sample(Kind.ACTIVATION, "1", [1.0]), sample(Kind.ACTIVATION, "0", values)]
    finding = found(at(4, looks=looks), linears(3)).get("nonfinite-activation")
    assert is_bad == (finding is not None)
    if finding is not None:
        assert (4, ["0"]) == (finding.first_step, finding.where)


def test_outputs_of_lost_weights_are_no_news() -> None:
    """After gradients that were no numbers, whatever the network puts out is NaN."""
    looks = [sample(Kind.ACTIVATION, "0", [NAN])]
    fact = ("first-nonfinite", {"where": "0", "what": "output", "kind": "NaN", "parameters_finite": False})
    bad = record(4, {**HEALTHY, "loss": NAN}, looks, [fact])
    assert {"nonfinite-gradient", "nonfinite-loss"} == found([*at(3, nonfinite_gradients=4.0), bad]).keys()
    lost = at(3, looks=[sample(Kind.WEIGHT, "0.weight", [NAN])])
    assert {"nonfinite-weight", "nonfinite-loss"} == found([*lost, bad]).keys()


def test_a_masked_fact_is_meant() -> None:
    fact = {"where": "1", "what": "output", "kind": "-Inf", "masked_only": True}
    assert {} == found(at(4, facts=[("first-nonfinite", fact)]))


def test_inputs_that_are_no_numbers() -> None:
    looks = [sample(Kind.TENSOR, "input/0", [1.0, NAN])]
    finding = found(at(6, looks=looks, loss=NAN))["nonfinite-input"]
    assert (Severity.ERROR, 6, ["input/0"]) == (finding.severity, finding.first_step, finding.where)
    assert "1 of 2 values of the inputs is NaN" in finding.message


def test_inputs_that_the_model_bears_are_worth_knowing() -> None:
    """Such as missing values of a table, or labels that are masked."""
    looks = [sample(Kind.TENSOR, "label/0", [1.0, NAN])]
    assert Severity.INFO == found(at(6, looks=looks))["nonfinite-input"].severity
    assert {} == found(at(6, looks=[sample(Kind.TENSOR, "mine", [NAN])]))


def test_inputs_told_by_a_probe() -> None:
    fact = {"where": "Net", "what": "input", "kind": "Inf"}
    finding = found(at(6, facts=[("first-nonfinite", fact)], loss=NAN))["nonfinite-input"]
    assert (Severity.ERROR, 6, ["Net"]) == (finding.severity, finding.first_step, finding.where)


HALF = linears(2, dtype="float16")


@pytest.mark.parametrize(
    ("value", "layers", "is_bad"),
    [(40000.0, HALF, True), (20000.0, HALF, False), (40000.0, linears(2), False)],
)
def test_outputs_near_the_end_of_float16(value: float, layers: Graph, is_bad: bool) -> None:
    looks = [sample(Kind.ACTIVATION, "0", [0.0, -value]), sample(Kind.ACTIVATION, "1", [1.0])]
    finding = found(at(2, looks=looks), layers).get("precision-headroom")
    assert is_bad == (finding is not None)
    if finding is not None:
        assert (Severity.WARNING, 2, ["0"]) == (finding.severity, finding.first_step, finding.where)


@pytest.mark.parametrize(("size", "is_bad"), [(3e-7, True), (3e-3, False)])
def test_gradients_that_float16_cannot_hold(size: float, is_bad: bool) -> None:
    """Most are zero and the rest is tiny; zeros alone may be units that are not active."""
    gradient = np.zeros((8, 8), np.float32)
    gradient[:2] = size
    looks = [sample(Kind.GRADIENT, "0.weight", gradient), sample(Kind.ACTIVATION, "0", [1.0])]
    records = [record(step, HEALTHY, looks) for step in range(4)]
    assert is_bad == ("precision-headroom" in found(records, HALF))
    assert {} == found(records, linears(2))


def scaled(skipped: Iterable[bool], scale: float = 2.0) -> list[StepRecord]:
    return [
        record(step, {"probe/loss_scale": scale, "probe/loss_scale_skipped": float(is_skipped)})
        for step, is_skipped in enumerate(skipped)
    ]


@pytest.mark.parametrize(
    ("skipped", "scale", "severity"),
    [
        ([True] * 14 + [False] * 60, 4.0, None),  # the scale comes down to where it belongs
        ([False] * 40 + [True] + [False] * 40, 65536.0, None),  # it was raised too far
        ([False, True, False] * 20, 4.0, Severity.WARNING),
        ([True] * 30, 4.0, Severity.ERROR),
        ([False] * 20 + [True] * 2, 0.5, Severity.ERROR),
    ],
)
def test_the_scale_of_the_loss(skipped: list[bool], scale: float, severity: Severity | None) -> None:
    finding = found(scaled(skipped, scale)).get("loss-scale-overflow")
    assert severity == (finding.severity if finding else None)


def test_the_steps_that_the_scaler_skipped_are_counted_to_the_newest() -> None:
    assert "the last 40 steps in a row" in found(scaled([True] * 40))["loss-scale-overflow"].message


def test_the_scale_has_thresholds() -> None:
    checks = {"loss-scale-overflow": {"share": 0.5}}
    assert {} == found(scaled([False, True, False] * 20), **checks)
