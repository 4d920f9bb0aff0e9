"""The checks of gradients: exploding, vanishing, zero, missing, never cleared."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np
import pytest

from tb_netdebug.checks.finding import Finding, Severity
from tb_netdebug.checks.rules.gradients import RULES
from tb_netdebug.core.records.graph import Graph
from tb_netdebug.core.records.step import Kind, StepRecord
from tests.support.networks import linears, network, samples
from tests.support.stories import judged, record, sample

Number = Callable[[int], float]
LAYERS = tuple(f"{place}.weight" for place in range(8))


def found(records: Iterable[StepRecord], layers: Graph | None = None, **checks: Any) -> dict[str, Finding]:
    return judged(RULES, records, layers=layers or linears(8), checks=checks)


def training(
    gradients: Mapping[str, float],
    *,
    steps: int = 40,
    update: float = 1e-3,
    loss: Number = lambda step: 2.3,
    norm: Number = lambda step: 1.0,
    **scalars: float,
) -> list[StepRecord]:
    """Weights of size 1 with these gradients; updates are `update` times the gradients."""
    weights = samples(Kind.WEIGHT, dict.fromkeys(gradients, 1.0))
    slopes = samples(Kind.GRADIENT, gradients)
    updates = samples(Kind.UPDATE, {name: size * update for name, size in gradients.items()})
    return [
        record(
            step,
            {"loss": loss(step), "gradient_norm": norm(step), **scalars},
            [*weights, *slopes, *updates] if step < 8 or step % 4 == 0 else [],
        )
        for step in range(steps)
    ]


def fading(ratio: float, depth: int = 8) -> dict[str, float]:
    """From layer to layer, towards the first one, the gradient becomes so much smaller."""
    return {f"{place}.weight": ratio ** (depth - 1 - place) for place in range(depth)}


def test_a_healthy_training() -> None:
    records = training(fading(0.5), loss=lambda step: 2.3 * 0.95**step, norm=lambda step: 1 + step % 3)
    assert {} == found(records)


# ---- vanishing


def test_gradients_that_vanish() -> None:
    """The first layers stand still, and the loss does not fall."""
    finding = found(training(fading(0.09)))["vanishing-gradients"]
    assert (Severity.WARNING, 0) == (finding.severity, finding.first_step)
    assert [f"{place}.weight" for place in range(4)] == finding.where
    assert finding.evidence["gradient of the first against the last layers"].limit == 1e-4


@pytest.mark.parametrize(
    ("records", "why"),
    [
        (training(fading(0.1), loss=lambda step: 2.3 - 0.02 * step), "it learns"),
        (training(fading(0.3)), "the ratio is that of a deep healthy network"),
        (training(fading(0.17), update=1e4), "the updates are of their usual size"),
        (training(fading(0.01, depth=3)), "there is no depth"),
        (training(fading(0.1), steps=12), "it is early"),
    ],
)
def test_gradients_that_do_not_vanish(records: list[StepRecord], why: str) -> None:
    assert "vanishing-gradients" not in found(records), why


def test_adam_cannot_help_gradients_that_are_all_but_gone() -> None:
    """Updates of a usual size, but made of noise: it takes longer to be sure."""
    assert "vanishing-gradients" in found(training(fading(0.05), update=1e7, steps=60))


def test_gradients_that_vanish_below_what_floats_hold() -> None:
    gradients = {**fading(1e-4), "0.weight": 0.0}
    assert "vanishing-gradients" in found(training(gradients))


def test_a_table_of_embeddings_is_no_first_layer() -> None:
    """A batch touches few of its rows, so its gradient is small on the average."""
    shape = {"weight": (8, 8)}
    rest = [(str(place), "Linear", shape) for place in range(1, 6)]
    gradients = {"0.weight": 1e-7, **{f"{place}.weight": 1.0 for place in range(1, 6)}}
    assert {} == found(training(gradients), network(("0", "Embedding", shape), *rest))
    assert "vanishing-gradients" in found(training(gradients), network(("0", "Linear", shape), *rest))


def test_models_are_judged_one_by_one() -> None:
    """The gradients of a generator may be far below those of what judges it."""
    shape = {"weight": (8, 8)}
    layers = network(*[(f"{model}/{place}", "Linear", shape) for model in "GD" for place in range(4)])
    sizes = {f"G/{place}.weight": 1e-6 for place in range(4)} | {
        f"D/{place}.weight": 1.0 for place in range(4)
    }
    assert {} == found(training(sizes), layers)


# ---- exploding


def test_gradients_that_grow_with_the_loss() -> None:
    """Told when they are a hundred times what they were."""
    records = training(fading(0.5), norm=lambda step: 1.5**step, loss=lambda step: 2.0 * 1.2**step)
    finding = found(records)["exploding-gradients"]
    assert Severity.ERROR is finding.severity
    assert finding.first_step < 24


@pytest.mark.parametrize(
    ("norm", "loss", "why"),
    [
        (lambda step: 1.5**step, lambda step: 2.0, "the loss does not mind"),
        (lambda step: 1e4 if step == 20 else 1.0, lambda step: 20.0 if step == 20 else 2.0, "one batch"),
        (lambda step: 1e5, lambda step: 2.0, "they do not grow"),
        (lambda step: 1.0, lambda step: 2.0 * 1.2**step, "they are clipped"),
    ],
)
def test_gradients_that_do_not_explode(norm: Number, loss: Number, why: str) -> None:
    assert "exploding-gradients" not in found(training(fading(0.5), norm=norm, loss=loss)), why


def test_gradients_that_replace_the_weights_at_once() -> None:
    """Told in the step after, when the loss shows it."""
    records = training(
        dict.fromkeys(LAYERS, 1e5),
        update=1e-5,
        norm=lambda step: 1e6,
        loss=lambda step: 2.0 * 10**step,
        steps=3,
    )
    finding = found(records)["exploding-gradients"]
    assert (Severity.ERROR, 0) == (finding.severity, finding.first_step)


def test_gradients_that_grow_from_layer_to_layer() -> None:
    sizes = {f"{place}.bias": 10.0 ** (6 - place) for place in range(8)} | dict.fromkeys(LAYERS, 10.0)
    finding = found(training(sizes))["exploding-gradients"]
    assert (Severity.WARNING, ["0.bias", "1.bias"]) == (finding.severity, finding.where)
    mild = {f"{place}.bias": 3.0 ** (6 - place) for place in range(8)} | dict.fromkeys(LAYERS, 10.0)
    assert {} == found(training(mild))


# ---- zero


@pytest.mark.parametrize(("dead", "severity"), [(8, Severity.ERROR), (3, Severity.WARNING), (0, None)])
def test_gradients_that_are_zero(dead: int, severity: Severity | None) -> None:
    """In all layers it is an error."""
    sizes = {name: 0.0 if place < dead else 1.0 for place, name in enumerate(LAYERS)}
    finding = found(training(sizes)).get("zero-gradients")
    assert severity == (finding.severity if finding else None)
    if finding is not None:
        assert (0, list(LAYERS[:dead])) == (finding.first_step, finding.where)


def test_little_without_gradient_is_worth_knowing() -> None:
    """Such as a second output that is not used yet."""
    layers = linears(16)
    sizes = {f"{place}.weight": float(place != 15) for place in range(16)}
    assert Severity.INFO == found(training(sizes), layers)["zero-gradients"].severity


@pytest.mark.parametrize(
    ("loss", "steps", "is_bad"),
    [
        (lambda step: float(step == 0), 40, False),  # nothing is left to learn
        (lambda step: 0.0, 40, True),  # there never was anything
        (lambda step: 2.3, 4, False),  # layers before one that starts at zero have to wait for a step
    ],
)
def test_zero_gradients_that_may_be_in_order(loss: Number, steps: int, is_bad: bool) -> None:
    sizes = dict.fromkeys(LAYERS, 0.0)
    assert is_bad == ("zero-gradients" in found(training(sizes, loss=loss, steps=steps)))


# ---- none


def told(step: int = 2, **fact: Any) -> list[StepRecord]:
    return [
        record(each, {"loss": 1.0}, facts=[("gradients", fact)] if each == step else []) for each in range(6)
    ]


def test_a_loss_without_history() -> None:
    finding = found(told(detached=True))["no-gradient"]
    assert (Severity.ERROR, 2) == (finding.severity, finding.first_step)


@pytest.mark.parametrize(
    ("names", "severity"),
    [(LAYERS[:6], Severity.ERROR), (LAYERS[:2], Severity.WARNING), (("0.bias",), Severity.INFO), ((), None)],
)
def test_weights_that_get_no_gradient(names: tuple[str, ...], severity: Severity | None) -> None:
    finding = found(told(none=list(names), steps=2)).get("no-gradient")
    assert severity == (finding.severity if finding else None)


@pytest.mark.parametrize(
    ("called", "size", "severity"),
    [
        ("called", 1.0, Severity.WARNING),
        ("called_without_grad", 1.0, Severity.INFO),
        ("called_without_grad", 0.0, Severity.WARNING),
        ("uncalled", 1.0, Severity.INFO),
    ],
)
def test_a_part_that_is_called_without_gradients(called: str, size: float, severity: Severity) -> None:
    """May be an old one that shall stay as it is, if it is not as random as at its start."""
    start = np.random.default_rng(0).uniform(-1, 1, (8, 8)) / np.sqrt(8) + size
    fact = ("gradients", {"none": ["0.weight", "1.weight"], "steps": 2, called: ["0", "1"]})
    weights = [sample(Kind.WEIGHT, name, start) for name in LAYERS]
    finding = found([record(step, {"loss": 1.0}, weights, [fact] if step else []) for step in range(2)])[
        "no-gradient"
    ]
    assert severity == finding.severity


def test_a_first_layer_that_is_cut_off() -> None:
    """However few its weights are."""
    first, rest = {"weight": (2, 8)}, {"weight": (80, 80)}
    layers = network(("0", "Conv2d", first), ("1", "Linear", rest), ("2", "Linear", rest))
    assert Severity.WARNING == found(told(none=["0.weight"], steps=2), layers)["no-gradient"].severity


def test_layers_that_never_run_may_be_meant() -> None:
    shape = {"weight": (8, 8)}
    layers = network(*[(str(place), "Linear", shape) for place in range(4)], idle=["3"])
    assert Severity.INFO == found(told(none=["3.weight"], steps=2), layers)["no-gradient"].severity


# ---- never cleared


def kept(share: float, norm: Number) -> list[StepRecord]:
    """In this share of the steps the old gradients are still there."""
    records = training(fading(0.5), norm=norm)
    for each in records:
        each.scalars["probe/gradients_kept"] = float((each.step * share) % 1 >= 1 - share)
    return records


def test_gradients_that_are_never_cleared() -> None:
    finding = found(kept(1.0, lambda step: 1.0 + step))["grad-not-cleared"]
    assert (Severity.ERROR, 0) == (finding.severity, finding.first_step)


@pytest.mark.parametrize(("share", "growth"), [(0.5, 1.0), (0.0, 1.0)])
def test_gradients_that_are_cleared(share: float, growth: float) -> None:
    assert "grad-not-cleared" not in found(kept(share, lambda step: 1.0 + growth * step))


def test_clipping_hides_how_kept_gradients_grow() -> None:
    """They are wrong all the same."""
    finding = found(kept(1.0, lambda step: 1.0))["grad-not-cleared"]
    assert Severity.WARNING is finding.severity
    assert "fold" not in finding.message
