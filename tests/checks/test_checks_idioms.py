"""Rules name idioms; the engine spells them for the framework of the run."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from tb_netdebug import checks
from tb_netdebug.checks.engine import Engine
from tb_netdebug.checks.finding import Finding, Severity, Sign
from tb_netdebug.checks.history import History
from tb_netdebug.checks.rule import Rule, When
from tb_netdebug.checks.wording.idioms import MARK, Idiom, loss_function, spelled
from tests.support.loss_calls import call
from tests.support.stories import record

FOLDER = Path(checks.__file__).parent
ON_TORCH, ON_KERAS = "torch 2.13.0", "keras 3.15.1 on tensorflow 2.21.0"


def found(slug: str, framework: str | None, fact: dict[str, Any], seen: dict[str, float]) -> Finding:
    engine = Engine()
    engine.describe(info={"framework": framework})
    values = {f"probe/loss/0/{name}": value for name, value in seen.items()}
    engine.feed([record(0, values, facts=[("loss-call", fact)])])
    engine.finish()
    assert {} == engine.broken
    return next(each for each in engine.findings if each.rule == slug)


def scores_for_probabilities(framework: str | None) -> Finding:
    fact = {"id": 0, "function": "nll_loss", "site": "loss"}
    seen = {"value": 1.0, "row_logsumexp_error": 3.0, "outside_01": 0.5}
    return found("loss-input-logits", framework, fact, seen)


def test_each_idiom_is_one_that_a_rule_names() -> None:
    """An idiom that no rule needs any more is removed with it."""
    sources = [path.read_text(encoding="utf-8") for path in FOLDER.rglob("*.py")]
    named = {name for text in sources for name in re.findall(r"\bIdiom\.([A-Z_]+)", text)}
    assert set(Idiom.__members__) == named


@pytest.mark.parametrize("idiom", Idiom)
def test_each_idiom_is_spelled_for_each_framework(idiom: Idiom) -> None:
    """A spelling is final: no mark is left in it."""
    for framework, spelling in ((ON_TORCH, idiom.value.torch), (ON_KERAS, idiom.value.keras)):
        assert f"Use {spelling}." == spelled(f"Use {idiom}.", framework)
        assert spelling
        assert MARK not in spelling


def test_a_finding_of_keras_names_its_own_losses() -> None:
    """The same fault, by the names that each framework has."""
    finding = scores_for_probabilities(ON_KERAS)
    assert "SparseCategoricalCrossentropy(from_logits=True)" in finding.advice
    assert finding.message.startswith("categorical_crossentropy is given raw scores")


@pytest.mark.parametrize("framework", [ON_TORCH, None])
def test_torch_is_the_default(framework: str | None) -> None:
    """Also where the framework is not known."""
    finding = scores_for_probabilities(framework)
    assert "F.log_softmax" in finding.advice
    assert finding.message.startswith("nll_loss is given raw scores")


def test_only_names_of_losses_that_are_known_are_spelled() -> None:
    """A function of the user's own keeps its name, whatever that contains."""
    assert "mean_squared_error" == spelled(loss_function("mse_loss"), ON_KERAS)
    assert "masked_mse_loss" == spelled(loss_function("masked_mse_loss"), ON_KERAS)


def test_a_call_in_an_example_can_be_typed() -> None:
    """The keyword of a loss that takes scores does not come between its name and its arguments."""
    fact = call("binary_cross_entropy_with_logits", broadcasts=True, input_shape=[32, 1], target_shape=[32])
    finding = found("loss-input-shape", ON_KERAS, fact, {})
    assert "`binary_crossentropy(keras.ops.squeeze(output, -1), target)`" in finding.advice


def test_advice_for_keras_names_no_class_of_torch() -> None:
    """A log-softmax that is applied twice."""
    finding = found("loss-input-softmaxed", ON_KERAS, call("cross_entropy", last_layer="LogSoftmax"), {})
    assert "turn it into a softmax and leave out from_logits=True" in finding.advice
    assert "nn." not in finding.advice


class Quoting(Rule):
    """A rule that quotes a line of the user's program."""

    slug = "quoting"
    when = When.STEPS

    def update(self, history: History) -> Sign | None:
        line = "loss = mse_loss(output.squeeze(-1), target)"
        return Sign(Severity.INFO, f"The line `{line}`.", f"Use {Idiom.RELU}.", {})


def test_what_a_rule_quotes_stays_as_it_is() -> None:
    """Only idioms are spelled, no text of the user's that looks like one."""
    engine = Engine(rules=(Quoting,))
    engine.describe(info={"framework": ON_KERAS})
    engine.feed([record(0)])
    engine.finish()
    (finding,) = engine.findings
    assert "The line `loss = mse_loss(output.squeeze(-1), target)`." == finding.message
    assert 'Use `activation="relu"`.' == finding.advice
