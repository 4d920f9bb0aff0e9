"""Facts and findings: what is stored of a training beside numbers."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tb_netdebug.core.records import netdebug_pb2 as pb
from tb_netdebug.core.records.block import decode_block, encode_block
from tb_netdebug.core.records.errors import DamagedBlock, UnsupportedVersion
from tb_netdebug.core.records.fact_codec import MOST_FACT_BYTES, MOST_FACTS, get_facts
from tb_netdebug.core.records.findings import decode_findings, encode_findings
from tb_netdebug.core.records.step import Fact, StepRecord

FINDING: dict[str, Any] = {
    "rule": "dead-units", "severity": "warning", "first_step": 3, "last_step": 9, "where": ["a"],
    "message": "m", "evidence": {"share": {"value": 0.9, "limit": 0.5}}, "advice": "a", "sureness": 0.9,
    "cause": None, "consequences": [],
}  # fmt: skip


def record(step: int, *facts: Fact) -> StepRecord:
    return StepRecord(step, 1.0, {"loss": 1.0}, [], list(facts))


def test_facts_come_back_with_their_steps() -> None:
    """Also several of one step, names in any script, and values that JSON does not know."""
    told = [
        record(
            0, Fact("loss-call", {"id": 0, "shape": [3, None]}), Fact("modes", {"eval": ["schöner\ud83d"]})
        ),
        record(1),
        record(2, Fact("x", {"deep": {"er": [True, 1.5]}})),
    ]
    assert told == decode_block(encode_block(told)).records()
    assert [Fact("x", {"type": "<class 'int'>"})] == (
        decode_block(encode_block([record(0, Fact("x", {"type": int}))])).records()[0].facts
    )


def test_what_no_reader_would_take_is_left_out() -> None:
    """A fact that is too big, and those beyond the bound; the steps stay."""
    big = Fact("x", {"names": "y" * MOST_FACT_BYTES})
    many = [Fact("x", {"id": number}) for number in range(MOST_FACTS + 5)]
    (back,) = decode_block(encode_block([record(7, big, *many)])).records()
    assert many[:MOST_FACTS] == back.facts
    assert {"loss": 1.0} == back.scalars


@pytest.mark.parametrize(
    "stored",
    [
        [pb.Fact(row=3, kind=b"x", data=b"{}")],
        [pb.Fact(kind=b"x", data=b"[]")],
        [pb.Fact(kind=b"x", data=b"{")],
        [pb.Fact(kind=b"x", data=b"[" * 100_000)],
        [pb.Fact(kind=b"x", data=b"{}" + b" " * MOST_FACT_BYTES)],
        [pb.Fact(kind=b"x", data=b"{}")] * (MOST_FACTS + 1),
    ],
)
def test_hostile_facts_are_damage(stored: list[pb.Fact]) -> None:
    with pytest.raises(DamagedBlock):
        get_facts(stored, rows=3)


def test_findings_come_back() -> None:
    stored = decode_findings(encode_findings([FINDING], steps=12, checks={"dead-units": {"share": 0.5}}))
    assert ([FINDING], 12, ["warning"]) == (stored.findings, stored.steps, stored.severities)


@pytest.mark.parametrize(
    "payload",
    [
        b"",
        b"[]",
        b"{",
        b"[" * 100_000,
        b'{"version": 1, "steps": 1, "checks": {}}',
        b'{"version": 1, "steps": 1, "checks": {}, "findings": 3}',
        b'{"version": 1, "steps": "x", "checks": {}, "findings": []}',
        *(
            json.dumps({"version": 1, "steps": 1, "checks": {}, "findings": [{**FINDING, **change}]}).encode()
            for change in (
                {"rule": 3}, {"severity": "bad"}, {"first_step": 1.5}, {"where": "a"}, {"where": [1]},
                {"evidence": []}, {"consequences": None}, {"last_step": True}, {"cause": 3},
            )
        ),
    ],
)  # fmt: skip
def test_hostile_findings_are_damage(payload: bytes) -> None:
    with pytest.raises(DamagedBlock):
        decode_findings(payload)


def test_findings_of_a_newer_version_are_refused_with_a_sentence() -> None:
    with pytest.raises(UnsupportedVersion, match="upgrade tb_netdebug"):
        decode_findings(b'{"version": 2, "findings": []}')
