"""Rules over the loss, on made-up trainings: what must be said, and what must not."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence

import numpy as np
import pytest

from tb_netdebug.checks.finding import Finding, Severity
from tb_netdebug.checks.rules.loss import RULES
from tb_netdebug.checks.wording.phrases import number
from tb_netdebug.core.records.step import Kind, StepRecord
from tests.support.stories import judged, record, sample

LN10 = math.log(10)
CLASSES = {
    "id": 0,
    "function": "cross_entropy",
    "reduction": "mean",
    "target_shape": [64],
    "site": "train.py:7",
}
NUMBERS = {
    "id": 0,
    "function": "mse_loss",
    "reduction": "mean",
    "target_shape": [64, 1],
    "site": "train.py:7",
}


def noisy(levels: Iterable[float], noise: float = 0.02, seed: int = 0) -> list[float]:
    random = np.random.default_rng(seed)
    return [level * (1 + noise * random.standard_normal()) for level in levels]


def learning(steps: int = 200, start: float = LN10, end: float = 0.2) -> list[float]:
    return noisy((end + (start - end) * math.exp(-step / 30) for step in range(steps)), 0.05)


def training(
    losses: Sequence[float],
    *,
    call: Mapping[str, object] | None = None,
    numbers: Mapping[str, float] | None = None,
    scalars: Mapping[str, Sequence[float]] | None = None,
    measured: int = 32,
) -> list[StepRecord]:
    """The loss call is measured in the first steps and in every fourth, as the probe does it."""
    records = []
    for step, loss in enumerate(losses):
        known = {"loss": loss} | {name: values[step] for name, values in (scalars or {}).items()}
        if call and (step < measured or step % 4 == 0):
            known |= {f"probe/loss/0/{name}": value for name, value in (numbers or {}).items()}
            known.setdefault("probe/loss/0/value", loss)
        facts = [("loss-call", dict(call))] if call and step == 0 else []
        records.append(record(step, known, (), facts))
    return records


AT_CHANCE = {"baseline": 2.23, "uniform": LN10, "classes": 10.0, "accuracy": 0.1, "top_share": 0.17}


def classes(losses: Sequence[float], **changes: float) -> dict[str, Finding]:
    return judged(RULES, training(losses, call=CLASSES, numbers=AT_CHANCE | changes))


def alarms(found: Mapping[str, Finding]) -> list[str]:
    return [slug for slug, finding in found.items() if finding.severity > Severity.INFO]


def test_a_healthy_training_is_left_alone() -> None:
    assert {} == classes(learning())
    assert [] == alarms(judged(RULES, training(learning())))


@pytest.mark.parametrize("scale", [1e-6, 1.0, 1e9])
def test_the_scale_of_the_loss_is_no_matter(scale: float) -> None:
    assert {} == judged(RULES, training([scale * loss for loss in learning()]))


# ---- at the start


@pytest.mark.parametrize(("first", "is_said"), [(2.3, False), (6.5, False), (7.5, True), (40.0, True)])
def test_a_first_loss_that_is_added_up_over_words(first: float, is_said: bool) -> None:
    """As libraries for texts do it: of 64 words in a batch 50 count, and the sum is divided by them."""
    call = {**CLASSES, "reduction": "sum", "num_classes": 10}
    numbers = {**AT_CHANCE, "baseline": 50 * 2.23, "uniform": 50 * LN10}
    losses = learning(100, start=first)
    records = training(losses, call=call, numbers=numbers)
    for each, loss in zip(records, losses, strict=True):
        if "probe/loss/0/uniform" in each.scalars:
            each.scalars["probe/loss/0/value"] = 50 * loss
    found = judged(RULES, records)
    assert is_said is ("loss-at-chance-start" in alarms(found))
    if is_said:
        said = found["loss-at-chance-start"].message
        assert f"The first loss is {number(losses[0])} for each answer" in said


@pytest.mark.parametrize(("first", "is_said"), [(2.3, False), (6.5, False), (7.5, True), (40.0, True)])
def test_a_first_loss_far_above_guessing(first: float, is_said: bool) -> None:
    found = classes(learning(100, start=first))
    assert is_said is ("loss-at-chance-start" in alarms(found))
    if is_said:
        said = found["loss-at-chance-start"]
        assert (0, Severity.WARNING) == (said.first_step, said.severity)
        assert pytest.approx(2.5 * 1.25 * LN10) == said.evidence["first loss"].limit


@pytest.mark.parametrize(("rows", "is_said"), [(25, False), (256, True)])
def test_a_first_loss_of_few_answers(rows: int, is_said: bool) -> None:
    """The mean of few lies high by chance: it has to be higher, to prove as much."""
    call = {**CLASSES, "target_shape": [rows]}
    found = judged(RULES, training(learning(100, start=7.5), call=call, numbers=AT_CHANCE))
    assert is_said is ("loss-at-chance-start" in alarms(found))


def test_a_first_loss_of_distances() -> None:
    """Those of a few prototypes are as high as they happen to be."""
    call = {**CLASSES, "last_layer": "Neg"}
    found = judged(RULES, training(learning(100, start=40.0), call=call, numbers=AT_CHANCE))
    assert Severity.INFO is found["loss-at-chance-start"].severity


@pytest.mark.parametrize(("ratio", "severity"), [(50.0, Severity.INFO), (20000.0, Severity.WARNING)])
def test_a_first_loss_that_comes_of_large_inputs(ratio: float, severity: Severity) -> None:
    """input-scale says it where it hurts; columns of very different size are a mistake at once."""
    records = training(learning(100, start=40.0), call=CLASSES, numbers=AT_CHANCE)
    records[0].samples.append(sample(Kind.TENSOR, "input/0", [0.0, 150.0, 255.0]))
    records[0].scalars["probe/input/0/feature_scale_ratio"] = ratio
    assert severity is judged(RULES, records)["loss-at-chance-start"].severity


def test_targets_far_from_zero_are_no_fault() -> None:
    """Of the loss it is the outputs' own width that counts."""
    numbers = {"baseline": 25.0, "target_mean": 1000.0, "target_std": 5.0, "input_std": 0.3}
    losses = noisy(1e6 * math.exp(-step / 20) + 20 for step in range(150))
    assert [] == alarms(judged(RULES, training(losses, call=NUMBERS, numbers=numbers)))
    wide = numbers | {"target_mean": 0.0, "input_std": 1000.0}
    found = judged(RULES, training(losses, call=NUMBERS, numbers=wide))
    assert ["loss-at-chance-start"] == alarms(found)


