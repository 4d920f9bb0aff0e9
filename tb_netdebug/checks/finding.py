"""The result of a check: a finding, in words and numbers.

Rules make signs, the engine makes findings of them.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any

from tb_netdebug.core.records.verdict import word_for

# The places that a finding names; beyond them, the message gives the number.
MOST_PLACES = 50


class Severity(IntEnum):
    """An error spoils the run, a warning may, an info is worth knowing."""

    INFO = 1
    WARNING = 2
    ERROR = 3

    @property
    def text(self) -> str:
        return self.name.lower()


@dataclass(frozen=True, slots=True)
class Evidence:
    """What was seen, and the threshold that it is compared with, if there is one."""

    value: float | str | bool
    limit: float | None = None


@dataclass(frozen=True, slots=True)
class Sign:
    """What a rule reports at one step; the engine makes a finding of it.

    `where` holds names of layers, tensors or scalars; the engine puts them into the order of execution.
    `since` is the step at which it began, if the rule had to wait to be sure. `sureness` is how often the
    rule is right when it reports this, from 0 to 1. A sign with `knows_more` replaces the message of the
    finding. One that `refreshes` does so as well, but is no news. A sign with `is_over` takes the finding
    back: it no longer holds and becomes a note.
    """

    severity: Severity
    message: str
    advice: str
    evidence: Mapping[str, Evidence]
    where: tuple[str, ...] = ()
    since: int | None = None
    sureness: float = 0.9
    knows_more: bool = False
    is_over: bool = False
    refreshes: bool = False


@dataclass(slots=True)
class Finding:
    """Everything that one rule has reported, from the first to the last time.

    `cause` is the rule whose finding explains this one, `consequences` are the rules whose findings this one
    explains.
    """

    rule: str
    severity: Severity
    first_step: int
    last_step: int
    where: list[str]
    message: str
    advice: str
    evidence: dict[str, Evidence]
    sureness: float
    cause: str | None = None
    consequences: list[str] = field(default_factory=list)

    def as_dict(self) -> dict[str, Any]:
        """Return plain values for JSON; numbers that are not finite become text."""
        return {
            "rule": self.rule,
            "severity": self.severity.text,
            "first_step": self.first_step,
            "last_step": self.last_step,
            "where": self.where,
            "message": self.message,
            "evidence": {name: _plain(evidence) for name, evidence in self.evidence.items()},
            "advice": self.advice,
            "sureness": self.sureness,
            "cause": self.cause,
            "consequences": self.consequences,
        }


def verdict(findings: Iterable[Finding]) -> str:
    """Return "sick", "suspect" or "healthy" for a run that has steps; see `core.records.verdict`."""
    return word_for(each.severity.text for each in findings)


def _plain(evidence: Evidence) -> Any:
    value = evidence.value if isinstance(evidence.value, str | bool) else number(evidence.value)
    return value if evidence.limit is None else {"value": value, "limit": number(evidence.limit)}


def number(value: float) -> float | str:
    """Return the number as JSON can hold it: NaN and infinities become text."""
    value = float(value)
    if math.isfinite(value):
        return value
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
