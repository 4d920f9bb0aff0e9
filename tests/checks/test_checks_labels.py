"""Rules over labels, on trainings made up number by number."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
import pytest

from tb_netdebug.checks.engine import Engine
from tb_netdebug.checks.finding import Finding, Severity
from tb_netdebug.checks.rules.data import RULES
from tb_netdebug.core.records.step import Fact, StepRecord
from tests.support.loss_calls import call
from tests.support.stories import judged, record

RANDOM = np.random.default_rng(0)


def found(records: Iterable[StepRecord]) -> dict[str, Finding]:
    return judged(RULES, records)


def severities(records: Iterable[StepRecord]) -> dict[str, Severity]:
    return {slug: finding.severity for slug, finding in found(records).items()}


def labelled(batches: Sequence[Sequence[int]], *, classes: int = 10, **more: Any) -> list[StepRecord]:
    """What the probe measures of such batches of labels."""
    fact = call(
        **{
            "function": "cross_entropy",
            "num_classes": classes,
            "input_shape": [len(batches[0]), classes],
            "target_shape": [len(batches[0])],
            **more,
        }
    )
    records = []
    for step, labels in enumerate(batches):
        counts = np.bincount(labels, minlength=classes)
        numbers = {
            "value": 1.0,
            "baseline": 1.0,
            "classes": float((counts > 0).sum()),
            "top_class": float(counts.argmax()),
            "top_share": counts.max() / len(labels),
            "collision": float(((counts / len(labels)) ** 2).sum()),
            "adjacent_equal": float(np.mean(np.equal(labels[1:], labels[:-1]))) if len(labels) > 1 else 1.0,
            "accuracy": 0.5,
        }
        scalars = {f"probe/loss/0/{name}": value for name, value in numbers.items()}
        records.append(record(step, scalars, facts=[("loss-call", fact)] if step == 0 else ()))
    return records


def drawn(steps: int, size: int, chances: Sequence[float]) -> list[list[int]]:
    return [list(RANDOM.choice(len(chances), size, p=chances)) for _ in range(steps)]


def test_labels_of_one_class_at_once() -> None:
    """Of ten classes, 32 labels alike are no chance."""
    engine = Engine(rules=RULES)
    news = engine.feed(labelled([[3] * 32]))
    assert [("labels-single-class", Severity.WARNING)] == [(each.rule, each.severity) for each in news]
    assert "class 3" in news[0].message
    assert Severity.ERROR is found(labelled([[3] * 32] * 20))["labels-single-class"].severity


def test_of_two_classes_one_may_be_rare() -> None:
    """Many labels are needed there."""
    single = [[0] * 16 for _ in range(8)]
    assert "labels-single-class" not in found(labelled(single, classes=2))
    assert "labels-single-class" in found(labelled(single * 3, classes=2))
    rare = [*single, [0] * 15 + [1], *single]
    assert "labels-single-class" not in found(labelled(rare, classes=2))


def test_contrastive_losses_have_the_answer_in_front() -> None:
    """Their scores are no layer's output."""
    finding = found(labelled([[0] * 32] * 20, last_layer=None))["labels-single-class"]
    assert finding.severity is Severity.INFO


def test_real_and_false_are_two_calls() -> None:
    """Each call of a discriminator has one label, and both together have two."""
    records = []
    for step in range(40):
        scalars, facts = {}, []
        for number, label in ((0, 1.0), (1, 0.0)):
            fact = call(
                "binary_cross_entropy_with_logits", id=number, site=f"gan.py:{number}", target_shape=[64, 1]
            )
            scalars.update({f"probe/loss/{number}/classes": 1.0, f"probe/loss/{number}/top_class": label})
            facts.append(("loss-call", {**fact, "id": number}))
        records.append(record(step, scalars, facts=facts if step == 0 else ()))
    assert {} == found(records)