# ---- guessing


def test_a_loss_that_stays_at_guessing() -> None:
    found = classes(noisy([LN10] * 120, 0.003))
    said = found["loss-at-chance"]
    assert (Severity.WARNING, 0) == (said.severity, said.first_step)
    assert pytest.approx(LN10, rel=0.01) == said.evidence["loss of the best constant answer"].value
    assert "2.30" in said.message
    assert Severity.ERROR is classes(noisy([LN10] * 450, 0.003))["loss-at-chance"].severity


def test_noise_that_was_low_by_luck_has_learned_nothing() -> None:
    """Some stretch of a noisy loss lies far below guessing; one of a quiet loss does not by chance."""
    numbers = {"baseline": 1.0, "target_mean": 0.0, "target_std": 1.0, "input_std": 0.1}
    lucky = [0.86 if 40 <= step < 48 else 1.0 for step in range(200)]
    for noise, is_said in ((0.2, True), (0.01, False)):
        found = judged(RULES, training(noisy(lucky, noise, seed=1), call=NUMBERS, numbers=numbers))
        assert is_said is ("loss-at-chance" in alarms(found))


@pytest.mark.parametrize(("level", "is_said"), [(1.0, True), (0.9, False)])
def test_guessing_is_known_by_the_same_batches(level: float, is_said: bool) -> None:
    """Some batches are hard for everybody, and the few in which somebody looked were so by chance."""
    random = np.random.default_rng(2)
    hardness = 1.0 + 0.2 * random.standard_normal(200)
    hardness[:32] += 0.2
    records = training(list(level * hardness), call=NUMBERS)
    for each, guess in zip(records, hardness, strict=True):
        if "probe/loss/0/value" in each.scalars and (each.step < 32 or each.step % 16 == 0):
            each.scalars["probe/loss/0/baseline"] = guess * 63 / 64
        else:
            each.scalars.pop("probe/loss/0/value", None)
    assert is_said is ("loss-at-chance" in alarms(judged(RULES, records)))


def test_it_is_said_sooner_where_nothing_moves() -> None:
    records = training(
        noisy([LN10] * 64, 0.003), call=CLASSES, numbers=AT_CHANCE, scalars={"lr/0": [0.0] * 64}
    )
    assert "the learning rate is 0" in judged(RULES, records)["loss-at-chance"].message
    assert "loss-at-chance" not in classes(noisy([LN10] * 64, 0.003))


