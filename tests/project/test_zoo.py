"""The zoo counts rightly, survives what its programs do, and a few of them are judged as they should be.

All of them run by `make zoo`, which takes minutes.
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from tb_netdebug.checks.rules import ALL
from tests.support.zoo_folder import load_zoo

load_zoo()

from zoo import command, report  # noqa: E402
from zoo.program import TORCH, Program, Zoo, all_programs  # noqa: E402
from zoo.run import Outcome, Said, run, run_again  # noqa: E402
from zoo.tally import Share, Tally  # noqa: E402
from zoo.workers import Job, outcomes  # noqa: E402

# What it takes several processes, a full memory or minutes of silence to show.
NOT_SHOWN = {
    "replica-divergence", "straggler-rank", "duplicate-batches-across-ranks", "memory-pressure", "stalled",
}  # fmt: skip

QUICK = {
    "mlp_left_in_eval": "eval-mode-training",
    "mlp_with_softmax_before_cross_entropy": "loss-input-softmaxed",
    "model_rebuilt_after_optimizer": "not-optimized",
    "root_of_zero": "nonfinite-gradient",
    "iris_full_batch": "",
    "matrix_factorisation": "",
    "targets_of_a_millionth": "",
    "low_rank_adapters": "",
}


def nothing(zoo: Zoo) -> None:
    """A program that does nothing."""


def said(slug: str, step: int, severity: str = "error") -> Said:
    return Said(slug, severity, step, step, f"about {slug}")


def made(name: str, slug: str = "", *found: Said, also: tuple[str, ...] = (), **options: Any) -> Tally:
    """One program, one run."""
    program = Program(name, nothing, "about", "family", slug, also, **options)
    return Tally.of([program], [Outcome(name, 0, list(found))])


def joined(*parts: Tally) -> Tally:
    return Tally([case for part in parts for case in part.cases])


def test_every_fault_has_a_program() -> None:
    """Each rule is the first right answer to some program, and no program names a rule that is not."""
    slugs = {rule.slug for rule in ALL}
    named = {program.slug for program in all_programs() if program.is_sick}
    assert set() == named - slugs
    assert set() == slugs - named - NOT_SHOWN


def test_what_counts_besides_is_a_rule_too() -> None:
    """Each slug that a program accepts besides its own exists."""
    slugs = {rule.slug for rule in ALL}
    assert set() == {slug for program in all_programs() for slug in program.also} - slugs


def test_the_zoo_is_large_and_a_third_is_held_out() -> None:
    """At least 60 sick programs and 40 healthy ones; of each about a third is kept from those who tune."""
    programs = all_programs(TORCH)
    for kind, least in ((True, 60), (False, 40)):
        part = [program for program in programs if program.is_sick is kind]
        assert len(part) >= least
        assert 0.25 < sum(program.is_held_out for program in part) / len(part) < 0.42
    assert all(program.about.endswith(".") for program in programs)


@pytest.mark.parametrize("name", QUICK)
def test_a_few_are_judged_as_they_should_be(name: str, tmp_path: Path) -> None:
    """The sick one gets its rule, the healthy one no error and no warning; also when judged again."""
    (program,) = [each for each in all_programs() if each.name == name]
    (outcome,) = outcomes([(program, 0)], folder=tmp_path)
    assert ("", {}, []) == (outcome.error, outcome.broken, outcome.otherwise)
    assert outcome.steps > 0
    assert QUICK[name] == program.slug
    slugs = [each.slug for each in outcome.said]
    assert slugs == [] if not program.is_sick else program.slug in slugs
    (again,) = outcomes([(program, 0)], folder=tmp_path, action=run_again)
    assert (outcome.said, outcome.steps, "") == (again.said, again.steps, again.error)


def test_found_is_any_alarm_and_right_is_one_that_fits() -> None:
    """Recall counts any finding in a sick run; right and exact look at which."""
    tally = joined(
        made("a", "dead-layer", said("dead-layer", 3)),
        made("b", "dead-layer", said("dead-units", 3), also=("dead-units",)),
        made("c", "dead-layer", said("input-scale", 3)),
        made("d", "dead-layer"),
    )
    assert (Share(3, 4), Share(2, 4), Share(1, 4)) == (tally.recall, tally.right, tally.exact)
    assert ["c", "d"] == [case.program.name for case in tally.misses]
    assert ["b"] == [case.program.name for case in tally.inexact]


def test_a_finding_from_before_the_fault_is_none() -> None:
    """What was said too early is not about the fault; later, steps are counted from the fault on."""
    early = made("a", "loss-spike", said("loss-spike", 9), from_step=10)
    late = made("b", "loss-spike", said("loss-spike", 14), from_step=10)
    assert (Share(0, 1), None) == (early.recall, early.median_steps)
    assert (Share(1, 1), 4) == (late.recall, late.median_steps)


def test_faults_that_one_step_shows_have_their_own_count() -> None:
    """Those named within one step are prompt; the median is of the other faults."""
    tally = joined(
        made("a", "nonfinite-loss", said("nonfinite-loss", 1)),
        made("b", "nonfinite-loss", said("nonfinite-loss", 2)),
        made("c", "overfitting", said("overfitting", 40)),
        made("d", "overfitting", said("overfitting", 60)),
        made("e", "overfitting"),
    )
    assert (Share(1, 2), 50) == (tally.prompt, tally.median_steps)
    assert ["b"] == [case.program.name for case in tally.late]


def test_where_one_step_is_no_proof_the_page_says_why() -> None:
    """Such a program is counted among those that take a while, whatever its rule."""
    tally = made("a", "nonfinite-loss", said("nonfinite-loss", 7), slowly="It might be meant.")
    assert (Share(0, 0), 7, []) == (tally.prompt, tally.median_steps, tally.late)
    page = report.page(tally, seeds=1, made_on="Made today.")
    assert "\n- a: It might be meant.\n" in page
    assert "no proof" not in report.page(made("b", "nonfinite-loss"), seeds=1, made_on="Made today.")


def test_a_healthy_run_that_fails_is_no_success() -> None:
    """False alarms are findings in healthy runs; a healthy program that broke counts with them."""
    program = Program("broken", nothing)
    broken = Tally.of([program], [Outcome("broken", 0, error="ValueError: no")])
    tally = joined(made("a"), made("b", "", said("dead-units", 5)), broken)
    assert Share(2, 3) == tally.false_alarms
    assert ["b"] == [case.program.name for case in tally.alarms]
    assert ["broken"] == [case.program.name for case in tally.failed]


def test_nothing_to_count_is_no_error() -> None:
    """Without programs every rate is zero of zero."""
    assert "none of 0" == str(Tally().recall)
    assert None is Tally().median_steps
    assert 0.0 == Tally().recall.value


def test_the_report_names_the_rule_that_was_wanted() -> None:
    """Misses are told with what was wanted and said, alarms with their words."""
    tally = joined(
        made("lost", "dead-layer", said("input-scale", 3)), made("fine", "", said("dead-units", 5, "warning"))
    )
    text = "\n".join(report.details(tally))
    assert "wanted dead-layer, said input-scale" in text
    assert "warning dead-units at step 5: about dead-units" in text


def test_the_page_tells_the_parts_apart() -> None:
    """docs/zoo.md has a column for each part, and a row for each program."""
    names = [f"program{number}" for number in range(12)]
    tally = joined(*(made(name, "dead-layer", said("dead-layer", 3)) for name in names))
    page = report.page(tally, seeds=1, made_on="Made today.")
    assert "| PyTorch | tuned on | held out | all |" in page
    assert all(name in page for name in names)
    assert sum(case.program.is_held_out for case in tally.cases) == page.count(" (held out)")


def test_those_who_tune_see_no_program_of_the_held_out_third(capsys: pytest.CaptureFixture[str]) -> None:
    """`--tuning` chooses none of them even by name, and `--held-out` tells rates without names."""
    programs = all_programs()
    hidden = [program for program in programs if program.is_held_out]
    tuning = command.parser().parse_args(["--tuning", "--only", hidden[0].name])
    assert [] == command.chosen(programs, tuning)
    tally = Tally.of(hidden, [Outcome(program.name, 0, [said("dead-units", 1)]) for program in hidden])
    command.show(tally, argparse.Namespace(only=None, verbose=True))
    printed = capsys.readouterr().out
    assert "held out" in printed
    assert not [program.name for program in hidden if program.name in printed]


def test_an_interrupted_run_tells_of_what_has_ended(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Ctrl-C: the tally of the runs so far, its own exit status, and docs/zoo.md as it was."""
    page = command.PAGE.read_bytes()

    def interrupted(jobs: Sequence[Job], **options: object) -> Iterator[Outcome]:
        for program, seed in jobs[:3]:
            yield Outcome(program.name, seed)
        raise KeyboardInterrupt

    monkeypatch.setattr(command, "outcomes", interrupted)
    monkeypatch.setattr(signal, "signal", lambda *_: None)
    assert 130 == command.main(["--seeds", "1", "--framework", TORCH])
    told = capsys.readouterr()
    assert "programs that failed" in told.out
    assert f"Stopped after 3 of {len(all_programs(TORCH))} runs." in told.err
    assert page == command.PAGE.read_bytes()


