"""Rules over data, on trainings made up number by number."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
import pytest

from tb_netdebug.checks.engine import Engine
from tb_netdebug.checks.finding import Finding, Severity
from tb_netdebug.checks.rules.data import RULES
from tb_netdebug.core.records.graph import Graph, Node, TensorType
from tb_netdebug.core.records.step import Kind, StepRecord
from tests.support.loss_calls import call
from tests.support.stories import graph, judged, record, sample

RANDOM = np.random.default_rng(0)


def found(records: Iterable[StepRecord], **more: Any) -> dict[str, Finding]:
    return judged(RULES, records, **more)


def severities(records: Iterable[StepRecord]) -> dict[str, Severity]:
    return {slug: finding.severity for slug, finding in found(records).items()}


# ---- inputs


def with_inputs(
    values: Callable[[int], Any], steps: int = 20, *, labels: Sequence[float] = (0, 1, 2), **scalars: float
) -> list[StepRecord]:
    return [
        record(
            step,
            {"batch_size": 16.0, **{name.replace("__", "/"): value for name, value in scalars.items()}},
            [sample(Kind.TENSOR, "input/0", values(step)), sample(Kind.TENSOR, "label/0", labels)],
        )
        for step in range(steps)
    ]


def test_inputs_of_one_number() -> None:
    """Nothing can be told from them: an error by the second batch, as the labels differ."""
    engine = Engine(rules=RULES)
    news = engine.feed(with_inputs(lambda step: np.zeros((16, 8)), 2))
    assert [("input-constant", Severity.ERROR, 0)] == [
        (each.rule, each.severity, each.first_step) for each in news
    ]


def test_inputs_that_differ() -> None:
    assert {} == found(with_inputs(lambda step: RANDOM.normal(size=(16, 8))))


def test_a_constant_step_is_no_habit() -> None:
    """A state of rest at the beginning."""
    assert {} == found(with_inputs(lambda step: RANDOM.normal(size=(16, 8)) * min(step, 1)))


def test_rows_that_are_all_the_same() -> None:
    """The features differ, but no row from another."""
    records = with_inputs(lambda step: RANDOM.normal(size=8), probe__input__0__constant_features=1.0)
    for each in records:
        each.scalars["probe/input/0/constant_features"] = 1.0
    assert Severity.ERROR is found(records)["input-constant"].severity
    for each in records:
        each.scalars["probe/input/0/constant_features"] = 0.7
    assert Severity.INFO is found(records)["input-constant"].severity


def words(highest: float, steps: int = 20) -> list[StepRecord]:
    """Numbers of words from 1 on, and labels beside them."""
    scalars = {"batch_size": 16.0, "probe/words/0/min": 1.0, "probe/words/0/max": highest}
    labels = [sample(Kind.TENSOR, "label/0", RANDOM.integers(0, 2, 16))]
    return [record(step, scalars, labels) for step in range(steps)]


def test_words_that_are_all_unknown() -> None:
    """They have one number, whatever was written."""
    finding = found(words(1.0))["input-constant"]
    assert (Severity.ERROR, 0) == (finding.severity, finding.first_step)
    assert "have the number 1 " in finding.message
    assert {} == found(words(2.0))


def test_single_examples_may_be_constant() -> None:
    """An agent asks about one state at a time."""
    records = with_inputs(lambda step: np.zeros(4))
    for each in records:
        each.scalars["batch_size"] = 1.0
    assert {} == found(records)


def test_words_beside_a_constant_input() -> None:
    """Numbers of words are an input, too; what is constant beside them may be a mask."""
    words = Node("", "Net", order=0, inputs=(TensorType((16, 5), "int64"), TensorType((16, 8), "float32")))
    records = with_inputs(lambda step: np.ones((16, 8)))
    assert Severity.INFO is found(records, layers=Graph((words,)))["input-constant"].severity


def pictures(losses: Sequence[float], *, baseline: float = 2.3, size: float = 120.0) -> list[StepRecord]:
    facts = [("loss-call", call("cross_entropy"))]
    return [
        record(
            step,
            {"loss": loss, "batch_size": 16.0, "probe/loss/0/value": loss, "probe/loss/0/baseline": baseline},
            [sample(Kind.TENSOR, "input/0", RANDOM.uniform(0, 2 * size, (16, 8)))] if step < 16 else (),
            facts if step == 0 else (),
        )
        for step, loss in enumerate(losses)
    ]


def test_large_inputs_that_hurt() -> None:
    """The loss has not come below that of a constant answer."""
    finding = found(pictures([40.0, 9.0, 4.0, *[2.4] * 77]))["input-scale"]
    assert finding.severity is Severity.WARNING
    assert finding.where == ["input/0"]


def test_the_loss_is_told_as_it_is_recorded() -> None:
    """Also where the loss function adds up what the training divides by the number of words."""
    records = pictures([40.0, 9.0, 4.0, *[2.4] * 77])
    for each in records:
        for name in ("value", "baseline"):
            each.scalars[f"probe/loss/0/{name}"] *= 900.0
    message = found(records)["input-scale"].message
    assert "the loss went from 40 to 2.4 in" in message
    assert "a constant answer would have 2.3" in message


def test_large_inputs_that_work() -> None:
    """Worth knowing, no more; ordinary ones not even that."""
    falling = [40.0 / (1 + step) for step in range(80)]
    assert {"input-scale": Severity.INFO} == severities(pictures(falling))
    assert {} == found(pictures([2.4] * 80, size=1.0))


def test_large_inputs_that_are_being_learned() -> None:
    """It began far above, and is on its way; and a first layer may scale them itself."""
    coming = [40.0 * 0.96**step for step in range(70)]
    assert {"input-scale": Severity.INFO} == severities(pictures(coming))
    layers = graph(("norm", "BatchNorm1d"), ("linear", "Linear"))
    assert Severity.INFO is found(pictures([2.4] * 80), layers=layers)["input-scale"].severity


def test_features_of_very_different_scale() -> None:
    records = pictures([0.7] * 80, baseline=0.69, size=1.0)
    for each in records:
        each.scalars["probe/input/0/feature_scale_ratio"] = 5e4
    assert Severity.WARNING is found(records)["input-scale"].severity


# ---- how batches come


def same_batch(steps: int = 60, **scalars: float) -> list[StepRecord]:
    return [record(step, {"probe/batch_id": 77.0, **scalars}) for step in range(steps)]


def repeated(records: list[StepRecord]) -> Severity | None:
    return severities(records).get("input-repeated-batch")


def test_the_first_batch_again_and_again() -> None:
    """`next(iter(loader))` in every step."""
    records = same_batch(**{"probe/loader_batches": 30.0})
    for each in records:
        each.scalars["probe/loader_restarts"] = each.step + 1.0
    finding = found(records)["input-repeated-batch"]
    assert (Severity.WARNING, 0) == (finding.severity, finding.first_step)


def test_a_slice_that_never_moves() -> None:
    assert Severity.WARNING is repeated(
        same_batch(**{"probe/batch_is_slice": 1.0, "probe/batch_share": 0.06})
    )


def test_the_whole_of_the_data() -> None:
    """XOR, one batch learned by heart on purpose, the larger part of a split."""
    assert Severity.INFO is repeated(same_batch())
    assert Severity.INFO is repeated(
        same_batch(**{"probe/loader_batches": 1.0, "probe/loader_restarts": 60.0})
    )
    assert Severity.INFO is repeated(
        same_batch(**{"probe/loader_batches": 30.0, "probe/loader_restarts": 1.0})
    )
    assert Severity.INFO is repeated(same_batch(**{"probe/batch_is_slice": 1.0, "probe/batch_share": 0.8}))


def test_a_seed_that_is_set_in_every_step() -> None:
    """Whatever is drawn at random is the same each time, and so is the batch."""
    finding = found(same_batch(**{"probe/random_set_back": 1.0}))["input-repeated-batch"]
    assert (Severity.WARNING, 0) == (finding.severity, finding.first_step)
    assert "seed" in finding.message
    assert "seed" in finding.advice


def test_a_seed_that_is_set_from_time_to_time() -> None:
    """At the beginning of each pass over the data, or before an evaluation; or the batches differ."""
    records = same_batch()
    for each in records:
        each.scalars["probe/random_set_back"] = float(each.step % 2)
    assert Severity.INFO is repeated(records)
    changing = [
        record(step, {"probe/batch_id": float(step), "probe/random_set_back": 1.0}) for step in range(60)
    ]
    assert {} == found(changing)


def test_batches_that_change() -> None:
    """Also those that come round in order, and those of which two in a row are alike."""
    assert {} == found([record(step, {"probe/batch_id": float(step // 5 % 8)}) for step in range(60)])


def waiting(data: float, whole: float, steps: int = 60, **scalars: float) -> Severity | None:
    times = {"time/data": data, "time/forward": 1e-4, "time/step": whole}
    records = [record(step, {**times, **scalars}) for step in range(steps)]
    return severities(records).get("data-wait")


@pytest.mark.parametrize(
    ("data", "whole", "severity"),
    [
        (0.030, 0.040, Severity.WARNING),
        (0.012, 0.040, Severity.INFO),
        (0.004, 0.040, None),
        (0.0008, 0.001, None),
        (0.003, 0.004, None),
    ],
)
def test_waiting_for_data(data: float, whole: float, severity: Severity | None) -> None:
    """The share counts, but not of a step that takes no time at all."""
    assert severity is waiting(data, whole)


def test_without_a_loader_it_may_be_work() -> None:
    """Another network that is not watched; and a model that is called in parts has no forward pass."""
    assert Severity.INFO is waiting(0.024, 0.04)
    assert Severity.WARNING is waiting(0.024, 0.04, **{"probe/loader_batches": 30.0})
    records = [record(step, {"time/data": 0.03, "time/step": 0.04}) for step in range(60)]
    assert {} == found(records)


@pytest.mark.parametrize(
    ("scalars", "begins"),
    [
        ({}, "No loader was seen, so look at the code between"),
        ({"probe/loader_batches": 30.0}, "Load in other processes"),
    ],
)
def test_advice_for_waits_fits_both_causes(scalars: dict[str, float], begins: str) -> None:
    """A loop that sleeps or saves looks like one that waits for its loader; more workers do not help it."""
    times = {"time/data": 0.03, "time/forward": 1e-4, "time/step": 0.04}
    told = found([record(step, {**times, **scalars}) for step in range(60)])["data-wait"]
    assert told.advice.startswith(begins)
    assert "pauses" in told.advice
    assert told.message.endswith("for data, or for other work that the loop does between two steps.")


def test_an_evaluation_is_no_wait() -> None:
    """Nor are the first steps, in which workers start."""
    assert waiting(0.03, 0.04, **{"probe/evaluations": 5.0}) is None
    assert waiting(0.03, 0.04, steps=20) is None