@pytest.mark.parametrize(
    "losses",
    [
        pytest.param([2.3 - 0.002 * step for step in range(150)], id="slow"),
        pytest.param([2.3] * 60 + [2.3 * math.exp(-step / 20) for step in range(90)], id="late"),
        pytest.param([2.0] * 150, id="below"),
    ],
)
def test_what_is_not_at_guessing(losses: list[float]) -> None:
    assert "loss-at-chance" not in classes(noisy(losses, 0.002))


def test_right_answers_are_no_guesses() -> None:
    assert "loss-at-chance" not in classes(noisy([LN10] * 150, 0.003), accuracy=0.5)


def test_a_rate_that_still_rises_is_waited_for() -> None:
    rates = [1e-4 * step for step in range(150)]
    records = training(noisy([LN10] * 150, 0.003), call=CLASSES, numbers=AT_CHANCE, scalars={"lr/0": rates})
    assert [] == alarms(judged(RULES, records))


def of_two_parts(values: Sequence[float], rests: Sequence[float]) -> dict[str, Finding]:
    """An error, of which guessing gets 0.07, and what is added to it."""
    losses = [value + rest for value, rest in zip(values, rests, strict=True)]
    records = training(losses, call=NUMBERS, numbers={"baseline": 0.069})
    for each, value in zip(records, values, strict=True):
        if "probe/loss/0/value" in each.scalars:
            each.scalars["probe/loss/0/value"] = value
    return judged(RULES, records)


FADING = [8.0 * math.exp(-step / 20) for step in range(200)]


def test_a_part_of_the_loss_that_stays_at_guessing() -> None:
    """What was added was far larger, is gone now, and nothing else was learned."""
    said = of_two_parts(noisy([0.072] * 200, 0.003), FADING)["loss-at-chance"]
    assert (Severity.WARNING, 0, ["train.py:7"]) == (said.severity, said.first_step, said.where)
    assert pytest.approx(1.03, rel=0.02) == said.evidence["share of the error of a constant answer"].value


@pytest.mark.parametrize(
    ("values", "rests"),
    [
        pytest.param(noisy([0.05] * 200, 0.003), FADING, id="it has learned"),
        pytest.param(noisy([0.05] * 60 + [0.072] * 140, 0.003), FADING, id="it had learned"),
        pytest.param(
            noisy([0.072] * 200, 0.003), [8 * math.exp(-step / 80) for step in range(200)], id="still two"
        ),
        pytest.param(noisy([0.072] * 80, 0.003), FADING[:80], id="too soon"),
    ],
)
def test_a_part_of_the_loss_that_is_no_such_thing(values: list[float], rests: list[float]) -> None:
    assert "loss-at-chance" not in of_two_parts(values, rests)


# ---- not learning


def test_a_loss_that_does_not_leave_its_start() -> None:
    said = judged(RULES, training(noisy([5.0] * 150, 0.1)))["not-learning"]
    assert (Severity.WARNING, 0) == (said.severity, said.first_step)
    assert pytest.approx(5.0, rel=0.1) == said.evidence["loss at the start"].value


@pytest.mark.parametrize("length", [40, 60, 100])
def test_short_trainings_are_given_time(length: int) -> None:
    assert [] == alarms(judged(RULES, training(noisy([5.0] * length, 0.1))))


def test_fine_tuning_begins_where_it_stays() -> None:
    assert [] == alarms(classes(noisy([0.3] * 200, 0.2)))


def test_policies_need_not_learn_by_their_loss() -> None:
    random = np.random.default_rng(0)
    assert [] == alarms(judged(RULES, training(list(random.normal(0.5, 1.0, 300)))))
    assert [] == alarms(judged(RULES, training(list(random.lognormal(0.0, 1.0, 300)))))


def test_two_optimizers_contend() -> None:
    records = training(noisy([0.7] * 200, 0.05), call=CLASSES, numbers={"baseline": 0.69, "uniform": 0.69})
    records[0].facts += record(0, facts=[("optimizer", {"id": each}) for each in (0, 1)]).facts
    assert [] == alarms(judged(RULES, records))


def test_what_another_optimizer_trains_contends() -> None:
    records = training(noisy([0.7] * 200, 0.05), call=CLASSES, numbers={"baseline": 0.69, "uniform": 0.69})
    records[0].facts += record(0, facts=[("elsewhere", {"tensors": 4})]).facts
    assert [] == alarms(judged(RULES, records))


