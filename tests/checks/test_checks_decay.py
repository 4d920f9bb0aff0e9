"""The rule over weight decay, on trainings made up number by number."""

from __future__ import annotations

from typing import Any

import pytest

from tb_netdebug.checks.finding import Finding, Severity
from tb_netdebug.checks.rules.weights_decay import WeightDecayHigh
from tests.support.stories import judged, record


def trained(
    *groups: dict[str, Any],
    name: str = "AdamW",
    last: float = 0.9,
    steps: int = 40,
    rate: float | None = None,
) -> Finding | None:
    """With such groups of parameters, and a loss that falls to this share of the first one."""
    fact = {"id": 0, "class": name, "groups": list(groups)}
    records = [
        record(
            step,
            {
                "loss": 2.0 * (1.0 - (1.0 - last) * min(step / 10, 1.0)),
                **({} if rate is None else {"lr/0": rate}),
            },
            facts=[("optimizer", fact)] if step == 0 else (),
        )
        for step in range(steps)
    ]
    return judged([WeightDecayHigh], records).get("weight-decay-high")


def group(rate: float | None, decay: float | None) -> dict[str, Any]:
    return {"lr": rate, "weight_decay": decay, "parameters": 4}


@pytest.mark.parametrize("name", ["AdamW", "SGD"])
def test_a_decay_that_takes_a_tenth_in_each_step(name: str) -> None:
    finding = trained(group(0.005, 20.0), name=name)
    assert finding is not None
    assert (Severity.WARNING, 0) == (finding.severity, finding.first_step)
    assert "takes 10 % off every weight" in finding.message
    assert "7 steps later" in finding.message


def test_the_worst_group_is_told() -> None:
    finding = trained(group(0.1, 0.0), group(0.1, 0.5), group(None, 3.0), group(0.1, None))
    assert finding is not None
    assert finding.evidence["share of a weight that a step takes"].value == pytest.approx(0.05)


@pytest.mark.parametrize(
    "story",
    [
        {"name": "Adam"},  # its decay is divided by the size of the gradient
        {"last": 0.4},  # the network gets along with it
        {"steps": 20},
        {"rate": 1e-4},  # a schedule has lowered it
    ],
)
def test_what_may_be_meant(story: dict[str, Any]) -> None:
    assert trained(group(0.005, 20.0), **story) is None


def test_usual_decays() -> None:
    """Those of a large language model, of a picture classifier, and of a network that shall grok."""
    assert trained(group(3e-4, 0.1)) is None
    assert trained(group(0.1, 5e-4), name="SGD") is None
    assert trained(group(1e-3, 1.0)) is None


def test_a_decay_that_takes_all() -> None:
    finding = trained(group(1.0, 2.0))
    assert finding is not None
    assert "1 step later" in finding.message
