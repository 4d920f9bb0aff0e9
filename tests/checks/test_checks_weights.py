"""Weights: that they move, and that an optimizer knows them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import pytest

from tb_netdebug.checks.finding import Severity
from tb_netdebug.core.records.step import Kind, Sample, StepRecord
from tests.support.networks import linears, network, samples, spread
from tests.support.stories import record, sample
from tests.support.weight_cases import LAYERS, Number, falling, flat, found, training


@pytest.mark.parametrize("loss", [flat, falling])
def test_a_healthy_training(loss: Number) -> None:
    """Also one whose loss does not fall: there are other checks for that."""
    assert {} == found(training(loss=loss))


# ---- weights that do not move


def test_weights_that_keep_their_values() -> None:
    """Although they have gradients; told at the third look."""
    finding = found(training(update=0.0))["unchanged-weights"]
    assert (Severity.ERROR, 0, list(LAYERS)) == (finding.severity, finding.first_step, finding.where)
    assert 1.0 == finding.evidence["share of values that did not change"].value


def test_bfloat16_is_named() -> None:
    finding = found(training(update=0.0), linears(4, dtype="bfloat16"))["unchanged-weights"]
    assert "bfloat16" in finding.message
    assert "torch.autocast" in finding.advice


@pytest.mark.parametrize(
    ("records", "why"),
    [
        (training(update=0.0, gradient=0.0), "there is nothing to follow"),
        (training(update=0.0, rate=lambda step: 0.0), "the learning rate is 0"),
        (training(update=lambda step: 0.0 if step < 2 else 2e-4), "a first rate of 0"),
        (
            training(update={**dict.fromkeys(LAYERS, 2e-4), LAYERS[0]: 0.0}, loss=falling),
            "the network learns",
        ),
        (training(update=0.0, rate=lambda step: 1e-9 * (step + 1)), "the learning rate rises"),
    ],
)
def test_weights_that_may_stay(records: list[StepRecord], why: str) -> None:
    assert "unchanged-weights" not in found(records), why


@pytest.mark.parametrize(
    ("fact", "severity"),
    [
        ({"gradients": True, "cleared": True}, Severity.ERROR),
        ({"gradients": True, "cleared": False}, Severity.WARNING),
        ({"gradients": False, "cleared": False}, None),
        ({"gradients": True, "cleared": True, "steps": 1}, None),
        ({"gradients": True, "cleared": True, "moved": True}, None),  # by something else
    ],
)
def test_an_optimizer_that_never_steps(fact: dict[str, Any], severity: Severity | None) -> None:
    """Gradients that are cleared without having been used leave no doubt."""
    told = ("optimizer", {"id": "none", "batches": 3, "missing": [], **fact})
    records = [
        record(step, {"loss": 2.0}, samples(Kind.ACTIVATION, {"0": 1.0}), [told] if step == 2 else [])
        for step in range(4)
    ]
    finding = found(records).get("unchanged-weights")
    assert severity == (finding.severity if finding else None)
    if finding is not None:
        assert (0, 3) == (finding.first_step, finding.last_step)


def test_weights_that_are_put_back() -> None:
    """The sample after the step is the start plus this step's update."""
    start = spread((8, 8), 0.2)
    moves = [spread((8, 8), 1e-3, seed=step) + np.float32(1e-4) for step in range(10)]
    records = [
        record(step, {"lr/0": 0.1}, [sample(kind, "0.weight", start + move if kind is Kind.WEIGHT else move)
                                     for kind in (Kind.WEIGHT, Kind.UPDATE, Kind.GRADIENT)])
        for step, move in enumerate(moves)
    ]  # fmt: skip
    assert "something puts them back" in found(records)["unchanged-weights"].message


@pytest.mark.parametrize(
    ("gradient", "trainable", "idle", "severity"),
    [
        ({}, True, False, Severity.WARNING),
        (0.0, True, False, Severity.WARNING),
        (0.01, True, False, None),  # unchanged-weights tells of it
        ({}, False, False, None),
        ({}, True, True, Severity.INFO),
    ],
)
def test_weights_that_stay_while_others_move(
    gradient: Any, trainable: bool, idle: bool, severity: Severity | None
) -> None:
    """What is frozen on purpose is in order, and what never runs may be."""
    shape = {"weight": (8, 8)}
    layers = network(
        *[(str(place), "Linear", shape) for place in range(4)],
        frozen=[] if trainable else ["0.weight"],
        idle=["0"] if idle else [],
    )
    update = {name: 2e-4 if place else 0.0 for place, name in enumerate(LAYERS)}
    given = gradient if isinstance(gradient, dict) else {"0.weight": gradient, "1.weight": 0.01}
    finding = found(training(update=update, gradient=given), layers).get("frozen-weights")
    assert severity == (finding.severity if finding else None)
    if finding is not None:
        assert (0, ["0.weight"]) == (finding.first_step, finding.where)


# ---- no optimizer knows them