@pytest.mark.parametrize(("highest", "spread"), [(3.0, 0.02), (6.0, 0.2)])
def test_contrasts_get_harder_while_the_network_learns(highest: float, spread: float) -> None:
    """The first of many is always the right one: guessing would get 0, and that says nothing."""
    losses = noisy(np.linspace(2.0, highest, 300), spread)
    numbers = {"baseline": 0.0, "uniform": 5.5, "classes": 1.0, "top_share": 1.0, "accuracy": 0.3}
    assert [] == alarms(judged(RULES, training(losses, call=CLASSES, numbers=numbers)))


# ---- rising


def test_a_loss_that_runs_away() -> None:
    losses = [2.0 * 1.3**step for step in range(40)]
    said = judged(RULES, training(losses))["diverging-loss"]
    assert Severity.ERROR is said.severity
    assert said.first_step < 16


def test_a_loss_that_climbs_until_it_is_no_number() -> None:
    losses = [2.0, 5.0, 80.0, 4e3, 1e6, 1e12, math.inf, math.nan]
    said = judged(RULES, training(losses))["diverging-loss"]
    assert Severity.ERROR is said.severity
    assert "and then was no longer finite" in said.message


def test_an_overshoot_that_calms_down_is_none() -> None:
    """The catapult of a large learning rate that works."""
    losses = [2.0 * 1.5**step for step in range(10)] + [77.0 * 0.8**step for step in range(90)]
    assert [] == alarms(judged(RULES, training(noisy(losses, 0.05))))


@pytest.mark.parametrize(("guess", "is_told"), [(0.01, True), (0.08, False)])
def test_data_that_become_harder_are_no_runaway(guess: float, is_told: bool) -> None:
    """As when an agent finds its first reward: a constant answer gets as much worse as the network."""
    losses = noisy([0.01 * 0.98**step for step in range(40)] + [0.1] * 32, 0.1)
    records = training(losses, call=NUMBERS, numbers={"baseline": 0.01})
    for each in records[40:]:
        if "probe/loss/0/baseline" in each.scalars and each.step % 8 == 0:
            each.scalars["probe/loss/0/baseline"] = guess
    assert is_told is ("diverging-loss" in alarms(judged(RULES, records)))


def test_what_was_learned_may_be_lost() -> None:
    losses = [*learning(100), *noisy([LN10] * 64, 0.01)]
    said = judged(RULES, training(losses))["diverging-loss"]
    assert Severity.WARNING is said.severity
    assert 100 <= said.first_step <= 132


def raised_beside(function: Sequence[float], other: Sequence[float], guess: float) -> list[StepRecord]:
    """A loss function of its own beside a part whose weight is raised, as the divergence of a VAE."""
    losses = [sum(parts) for parts in zip(function, other, strict=True)]
    records = training(losses, call=NUMBERS, numbers={"baseline": guess}, measured=64)
    for each in records:
        if each.step < 64 or each.step % 64 == 0:  # later looks are rare
            each.scalars["probe/loss/0/value"] = function[each.step]
        else:
            for name in ("value", "baseline"):
                each.scalars.pop(f"probe/loss/0/{name}", None)
    return records


def ramp(end: float, steps: int = 400) -> list[float]:
    return [end * min(1.0, 2 * step / steps) for step in range(steps)]


def test_a_part_whose_weight_is_raised_is_no_guessing() -> None:
    """The sum is as high as guessing; its loss function is not, and no lower than it was early."""
    records = raised_beside(noisy([0.94] * 400, 0.01), ramp(0.1), 1.0)
    assert [] == alarms(judged(RULES, records))
    guessing = raised_beside(noisy([1.0] * 400, 0.01), ramp(0.06), 1.0)
    assert "loss-at-chance" in alarms(judged(RULES, guessing))


def test_a_part_whose_weight_is_raised_loses_nothing() -> None:
    """Nor is it a sign that nothing is learned."""
    function = noisy((0.2 + 0.8 * math.exp(-step / 40) for step in range(400)), 0.02)
    assert [] == alarms(judged(RULES, raised_beside(function, ramp(0.8), 0.9)))
    down = [0.01 + math.exp(-step / 10) + ramp(0.4)[max(step - 150, 0)] for step in range(400)]
    assert [] == alarms(judged(RULES, raised_beside(down, ramp(0.5), 0.9)))