@pytest.mark.parametrize("size", [32, 8, 1])
def test_sorted_labels(size: int) -> None:
    """Each batch has one class, all of them together ten: also batches of one."""
    blocks = [[step * size // 160 % 10] * size for step in range(1600 // size)][:300]
    finding = found(labelled(blocks))["labels-sorted"]
    assert finding.severity is Severity.WARNING
    assert finding.first_step < 200


def test_sorted_labels_explain_batches_of_one_class() -> None:
    """The first class lasts so long that it looks like the only one."""
    finding = found(labelled([[step // 40] * 32 for step in range(320)]))
    assert "labels-sorted" == finding["labels-single-class"].cause
    assert ["labels-single-class"] == finding["labels-sorted"].consequences


def test_sorted_labels_in_big_batches() -> None:
    """Each batch has two or three of ten classes, and none follows on itself."""
    order = np.repeat(np.arange(10), 100)
    batches = [list(order[step % 4 * 250 : step % 4 * 250 + 250]) for step in range(60)]
    assert "labels-sorted" in found(labelled(batches))


@pytest.mark.parametrize("size", [32, 4, 1])
@pytest.mark.parametrize("chances", [[0.1] * 10, [0.5, 0.5], [0.9, 0.1], [0.97, 0.01, 0.02]])
def test_shuffled_labels(size: int, chances: list[float]) -> None:
    """However few are in a batch, and however rare some are."""
    batches = drawn(200, size, chances)
    assert "labels-sorted" not in found(labelled(batches, classes=len(chances)))


def test_few_of_many_classes() -> None:
    """The network knows a thousand classes, and two occur; pairs of examples stand beside each other."""
    assert "labels-sorted" not in found(labelled(drawn(200, 32, [0.5, 0.5]), classes=1000))
    pairs = [list(np.repeat(RANDOM.choice(50, 8), 4)) for _ in range(100)]
    assert "labels-sorted" not in found(labelled(pairs, classes=50))


def test_maps_of_labels_are_not_sorted() -> None:
    """Neighbouring pixels are alike, also when they are laid out in a row."""
    blocks = [[step // 10] * 32 for step in range(60)]
    assert "labels-sorted" not in found(labelled(blocks, target_shape=[1, 4, 8]))
    flat = labelled(blocks)
    for each in flat:
        each.scalars["batch_size"] = 2.0
    assert "labels-sorted" not in found(flat)


def test_classes_that_take_turns() -> None:
    """A batch of real ones, a batch of false ones: each step knows what comes next."""
    turns = [[step % 2] * 32 for step in range(60)]
    assert "labels-sorted" not in found(labelled(turns, classes=2))


def test_two_calls_in_one_line_are_two() -> None:
    """`criterion(real, ones) + criterion(false, zeros)`."""
    one, other = labelled([[1] * 32] * 60, classes=2), labelled([[0] * 32] * 60, classes=2)
    for first, second in zip(one, other, strict=True):
        moved = {name.replace("/0/", "/1/", 1): value for name, value in second.scalars.items()}
        first.scalars.update(moved)
        first.facts += [Fact(each.kind, {**each.data, "id": 1}) for each in second.facts]
    assert {} == found(one)


def test_a_loss_with_a_single_class() -> None:
    """Cross entropy over one output: there is no other class to compare with."""
    assert {} == severities(labelled([[0] * 64 for _ in range(40)], classes=1))


def imbalanced(answer: Callable[[int, float], float], steps: int = 120) -> Severity | None:
    records = labelled(drawn(steps, 32, [0.95, 0.05]), classes=2)
    for each in records:
        share = each.scalars["probe/loss/0/top_share"]
        each.scalars["probe/loss/0/accuracy"] = answer(each.step, share)
    return severities(records).get("labels-imbalanced")


def test_one_answer_to_everything() -> None:
    """The accuracy is the share of the class, batch by batch."""
    assert Severity.WARNING is imbalanced(lambda step, share: share)


def test_rare_classes_that_are_found() -> None:
    """Worth knowing; also when it takes a while until they are."""
    assert Severity.INFO is imbalanced(lambda step, share: 0.99)
    assert Severity.INFO is imbalanced(lambda step, share: share if step < 40 else 0.99)


def test_balanced_labels() -> None:
    assert {} == found(labelled(drawn(100, 32, [0.1] * 10)))
