"""Watchpoints: when they look, what they find, and how often they say so."""

from __future__ import annotations

import math
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from tb_netdebug.debugger.place import AFTER, BACKWARD, END, FORWARD, OPTIMIZER, START
from tb_netdebug.debugger.protocol.choices import STATISTICS as ON_THE_WIRE
from tb_netdebug.debugger.protocol.presets import PRESETS
from tb_netdebug.debugger.tensors.array_readable import summary_of
from tb_netdebug.debugger.tensors.statistics import OF_SUMMARY, STATISTICS
from tb_netdebug.debugger.trainer import watch_plan
from tb_netdebug.debugger.trainer.hits import MOST_HITS
from tb_netdebug.debugger.trainer.watchpoints import MOST_WATCHPOINTS, Watchpoints
from tb_netdebug.debugger.workbench import WorkbenchError
from tests.support.debugger_bench import ArrayBench, at, batch, bench_of, hit_in_batch

ROOT = Path(__file__).parents[2]
FLOATS = arrays.arrays(np.float64, st.integers(0, 40), elements=st.floats(width=32))


def above(kind: str, statistic: str, threshold: float, tensors: str = "", **more: Any) -> Watchpoints:
    watchpoints = Watchpoints()
    watchpoints.set(
        kind=kind, statistic=statistic, comparison=">", threshold=threshold, tensors=tensors, **more
    )
    return watchpoints


# ---- when -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "name", "expected"),
    [
        ("batch", "x", "forward/batch:x"),
        ("input", "fc", "forward/input:fc"),
        ("output", "fc", "forward/output:fc"),
        ("label", "y", "backward/label:y"),
        ("loss", "loss", "backward/loss:loss"),
        ("output_gradient", "fc", "backward/output_gradient:fc"),
        ("gradient", "fc.weight", "backward/gradient:fc.weight"),
        ("weight", "fc.weight", "optimizer/weight:fc.weight"),
        ("update", "fc.weight", "optimizer/update:fc.weight"),
        ("state", "fc.weight/exp_avg", "optimizer/state:fc.weight/exp_avg"),
        ("user", "mine", "end/user:mine"),
    ],
)
def test_a_kind_is_looked_at_where_it_is_complete(kind: str, name: str, expected: str) -> None:
    """As early as its values are there, and once in a batch."""
    bench = bench_of(**{kind: {name: [5.0]}})
    watchpoints = above(kind, "max", 4)
    assert [expected] == hit_in_batch(watchpoints, bench, 0)


def test_scalars_are_looked_at_in_the_end() -> None:
    """What `step` was given is known by then."""
    bench = ArrayBench(numbers={"loss": math.inf, "accuracy": 0.5})
    watchpoints = above("scalar", "max", 0.4)
    assert ["end/scalar:loss", "end/scalar:accuracy"] == hit_in_batch(watchpoints, bench, 0)


def test_what_was_passed_by_is_looked_at_in_the_end() -> None:
    """Without hooks on layers, of what is still within reach."""
    bench = bench_of(output={"fc": [5.0]}, gradient={"fc.weight": [5.0]})
    watchpoints = above("output", "max", 4)
    assert ["output:fc"] == [hit.tensor for hit in watchpoints.check(at(END), 0, bench)]


def test_a_gradient_that_still_grows_is_not_final() -> None:
    """Batches that are added up: it was small after each, and is large in the end, in every step. One hit."""
    bench = bench_of(gradient={"fc.weight": [0.0]})
    watchpoints = above("gradient", "max", 4)
    hits = []
    for step in range(3):
        for value, place in [(1.0, at(BACKWARD, "fc", AFTER)), (5.0, at(OPTIMIZER))]:
            bench.arrays["gradient:fc.weight"] = np.array([value])
            hits += watchpoints.check(place, step, bench)
    assert [(0, "optimizer")] == [(hit.step, hit.place.phase) for hit in hits]