def hangs(zoo: Zoo) -> None:
    """Never ends by itself."""
    time.sleep(600)


def dies(zoo: Zoo) -> None:
    """Takes its process along."""
    os._exit(3)


def raises(zoo: Zoo) -> None:
    """Has a mistake of its own."""
    raise ValueError("of its own")


def test_a_program_that_hangs_dies_or_raises_costs_no_other() -> None:
    """Each of them has an outcome that says what happened, and the rest goes on."""
    bodies = {"hangs": hangs, "dies": dies, "raises": raises, "nothing": nothing}
    jobs = [(Program(name, body), 0) for name, body in bodies.items()]
    found = {outcome.name: outcome.error for outcome in outcomes(jobs, secs=5.0)}
    assert "not done after 5 s" == found["hangs"]
    assert "its process died with exit code 3" == found["dies"]
    assert found["raises"].endswith("ValueError: of its own\n")
    assert "" == found["nothing"]


def test_the_same_seed_begins_alike(tmp_path: Path) -> None:
    """torch, NumPy and random give a program the same numbers again, whatever ran before."""
    drawn: list[tuple[float, ...]] = []

    def draws(zoo: Zoo) -> None:
        drawn.append((zoo.seed, float(torch.rand(())), float(np.random.rand()), random.random()))

    for seed in (1, 2, 1):
        assert "" == run(Program("draws", draws), seed, tmp_path).error
    assert drawn[0] == drawn[2]
    assert not set(drawn[0]) & set(drawn[1])