def optimized(*facts: Mapping[str, Any], weights: Iterable[Sample] = ()) -> list[StepRecord]:
    given = [("optimizer", {"id": number, "missing": [], "strangers": 0, "alike": False, **fact})
             for number, fact in enumerate(facts)]  # fmt: skip
    seen = list(weights) or samples(Kind.WEIGHT, dict.fromkeys(LAYERS, 0.5))
    return [record(step, {"loss": 2.0}, [] if step else seen, [] if step else given) for step in range(20)]


def uniform(names: Iterable[str]) -> list[Sample]:
    """As torch starts the weights of a layer with 8 inputs."""
    random = np.random.default_rng(0)
    return [sample(Kind.WEIGHT, name, random.uniform(-1, 1, (8, 8)) / np.sqrt(8)) for name in names]


def test_an_optimizer_of_another_copy() -> None:
    """Told at once."""
    finding = found(optimized({"missing": list(LAYERS), "strangers": 4, "alike": True}))["not-optimized"]
    assert (Severity.ERROR, 0) == (finding.severity, finding.first_step)
    assert set(LAYERS) == set(finding.where)


@pytest.mark.parametrize(
    ("missing", "weights", "severity"),
    [
        (LAYERS[2:], (), Severity.WARNING),  # the last layers are forgotten
        (LAYERS[1:2], (), Severity.WARNING),
        (LAYERS[:2], (), Severity.INFO),  # the first ones come from another training
        (LAYERS[:2], uniform(LAYERS), Severity.WARNING),  # or are as random as at the start
        (("3.bias",), (), Severity.INFO),
        ((), (), None),
    ],
)
def test_weights_in_no_optimizer(
    missing: tuple[str, ...], weights: list[Sample], severity: Severity | None
) -> None:
    finding = found(optimized({"missing": list(missing)}, weights=weights)).get("not-optimized")
    assert severity == (finding.severity if finding else None)


def test_weights_that_are_thawed_later() -> None:
    """The first layers come from another training, too; but who thaws them wants them to learn."""
    records = optimized({"missing": []})
    facts = optimized({"missing": list(LAYERS[:2])})[0].facts
    records[12] = record(12, {"loss": 2.0}, [], [(fact.kind, fact.data) for fact in facts])
    layers = network(*[(str(place), "Linear", {"weight": (8, 8)}) for place in range(4)], frozen=LAYERS[:2])
    finding = found(records, layers)["not-optimized"]
    assert (Severity.WARNING, 12) == (finding.severity, finding.first_step)
    assert "(50 % of all weights)" in finding.message
    assert "became trainable after" in finding.message


def test_optimizers_share_the_weights() -> None:
    """What one does not have, another may."""
    assert {} == found(optimized({"missing": list(LAYERS[:2])}, {"missing": list(LAYERS[2:])}))


def test_a_copy_that_follows_is_meant() -> None:
    """A teacher, or a target network: the same names and sizes below another part, or a model of its own."""
    shape = {"weight": (8, 8)}
    names = [f"{part}.{place}" for part in ("online", "target") for place in range(2)]
    layers = network(*[(name, "Linear", shape) for name in names])
    missing = ["target.0.weight", "target.1.weight"]
    assert Severity.INFO == found(optimized({"missing": missing}), layers)["not-optimized"].severity
    models = network(
        *[(f"{model}/{place}", "Linear", shape) for model in ("net", "old") for place in range(2)]
    )
    missing = ["old/0.weight", "old/1.weight"]
    assert Severity.INFO == found(optimized({"missing": missing}), models)["not-optimized"].severity


@pytest.mark.parametrize(
    ("fact", "severity"),
    [
        ({}, Severity.WARNING),  # layers in a plain list
        ({"values": 9500}, Severity.ERROR),
        ({"values": 50}, Severity.INFO),  # a tenth is worth a warning
        ({"id": "outside"}, Severity.WARNING),  # a decoder that was forgotten
        ({"id": "outside", "twin": True}, Severity.INFO),  # a target network
        ({"fresh": False}, Severity.INFO),  # trained before
        ({"tensors": 0}, None),  # an optimizer has come for them
    ],
)
def test_parameters_of_no_model(fact: dict[str, Any], severity: Severity | None) -> None:
    """What the loss depends on, and neither a model nor an optimizer has."""
    told = {"id": "inside", "tensors": 3, "values": 500, "values_of_models": 1000, "names": [], "twin": False,
            "shapes": [[64, 32], [64], [8, 64], [8]], "fresh": True, **fact}  # fmt: skip
    records = [
        record(step, {"loss": 2.0}, (), [("unowned", told)] if step == 1 else []) for step in range(20)
    ]
    finding = found(records).get("not-optimized")
    assert severity == (finding.severity if finding else None)
    if finding is not None:
        assert 1 == finding.first_step
        assert "(e.g. 64 × 32, 64, 8 × 64)" in finding.message
        assert ("random values" in finding.message) == (fact.get("fresh", True) and not fact.get("twin"))