def test_of_a_layer_its_own_tensors_alone() -> None:
    """A place is about one layer, though others are within reach."""
    bench = bench_of(output={"a": [5.0], "b": [5.0], "b[1]": [5.0]})
    watchpoints = above("output", "max", 4)
    hits = watchpoints.check(at(FORWARD, "b", AFTER), 0, bench)
    assert ["output:b", "output:b[1]"] == [hit.tensor for hit in hits]


def test_operations_are_not_looked_at() -> None:
    """Nothing is complete within a layer."""
    watchpoints = above("gradient", "max", 4)
    assert [] == watchpoints.check(at(OPTIMIZER, op="aten.add_"), 0, bench_of(gradient={"a": [5.0]}))


# ---- how often --------------------------------------------------------------------------------------------


def test_a_hit_is_the_begin_of_a_condition() -> None:
    """Not each step of it; once it was false it may hit again."""
    bench = bench_of(weight={"fc.weight": [0.0]})
    watchpoints = above("weight", "abs_max", 4)
    found = []
    for step, value in enumerate([1.0, 5.0, 6.0, -7.0, 1.0, 5.0, math.nan, 5.0]):
        bench.arrays["weight:fc.weight"] = np.array([value])
        found.append(len(hit_in_batch(watchpoints, bench, step)))
    assert [0, 1, 0, 0, 0, 1, 0, 1] == found


def test_a_tensor_that_is_gone_changes_nothing() -> None:
    """Whether its condition still holds is not known then."""
    bench = bench_of(gradient={"fc.weight": [5.0]})
    watchpoints = above("gradient", "max", 4)
    found = []
    for step in range(4):
        if step % 2:
            bench.arrays.clear()
        else:
            bench.arrays["gradient:fc.weight"] = np.array([5.0])
        found.append(len(hit_in_batch(watchpoints, bench, step)))
    assert [1, 0, 0, 0] == found


def test_an_edit_arms_it_again() -> None:
    """Whoever changes a threshold wants to hear of it; the others stay as they are."""
    bench = bench_of(weight={"fc.weight": [5.0]})
    watchpoints = above("weight", "max", 4)
    watchpoints.set(kind="weight", statistic="mean", comparison=">", threshold=4)
    assert 2 == len(hit_in_batch(watchpoints, bench, 0))
    watchpoints.set(1, kind="weight", statistic="max", comparison=">", threshold=4.5)
    assert [1] == [hit.watchpoint for place in batch() for hit in watchpoints.check(place, 1, bench)]
    assert [2, 1] == [each["hits"] for each in watchpoints.as_list()]


def test_tensors_that_come_later_are_found() -> None:
    """A layer that is thawed has a gradient from then on; names are asked for anew now and then."""
    bench = bench_of(gradient={"a": [5.0]})
    watchpoints = above("gradient", "max", 4)
    hit_in_batch(watchpoints, bench, 0)
    bench.arrays["gradient:b"] = np.array([5.0])
    found = [name for step in range(1, 20) for name in hit_in_batch(watchpoints, bench, step)]
    assert ["optimizer/gradient:b"] == found


def test_two_optimizers_in_a_batch() -> None:
    """Each has the gradients of its own model there, from the first step on."""
    bench = bench_of()
    watchpoints = above("gradient", "max", 4)
    found = []
    for step in range(2):
        for model in ("generator", "discriminator"):
            bench.arrays = {f"gradient:{model}.weight": np.array([5.0])}
            found += [(step, hit.tensor) for hit in watchpoints.check(at(OPTIMIZER), step, bench)]
    assert [(0, "gradient:generator.weight"), (0, "gradient:discriminator.weight")] == found


def test_a_scalar_of_one_step_in_many() -> None:
    """An evaluation that comes now and then is not missed."""
    bench = ArrayBench(numbers={"loss": 1.0})
    watchpoints = above("scalar", "max", 4)
    for step in range(13):
        bench.numbers = {"loss": 1.0} if step != 11 else {"loss": 1.0, "val_loss": 5.0}
        assert (["end/scalar:val_loss"] if step == 11 else []) == hit_in_batch(watchpoints, bench, step)


