"""Rules speak to people who train with Keras in the words of Keras."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from tb_netdebug import checks
from tb_netdebug.checks.engine import Engine
from tb_netdebug.checks.finding import Finding
from tb_netdebug.checks.wording.idioms import IN_KERAS, in_words_of
from tests.support.stories import record

FOLDER = Path(checks.__file__).parent
ON_KERAS = "keras 3.15.1 on tensorflow 2.21.0"


def texts() -> Iterator[str]:
    for path in set(FOLDER.rglob("*.py")) - {FOLDER / "wording/idioms.py"}:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                yield node.value


def scores_for_probabilities(framework: str) -> Finding:
    fact = ("loss-call", {"id": 0, "function": "nll_loss", "site": "loss"})
    seen = {"value": 1.0, "row_logsumexp_error": 3.0, "outside_01": 0.5}
    engine = Engine()
    engine.describe(info={"framework": framework})
    engine.feed([record(0, {f"probe/loss/0/{name}": value for name, value in seen.items()}, facts=[fact])])
    engine.finish()
    return next(each for each in engine.findings if each.rule == "loss-input-logits")


def test_each_phrase_is_one_that_a_rule_says() -> None:
    """A rule that is worded anew takes its line in the table with it."""
    said = list(texts())
    assert [] == [phrase for phrase in IN_KERAS if not any(phrase in text for text in said)]


def test_a_finding_of_keras_tells_of_its_own_losses() -> None:
    """The same fault, by the names that each framework has."""
    finding = scores_for_probabilities(ON_KERAS)
    assert "SparseCategoricalCrossentropy(from_logits=True)" in finding.advice
    assert finding.message.startswith("categorical_crossentropy is given raw scores")
    assert "F.log_softmax" in scores_for_probabilities("torch 2.13.0").advice


@pytest.mark.parametrize("framework", ["torch 2.13.0", None])
def test_words_of_torch_stay_for_torch(framework: str | None) -> None:
    """And where it is not known what trains."""
    assert "use nll_loss" == in_words_of(framework, "use nll_loss")


def test_the_longer_phrase_goes_before_the_one_that_it_contains() -> None:
    """The order in the table does not matter."""
    assert "binary_crossentropy with from_logits=True" == in_words_of(
        ON_KERAS, "binary_cross_entropy_with_logits"
    )
