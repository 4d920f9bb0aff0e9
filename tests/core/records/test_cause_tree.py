"""The tree of causes: sound whatever a file says, and in time that grows with its length only."""

from __future__ import annotations

from typing import Any

import pytest

from tb_netdebug.core.records.cause_tree import CauseTree
from tb_netdebug.core.records.findings import decode_findings, encode_findings


def told(rule: str, severity: str, first_step: int, cause: Any = None) -> dict[str, Any]:
    return {
        "rule": rule, "severity": severity, "first_step": first_step, "last_step": first_step, "where": [],
        "message": "It is so.", "evidence": {}, "advice": "Change it.", "sureness": 0.9, "cause": cause,
        "consequences": [],
    }  # fmt: skip


def read(*findings: dict[str, Any]) -> dict[str, tuple[str | None, list[str], str]]:
    """Return what a reader gets of each finding, in its order."""
    stored = decode_findings(encode_findings(findings, steps=9, checks={}))
    return {each["rule"]: (each["cause"], each["consequences"], each["severity"]) for each in stored.findings}


@pytest.mark.parametrize(
    ("named", "causes"),
    [
        ({"a": None, "b": "a"}, {"a": None, "b": "a"}),
        ({"a": "elsewhere", "b": "a"}, {"a": None, "b": "a"}),
        ({"own": "own"}, {"own": None}),
        ({"a": "b", "b": "a", "below": "a"}, {"a": None, "b": None, "below": "a"}),
        ({"below": "a", "a": "b", "b": "c", "c": "a"}, {"below": "a", "a": None, "b": None, "c": None}),
    ],
)
def test_causes_form_trees(named: dict[str, str | None], causes: dict[str, str | None]) -> None:
    tree = CauseTree.of(named)
    assert causes == tree.causes
    assert sorted(named) == sorted(tree.downwards)
    places = {rule: place for place, rule in enumerate(tree.downwards)}
    assert all(places[cause] < places[rule] for rule, cause in causes.items() if cause is not None)


def test_a_cause_is_as_bad_as_the_worst_that_it_leads_to() -> None:
    tree = CauseTree.of({"root": None, "middle": "root", "leaf": "middle", "other": None})
    assert {"root": 3, "middle": 3, "leaf": 3, "other": 1} == tree.worst(
        {"root": 2, "middle": 1, "leaf": 3, "other": 1}
    )


def test_a_chain_of_many_causes_is_followed_to_its_end() -> None:
    count = 100_000
    tree = CauseTree.of({str(number): str(number - 1) if number else None for number in range(count)})
    assert [str(number) for number in range(count)] == list(tree.downwards)
    assert 3 == tree.worst({rule: 1 + 2 * (rule == str(count - 1)) for rule in tree.causes})["0"]


def test_a_reader_gets_causes_first_and_the_worst_on_top() -> None:
    assert {
        "loss-spike": (None, [], "error"),
        "vanishing-gradients": (None, ["unchanged-weights", "loss-at-chance"], "error"),
        "dead-units": (None, [], "warning"),
        "loss-plateau": (None, [], "info"),
        "loss-at-chance": ("vanishing-gradients", [], "error"),
        "unchanged-weights": ("vanishing-gradients", [], "warning"),
    } == (
        found := read(
            told("dead-units", "warning", 3, "elsewhere"),
            told("loss-at-chance", "error", 9, "vanishing-gradients"),
            told("unchanged-weights", "warning", 7, "vanishing-gradients"),
            told("vanishing-gradients", "warning", 5),
            told("loss-plateau", "info", 0),
            told("loss-spike", "error", 4),
        )
    )
    assert ["loss-spike", "vanishing-gradients", "dead-units", "loss-plateau"] == list(found)[:4]


def test_a_rule_that_a_file_names_twice_is_read_once() -> None:
    assert {"a": (None, [], "error")} == read(told("a", "error", 1), told("a", "info", 2, "a"))


def test_circles_in_a_file_are_cut() -> None:
    assert {"a": (None, ["below"], "error"), "b": (None, [], "warning"), "below": ("a", [], "error")} == read(
        told("b", "warning", 2, "a"), told("below", "error", 3, "a"), told("a", "warning", 1, "b")
    )