# ---- what -------------------------------------------------------------------------------------------------


@given(values=FLOATS)
def test_statistics(values: Any) -> None:
    """As NumPy has them; infinities are beyond every bound, and NaN is nothing but nonfinite."""
    found = {name: statistic(summary_of(values)) for name, statistic in OF_SUMMARY.items()}
    finite, known = values[np.isfinite(values)], values[~np.isnan(values)]
    assert len(values) - len(finite) == found["nonfinite"]
    expected = {
        "min": known.min() if len(known) else np.nan,
        "max": known.max() if len(known) else np.nan,
        "abs_max": np.abs(known).max() if len(known) else np.nan,
        "zeros": np.mean(values == 0) if len(values) else np.nan,
    }
    for name, value in expected.items():
        assert pytest.approx(value, nan_ok=True) == found[name]


@given(values=FLOATS)
def test_mean_of_sizes(values: Any) -> None:
    """From the bins: to within half of one's width, and exact when all values have one sign."""
    finite = values[np.isfinite(values)]
    found = OF_SUMMARY["abs_mean"](summary_of(values))
    if not len(finite):
        assert math.isnan(found)
        return
    expected = np.abs(finite).mean()
    is_one_sided = (finite >= 0).all() or (finite <= 0).all()
    assert pytest.approx(expected, rel=1e-9 if is_one_sided else 0.0625, abs=1e-37) == found


def test_a_change_needs_the_step_before() -> None:
    """The workbench is told of which tensors; from the second step on there is a change."""
    bench = bench_of(weight={"fc.weight": [3.0, 4.0], "fc.bias": [1.0]})
    watchpoints = above("weight", "change", 0.1, "weight$")
    assert [] == hit_in_batch(watchpoints, bench, 0)
    assert {"weight:fc.weight"} == watchpoints.needs.previous
    bench.end_batch()
    bench.arrays["weight:fc.weight"] = np.array([3.0, 5.0])
    assert ["optimizer/weight:fc.weight"] == hit_in_batch(watchpoints, bench, 1)
    assert pytest.approx(0.2) == watchpoints.hits()[0]["actual"]


def test_an_edit_of_another_keeps_the_step_before() -> None:
    """What was kept for a change stays, as long as somebody needs it."""
    bench = bench_of(weight={"fc.weight": [3.0]}, state={"fc.weight/exp_avg": [3.0]})
    watchpoints = above("weight", "change", 0.1)
    watchpoints.set(kind="state", statistic="change", comparison=">", threshold=1)
    watchpoints.learn(bench)
    assert {"weight:fc.weight", "state:fc.weight/exp_avg"} == watchpoints.needs.previous
    watchpoints.remove(2)
    assert {"weight:fc.weight"} == watchpoints.needs.previous


def test_updates_need_the_weights_before() -> None:
    """An update is their difference."""
    bench = bench_of(weight={"fc.weight": [1.0]})
    watchpoints = above("update", "norm", 1)
    watchpoints.learn(bench)
    assert {"weight:fc.weight"} == watchpoints.needs.previous


def test_what_they_need() -> None:
    """Hooks on layers and backward for those alone that look there."""
    watchpoints = Watchpoints()
    assert (False, False, False) == (
        watchpoints.needs.phases,
        watchpoints.needs.layers,
        watchpoints.needs.keep,
    )
    made = watchpoints.set(kind="weight", statistic="max", comparison=">", threshold=1)
    needs = watchpoints.needs
    assert (True, False, False) == (needs.phases, needs.layers, needs.backward)
    watchpoints.set(kind="output", statistic="max", comparison=">", threshold=1)
    watchpoints.set(kind="output_gradient", statistic="max", comparison=">", threshold=1)
    assert (True, True) == (watchpoints.needs.layers, watchpoints.needs.backward)
    watchpoints.set(kind="label", statistic="max", comparison=">", threshold=1)
    assert watchpoints.needs.keep
    for number in (2, 3, 4):
        watchpoints.remove(number)
    assert needs == watchpoints.needs
    watchpoints.set(made.id, kind="weight", statistic="max", comparison=">", threshold=1, is_on=False)
    assert (True, False) == (watchpoints.is_empty, watchpoints.needs.phases)


