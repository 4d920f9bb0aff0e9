"""What the checks say: a finding, in words and numbers."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any

from tb_netdebug.core.records.verdict import word_for

# Places are named one by one up to here; that there are more stands in the message.
MOST_PLACES = 50


class Severity(IntEnum):
    """An error spoils the training, a warning may, an info is worth knowing."""

    INFO = 1
    WARNING = 2
    ERROR = 3

    @property
    def text(self) -> str:
        return self.name.lower()


@dataclass(frozen=True, slots=True)
class Evidence:
    """What was seen, and the threshold that it is held against, if there is one."""

    value: float | str | bool
    limit: float | None = None


@dataclass(frozen=True, slots=True)
class Sign:
    """What a rule sees now: enough to be said.

    `where` are names of layers, tensors or scalars; the engine puts them into the order of execution.
    `since` is the step at which it began, when the rule had to wait to be sure. `sureness` is how often the
    rule is right when it says this, from 0 to 1. One that `knows_more` takes the place of what was said.
    After one that `is_over` what was said holds no longer, and is only worth knowing.
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


@dataclass(slots=True)
class Finding:
    """What one rule has seen, from the first to the last time.

    `cause` is the rule of the finding that explains this one, `consequences` are those that this explains.
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
        """Plain values for JSON; numbers that are not finite become text."""
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
    return value if evidence.limit is None else {"value": value, "limit": evidence.limit}


def number(value: float) -> float | str:
    """As JSON has it, which knows no NaN and no infinity."""
    value = float(value)
    if math.isfinite(value):
        return value
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
