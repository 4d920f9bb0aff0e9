"""The programs of Keras in the zoo: counted apart, run apart, and a few of them judged as they should be."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.zoo_folder import ROOT, load_zoo

load_zoo()

from zoo import report  # noqa: E402
from zoo.program import KERAS, TORCH, Program, Zoo, all_programs  # noqa: E402
from zoo.run import Outcome, Said, run_again  # noqa: E402
from zoo.tally import Tally  # noqa: E402
from zoo.workers import outcomes  # noqa: E402

QUICK = {
    "keras_encoder_behind_stop_gradient": "no-gradient",
    "keras_softmax_into_from_logits": "loss-input-softmaxed",
    "keras_regression_with_l2": "",
}


def nothing(zoo: Zoo) -> None:
    """A program that does nothing."""


def in_zoo(code: str) -> subprocess.CompletedProcess[str]:
    """Runs code that may import `zoo`, as `python -m zoo` does."""
    start = f"import sys; sys.path[:1] = []; sys.path.append({str(ROOT)!r})\n"
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    return subprocess.run(
        [sys.executable, "-c", start + code], capture_output=True, text=True, env=environment, check=False
    )


def test_half_of_them_are_healthy_and_a_third_is_held_out() -> None:
    """At least 27, each with a sentence about it."""
    programs = all_programs(KERAS)
    assert len(programs) >= 27
    assert 0.4 < sum(not program.is_sick for program in programs) / len(programs) < 0.6
    assert 0.2 < sum(program.is_held_out for program in programs) / len(programs) < 0.45
    assert all(program.about.endswith(".") for program in programs)
    assert not {program.name for program in all_programs(TORCH)} & {program.name for program in programs}


def test_the_list_is_made_without_tensorflow() -> None:
    """Forks of a process that has imported it would hang now and then."""
    code = "from zoo.program import all_programs; all_programs(); print('tensorflow' in sys.modules)"
    assert "False\n" == in_zoo(code).stdout


def test_without_tensorflow_they_are_left_out_with_a_word() -> None:
    """The command says what is missing and how to get it."""
    code = (
        "sys.modules['tensorflow'] = None\n"
        "from zoo.command import main\n"
        "sys.exit(main(['--framework', 'keras']))"
    )
    ended = in_zoo(code)
    assert 2 == ended.returncode
    assert "TensorFlow is not installed (pip install 'tb_netdebug[keras]')" in ended.stderr


@pytest.mark.parametrize("name", QUICK)
def test_a_few_are_judged_as_they_should_be(name: str, tmp_path: Path) -> None:
    """The sick one gets its rule, the healthy one no error and no warning; also when judged again."""
    (program,) = [each for each in all_programs(KERAS) if each.name == name]
    (outcome,) = outcomes([(program, 0)], folder=tmp_path)
    assert ("", {}, []) == (outcome.error, outcome.broken, outcome.otherwise)
    assert outcome.steps > 0
    assert QUICK[name] == program.slug
    slugs = [each.slug for each in outcome.said]
    assert slugs == [] if not program.is_sick else program.slug in slugs
    (again,) = outcomes([(program, 0)], folder=tmp_path, action=run_again)
    assert (outcome.said, outcome.steps, "") == (again.said, again.steps, again.error)


def test_an_interpreter_that_fails_is_told() -> None:
    """As a fork that dies."""
    program = Program("not_in_the_zoo", nothing, framework=KERAS)
    (outcome,) = outcomes([(program, 0)])
    assert "its process died with exit code 1" == outcome.error


def test_the_page_counts_them_apart() -> None:
    """A table of rates for each framework, and one list of programs."""
    programs = [
        Program(name, nothing, "about", "family", "dead-layer", framework=name) for name in (TORCH, KERAS)
    ]
    said = [Said("dead-layer", "error", 3, 3, "dead")]
    tally = Tally.of(programs, [Outcome(TORCH, 0, said), Outcome(KERAS, 0)])
    page = report.page(tally, seeds=1, made_on="Made today.")
    torch, keras = page.split("| Keras | tuned on | held out | all |")
    assert "| PyTorch | tuned on | held out | all |" in torch
    assert "1 of 1 (100 %)" in torch
    assert "0 of 1 (0 %)" in keras
