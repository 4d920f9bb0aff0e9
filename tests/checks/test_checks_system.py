"""Rules over memory, time and other processes, on trainings made up number by number."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import pytest

from tb_netdebug.checks.engine import Engine
from tb_netdebug.checks.finding import Finding, Severity
from tb_netdebug.checks.rules.ranks import DuplicateBatches
from tb_netdebug.checks.rules.system import RULES
from tb_netdebug.core.records.step import Fact, StepRecord
from tests.support.stories import judged, record

MB = 1 << 20
RANDOM = np.random.default_rng(0)


def found(records: Iterable[StepRecord], **checks: Any) -> dict[str, Finding]:
    return judged(RULES, records, checks=checks)


def scalar(name: str, of: Callable[[int], float], steps: int = 400, every: int = 1) -> list[StepRecord]:
    return [record(step, {name: of(step)} if step % every == 0 else {}) for step in range(steps)]


# ---- memory-growth


def grown(
    of: Callable[[int], float], steps: int = 400, name: str = "memory/rss", every: int = 5
) -> Finding | None:
    return found(scalar(name, lambda step: of(step) * MB, steps, every)).get("memory-growth")


@pytest.mark.parametrize("name", ["memory/rss", "memory/children_rss", "memory/cuda0/allocated"])
def test_memory_that_grows_in_every_window(name: str) -> None:
    """Five megabytes a step, whoever holds them."""
    finding = grown(lambda step: 800 + 5 * step, name=name)
    assert finding is not None
    assert (Severity.WARNING, [name]) == (finding.severity, finding.where)


@pytest.mark.parametrize(
    "of",
    [
        lambda step: 800 + 0.5 * step,
        lambda step: 800 + min(step, 100) * 20,
        lambda step: 800 + 2000 * (step > 200),
        lambda step: 800 + 700 * (step // 5 % 2),
    ],
)
def test_memory_that_does_not(of: Callable[[int], float]) -> None:
    """A little growth, a cache that fills, one jump, a saw."""
    assert grown(of) is None


@pytest.mark.parametrize(
    "steps",
    [[0, 3, 5, 8, 11, 16, 20, 23, 25, 27, 31, 37, 43, 59, 115, 176, 252], [0, 28, 105, 205]],
)
def test_memory_that_is_read_more_often_at_first(steps: list[int]) -> None:
    """As it is: the parts of the training are of as many steps, not of as many readings."""
    growing = [
        record(step, {"memory/rss": (330 + 3 * step) * MB} if step in steps else {}) for step in range(260)
    ]
    assert ["memory-growth"] == list(found(growing))


def test_memory_in_a_long_training() -> None:
    """More readings than are kept one by one."""
    assert grown(lambda step: 800 + 0.2 * step, steps=6000, every=2) is not None
    assert grown(lambda step: 800 + min(10 * step, 1500), steps=6000, every=2) is None


def test_short_trainings_and_thresholds() -> None:
    """The first steps fill pools; thresholds can be set lower."""
    records = scalar("memory/rss", lambda step: (100 + step) * MB, 100)
    assert {} == found(records)
    assert found(records, **{"memory-growth": {"steps": 50, "megabytes": 40}})


# ---- memory-pressure


def test_little_memory_is_left_on_the_host() -> None:
    assert {} == found(scalar("memory/host_available", lambda step: 4e9))
    finding = found(scalar("memory/host_available", lambda step: 1e8))["memory-pressure"]
    assert finding.severity is Severity.WARNING


@pytest.mark.parametrize(
    ("share", "severity"), [(0.5, None), (0.94, Severity.INFO), (0.98, Severity.WARNING)]
)
def test_a_device_that_is_full(share: float, severity: Severity | None) -> None:
    records = [
        record(step, {"memory/gpu0/used": share * 8e9, "memory/gpu0/total": 8e9}) for step in range(40)
    ]
    finding = found(records).get("memory-pressure")
    assert severity is (finding.severity if finding else None)


# ---- time


def test_single_slow_steps() -> None:
    """Half a second in every twentieth step of 20 ms."""
    finding = found(scalar("time/step", lambda step: 0.5 if step % 20 == 19 else 0.02))["step-time-outlier"]
    assert finding.severity is Severity.WARNING
    assert "every 20 steps" in finding.message


def test_slow_steps_that_come_together() -> None:
    """Two in a row now and then are not said to come every step."""
    records = scalar("time/step", lambda step: 0.5 if step % 30 < 2 else 0.02)
    assert "They come in bursts." in found(records)["step-time-outlier"].message


def test_a_graph_that_is_made_anew_takes_its_time() -> None:
    """As TensorFlow does after each `compile`: that is no slow step."""
    records = scalar("time/step", lambda step: 0.5 if step % 20 == 19 else 0.02)
    for each in records[19::20]:
        each.scalars["probe/traced"] = 1.0
    assert "step-time-outlier" not in found(records)


@pytest.mark.parametrize(
    "secs",
    [
        lambda step: 0.02 * RANDOM.lognormal(0, 0.5),
        lambda step: 0.001 + 0.03 * (step % 10 == 0),
        lambda step: 5.0 if step < 5 else 0.02,
        lambda step: 0.5 if step in (100, 300) else 0.02,
    ],
)
def test_times_of_a_busy_machine(secs: Callable[[int], float]) -> None:
    """Noise, hiccups of some milliseconds, slow first steps, and rare ones."""
    assert {} == found(scalar("time/step", secs))


def test_evaluations_take_their_time() -> None:
    records = scalar("time/step", lambda step: 0.5 if step % 20 == 19 else 0.02)
    for each in records[19::20]:
        each.scalars["probe/evaluations"] = 10.0
    assert {} == found(records)


def test_steps_that_waited_for_a_processor() -> None:
    """What is left of them is what others take: another program was the reason."""
    records = scalar("time/step", lambda step: 0.5 if step % 20 == 19 else 0.02)
    for each in records[19::20]:
        each.scalars["probe/waited"] = 0.47
    assert {} == found(records)


def paused(secs: float, **checks: Any) -> dict[str, Finding]:
    records = scalar("loss", lambda step: 1.0, 60)
    for each in records[40:]:
        each.wall_time += secs
    return found(records, **checks)


def test_a_training_that_stood_still() -> None:
    """Ten minutes between two steps of a tenth of a second."""
    finding = paused(600)["stalled"]
    assert (Severity.WARNING, 40) == (finding.severity, finding.first_step)
    assert "10 min" in finding.message


def test_a_pause_in_the_debugger_is_no_stall() -> None:
    records = scalar("loss", lambda step: 1.0, 60)
    for each in records[40:]:
        each.wall_time += 600
    records[40].scalars["probe/paused"] = 599.9
    assert {} == found(records)


def test_pauses_that_are_none() -> None:
    """A minute is short, but the threshold can be set; where steps take minutes, ten of them are usual."""
    assert {} == paused(60)
    assert paused(60, stalled={"secs": 30})
    slow = [record(step) for step in range(40)]
    for each in slow:
        each.wall_time = 1e9 + 400.0 * each.step
    assert {} == found(slow)


# ---- ranks


def ranks(
    of: dict[int, Callable[[int], float]],
    steps: int = 100,
    step_secs: float = 0.1,
    info: dict[str, Any] | None = None,
) -> Finding | None:
    engine = Engine(rules=RULES)
    engine.describe(info=info or {})
    for step in range(steps):
        for rank, secs in of.items():
            busy = secs(step)
            times = {"time/forward": busy, "time/backward": step_secs - busy, "time/step": step_secs}
            engine.feed([record(step, times)], rank=rank)
    engine.finish()
    assert engine.broken == {}
    return next(iter(engine.findings), None)


def test_one_process_that_all_wait_for() -> None:
    """The others wait in their backward pass: all steps are equally long."""
    finding = ranks({0: lambda step: 0.03, 1: lambda step: 0.03, 2: lambda step: 0.07, 3: lambda step: 0.03})
    assert finding is not None
    assert ("straggler-rank", Severity.WARNING, ["rank 2"]) == (finding.rule, finding.severity, finding.where)


def sharing(
    batches: dict[int, Callable[[int], float]], *, processes: int = 4, own: int | None = None, steps: int = 32
) -> Finding | None:
    """Fingerprints of the batches of each process; of `processes` so many as `own` should have their own."""
    engine = Engine(rules=[DuplicateBatches])
    told = [Fact("data-parallel", {"processes": processes, "batches": processes if own is None else own})]
    for step in range(steps):
        for rank, batch in batches.items():
            one = record(step, {"probe/batch_id": batch(step)})
            one.facts = told if step == 0 else []
            engine.feed([one], rank=rank)
    engine.finish()
    assert engine.broken == {}
    return next(iter(engine.findings), None)


def test_processes_that_get_the_same_batches() -> None:
    """All of them, or those with the same number on another host; short epochs end alike now and then."""
    same, other = float, lambda step: step + 0.5
    finding = sharing({0: same, 1: same, 2: same, 3: same})
    assert finding is not None
    assert (Severity.WARNING, ["rank 1", "rank 2", "rank 3"]) == (finding.severity, finding.where)
    assert "Processes 1, 2, 3 train on the same batches as process 0: 15 of 15" in finding.message
    finding = sharing({0: same, 1: other, 2: same, 3: other})
    assert finding is not None
    assert ["rank 2", "rank 3"] == finding.where


def test_processes_that_share_the_work() -> None:
    """Each its part; the same by design in tensor parallelism; one batch for all steps; too few to tell."""
    same, other = float, lambda step: step + 0.5
    assert sharing({0: same, 1: other}) is None
    assert sharing({0: same, 1: same}, own=2) is None
    assert sharing({0: lambda step: 1.0, 1: lambda step: 1.0}) is None
    assert sharing({0: same, 1: same}, steps=7) is None
    assert sharing({0: same, 1: lambda step: step + (step % 4 == 0)}) is None


def test_processes_that_wait_in_the_forward_pass() -> None:
    """Where weights lie in parts on all: the fastest one waits longest, and nobody holds the others up."""
    slow: dict[int, Callable[[int], float]] = {0: lambda step: 0.07, 1: lambda step: 0.03}
    assert ranks(slow) is not None
    assert ranks(slow, info={"in_parts": 4}) is None


def test_processes_that_keep_pace() -> None:
    """A little slower, slower now and then, or by nothing that counts."""
    assert ranks({0: lambda step: 0.030, 1: lambda step: 0.035}) is None
    assert ranks({0: lambda step: 0.03, 1: lambda step: 0.03 + 0.05 * (step % 4 == 0)}) is None
    assert ranks({0: lambda step: 0.0003, 1: lambda step: 0.0008}, step_secs=0.001) is None
    assert ranks({0: lambda step: 0.03}) is None
