"""The checks of weights: whether they move, how far, from where, and whether all processes agree."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np
import pytest

from tb_netdebug.checks.engine import Engine
from tb_netdebug.checks.finding import Finding, Severity
from tb_netdebug.checks.rules.weights import RULES
from tb_netdebug.records.graph import Graph
from tb_netdebug.records.step import Kind, Sample, StepRecord
from tests.support.networks import linears, network, samples, spread
from tests.support.stories import judged, record, sample

Number = Callable[[int], float]
LAYERS = tuple(f"{place}.weight" for place in range(4))


def found(records: Iterable[StepRecord], layers: Graph | None = None, **checks: Any) -> dict[str, Finding]:
    return judged(RULES, records, layers=layers or linears(4), checks=checks)


def flat(step: int) -> float:
    return 2.3


def falling(step: int) -> float:
    return 2.3 * 0.97**step


def looks(
    step: int,
    *,
    weight: float = 0.2,
    update: float | Mapping[str, float] = 2e-4,
    gradient: float | Mapping[str, float] = 0.01,
) -> list[Sample]:
    """Sizes of weights, gradients and updates; one number is that of all layers."""
    of = {
        Kind.WEIGHT: weight,
        Kind.GRADIENT: gradient,
        Kind.UPDATE: update,
    }
    return [
        each
        for kind, sizes in of.items()
        for each in samples(
            kind, sizes if isinstance(sizes, Mapping) else dict.fromkeys(LAYERS, sizes), seed=step
        )
    ]


def training(
    *, steps: int = 48, loss: Number = flat, rate: Number = lambda step: 0.1, **sizes: Any
) -> list[StepRecord]:
    """Sampled as a short training is: the first steps, then fewer."""
    records = []
    for step in range(steps):
        now = {name: size(step) if callable(size) else size for name, size in sizes.items()}
        seen = looks(step, **now) if step < 8 or step % 4 == 0 else []
        records.append(record(step, {"loss": loss(step), "lr/0": rate(step)}, seen))
    return records


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
