"""How often is looked, what is held back, and what counts as trouble: on made-up costs, without a clock."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from itertools import pairwise

import pytest

from tb_netdebug.core.records.step import Kind, Sample, Series, StepRecord
from tb_netdebug.recording.governor import (
    FIRST_STEPS,
    SHARE_OF_UNSEEN,
    STEPS_AROUND_TROUBLE,
    STEPS_BETWEEN_ALERTS,
    Governor,
)
from tb_netdebug.recording.trouble import WARM_UP_STEPS, Trouble
from tb_netdebug.training.flight_recorder import FlightRecorder, size_of


class Simulation:
    """A training whose steps cost what it is told."""

    def __init__(self, governor: Governor, sample_secs: float, plain_secs: float = 0.0) -> None:
        self.governor = governor
        self.sample_secs = sample_secs
        self.plain_secs = plain_secs
        self.sampled: list[bool] = [governor.first()]
        self.user_secs = 0.0
        self.spent_secs = 0.0

    def run(self, steps: int, user_secs: Callable[[int], float] = lambda _: 0.01) -> list[bool]:
        """Which of these steps were sampled."""
        start = len(self.sampled) - 1
        for step in range(start, start + steps):
            sampled = self.sampled[-1]
            user, spent = user_secs(step), self.sample_secs if sampled else self.plain_secs
            self.user_secs += user
            self.spent_secs += spent
            self.sampled.append(self.governor.next(sampled=sampled, user_secs=user, spent_secs=spent))
        return self.sampled[start : start + steps]

    @property
    def share(self) -> float:
        return self.spent_secs / self.user_secs


@pytest.mark.parametrize("overhead", [0.005, 0.02, 0.1])
@pytest.mark.parametrize("sample_secs", [0.00001, 0.0002, 0.001, 0.01, 0.2])
@pytest.mark.parametrize("plain_share", [0.0, 0.2])
def test_the_mean_cost_keeps_to_the_budget(overhead: float, sample_secs: float, plain_share: float) -> None:
    """Whatever a sample costs, all steps together stay within the overhead, and use most of it.

    The dense first steps are paid back; the very first one does not count, for it warms everything up.
    """
    plain_secs = min(plain_share * overhead * 0.01, sample_secs)
    simulation = Simulation(Governor(period=None, overhead=overhead), sample_secs, plain_secs)
    simulation.run(1)
    simulation.user_secs = simulation.spent_secs = 0.0
    sampled = simulation.run(40_000)
    assert simulation.share <= overhead * 1.001
    assert all(sampled[10:]) or simulation.share >= overhead * (1 - SHARE_OF_UNSEEN) * 0.8


def test_ordinary_steps_that_cost_more_than_the_budget() -> None:
    """Even then there is a sample now and then."""
    simulation = Simulation(Governor(period=None, overhead=0.02), sample_secs=0.002, plain_secs=0.0005)
    sampled = simulation.run(10_000)
    assert 50 <= sum(sampled) <= 200


def test_the_first_steps_are_all_sampled() -> None:
    """They show most mistakes, and cost what they cost."""
    sampled = Simulation(Governor(period=None, overhead=0.02), sample_secs=1.0).run(100)
    assert [True] * FIRST_STEPS + [False] * (100 - FIRST_STEPS) == sampled


@pytest.mark.parametrize("period", [1, 2, 7])
def test_a_period_is_exact(period: int) -> None:
    """Neither costs nor alerts move it."""
    simulation = Simulation(Governor(period=period, overhead=0.02), sample_secs=1.0)
    simulation.run(50)
    simulation.governor.alert()
    simulation.run(50)
    assert [step % period == 0 for step in range(100)] == simulation.sampled[:100]


def test_short_trainings_of_small_networks_are_looked_at() -> None:
    """Where a budget pays for nothing, samples come ever more rarely but do come."""
    simulation = Simulation(Governor(period=None, overhead=0.02), sample_secs=0.001, plain_secs=0.0001)
    sampled = simulation.run(1000, lambda _: 0.0003)
    places = [step for step, was_sampled in enumerate(sampled) if was_sampled]
    assert 25 <= len(places) <= 35
    assert all(after - before <= 2 + before // 4 for before, after in pairwise(places))


def test_a_busy_machine_does_not_keep_us_from_looking() -> None:
    """Three samples in four take a hundred times as long, for others have the processors: the fourth shows
    what one takes."""
    simulation = Simulation(Governor(period=None, overhead=0.02), sample_secs=0.004, plain_secs=0.0001)
    for step in range(200):
        simulation.sample_secs = 0.4 if step % 4 else 0.004
        simulation.run(1, lambda _: 0.003)
    places = [step for step, was_sampled in enumerate(simulation.sampled) if was_sampled]
    assert all(after - before <= 2 + before // 4 for before, after in pairwise(places))


def test_the_debt_of_slow_samples_is_bounded() -> None:
    """First samples that took a hundred times the usual do not keep us from looking for ever."""
    simulation = Simulation(Governor(period=None, overhead=0.02), sample_secs=0.1)
    simulation.run(FIRST_STEPS)
    simulation.sample_secs = 0.001
    assert any(simulation.run(20_000))


def norms(governor: Governor, *, norm_secs: float, user_secs: float, steps: int = 1000) -> int:
    """In how many of these ordinary steps the gradient norm is due."""
    due = 0
    for _ in range(steps):
        if governor.norm_is_due():
            due += 1
            governor.norm_cost(norm_secs)
        governor.next(sampled=False, user_secs=user_secs, spent_secs=norm_secs)
    return due


@pytest.mark.parametrize(
    ("norm_secs", "steps_per_norm"), [(0.00003, 1), (0.00004, 2), (0.00014, 4), (0.1, 16)]
)
def test_gradient_norms_are_rarer_where_they_are_dear(norm_secs: float, steps_per_norm: int) -> None:
    """With steps of 10 ms and a budget of 2 %, norms may take 37 µs a step."""
    governor = Governor(period=None, overhead=0.02)
    governor.next(sampled=True, user_secs=0.01, spent_secs=0.0)
    norms(governor, norm_secs=norm_secs, user_secs=0.01)
    assert 960 // steps_per_norm == norms(governor, norm_secs=norm_secs, user_secs=0.01, steps=960)


@pytest.mark.parametrize(
    ("norm_secs", "glance_secs", "steps_per_norm"),
    [(0.00014, 0.00001, 6), (0.00014, 0.00003, None), (0.0007, 0.00001, None)],
)
def test_a_glance_is_paid_by_rarer_norms(
    norm_secs: float, glance_secs: float, steps_per_norm: int | None
) -> None:
    """All together cost 37 µs a step as before; where that cannot be, or a glance is dear, there is none."""
    governor = Governor(period=None, overhead=0.02)
    governor.next(sampled=True, user_secs=0.01, spent_secs=0.0)
    governor.glance_cost(glance_secs)
    spent = due = glances = 0.0
    for step in range(2960):
        if step == 2000:
            spent = due = glances = 0.0
        if governor.norm_is_due():
            due += 1
            spent += norm_secs
            governor.norm_cost(norm_secs)
        elif governor.glance_is_due():
            glances += 1
            spent += glance_secs
            governor.glance_cost(glance_secs)
        governor.next(sampled=False, user_secs=0.01, spent_secs=norm_secs)
    if steps_per_norm is None:
        assert 0 == glances
    else:
        assert (960 // steps_per_norm, 960) == (due, due + glances)
        assert spent <= 960 * 0.0000375


def test_a_period_has_every_gradient_norm() -> None:
    """Who says how often to look has decided what it may cost."""
    governor = Governor(period=10, overhead=0.02)
    assert 100 == norms(governor, norm_secs=1.0, user_secs=0.001, steps=100)


def test_an_alert_gives_a_dense_stretch() -> None:
    """The steps after it are all sampled; further alerts are no news for a while."""
    simulation = Simulation(Governor(period=None, overhead=0.02), sample_secs=0.01)
    simulation.run(2000)
    assert simulation.governor.alert()
    assert not simulation.governor.alert()
    simulation.run(1)  # decided before the alert
    assert [True] * (STEPS_AROUND_TROUBLE - 1) == simulation.run(STEPS_AROUND_TROUBLE - 1)
    assert 1 >= sum(simulation.run(30))
    simulation.run(STEPS_BETWEEN_ALERTS)
    assert simulation.governor.alert()


def test_waiting_does_not_buy_a_burst() -> None:
    """A step that waited an hour for its data earns hardly more than another one."""
    simulation = Simulation(Governor(period=None, overhead=0.02), sample_secs=0.002)
    simulation.run(1000)
    after = simulation.run(50, lambda step: 3600.0 if step == 1000 else 0.01)
    assert sum(after) <= 10


def test_costs_that_jump_are_paid_back() -> None:
    """When a sample becomes a hundred times dearer, the budget holds again over the long run."""
    simulation = Simulation(Governor(period=None, overhead=0.02), sample_secs=0.0002)
    simulation.run(2000)
    simulation.sample_secs = 0.02
    simulation.run(100_000)
    assert simulation.share <= 0.02 * 1.05


def test_noisy_steps_keep_to_the_budget() -> None:
    """Steps between a hundredth and a hundred times the usual length."""
    chance = random.Random(1)
    simulation = Simulation(Governor(period=None, overhead=0.02), sample_secs=0.001)
    simulation.run(50_000, lambda _: 0.01 * 10 ** chance.uniform(-2, 2))
    assert simulation.share <= 0.02
    assert simulation.governor.share == pytest.approx(simulation.share)


# ---- flight recorder --------------------------------------------------------------------------------


def record(step: int, *, nbytes: int = 400, secs: float | None = None) -> StepRecord:
    sample = Sample(Series(Kind.WEIGHT, "w"), bytes(nbytes))
    return StepRecord(step, float(step) if secs is None else secs, {"loss": 1.0}, [sample])


def admitted(recorder: FlightRecorder, steps: range, **options: float) -> list[int]:
    """The steps that keep their samples."""
    records = [record(step, **options) for step in steps]  # type: ignore[arg-type]
    for each in records:
        recorder.admit(each)
        assert {"loss": 1.0} == each.scalars
    return [each.step for each in records if each.samples]


def test_a_period_holds_nothing_back() -> None:
    """Who asks for every step gets every step."""
    recorder = FlightRecorder(8, bytes_per_sec=None, burst_bytes=0)
    assert list(range(50)) == admitted(recorder, range(50))
    assert [] == recorder.release(50)


def test_the_log_gets_its_rate_and_the_rest_is_kept() -> None:
    """A burst, then one in four; what is held back comes out in order, the last steps only."""
    recorder = FlightRecorder(10, bytes_per_sec=25, burst_bytes=300)
    assert size_of(record(0).samples) == 100
    kept = admitted(recorder, range(100))
    assert [0, 1, 2] == kept[:3]
    assert 25 + 3 <= len(kept) <= 25 + 5
    released = recorder.release(99)
    assert [step for step in range(90, 100) if step not in kept] == [each.step for each in released]
    assert all(each.samples and not each.scalars for each in released)
    assert [] == recorder.release(99)


def test_after_a_release_nothing_is_held_back_for_a_while() -> None:
    """What follows on trouble is as interesting as what came before."""
    recorder = FlightRecorder(10, bytes_per_sec=0, burst_bytes=1)
    admitted(recorder, range(20))
    recorder.release(20, then=5)
    assert [21, 22, 23, 24, 25] == admitted(recorder, range(21, 40))


def test_what_is_kept_is_bounded_in_bytes() -> None:
    """However many steps were asked for."""
    recorder = FlightRecorder(10_000, bytes_per_sec=0, burst_bytes=0, most_bytes=1000)
    assert [] == admitted(recorder, range(500))
    assert list(range(490, 500)) == [each.step for each in recorder.release(499)]


def test_a_recorder_of_no_steps_keeps_nothing() -> None:
    """flight_recorder=0 drops what the log has no room for."""
    recorder = FlightRecorder(0, bytes_per_sec=0, burst_bytes=0)
    assert [] == admitted(recorder, range(5))
    assert [] == recorder.release(4)


def test_a_clock_that_goes_back_buys_nothing() -> None:
    """The wall clock may be set while a training runs."""
    recorder = FlightRecorder(4, bytes_per_sec=100, burst_bytes=100)
    assert [0] == admitted(recorder, range(1), secs=1000.0)
    assert [] == admitted(recorder, range(1, 5), secs=0.0)


# ---- trouble --------------------------------------------------------------------------------


def calm(steps: int = WARM_UP_STEPS + 5, **scalars: float) -> Trouble:
    """After so many steps in which nothing happens."""
    trouble = Trouble()
    for _ in range(steps):
        assert trouble.seen({"loss": 1.0, "gradient_norm": 2.0, **scalars}) is None
    return trouble


@pytest.mark.parametrize(
    ("scalars", "reason"),
    [
        ({"loss": math.nan}, "the loss is not finite"),
        ({"loss": math.inf}, "the loss is not finite"),
        ({"loss": 1.0, "nonfinite_gradients": 1.0}, "a gradient is not finite"),
        ({"loss": 3.5}, "the loss jumped from about 1 to 3.5"),
        ({"loss": -3.5}, "the loss jumped from about 1 to -3.5"),
        ({"gradient_norm": 25.0}, "the gradient norm jumped from about 2 to 25"),
    ],
)
def test_signs_of_trouble(scalars: dict[str, float], reason: str) -> None:
    """Each of them in words, with the numbers."""
    assert reason == calm().seen(scalars)


def test_small_jumps_of_a_small_loss_are_no_trouble() -> None:
    """A loss that came from 1 down to 0.001 may triple; back at a tenth of the start it is news."""
    trouble = calm()
    for _ in range(300):
        trouble.seen({"loss": 0.001, "gradient_norm": 0.001})
    assert trouble.seen({"loss": 0.004, "gradient_norm": 0.1}) is None
    assert "the loss jumped" in str(trouble.seen({"loss": 0.15}))


@pytest.mark.parametrize(
    "scalars",
    [{}, {"loss": 2.9}, {"gradient_norm": 19.0}, {"gradient_norm": math.nan}, {"nonfinite_gradients": 0.0}],
)
def test_no_trouble(scalars: dict[str, float]) -> None:
    """What healthy trainings do is no sign."""
    assert calm().seen(scalars) is None


def test_the_first_steps_may_be_wild() -> None:
    """There is nothing to compare with yet, but a loss must be finite from the beginning."""
    trouble = Trouble()
    assert [None] * 5 == [trouble.seen({"loss": 10.0**power}) for power in range(5)]
    assert "the loss is not finite" == trouble.seen({"loss": math.nan})


def test_a_loss_of_zero_is_nothing_to_compare_with() -> None:
    """Any loss would be infinitely bigger."""
    trouble = Trouble()
    for _ in range(WARM_UP_STEPS + 5):
        trouble.seen({"loss": 0.0})
    assert trouble.seen({"loss": 1e-9}) is None


# ---- with other processes


def test_what_all_have_agreed_on_is_done() -> None:
    """Neither more nor less, but for trouble of its own; with a period there is nothing to agree on."""
    governor = Governor(period=None, overhead=0.02)
    sampled = [
        governor.next(sampled=False, user_secs=0.01, spent_secs=0.0, agreed=step == 50)
        for step in range(1, 100)
    ]
    assert [*range(1, FIRST_STEPS), 50] == [step for step, is_so in enumerate(sampled, 1) if is_so]
    assert governor.alert()
    assert governor.next(sampled=False, user_secs=0.01, spent_secs=0.0, agreed=False)
    every = Governor(period=4, overhead=0.02)
    told = [every.next(sampled=False, user_secs=0.01, spent_secs=0.0, agreed=False) for _ in range(8)]
    assert [False, False, False, True] * 2 == told


@pytest.mark.parametrize("sample_secs", [0.0002, 0.01, 0.2])
def test_a_proposal_comes_true(sample_secs: float) -> None:
    """What a process proposes to others is when it would have looked alone, within a few steps."""
    simulation = Simulation(Governor(period=None, overhead=0.02), sample_secs)
    simulation.run(3000)
    wanted, is_sure = simulation.governor.wanted()
    simulation.run(9000)
    following = simulation.sampled.index(True, 3001)
    assert not is_sure
    assert abs(following - wanted) <= max(0.05 * (following - 3000), 2)


def test_what_is_sampled_anyway_is_proposed() -> None:
    """The first steps and multiples of a period, in the numbers of a training that was resumed."""
    assert (0, True) == Governor(period=None, overhead=0.02).wanted()
    governor = Governor(period=10, overhead=0.02)
    for _ in range(3):
        governor.next(sampled=False, user_secs=0.01, spent_secs=0.0)
    assert (110, True) == governor.wanted(100)