def test_the_order_of_execution() -> None:
    """Tensors as the batch makes them, and of one tensor the watchpoints as they were set."""
    bench = bench_of(weight={"b": [9.0], "a": [5.0]}, update={"b": [9.0]})
    watchpoints = above("update", "max", 4)
    for threshold in (4, 8):
        watchpoints.set(kind="weight", statistic="max", comparison=">", threshold=threshold)
    hit_in_batch(watchpoints, bench, 3)
    hits = watchpoints.hits()
    assert [(2, "weight:b"), (3, "weight:b"), (2, "weight:a"), (1, "update:b")] == [
        (hit["watchpoint"], hit["tensor"]) for hit in hits
    ]
    assert [1, 2, 3, 4] == [hit["number"] for hit in hits]


def test_a_hit_as_it_is_told() -> None:
    """Threshold, value, and what to do; the sentence is for the person whose training has stopped."""
    bench = bench_of(gradient={"fc.weight": [3.0, np.nan, -np.inf]})
    watchpoints = Watchpoints()
    watchpoints.set(kind="gradient", statistic="nonfinite", comparison="is")
    [hit] = watchpoints.check(at(OPTIMIZER), 7, bench)
    assert "gradient:fc.weight holds 2 values that are NaN or infinite" == hit.sentence
    assert {
        "number": 1, "step": 7, "place": at(OPTIMIZER).as_dict(), "watchpoint": 1,
        "tensor": "gradient:fc.weight", "kind": "gradient", "statistic": "nonfinite", "comparison": "is",
        "threshold": None, "actual": 2.0, "advice": hit.advice,
    } == hit.as_dict()  # fmt: skip
    assert "add 1e-8" in hit.advice
    watchpoints.set(kind="gradient", statistic="mean", comparison="<", threshold=4, tensors="weight")
    [hit] = watchpoints.check(at(OPTIMIZER), 7, bench)
    assert "mean of gradient:fc.weight is 3, below 4" == hit.sentence


def test_the_mean_of_sizes_reads_the_bins() -> None:
    """A workbench leaves them out where it makes the summaries of many."""
    bench = bench_of(weight={"a": [-4.0, 4.0], "b": [1.0, -1.0]})
    watchpoints = above("weight", "abs_mean", 3)
    watchpoints.set(kind="weight", statistic="max", comparison=">", threshold=3)
    hit_in_batch(watchpoints, bench, 0)
    assert [(1, "weight:a"), (2, "weight:a")] == [
        (hit["watchpoint"], hit["tensor"]) for hit in watchpoints.hits()
    ]


def test_one_summary_a_tensor() -> None:
    """However many watchpoints look at it; a hundred on two hundred tensors are nothing special."""
    names = [f"layer{number}.weight" for number in range(200)]
    bench = bench_of(weight={name: np.arange(4.0) for name in names})
    watchpoints = Watchpoints()
    for number in range(MOST_WATCHPOINTS):
        statistic = ("max", "mean", "norm", "zeros")[number % 4]
        watchpoints.set(kind="weight", statistic=statistic, comparison=">", threshold=number)
    hit_in_batch(watchpoints, bench, 0)
    assert [f"weight:{name}" for name in names] == bench.asked
    assert watchpoints.count == 200 * 3  # max 3 > 0, mean 1.5 > 1, norm 3.7 > 2


