"""Rules over train and eval mode and over the learning rate, on trainings made up number by number."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
import pytest

from tb_netdebug.checks.engine import Engine
from tb_netdebug.checks.finding import Finding, Severity
from tb_netdebug.checks.rules.modes import RULES
from tb_netdebug.core.records.step import Fact, Kind, StepRecord
from tests.support.loss_calls import call
from tests.support.stories import judged, record, sample

RANDOM = np.random.default_rng(0)


def found(records: Iterable[StepRecord]) -> dict[str, Finding]:
    return judged(RULES, records)


def modes(**more: Any) -> tuple[str, dict[str, Any]]:
    fact = {"eval": [], "total": 2, "root_eval": False, "frozen": [], "evaluating_in_train": []}
    return "modes", {**fact, "evaluating_root_train": False, "evaluation_calls_in_a_row": 0, **more}


# ---- eval-mode-training


def in_eval(count: float, *, since: int = 0, steps: int = 30, root_eval: bool = True) -> Finding | None:
    names = ["drop", "norm"][: int(count)]
    records = [
        record(
            step,
            {"probe/mode_modules": 2.0, "probe/eval_modules": count if step >= since else 0.0},
            facts=[modes(eval=names, root_eval=root_eval)] if step == since else (),
        )
        for step in range(steps)
    ]
    return found(records).get("eval-mode-training")


@pytest.mark.parametrize("since", [0, 20])
def test_training_in_eval_mode_is_said_at_once(since: int) -> None:
    """In the very step, with the layers it is about."""
    finding = in_eval(2.0, since=since, steps=since + 1)
    assert finding is not None
    assert (Severity.ERROR, since, ["drop", "norm"]) == (finding.severity, finding.first_step, finding.where)


def test_some_layers_in_eval_mode_are_a_choice() -> None:
    """And so are all of them when the model itself is in train mode."""
    assert in_eval(1.0) is None
    assert in_eval(0.0) is None
    finding = in_eval(2.0, root_eval=False)
    assert finding is not None
    assert finding.severity is Severity.INFO


# ---- train-mode-evaluating


def evaluated(
    every: int,
    calls: float,
    *,
    in_train: float | None = None,
    steps: int = 60,
    loss: str = "scalar/eval_loss",
) -> Finding | None:
    fact = modes(evaluating_in_train=["drop"], evaluating_root_train=True)
    records = []
    for step in range(steps):
        scalars = {"loss": 1.0}
        if step % every == every - 1:
            scalars["probe/evaluations"] = calls
            scalars["probe/train_mode_evaluations"] = calls if in_train is None else in_train
            if loss:
                scalars[loss] = 1.1
        records.append(record(step, scalars, facts=[fact] if step == every - 1 else ()))
    return found(records).get("train-mode-evaluating")


def test_an_evaluation_in_train_mode_is_said_at_once() -> None:
    """Several calls in a row with a loss are an evaluation."""
    finding = evaluated(10, 4.0, steps=10)
    assert finding is not None
    assert (Severity.WARNING, 9, ["drop"]) == (finding.severity, finding.first_step, finding.where)
    assert evaluated(20, 1.0, loss="scalar/val_loss") is not None


def test_other_calls_without_gradients() -> None:
    """In eval mode; a target or teacher in each step; samples without a loss."""
    assert evaluated(10, 4.0, in_train=0.0) is None
    assert evaluated(1, 1.0) is None
    assert evaluated(10, 4.0, loss="") is None
    assert evaluated(10, 4.0, loss="scalar/accuracy") is None


@pytest.mark.parametrize(
    ("loss", "is_told"),
    [
        ("scalar/val_loss", True),
        ("scalar/valLoss", True),
        ("scalar/test_acc", True),
        ("scalar/accuracy", False),
    ],
)
def test_a_line_that_drops_units_in_eval_mode(loss: str, is_told: bool) -> None:
    """In the step of the evaluation, when it is one: without a loss it may be a sample."""
    scalars = {"probe/evaluations": 1.0, "probe/train_mode_evaluations": 0.0, loss: 1.0}
    fact = modes(functional_dropout=["model.py:31"])
    finding = found(
        record(step, scalars if step == 20 else {}, facts=[fact] if step == 20 else ()) for step in range(21)
    ).get("train-mode-evaluating")
    assert is_told == (finding is not None)
    if finding is not None:
        assert (Severity.WARNING, 20, 20) == (finding.severity, finding.first_step, finding.last_step)
        assert "model.py:31" in finding.message


def test_dropout_alone_is_switched_on_on_purpose() -> None:
    """Many samples of one answer tell how sure it is."""
    scalars = {"probe/evaluations": 8.0, "probe/train_mode_evaluations": 8.0, "scalar/val_loss": 1.0}
    fact = modes(evaluating_in_train=["drop"], evaluating_root_train=False)
    assert {} == found([record(step, scalars if step == 20 else {}, facts=[fact]) for step in range(40)])


# ---- learning-rate-zero


def with_rates(rates: Sequence[float], *, others: float | None = None, every: int = 1) -> list[StepRecord]:
    return [
        record(
            step,
            {"lr/0": rate}
            | ({} if others is None else {"lr/1": others})
            | ({"time/optimizer": 1e-4} if step % every == every - 1 else {}),
            [sample(Kind.WEIGHT, "weight", [1.0, 2.0])] if step < 16 or step % 20 == 0 else (),
        )
        for step, rate in enumerate(rates)
    ]


def zero(rates: Sequence[float], **more: Any) -> Finding | None:
    return found(with_rates(rates, **more)).get("learning-rate-zero")


def test_no_learning_rate_from_the_beginning() -> None:
    """Two steps are enough."""
    finding = zero([0.0, 0.0])
    assert finding is not None
    assert (Severity.ERROR, 0) == (finding.severity, finding.first_step)


def test_a_schedule_that_ran_out() -> None:
    """A tenth of it in every step: it is as good as 0 long before the end."""
    finding = zero([10.0**-step for step in range(80)])
    assert finding is not None
    assert (Severity.WARNING, 7) == (finding.severity, finding.first_step)


@pytest.mark.parametrize(
    "rates",
    [
        [0.0, *[1e-3 * step for step in range(1, 60)]],
        [0.1 * (1 + np.cos(np.pi * step / 59)) for step in range(60)],
        [*[0.1] * 190, *[0.0] * 10],
        [1e-6] * 60,
        [0.1, *[0.1 * 0.9**step for step in range(60)]],
    ],
)
def test_schedules(rates: list[float]) -> None:
    """A warm-up that begins at 0, a cosine that ends there, a few last steps, tiny rates."""
    assert zero(rates) is None


def test_another_group_learns() -> None:
    """One group is frozen by its rate."""
    assert zero([0.0] * 40, others=1e-3) is None


def test_a_warm_up_over_accumulated_batches() -> None:
    """The optimizer has stepped only once with it."""
    assert zero([*[0.0] * 8, *[0.1] * 40], every=8) is None


# ---- learning-rate-high


def stepping(
    loss: Callable[[int], float], ratio: float, *, steps: int = 64, baseline: float | None = 2.3
) -> list[StepRecord]:
    weight = RANDOM.normal(size=64)
    records = []
    for step in range(steps):
        scalars = {"loss": loss(step), "lr/0": 3.0, "time/optimizer": 1e-4}
        if baseline is not None:
            scalars |= {"probe/loss/0/value": loss(step), "probe/loss/0/baseline": baseline}
        samples = [
            each
            for name in ("first.weight", "second.weight")
            for each in (
                sample(Kind.WEIGHT, name, weight),
                sample(Kind.UPDATE, name, ratio * RANDOM.normal(size=64)),
            )
        ]
        facts = [("loss-call", call("cross_entropy"))] if step == 0 and baseline is not None else ()
        records.append(record(step, scalars, samples, facts))
    return records


def steps_of(
    loss: Callable[[int], float], ratio: float, *, steps: int = 64, baseline: float | None = 2.3
) -> dict[str, Finding]:
    return found(stepping(loss, ratio, steps=steps, baseline=baseline))


def test_large_updates_and_a_rising_loss() -> None:
    """A warning; an error when the loss is ten times what it was, or no number."""
    for loss, severity in (
        (lambda step: 2.3 + 0.1 * step, Severity.WARNING),
        (lambda step: 2.3 * 1.2**step, Severity.ERROR),
        (lambda step: 2.3 if step < 20 else float("nan"), Severity.ERROR),
    ):
        assert severity is steps_of(loss, 0.4)["learning-rate-high"].severity


@pytest.mark.parametrize("is_traced", [True, False])
def test_a_loss_that_the_batch_has_ruined_says_nothing_of_the_rate(is_traced: bool) -> None:
    """Whether the origin of the NaN was traced, or a sample of the batch shows it."""
    records = stepping(lambda step: 2.3 if step < 20 else float("nan"), 0.4)
    assert "learning-rate-high" in found(records)
    if is_traced:
        fact = {"what": "input", "where": "Net", "kind": "NaN", "tensor": "input[0]"}
        records[20].facts.append(Fact("first-nonfinite", fact))
    else:
        records[20].samples.append(sample(Kind.TENSOR, "input/0", [1.0, float("nan")]))
    assert {} == found(records)


BY_THE_BATCH = {"what": "input", "where": "Net", "kind": "NaN", "tensor": "input[0]", "rank": 1}


@pytest.mark.parametrize("is_of_batch", [True, False])
def test_another_process_is_asked_before_the_rate_is_blamed(is_of_batch: bool) -> None:
    """Its steps come later than those of this one: by then NaN is in the averaged gradients of all."""
    engine = Engine()
    engine.describe(info={"processes": 2})
    engine.feed(stepping(lambda step: 2.3 if step < 20 else float("nan"), 0.4))
    assert "learning-rate-high" not in [each.rule for each in engine.findings]
    facts = [("first-nonfinite", BY_THE_BATCH)] if is_of_batch else []
    engine.feed([record(step, {"loss": 2.0}, (), facts if step == 19 else []) for step in range(21)], rank=1)
    engine.finish()
    assert is_of_batch is ("learning-rate-high" not in [each.rule for each in engine.findings])


def test_the_rate_is_no_longer_blamed_when_the_batch_is_known_to_be_bad() -> None:
    """An answer may come after its step."""
    engine = Engine()
    records = stepping(lambda step: 2.3 if step < 20 else float("nan"), 0.4)
    engine.feed(records[:40])
    assert "learning-rate-high" in [each.rule for each in engine.findings]
    records[40].facts.append(Fact("first-nonfinite", {**BY_THE_BATCH, "step": 20, "rank": 0}))
    engine.feed(records[40:])
    engine.finish()
    (said,) = (each for each in engine.findings if each.rule == "learning-rate-high")
    assert "the origin of the first NaN is now known" in said.message
    assert Severity.INFO == said.severity
    assert "nonfinite-input" in [each.rule for each in engine.findings]


@pytest.mark.parametrize(
    ("gone", "risen", "is_known", "is_blamed"),
    [(100, 1.0, True, False), (100, 1.0, False, True), (20, 1.0, True, True), (100, 9.0, True, True)],
    ids=["long after", "unknown", "soon", "with a loss that rose"],
)
def test_a_nan_of_known_origin_long_after_large_steps(
    gone: int, risen: float, is_known: bool, is_blamed: bool
) -> None:
    """It is no effect of the first steps, unless the loss was ruined by them."""
    large = stepping(lambda step: 2.3, 0.4, steps=4)
    losses = [risen * (2.3 - 0.01 * step) for step in range(gone)] + [float("nan")] * 20
    records = stepping(lambda step: losses[step], 0.001, steps=len(losses))
    for each, first in zip(records, large, strict=False):
        each.samples[:] = first.samples
        each.scalars["loss"] = 2.3
    if is_known:
        fact = {"what": "loss", "operation": "log", "site": "train.py:9", "backward": "", "kind": "NaN"}
        records[gone].facts.append(Fact("first-nonfinite", fact))
    assert is_blamed is ("learning-rate-high" in found(records))


def test_large_updates_and_a_loss_that_stays() -> None:
    """After a jump the network says the same to everything."""
    finding = steps_of(lambda step: 2.3 + 900 * (step == 1), 0.9)["learning-rate-high"]
    assert finding.severity is Severity.WARNING
    assert "lr=0.3" in finding.advice


@pytest.mark.parametrize(
    ("growth", "pace", "is_said"), [(300.0, 0.0, True), (3.0, 0.0, False), (300.0, 0.01, False)]
)
def test_large_updates_and_outputs_that_have_grown(growth: float, pace: float, is_said: bool) -> None:
    """The network has learned a little, and no more: what the first steps did to it stays."""
    records = stepping(lambda step: 2.0 - pace * step, 0.9)
    for each in records:
        size = growth if each.step else 1.0
        each.samples.append(sample(Kind.ACTIVATION, "first", size * RANDOM.normal(size=64)))
    assert is_said is ("learning-rate-high" in found(records))


def test_large_updates_that_work() -> None:
    """The loss falls: nothing is too high."""
    assert {} == steps_of(lambda step: 2.3 * 0.95**step, 0.9)


def test_weights_that_begin_at_zero() -> None:
    """Whatever their first update is, it is all that they are: that says nothing of the rate."""
    records = []
    for step in range(64):
        samples = [sample(kind, "weight", np.full(8, 0.01)) for kind in (Kind.WEIGHT, Kind.UPDATE)]
        records.append(record(step, {"loss": 2.3, "lr/0": 0.1, "time/optimizer": 1e-4}, samples))
    assert {} == found(records)


@pytest.mark.parametrize("loss", [lambda step: 2.3 + step, lambda step: 2.3, lambda step: float("nan")])
def test_small_updates_have_other_troubles(loss: Callable[[int], float]) -> None:
    """The loss rises, stays or is no number, but not because of the learning rate."""
    assert {} == steps_of(loss, 0.003)


def test_the_loss_of_an_agent_may_rise() -> None:
    """Where nobody knows what a constant answer would get, large updates are needed as well."""
    assert {} == steps_of(lambda step: 1.0 + 0.1 * step, 0.15, baseline=None)
