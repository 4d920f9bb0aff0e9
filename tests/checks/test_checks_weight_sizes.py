"""Weights: how far they move, how large they are and begin, and whether processes agree."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytest

from tb_netdebug.checks.engine import Engine
from tb_netdebug.checks.finding import Severity
from tb_netdebug.checks.rules.weights import RULES
from tb_netdebug.core.records.step import Kind, StepRecord
from tests.support.networks import linears, samples, spread
from tests.support.stories import record, sample
from tests.support.weight_cases import LAYERS, Number, falling, flat, found, looks, training

# ---- how far they move


def test_updates_that_are_large() -> None:
    finding = found(training(update=0.08))["update-ratio-high"]
    assert (Severity.WARNING, 0) == (finding.severity, finding.first_step)
    assert finding.evidence["change in a step against the size of the weights"].value == pytest.approx(0.4)


@pytest.mark.parametrize(
    ("records", "why"),
    [
        (training(update=0.08, loss=falling), "the loss falls"),
        (training(update=lambda step: 0.08 if step < 4 else 1e-3), "only the first steps"),
        (training(update=0.02), "a tenth"),
        (training(update=0.08, steps=8), "it is early"),
    ],
)
def test_updates_that_are_not_too_large(records: list[StepRecord], why: str) -> None:
    assert "update-ratio-high" not in found(records), why


def test_updates_that_are_small() -> None:
    """Though the gradients are not."""
    finding = found(training(update=1e-8))["update-ratio-low"]
    assert Severity.WARNING is finding.severity
    assert finding.evidence["change in a step against the size of the weights"].limit == 1e-6


@pytest.mark.parametrize(
    ("records", "severity"),
    [
        (training(update=1e-8, loss=falling), Severity.INFO),
        (training(update=1e-8, rate=lambda step: 1e-9 * (step + 1)), Severity.INFO),  # a warm-up
        (training(update=1e-8, gradient=1e-7), None),  # it is the gradients that are small
        (training(update=1e-6), None),
    ],
)
def test_updates_that_may_be_small(records: list[StepRecord], severity: Severity | None) -> None:
    finding = found(records).get("update-ratio-low")
    assert severity == (finding.severity if finding else None)


# ---- their size


@pytest.mark.parametrize(
    ("growth", "loss", "is_bad"),
    [
        (lambda step: 1 + step / 3, flat, True),
        (lambda step: 1 + step / 3, falling, False),
        (lambda step: 1 + step * 3, falling, True),
        (lambda step: 1.08**step, falling, True),
        (lambda step: 1.02**step, flat, False),
    ],
)
def test_weights_that_grow(growth: Number, loss: Number, is_bad: bool) -> None:
    """Tenfold without learning anything, a hundredfold or by a factor in each step whatever the loss says."""
    finding = found(training(weight=lambda step: 0.3 * growth(step), loss=loss)).get("weight-growth")
    assert is_bad == (finding is not None)
    if finding is not None:
        assert (Severity.WARNING, list(LAYERS)) == (finding.severity, finding.where)


def test_weights_that_start_next_to_zero_may_grow() -> None:
    assert {} == found(training(weight=lambda step: min(1e-4 * 1.5**step, 0.3), update=1e-6, loss=falling))


@pytest.mark.parametrize(
    ("shrink", "loss", "is_bad"), [(0.93, flat, True), (0.93, falling, False), (0.99, flat, False)]
)
def test_weights_that_shrink(shrink: float, loss: Number, is_bad: bool) -> None:
    """Those that are not needed may, as the loss shows."""
    finding = found(training(weight=lambda step: 0.2 * shrink**step, loss=loss)).get("weight-collapse")
    assert is_bad == (finding is not None)
    if finding is not None:
        assert (Severity.WARNING, list(LAYERS)) == (finding.severity, finding.where)


# ---- their start


def started(weights: Mapping[str, Any], gradients: Mapping[str, Any], steps: int = 5) -> list[StepRecord]:
    """Weights as they are after the first update, which is a hundredth of the gradient."""
    records = []
    for step in range(steps):
        seen = []
        for name, weight in weights.items():
            move = -0.01 * np.asarray(gradients[name], np.float32)
            seen += [
                sample(Kind.WEIGHT, name, np.asarray(weight, np.float32) + (step + 1) * move),
                sample(Kind.UPDATE, name, move),
                sample(Kind.GRADIENT, name, gradients[name]),
            ]
        records.append(record(step, {"loss": 2.3, "lr/0": 0.01}, seen))
    return records


ROW = spread((1, 8), 0.1).repeat(8, 0)  # the same for each unit
RANDOM = spread((8, 8), 0.1)


@pytest.mark.parametrize(
    ("weight", "slope", "bias", "is_bad"),
    [
        (np.full((8, 8), 0.5), ROW, np.full(8, 0.1), True),
        (np.full((8, 8), 0.5), RANDOM, RANDOM[0], False),  # the layer behind it tells its units apart
        (RANDOM, RANDOM, RANDOM[0], False),
        (np.zeros((8, 8)), RANDOM, RANDOM[0], False),  # it leaves zero at once
    ],
)
def test_weights_that_start_with_one_value(weight: Any, slope: Any, bias: Any, is_bad: bool) -> None:
    """It shows in the gradients of the biases: they are equal when the units are."""
    weights = {"0.weight": weight, "0.bias": np.zeros(8), "1.weight": RANDOM}
    finding = found(started(weights, {"0.weight": slope, "0.bias": bias, "1.weight": RANDOM})).get(
        "init-constant"
    )
    assert is_bad == (finding is not None)
    if finding is not None:
        assert (Severity.ERROR, 0, ["0.weight"]) == (finding.severity, finding.first_step, finding.where)
        assert "the same value, 0.5" in finding.message


def test_a_last_layer_may_start_with_one_value() -> None:
    """The labels tell its units apart."""
    weights = {"0.weight": RANDOM, "3.weight": np.full((8, 8), 0.5), "3.bias": np.zeros(8)}
    slopes = {"0.weight": RANDOM, "3.weight": ROW, "3.bias": np.full(8, 0.1)}
    assert "init-constant" not in found(started(weights, slopes))


def test_weights_that_start_and_stay_at_zero() -> None:
    zeros = dict.fromkeys(("0.weight", "1.weight"), np.zeros((8, 8)))
    finding = found(started(zeros, zeros))["init-constant"]
    assert (["0.weight", "1.weight"], 0) == (finding.where, finding.first_step)


@pytest.mark.parametrize(
    ("size", "outputs", "severity"),
    [
        (3.0, (1.0, 1e4), Severity.WARNING),
        (3.0, (1.0, 2.0), Severity.INFO),  # a normalisation takes care of it
        (0.01, (1.0, 1e-4), Severity.WARNING),
        (0.2, (1.0, 1e4), None),
    ],
)
def test_the_size_of_the_first_weights(
    size: float, outputs: tuple[float, float], severity: Severity | None
) -> None:
    """Together with what becomes of the signal on its way through the layers."""
    signal = samples(Kind.ACTIVATION, {"0": outputs[0], "2": outputs[1], "3": outputs[1]})
    records = [record(0, {"loss": 2.3}, [*looks(0, weight=size), *signal])]
    finding = found(records).get("init-scale")
    assert severity == (finding.severity if finding else None)


def test_small_first_weights_that_let_no_gradient_back() -> None:
    """Then the message says that, and not that of a signal which is as it should be."""
    signal = samples(Kind.ACTIVATION, {"0": 1.0, "2": 0.8, "3": 0.8})
    slopes = samples(Kind.GRADIENT, dict(zip(LAYERS, (1e-9, 1e-6, 1e-3, 1.0), strict=True)))
    weights = samples(Kind.WEIGHT, dict.fromkeys(LAYERS, 0.01))
    finding = found([record(0, {"loss": 2.3}, [*weights, *slopes, *signal])])["init-scale"]
    assert Severity.WARNING is finding.severity
    assert "The gradient of the first layer is" in finding.message
    assert "signal" not in finding.message


def test_a_last_layer_may_start_next_to_zero() -> None:
    weights = [*samples(Kind.WEIGHT, {**dict.fromkeys(LAYERS[:3], 0.2), LAYERS[3]: 1e-4})]
    signal = samples(Kind.ACTIVATION, {"0": 1.0, "2": 1.0, "3": 1e-4})
    assert {} == found([record(0, {"loss": 2.3}, [*weights, *signal])])


# ---- several processes


def ranks(*weights: Callable[[int], float], sharded: bool = False, width: int = 8) -> Engine:
    """The sizes of a weight in each process, at each step."""
    engine = Engine(rules=RULES)
    engine.describe(graph=linears(4), info={"models": {"": "FSDPNet" if sharded else "Net"}})
    for step in range(8):
        for rank, weight in enumerate(weights):
            values = spread((8, width), weight(step))
            engine.feed([record(step, {"loss": 2.0}, [sample(Kind.WEIGHT, "0.weight", values)])], rank=rank)
    engine.finish()
    assert engine.broken == {}
    return engine


def test_processes_that_drift_apart() -> None:
    engine = ranks(lambda step: 0.2, lambda step: 0.2, lambda step: 0.2 * 1.01**step)
    (finding,) = (each for each in engine.findings if each.rule == "replica-divergence")
    assert (Severity.ERROR, 1, ["0.weight"]) == (finding.severity, finding.first_step, finding.where)
    assert "process 2" in finding.message


@pytest.mark.parametrize(
    ("other", "sharded", "width"),
    [
        (lambda step: 0.2, False, 8),
        (lambda step: 0.3 if step == 4 else 0.2, False, 8),  # it was put right again
        (lambda step: 0.2 * 1.01**step, True, 8),
        (lambda step: 0.2 * 1.01**step, False, 4),  # each process has a part
    ],
)
def test_processes_that_train_together(other: Number, sharded: bool, width: int) -> None:
    engine = ranks(lambda step: 0.2, other, sharded=sharded, width=width)
    assert [] == [each.rule for each in engine.findings]


def test_one_process_is_not_judged() -> None:
    engine = ranks(lambda step: 0.2)
    assert "replica-divergence" in engine.not_judged