def test_what_the_loss_has_left_is_over() -> None:
    """A late start makes a note of what was an error; the run is not sick any more."""
    late = [*noisy([LN10] * 450, 0.01), *learning(200)]
    early = classes(late[:450])
    assert Severity.ERROR is early["loss-at-chance"].severity
    found = classes(late)
    assert [] == alarms(found)
    assert found["loss-at-chance"].message.startswith(early["loss-at-chance"].message[:30])
    assert "this is over: the loss has come down to" in found["loss-at-chance"].message
    assert 449 >= found["loss-at-chance"].last_step > 400
    again = classes([*late, *noisy([LN10] * 64, 0.01)])
    assert ["diverging-loss"] == alarms(again)
    unknown = judged(RULES, training(late))
    assert [] == alarms(unknown)
    assert "this is over" in unknown["not-learning"].message


def test_what_was_lost_may_be_learned_again() -> None:
    losses = [*learning(100), *noisy([LN10] * 64, 0.01), *learning(100)]
    said = judged(RULES, training(losses))["diverging-loss"]
    assert Severity.INFO is said.severity
    assert "of its start again" in said.message


def test_bounces_near_zero_are_harmless() -> None:
    losses = [math.exp(-step / 8) for step in range(120)] + [1e-3] * 40
    assert [] == alarms(judged(RULES, training(losses)))


def test_rewards_may_grow() -> None:
    """A loss that was below zero and is of no known function may rise, within reason."""
    losses = [-0.5, *(0.1 * step for step in range(1, 200))]
    assert [] == alarms(judged(RULES, training(losses)))


def spiked(at: Sequence[int], height: float) -> list[float]:
    losses = learning(200)
    for step in at:
        losses[step] = height
    return losses


@pytest.mark.parametrize(
    ("at", "height", "severity"),
    [
        ([100], 20.0, Severity.WARNING),
        ([100], 4.0, Severity.INFO),
        ([80, 140], 4.0, Severity.WARNING),
        ([100], 2.0, None),
        ([10], 20.0, None),
    ],
)
def test_spikes(at: list[int], height: float, severity: Severity | None) -> None:
    """They are measured by the untrained network, so that jumps near zero are none."""
    said = judged(RULES, training(spiked(at, height))).get("loss-spike")
    assert severity == (said and said.severity)
    if said:
        assert at[0] == said.first_step
        assert height == said.evidence["highest loss"].value


def test_noise_with_long_tails_has_no_spikes() -> None:
    random = np.random.default_rng(3)
    assert [] == alarms(judged(RULES, training(list(random.lognormal(0.0, 1.0, 400)))))


def test_a_loss_that_swings() -> None:
    losses = [2.0 + 1.5 * math.sin(step / 2) for step in range(120)]
    said = judged(RULES, training(noisy(losses, 0.05)))["loss-oscillating"]
    assert Severity.WARNING is said.severity
    assert said.evidence["steps from high to high"].value in (12, 13)


@pytest.mark.parametrize(("spread", "is_told"), [(0.1, True), (0.8, False)])
def test_a_loss_that_swings_with_what_there_is_to_learn(spread: float, is_told: bool) -> None:
    """Where targets are nearly all alike in one batch and far apart in the next, so are the losses."""
    random = np.random.default_rng(4)
    losses = list(3.0 * random.lognormal(0.0, 0.6, 160))
    chances = list(random.lognormal(0.0, spread, 160))
    records = training(losses, call=NUMBERS, scalars={"probe/loss/0/baseline": chances})
    assert is_told == ("loss-oscillating" in judged(RULES, records))


def test_small_swings_count_where_batches_make_no_noise() -> None:
    losses = [2.0 + 0.1 * (-1) ** step for step in range(120)]
    assert "loss-oscillating" not in judged(RULES, training(losses))
    same = training(losses, scalars={"probe/batch_id": [7.0] * 120})
    assert 2.0 == judged(RULES, same)["loss-oscillating"].evidence["steps from high to high"].value


def test_swings_of_one_pass_are_the_order_of_the_data() -> None:
    losses = [2.0 + math.sin(step * math.pi / 5) for step in range(120)]
    records = training(losses, scalars={"probe/loader_batches": [10.0] * 120})
    assert Severity.INFO is judged(RULES, records)["loss-oscillating"].severity


def test_swings_on_the_way_down_are_none() -> None:
    losses = [(2.0 + math.sin(step / 2)) * math.exp(-step / 40) for step in range(160)]
    assert [] == alarms(judged(RULES, training(losses)))


# ---- below zero


