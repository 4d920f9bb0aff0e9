"""Facts of others: whatever a recording says, no rule breaks, and what does not fit is not believed."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tb_netdebug.checks.engine import Engine
from tb_netdebug.core.eventlog.writer import EventWriter
from tb_netdebug.core.records.fact_codec import decode_fact, encode_fact
from tb_netdebug.core.records.facts import (
    KINDS,
    BackwardLossFact,
    DataParallelFact,
    DifferenceFact,
    ElsewhereFact,
    GradientsFact,
    IgnoredOutputsFact,
    LossCallFact,
    ModesFact,
    NonfiniteFact,
    OptimizerFact,
    ParameterGroup,
    TypedFact,
    UnownedFact,
)
from tb_netdebug.core.records.json_text import json_bytes
from tb_netdebug.core.records.scalar_names import (
    EVAL_MODULES,
    MODE_MODULES,
    NONFINITE_GRADIENTS,
    REGISTRY,
    of_loss,
)
from tb_netdebug.core.records.step import Fact, Kind, Sample, StepRecord
from tb_netdebug.judging.recorded import judged
from tests.support.stories import sample

NAMES = ("first.weight", "first.bias", "last.weight")
GROUPS = (ParameterGroup(0.1, 0.01, 3),)
# One of each kind at least, with every field told: each of them makes rules look.
SOUND: dict[str, TypedFact] = {
    "optimizer": OptimizerFact(
        0, "Adam", GROUPS, 3, 2, NAMES[:1], 1, 1, (), False, 1, 4, False, True, False
    ),
    "copied": OptimizerFact(0, "SGD", GROUPS, 3, 2, NAMES, 3, 3, (), True),
    "no optimizer": OptimizerFact("none", "", (), 0, 0, (), 0, 0, (), False, 0, 64, False, True, True),
    "gradients": GradientsFact(NAMES[:2], 2, 2, (), 0, False, ("first",), ("first",), ("last",), False),
    "frozen": GradientsFact((), 0, 2, NAMES, 3, False, (), (), (), True),
    "unowned": UnownedFact("inside", 2, 64, 128, ("list.0.weight",), ((8, 8),), True, False),
    "elsewhere": ElsewhereFact(3),
    "ignored outputs": IgnoredOutputsFact(("first",)),
    "data parallel": DataParallelFact(2, 2),
    "modes": ModesFact(("drop",), 1, True, ("norm",), ("drop",), True, 3, ("model.py:3",)),
    "scores": LossCallFact(
        0, "cross_entropy", "CrossEntropyLoss", (32, 10), "float32", (32,), "int64", "mean", 10, False, False,
        True, "Softmax", False, "train.py:4", False, 0.1,
    ),
    "sum of scores": LossCallFact(
        0, "nll_loss", None, (32, 10), "float16", (32,), "int64", "sum", 10, True, True, False, "ReLU", True,
        "train.py:4", True, 0.1,
    ),
    "yes or no": LossCallFact(
        0, "binary_cross_entropy_with_logits", None, (32, 1), "float32", (32, 1), "float32", "sum", 2, True,
        False, True, "Sigmoid", False, "train.py:4", True, None,
    ),
    "numbers": LossCallFact(
        0, "mse_loss", "MeanSquaredError", (32, 1), "float32", (32,), "float32", "none", None, True, False,
        None, "ReLU", True, "mean_squared_error", True, None,
    ),
    "difference": DifferenceFact("difference1", (32, 1), (32, 32)),
    "backward loss": BackwardLossFact("backward"),
    **{
        f"nonfinite {what}": NonfiniteFact(
            3, ("Log", "Mean"), "run/capsule.pt", "train.py", False, False, what, "first", "Linear", "NaN",
            True, True, False, False, "weight", "log", "model.py:3", "mse_loss at x.py:5", "nobody looked",
            None, False, "labels", "train.py:6", False, True, 0, "Adam",
        )
        for what in ("output", "parameter", "loss")
    },
}  # fmt: skip
# Rules compare these with what other processes tell.
COMPARED = ("nonfinite output", "nonfinite loss", "data parallel")
DEEP: Any = []
for _ in range(200):
    DEEP = [DEEP]
MISSING = object()
HOSTILE: tuple[Any, ...] = (
    MISSING, None, True, 0, -1, 1 << 53, 10**400, 1.5, float("nan"), float("inf"), "", "none",
    "\x1b[2J\ud83d", [], [None], [0], [-1], [10**400], [1 << 40, 1 << 40], [1] * 4000, ["a", 3], [["a"]],
    [{"lr": "fast", "weight_decay": 10**400, "parameters": -3}], [{"lr": [], "x": 1}], {"a": {"b": [None]}},
    DEEP,
)  # fmt: skip
MEASURED = (
    "value", "baseline", "uniform", "classes", "top_class", "top_share", "accuracy", "row_sum_error",
    "row_logsumexp_error", "outside_01", "input_min", "input_max", "input_mean", "input_std", "target_min",
    "target_max", "target_mean", "target_std",
)  # fmt: skip


def variants(sound: TypedFact) -> Iterator[Fact]:
    """The fact with each of its values replaced by each hostile one, and the sound one between."""
    stored = encode_fact(sound)
    for key in stored.data:
        for value in HOSTILE:
            changed = {name: each for name, each in stored.data.items() if name != key}
            if value is not MISSING:
                changed[key] = value
            yield Fact(stored.kind, changed)
        yield stored
    yield from (Fact(stored.kind, {}), Fact(stored.kind, {"x": 1, **dict.fromkeys(stored.data, DEEP)}))


def samples(step: int) -> list[Sample]:
    random = np.random.default_rng(step)
    kinds = (Kind.WEIGHT, Kind.GRADIENT, Kind.UPDATE)
    found = [sample(kind, name, random.normal(size=8)) for kind in kinds for name in NAMES]
    active = [True, False, True, False]
    return [
        *found,
        sample(Kind.ACTIVATION, "first", random.normal(size=8), active=active),
        sample(Kind.TENSOR, "input/0", random.normal(size=8)),
        sample(Kind.TENSOR, "label/0", np.arange(4)),
    ]


def records(sound: TypedFact) -> list[StepRecord]:
    """A step for each variant, with every scalar there is.

    The gradients of each other step are not finite, so that the rules over scalars are asked as well.
    """
    names = [re.sub(r"\{[^}]*\}", "0", each.name) for each in REGISTRY]
    made = []
    for step, fact in enumerate(variants(sound)):
        scalars = dict.fromkeys((*names, *(of_loss(0, name) for name in MEASURED)), 0.5 + 0.01 * (step % 7))
        scalars |= {MODE_MODULES: 4.0, EVAL_MODULES: 4.0, NONFINITE_GRADIENTS: float(step % 2)}
        seen = samples(step) if step % 5 == 0 else []
        made.append(StepRecord(step, 1e9 + step / 10, scalars, seen, [fact]))
    return made


def written(run: Path, told: list[StepRecord], *, rank: int = 0) -> None:
    writer = EventWriter(run, rank=rank)
    for each in told:
        writer.put(each)
        if each.step % 512 == 0:
            assert writer.flush()
    writer.close()


@pytest.mark.parametrize("name", SOUND)
def test_no_rule_breaks(name: str, tmp_path: Path) -> None:
    """Through a whole judging of a recording, by all rules, up to the JSON of what was found."""
    told = records(SOUND[name])
    written(tmp_path, told)
    if name in COMPARED:
        written(tmp_path, told, rank=1)
    engine, complaints = judged(tmp_path)
    assert {} == engine.broken
    assert [] == complaints
    assert len(told) == engine.history.steps
    assert json.loads(json_bytes([each.as_dict() for each in engine.findings]))


def test_every_kind_and_every_field_is_there() -> None:
    """A kind that is added later belongs above, with a value for each field."""
    assert KINDS.keys() == {fact.KIND for fact in SOUND.values()}
    for kind in KINDS.values():
        told = [encode_fact(fact).data for fact in SOUND.values() if fact.KIND == kind.KIND]
        assert len(fields(kind)) == len(set().union(*told))  # type: ignore[arg-type]


@pytest.mark.parametrize("name", SOUND)
def test_what_fits_comes_back(name: str) -> None:
    """A sound fact is the same again; the subclasses that only order keys come back as their kind."""
    kind = KINDS[SOUND[name].KIND]
    values = {each.name: getattr(SOUND[name], each.name) for each in fields(kind)}  # type: ignore[arg-type]
    assert kind(**values) == decode_fact(encode_fact(SOUND[name]))


def test_what_does_not_fit_is_not_believed() -> None:
    """A field takes its default; a fact without what it needs, or with a wrong id, is none."""
    told = {"id": 3, "function": 7, "input_shape": [-1], "num_classes": 10**400, "reduction": "sum"}
    assert LossCallFact(3, reduction="sum") == decode_fact(Fact("loss-call", told))
    assert decode_fact(Fact("loss-call", {"id": "a"})) is None
    assert decode_fact(Fact("data-parallel", {"processes": 2})) is None
    assert decode_fact(Fact("data-parallel", {"processes": True, "batches": 2})) is None
    assert decode_fact(Fact("of a later version", {"id": 0})) is None
    group = [{"lr": "fast", "weight_decay": 1, "parameters": 3}]
    assert OptimizerFact(0, groups=(ParameterGroup(None, 1.0, 3),)) == (
        decode_fact(Fact("optimizer", {"groups": group}))
    )


def test_a_first_batch_without_rows() -> None:
    """A loss that is summed over nothing is no mean of anything."""
    fact = encode_fact(LossCallFact(0, "mse_loss", target_shape=(0,), reduction="sum"))
    engine = Engine()
    engine.feed([StepRecord(0, 1e9, {of_loss(0, name): 1.0 for name in MEASURED}, [], [fact])])
    assert {} == engine.broken


def test_a_fact_of_a_later_version_changes_nothing() -> None:
    engine = Engine()
    engine.feed([StepRecord(0, 1e9, {"loss": 1.0}, [], [Fact("of a later version", {"id": [3]})])])
    assert {} == engine.broken
    assert not engine.history.has_facts


def test_what_is_omitted_has_no_key() -> None:
    assert ["id"] == list(encode_fact(OptimizerFact()).data)
    assert ["id", "class"] == list(encode_fact(OptimizerFact(class_name="SGD")).data)
