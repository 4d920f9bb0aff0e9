"""Rules over activations, on made-up trainings: what must be said, and what must not."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
import pytest
from numpy.typing import NDArray

from tb_netdebug.checks.evidence.activation_layers import is_rectifier
from tb_netdebug.checks.finding import Finding, Severity
from tb_netdebug.checks.rules.activations import RULES
from tb_netdebug.core.records.graph import Graph, Node, Parameter, TensorType
from tb_netdebug.core.records.step import Fact, Kind, Sample, StepRecord
from tests.support.stories import judged, record, sample

Values = NDArray[np.float64]
Random = np.random.Generator


def network(*layers: tuple[str, str]) -> Graph:
    """Layers by name and class, in the order of execution; linear maps have a weight and a bias."""
    nodes = [Node("", "Net", order=0)]
    for place, (name, kind) in enumerate(layers, 1):
        own = (
            Parameter("weight", TensorType((8, 8), "float32")),
            Parameter("bias", TensorType((8,), "float32")),
        )
        has = kind.startswith(("Linear", "Conv"))
        nodes.append(Node(name, kind, parent="", own_parameters=own if has else (), order=place))
    return Graph(tuple(nodes))


MLP = network(("0", "Linear"), ("1", "ReLU"), ("2", "Linear"))
FUNCTIONAL = network(("first", "Linear"), ("second", "Linear"))


def looked_at(
    looks: int,
    samples: Callable[[Random], Sequence[Sample]],
    *,
    every: int = 3,
    loss: Callable[[int], float] = lambda step: 1.0,
) -> list[StepRecord]:
    """A training with a sample in every third step."""
    random = np.random.default_rng(0)
    return [
        record(step, {"loss": loss(step)}, samples(random) if step % every == 0 else [])
        for step in range(looks * every)
    ]


def relu(random: Random, *, dead: int, units: int = 16, rows: int = 32, rate: float = 0.5) -> Sample:
    """The first units are dead, the others are active for this share of the inputs."""
    values = np.abs(random.standard_normal((rows, units))) * (random.random((rows, units)) < rate)
    values[:, :dead] = 0.0
    return sample(Kind.ACTIVATION, "1", values, active=list((values > 0).any(axis=0)))


def found(records: Sequence[StepRecord], layers: Graph = MLP) -> dict[str, Finding]:
    return judged(RULES, records, layers=layers)


def alarms(said: Mapping[str, Finding]) -> list[str]:
    return [slug for slug, finding in said.items() if finding.severity > Severity.INFO]


# ---- dead units


@pytest.mark.parametrize(("dead", "is_said"), [(0, False), (8, False), (9, True), (15, True)])
def test_more_than_half_of_the_units_are_dead(dead: int, is_said: bool) -> None:
    said = found(looked_at(14, lambda random: [relu(random, dead=dead)]))
    assert (["dead-units"] if is_said else []) == list(said)
    if is_said:
        assert dead / 16 == said["dead-units"].evidence["share of dead units"].value
        assert 0.5 == said["dead-units"].evidence["share of dead units"].limit
        assert f"{dead} of 16 units of layer 1" in said["dead-units"].message
        assert (["1"], 0) == (said["dead-units"].where, said["dead-units"].first_step)


@pytest.mark.filterwarnings("error")
def test_a_layer_that_is_no_longer_called() -> None:
    """As an expert that the others of a mixture have displaced; nothing is said, and nothing printed."""
    steps = looked_at(40, lambda random: [relu(random, dead=0)])
    for number, each in enumerate(steps):
        if number and each.samples:
            values = np.random.default_rng(number).random((4, 4)) + 0.1
            each.samples[:] = [sample(Kind.ACTIVATION, "2", values, active=[True] * 4)]
    assert {} == found(steps, network(("1", "ReLU"), ("2", "ReLU")))


def test_dead_units_that_nobody_misses() -> None:
    """Where the loss is nearly gone, a network that is smaller than it looks is worth knowing."""
    said = found(looked_at(24, lambda random: [relu(random, dead=10)], loss=lambda step: 0.9**step))
    assert Severity.INFO is said["dead-units"].severity
    assert "The network learns without them" in said["dead-units"].message
    for loss in (lambda step: 0.98**step, lambda step: 0.0):
        said = found(looked_at(24, lambda random: [relu(random, dead=10)], loss=loss))
        assert Severity.WARNING is said["dead-units"].severity


def scored(*, dead: int, classes: float, function: str = "cross_entropy") -> dict[str, Finding]:
    """A rectifier is the last layer, and the loss gets what it puts out."""
    records = looked_at(14, lambda random: [relu(random, dead=dead, units=10)])
    told = {"id": 0, "function": function, "last_layer": "ReLU", "num_classes": 10}
    records[0].facts.append(Fact("loss-call", told))
    records[0].scalars["probe/loss/0/classes"] = classes
    return found(records, network(("0", "Linear"), ("1", "ReLU")))


def test_a_score_that_is_always_zero() -> None:
    """Of hidden units one may do without another; one score is one answer."""
    said = scored(dead=1, classes=10)["dead-units"]
    assert (Severity.WARNING, ["1"], 0) == (said.severity, said.where, said.first_step)
    assert "1 of 10 scores" in said.message


@pytest.mark.parametrize(
    ("dead", "classes", "function"), [(0, 10, "cross_entropy"), (1, 9, "cross_entropy"), (1, 10, "mse_loss")]
)
def test_scores_that_may_be_zero(dead: int, classes: float, function: str) -> None:
    """Of a class that nobody has seen, or of what is no choice of one among many."""
    assert {} == scored(dead=dead, classes=classes, function=function)


def test_units_that_are_active_now_and_then_are_alive() -> None:
    """Sparse on purpose: each is active in 2 of 100 inputs."""
    assert {} == found(looked_at(16, lambda random: [relu(random, dead=0, units=256, rate=0.02)]))


def test_single_inputs_are_not_enough_to_tell() -> None:
    assert {} == found(looked_at(16, lambda random: [relu(random, dead=0, units=64, rows=1, rate=0.02)]))


def test_seven_tenths_zeros_are_normal() -> None:
    assert {} == found(looked_at(16, lambda random: [relu(random, dead=0, rate=0.3)]))


def test_units_that_die_later() -> None:
    looks = iter([0] * 10 + [12] * 14)
    said = found(looked_at(24, lambda random: [relu(random, dead=next(looks))]))
    assert 30 == said["dead-units"].first_step


def test_only_rectifiers_have_dead_units() -> None:
    layers = network(("0", "Linear"), ("1", "Embedding"), ("2", "Linear"))
    assert {} == found(looked_at(16, lambda random: [relu(random, dead=12)]), layers)


def idle_biases(random: Random, *, dead: int, extra: int = 0) -> list[Sample]:
    values = random.standard_normal(32)
    values[: dead + int(random.integers(extra + 1))] = 0.0
    return [sample(Kind.GRADIENT, "first.bias", values)]


@pytest.mark.parametrize(
    ("dead", "extra", "is_said"), [(20, 0, True), (16, 0, False), (18, 9, False), (32, 0, False)]
)
def test_biases_without_a_gradient_show_dead_units(dead: int, extra: int, is_said: bool) -> None:
    """Where the activation is a function. What varies from batch to batch is sparse, not dead."""
    said = found(looked_at(14, lambda random: idle_biases(random, dead=dead, extra=extra)), FUNCTIONAL)
    assert (["dead-units"] if is_said else []) == list(said)


@pytest.mark.parametrize(
    ("name", "is_one"),
    [
        ("ReLU", True),
        ("ReLU6", True),
        ("SquaredReLU", True),
        ("LeakyReLU", False),
        ("PReLU", False),
        ("GELU", False),
        ("TopK", False),
    ],
)
def test_what_a_rectifier_is(name: str, is_one: bool) -> None:
    assert is_one is is_rectifier(name)


# ---- dead layers


def test_a_layer_that_is_zero() -> None:
    said = found(looked_at(6, lambda random: [relu(random, dead=16)]))
    assert (Severity.ERROR, ["1"], 0) == (
        said["dead-layer"].severity, said["dead-layer"].where, said["dead-layer"].first_step,
    )  # fmt: skip
    assert "dead-units" not in said


@pytest.mark.parametrize(("looks", "rows", "units"), [(4, 32, 16), (6, 1, 4)])
def test_zeros_that_may_be_an_accident(looks: int, rows: int, units: int) -> None:
    assert {} == found(looked_at(looks, lambda random: [relu(random, dead=units, units=units, rows=rows)]))


def gradients(weight: float, bias: float, layer: str = "second") -> list[Sample]:
    return [
        sample(Kind.GRADIENT, f"{layer}.weight", np.full(64, weight)),
        sample(Kind.GRADIENT, f"{layer}.bias", np.full(8, bias)),
    ]


@pytest.mark.parametrize(
    ("samples", "is_said"),
    [
        (gradients(0.0, 0.1), True),
        (gradients(0.1, 0.1), False),
        (gradients(0.0, 0.0), False),
        (gradients(0.0, 0.1, "first"), False),
    ],
)
def test_a_layer_that_gets_only_zeros(samples: list[Sample], is_said: bool) -> None:
    """Shown by the gradients, where the activation before it is a function. What the first gets is data."""
    said = found(looked_at(6, lambda _: samples), FUNCTIONAL)
    assert (["dead-layer"] if is_said else []) == list(said)


# ---- saturation

TANH = network(("0", "Linear"), ("1", "Tanh"), ("2", "Linear"), ("3", "Tanh"))


def tanh(random: Random, width: float, name: str = "1") -> Sample:
    values = np.tanh(width * random.standard_normal((32, 16)))
    return sample(Kind.ACTIVATION, name, values, active=list((np.abs(values) < 0.9951).any(axis=0)))


@pytest.mark.parametrize(("width", "severity"), [(1.0, None), (3.0, None), (8.0, 2), (300.0, 3)])
def test_tanh_at_its_ends(width: float, severity: int | None) -> None:
    said = found(looked_at(5, lambda random: [tanh(random, width)]), TANH)
    assert severity == (said["saturated-units"].severity if said else None)
    if said:
        assert 0.15 == said["saturated-units"].evidence["mean slope"].limit


def test_outputs_that_are_not_finite_are_at_no_end() -> None:
    """They say nothing of the units."""
    lost = np.full((32, 16), np.nan)
    active = [False] * 16
    records = looked_at(20, lambda _: [sample(Kind.ACTIVATION, "1", lost, active=active)])
    assert {} == found(records, TANH)


def test_the_last_layer_may_be_sure() -> None:
    assert {} == found(looked_at(20, lambda random: [tanh(random, 50.0, "3")]), TANH)


def test_a_network_that_learns_may_be_sure() -> None:
    """Hidden units of a solved task are at their ends."""
    widths = iter(np.linspace(1.0, 30.0, 40))
    records = looked_at(40, lambda random: [tanh(random, next(widths))], loss=lambda step: 0.95**step)
    assert [] == alarms(found(records, TANH))


def test_saturation_that_comes_while_nothing_is_learned() -> None:
    widths = iter([1.0] * 10 + [20.0] * 20)
    said = found(looked_at(30, lambda random: [tanh(random, next(widths))]), TANH)
    assert (Severity.WARNING, 30) == (said["saturated-units"].severity, said["saturated-units"].first_step)


def sigmoid(values: Values) -> Values:
    return 1.0 / (1.0 + np.exp(-values))


@pytest.mark.parametrize(
    ("width", "offset", "is_said"), [(1.0, 0.0, False), (20.0, 0.0, True), (1.0, -8.0, True)]
)
def test_sigmoid_at_its_ends(width: float, offset: float, is_said: bool) -> None:
    layers = network(("0", "Linear"), ("1", "Sigmoid"), ("2", "Linear"))
    said = found(
        looked_at(
            5,
            lambda random: [
                sample(Kind.ACTIVATION, "1", sigmoid(offset + width * random.standard_normal((32, 16))))
            ],
        ),
        layers,
    )
    assert (["saturated-units"] if is_said else []) == list(said)


def test_corners_are_counted() -> None:
    layers = network(("0", "Linear"), ("1", "Hardtanh"), ("2", "Linear"))

    def clipped(random: Random) -> list[Sample]:
        return [sample(Kind.ACTIVATION, "1", np.clip(20 * random.standard_normal((32, 16)), -1, 1))]

    said = found(looked_at(5, clipped), layers)["saturated-units"]
    assert pytest.approx(0.04, abs=0.03) == said.evidence["mean slope"].value


# ---- scale over depth

DEEP = network(*((f"{place}", "Linear") for place in range(9)))


def scaled(random: Random, factor: float, *, branch: bool = False) -> list[Sample]:
    sizes = [factor**place for place in range(9)]
    if branch:
        sizes = [1.0 if place % 2 else factor**8 for place in range(9)]
    return [
        sample(Kind.ACTIVATION, f"{place}", size * random.standard_normal(256))
        for place, size in enumerate(sizes)
    ]


@pytest.mark.parametrize(
    ("factor", "is_said"), [(1.0, False), (2.0, False), (4.0, True), (0.5, False), (0.2, True)]
)
def test_outputs_that_grow_or_shrink_with_depth(factor: float, is_said: bool) -> None:
    said = found(looked_at(4, lambda random: scaled(random, factor)), DEEP)
    assert (["activation-scale"] if is_said else []) == list(said)
    if is_said:
        assert ["0", "7"] == said["activation-scale"].where
        assert Severity.WARNING is said["activation-scale"].severity


def test_branches_that_begin_small_are_no_trend() -> None:
    assert {} == found(looked_at(4, lambda random: scaled(random, 0.1, branch=True)), DEEP)


def test_who_copes_with_growth_may() -> None:
    records = looked_at(30, lambda random: scaled(random, 4.0), loss=lambda step: 0.95**step)
    late = found(records[60:], DEEP)
    assert [] == [slug for slug in alarms(late) if slug != "activation-scale"]


# ---- constant outputs


def answers(random: Random, *, units: int, spread: float) -> list[Sample]:
    base = np.arange(1, units + 1, dtype=float)
    values = base + spread * random.standard_normal((32, units))
    return [sample(Kind.ACTIVATION, "2", values, active=[True] * units)]


@pytest.mark.parametrize(
    ("units", "spread", "is_said"), [(1, 0.0, True), (1, 0.01, False), (5, 0.0, True), (5, 0.5, False)]
)
def test_the_same_answer_to_everything(units: int, spread: float, is_said: bool) -> None:
    said = found(looked_at(12, lambda random: answers(random, units=units, spread=spread)))
    assert (["constant-output"] if is_said else []) == list(said)


def test_a_constant_answer_that_gets_better_is_a_beginning() -> None:
    records = looked_at(
        20, lambda random: answers(random, units=5, spread=0.0), loss=lambda step: 3.0 * 0.97**step
    )
    assert [] == alarms(found(records))


@pytest.mark.parametrize("target_learns", [True, False])
@pytest.mark.parametrize(("end", "is_one_point"), [(1e-4, True), (0.01, False)])
def test_two_views_that_become_one_point(target_learns: bool, end: float, is_one_point: bool) -> None:
    """The loss is as small as can be, and the targets are as alike as the answers. Targets that are given
    may be alike in one batch after the other, as where rain is rare."""
    records = looked_at(20, lambda random: answers(random, units=5, spread=0.5), loss=lambda step: 0.9**step)
    call = {"id": 0, "function": "mse_loss", "target_shape": [32, 5], "target_learns": target_learns}
    records[0].facts.append(Fact("loss-call", call))
    for each in records:
        each.scalars["probe/loss/0/value"] = 0.9**each.step
        each.scalars["probe/loss/0/baseline"] = max(0.5**each.step, end)
    assert (["constant-output"] if target_learns and is_one_point else []) == alarms(found(records))


def test_a_batch_of_one_says_nothing() -> None:
    def single(_: Random) -> list[Sample]:
        return [sample(Kind.ACTIVATION, "2", [1.0, 2.0, 3.0], active=[True] * 3)]

    assert {} == found(looked_at(20, single))