def test_a_list_of_hits_is_bounded() -> None:
    """The newest stay, and it is known how many there were."""
    names = [f"w{number}" for number in range(700)]
    bench = bench_of(weight={name: [1.0] for name in names})
    watchpoints = above("weight", "max", 0)
    watchpoints.set(kind="weight", statistic="min", comparison=">", threshold=0)
    hit_in_batch(watchpoints, bench, 0)
    assert (1400, MOST_HITS) == (watchpoints.count, len(watchpoints.hits()))
    assert [401, 402] == [hit["number"] for hit in watchpoints.hits(0, most=2)]
    assert [1400] == [hit["number"] for hit in watchpoints.hits(1399)]
    assert [] == watchpoints.hits(1400)
    watchpoints.clear_hits()
    assert (1400, []) == (watchpoints.count, watchpoints.hits())


def test_pairs_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of too many tensors some are left out, which the watchpoint says."""
    monkeypatch.setattr(watch_plan, "MOST_PAIRS", 3)
    watchpoints = above("weight", "max", 0)
    hits = hit_in_batch(watchpoints, bench_of(weight={name: [1.0] for name in "abcde"}), 0)
    assert 3 == len(hits)
    assert "some are left out" in watchpoints.as_list()[0]["complaint"]


# ---- recheck ----------------------------------------------------------------------------------------------


def test_a_recheck_before_the_first_update() -> None:
    """Conditions about a start are judged on weights that no step has touched."""
    bench = bench_of(weight={"fc.weight": np.zeros(8), "fc.bias": np.zeros(2)})
    watchpoints = Watchpoints()
    preset = next(each for each in PRESETS if each.preset == "init-constant")
    watchpoints.set(
        **{key: value for key, value in preset.as_dict().items() if key not in ("title", "advice")}
    )
    hits = watchpoints.recheck(at(START), 0, bench)
    assert [("weight:fc.weight", 1.0, preset.advice)] == [
        (hit.tensor, hit.actual, hit.advice) for hit in hits
    ]


def test_a_recheck_says_again_what_was_said() -> None:
    """All that holds now; afterwards the training does not stop for the same thing at once."""
    bench = bench_of(weight={"fc.weight": [5.0]}, output={"fc": [5.0]})
    watchpoints = above("weight", "max", 4)
    watchpoints.set(kind="output", statistic="max", comparison=">", threshold=4)
    assert [2, 2] == [len(watchpoints.recheck(at(END), 3, bench)) for _ in range(2)]
    assert [] == hit_in_batch(watchpoints, bench, 4)
    assert ["output:fc", "weight:fc.weight"] == [hit["tensor"] for hit in watchpoints.hits(2)]


# ---- what it says of itself -------------------------------------------------------------------------------


def test_complaints() -> None:
    """A pattern that matches nothing, a kind that never comes, a change that is not kept."""
    bench = bench_of(weight={"fc.weight": [5.0]})
    watchpoints = above("weight", "max", 4, "encoder")
    watchpoints.set(kind="state", statistic="max", comparison=">", threshold=4)
    watchpoints.set(kind="weight", statistic="change", comparison="<", threshold=1)
    watchpoints.set(kind="weight", statistic="max", comparison=">", threshold=4)
    for step in range(3):
        hit_in_batch(watchpoints, bench, step)
    assert [
        "'encoder' matches no weight; one of the names is weight:fc.weight.",
        "No state has been seen yet.",
        "The previous step's values of weight:fc.weight are not kept.",
        None,
    ] == [each["complaint"] for each in watchpoints.as_list()]


def test_a_complaint_goes_with_its_reason() -> None:
    """When a tensor comes that it matches."""
    bench = bench_of(weight={"fc.weight": [5.0]})
    watchpoints = above("state", "max", 4)
    hit_in_batch(watchpoints, bench, 0)
    assert watchpoints.as_list()[0]["complaint"]
    bench.arrays["state:fc.weight/exp_avg"] = np.array([5.0])
    found = [name for step in range(1, 20) for name in hit_in_batch(watchpoints, bench, step)]
    assert (["optimizer/state:fc.weight/exp_avg"], None) == (found, watchpoints.as_list()[0]["complaint"])


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ({"comparison": "is"}, "takes the comparison 'is'"),
        ({"statistic": "nonfinite"}, "takes the comparison 'is'"),
        ({"statistic": "nonfinite", "comparison": "is"}, "takes no threshold"),
        ({"threshold": None}, "must be a number"),
        ({"threshold": math.nan}, "must be a number"),
        ({"tensors": "["}, "not a regular expression"),
        ({"tensors": r"(a)\1"}, "may take for ever"),
        ({"kind": "scalar", "statistic": "change"}, "The previous step of scalar"),
        ({"kind": "update", "statistic": "change"}, "The previous step of update"),
        ({"id": 3}, "There is no watchpoint 3."),
    ],
)
def test_refusals(arguments: dict[str, Any], sentence: str) -> None:
    """Sentences, and nothing has changed."""
    watchpoints = Watchpoints()
    usual = {"kind": "weight", "statistic": "max", "comparison": ">", "threshold": 1.0}
    with pytest.raises(WorkbenchError, match=re.escape(sentence)):
        watchpoints.set(**usual | arguments)
    assert [] == watchpoints.as_list()


def test_bounded_in_number() -> None:
    """A hundred, and then one has to go first."""
    watchpoints = Watchpoints()
    for _ in range(MOST_WATCHPOINTS):
        watchpoints.set(kind="weight", statistic="nonfinite", comparison="is")
    with pytest.raises(WorkbenchError, match="remove one first"):
        watchpoints.set(kind="weight", statistic="nonfinite", comparison="is")
    with pytest.raises(WorkbenchError, match="no watchpoint 101"):
        watchpoints.remove(101)


# ---- the recommended ones ---------------------------------------------------------------------------------


def test_presets_can_be_set() -> None:
    """Each as it is, and its slug comes back with its advice."""
    watchpoints = Watchpoints()
    for preset in PRESETS:
        given = {key: value for key, value in preset.as_dict().items() if key not in ("title", "advice")}
        made = watchpoints.set(**given)
        assert (preset.preset, preset.advice) == (made.as_dict()["preset"], made.advice)


def test_slugs_of_presets_are_those_of_the_checks() -> None:
    """What means the same has one name, and a paragraph."""
    documented = set(re.findall(r"^### `([\w-]+)`$", (ROOT / "docs/checks.md").read_text(), re.MULTILINE))
    assert [] == [each.preset for each in PRESETS if each.preset not in documented]
    assert len(PRESETS) == len({each.preset for each in PRESETS})


def test_presets_are_quiet_about_a_healthy_training() -> None:
    """Three steps of a small network by hand: nothing to say, and nothing to complain of but their kinds."""
    rng = np.random.default_rng(0)
    bench = bench_of(
        batch={"x": rng.standard_normal((32, 8))},
        loss={"loss": [1.0]},
        output={"fc": rng.standard_normal((32, 4)), "act": np.maximum(rng.standard_normal((32, 4)), 0)},
        gradient={"fc.weight": 1e-3 * rng.standard_normal((4, 8)), "fc.bias": 1e-3 * rng.standard_normal(4)},
        weight={"fc.weight": rng.standard_normal((4, 8)), "fc.bias": np.zeros(4)},
    )
    watchpoints = Watchpoints()
    for preset in PRESETS:
        watchpoints.set(
            **{key: value for key, value in preset.as_dict().items() if key not in ("title", "advice")}
        )
    for step in range(3):
        assert [] == hit_in_batch(watchpoints, bench, step, ("fc", "act"))
        bench.end_batch()
        for name in ("fc.weight", "fc.bias"):
            bench.arrays[f"weight:{name}"] = (
                bench.arrays[f"weight:{name}"] - 0.1 * bench.arrays[f"gradient:{name}"]
            )
    assert [None] * len(PRESETS) == [each["complaint"] for each in watchpoints.as_list()]


def test_the_wire_names_the_same() -> None:
    """The statistics of the verb are those that there are."""
    assert set(ON_THE_WIRE) == set(STATISTICS)
