"""Findings as the trainer stores them; each payload holds all it has found so far."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tb_netdebug.core.records.cause_tree import CauseTree
from tb_netdebug.core.records.errors import DamagedBlock, UnsupportedVersion

FINDINGS_VERSION = 1
MOST_BYTES = 8 << 20  # a reader refuses more
SEVERITIES = ("info", "warning", "error")


@dataclass(frozen=True, slots=True)
class StoredFindings:
    """The findings of a run as its trainer last stored them.

    `findings` are dictionaries made by `checks.finding.Finding.as_dict`, causes before consequences and the
    worst first, one for each rule; their causes form trees. `steps` is the number of steps they are based on,
    `checks` the user's changes to the checks.
    """

    findings: list[dict[str, Any]]
    steps: int
    checks: dict[str, Any]

    @property
    def severities(self) -> list[str]:
        return [found["severity"] for found in self.findings]


def encode_findings(findings: Sequence[dict[str, Any]], *, steps: int, checks: dict[str, Any]) -> bytes:
    stored = {"version": FINDINGS_VERSION, "steps": steps, "checks": checks, "findings": list(findings)}
    return json.dumps(stored, ensure_ascii=True, allow_nan=False).encode()


def decode_findings(payload: bytes) -> StoredFindings:
    """Decode stored findings; raise UnsupportedVersion or DamagedBlock."""
    if len(payload) > MOST_BYTES:
        raise DamagedBlock("the findings are too big")
    try:
        stored = json.loads(payload)
        version, findings = stored["version"], stored["findings"]
        if isinstance(version, int) and version > FINDINGS_VERSION:
            raise UnsupportedVersion("list of findings", version, FINDINGS_VERSION)
        if not all(map(is_finding, findings)) or not isinstance(stored["checks"], dict):
            raise DamagedBlock("the findings have the wrong form")
        return StoredFindings(_joined(findings), int(stored["steps"]), stored["checks"])
    except (DamagedBlock, UnsupportedVersion):
        raise
    except (KeyError, TypeError, ValueError, RecursionError):
        raise DamagedBlock("the findings are not readable") from None


def listing_order(
    severity: int, *, cause: str | None, first_step: int, rule: str
) -> tuple[bool, int, int, str]:
    """Return the sort key by which findings are listed: causes before consequences, the worst first."""
    return cause is not None, -severity, first_step, rule


def _joined(findings: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the findings of a file with the promises of `StoredFindings` kept, whatever the file says."""
    by_rule = {found["rule"]: found for found in reversed(findings)}
    tree = CauseTree.of({rule: found.get("cause") for rule, found in reversed(by_rule.items())})
    below = tree.consequences()
    worst = tree.worst({rule: SEVERITIES.index(found["severity"]) for rule, found in by_rule.items()})
    for rule, found in by_rule.items():
        found["cause"] = tree.causes[rule]
        found["consequences"] = sorted(below[rule], key=lambda each: (by_rule[each]["first_step"], each))
        found["severity"] = SEVERITIES[worst[rule]]
    return sorted(
        by_rule.values(),
        key=lambda found: listing_order(
            worst[found["rule"]], cause=found["cause"], first_step=found["first_step"], rule=found["rule"]
        ),
    )


def is_finding(found: Any) -> bool:
    """Return whether every displayed field is present and has its type."""
    texts = ("rule", "severity", "message", "advice")
    return (
        isinstance(found, dict)
        and all(isinstance(found.get(name), str) for name in texts)
        and found["severity"] in SEVERITIES
        # bool is a subclass of int, so the exact type is compared.
        and all(type(found.get(name)) is int for name in ("first_step", "last_step"))
        and isinstance(found.get("evidence"), dict)
        and isinstance(found.get("cause"), str | None)
        and all(_are_texts(found.get(name)) for name in ("where", "consequences"))
    )


def _are_texts(found: Any) -> bool:
    return isinstance(found, list) and all(isinstance(each, str) for each in found)