def test_a_function_that_cannot_be_negative() -> None:
    call = CLASSES | {"function": "nll_loss"}
    found = judged(
        RULES, training(noisy([-0.25] * 40), call=call, numbers={"input_min": 0.0, "input_max": 0.6})
    )
    said = found["loss-negative"]
    assert (Severity.ERROR, 0, ["train.py:7"]) == (said.severity, said.first_step, said.where)
    assert 0.6 == said.evidence["max of what goes in"].value


def test_a_wrong_sign() -> None:
    losses = [-1.0 - 0.1 * step for step in range(60)]
    records = training(losses, call=NUMBERS)
    for each in records:
        if "probe/loss/0/value" in each.scalars:
            each.scalars["probe/loss/0/value"] = -each.scalars["loss"]
    said = judged(RULES, records)["loss-negative"]
    assert Severity.WARNING is said.severity
    assert "minus" in said.message


def test_a_likelihood_may_be_negative() -> None:
    found = judged(RULES, training(noisy([1.0 - 0.05 * step for step in range(100)])))
    assert Severity.INFO is found["loss-negative"].severity


# ---- later


def evaluated(losses: Sequence[float], evaluations: Mapping[int, float]) -> list[StepRecord]:
    records = training(losses)
    for step, value in evaluations.items():
        records[step].scalars["scalar/val_loss"] = value
    return records


def test_overfitting() -> None:
    rising = {20 * place: value for place, value in enumerate([2.3, 1.2, 0.9, 0.95, 1.1, 1.2, 1.3, 1.4])}
    said = judged(RULES, evaluated(learning(160, end=0.01), rising))["overfitting"]
    assert (Severity.WARNING, 40) == (said.severity, said.first_step)
    assert ["scalar/val_loss"] == said.where
    assert pytest.approx(1.1 / 0.9 - 1) == said.evidence["rise of val_loss"].value


@pytest.mark.parametrize(
    "values",
    [
        pytest.param([2.3, 1.2, 0.9, 0.92, 0.91, 0.93, 0.9, 0.92], id="flat"),
        pytest.param([2.3, 1.2, 0.9, 1.3, 0.8, 0.75, 0.7, 0.68], id="one bad"),
        pytest.param([2.3, 1.2, 0.9, 0.7, 0.6, 0.5, 0.7, 0.8], id="too early to say"),
    ],
)
def test_what_is_no_overfitting(values: list[float]) -> None:
    points = {20 * place: value for place, value in enumerate(values)}
    assert [] == alarms(judged(RULES, evaluated(learning(160, end=0.01), points)))


def test_both_losses_rising_is_no_overfitting() -> None:
    points = {20 * place: 0.5 + 0.1 * place for place in range(8)}
    found = judged(RULES, evaluated([0.4 + 0.004 * step for step in range(160)], points))
    assert "overfitting" not in found


def plateau(steps: int = 200) -> list[float]:
    return noisy((1.2 + 0.8 * max(0.0, 1 - step / 30) for step in range(steps)), 0.01)


def test_a_plateau_is_worth_knowing() -> None:
    assert Severity.INFO is judged(RULES, training(plateau()))["loss-plateau"].severity


def test_a_learning_rate_that_fell_too_soon() -> None:
    rates = [0.1 * 0.8**step for step in range(200)]
    said = judged(RULES, training(plateau(), scalars={"lr/0": rates}))["loss-plateau"]
    assert Severity.WARNING is said.severity
    assert "learning rate" in said.message


def test_a_cosine_that_ends_with_the_loss_is_fine() -> None:
    rates = [0.05 * (1 + math.cos(math.pi * step / 200)) for step in range(200)]
    assert [] == alarms(judged(RULES, training(learning(200, end=1.0), scalars={"lr/0": rates})))


def test_weights_that_do_not_move_explain_a_plateau() -> None:
    records = training(plateau())
    for each in records[::10]:
        each.samples += [sample(Kind.WEIGHT, "0.weight", [1.0]), sample(Kind.UPDATE, "0.weight", [1e-9])]
    assert Severity.WARNING is judged(RULES, records)["loss-plateau"].severity


def test_thresholds_can_be_set() -> None:
    found = judged(RULES, training(spiked([100], 20.0)), checks={"loss-spike": {"warn_above_start": 50}})
    assert Severity.INFO is found["loss-spike"].severity


def test_new_data_in_the_middle() -> None:
    """One jump far above the start, and as long a way down as from the beginning: no swing, and no spike."""
    for pace in (4, 8):
        later = noisy((0.6 + 9.0 * math.exp(-step / pace) for step in range(100)), 0.03)
        assert [] == alarms(classes([*learning(130), *later], baseline=1.6))
