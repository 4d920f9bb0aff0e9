"""Findings as the trainer stores them; each payload holds all it has found so far."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tb_netdebug.core.records.errors import DamagedBlock, UnsupportedVersion

FINDINGS_VERSION = 1
MOST_BYTES = 8 << 20  # a reader refuses more
SEVERITIES = ("info", "warning", "error")


@dataclass(frozen=True, slots=True)
class StoredFindings:
    """The findings of a run as its trainer last stored them.

    `findings` are dictionaries made by `checks.finding.Finding.as_dict`, the worst first. `steps` is the
    number of steps they are based on, `checks` the user's changes to the checks.
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
        return StoredFindings(findings, int(stored["steps"]), stored["checks"])
    except (DamagedBlock, UnsupportedVersion):
        raise
    except (KeyError, TypeError, ValueError, RecursionError):
        raise DamagedBlock("the findings are not readable") from None


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
        and all(_are_texts(found.get(name)) for name in ("where", "consequences"))
    )


def _are_texts(found: Any) -> bool:
    return isinstance(found, list) and all(isinstance(each, str) for each in found)
