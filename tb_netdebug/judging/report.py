"""What `netdebug check` and `nd.check` say of a logdir."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from tb_netdebug.checks.finding import Finding, Severity, verdict

SCHEMA = 1


@dataclass(frozen=True, slots=True)
class RunReport:
    """One run. `not_judged` says of each check that could say nothing what it would need."""

    run: str
    steps: int
    findings: list[Finding]
    not_judged: dict[str, str] = field(default_factory=dict)
    complaints: list[str] = field(default_factory=list)
    """What of the run could not be read."""
    is_readable: bool = True
    """False when nothing of it could."""

    @property
    def verdict(self) -> str:
        """ "sick", "suspect" or "healthy"; "unreadable" when nothing is known of it."""
        return verdict(self.findings) if self.is_readable else "unreadable"

    def as_dict(self) -> dict[str, Any]:
        return {
            "run": self.run,
            "steps": self.steps,
            "verdict": self.verdict,
            "findings": [finding.as_dict() for finding in self.findings],
            "not_judged": self.not_judged,
            "complaints": self.complaints,
        }


@dataclass(frozen=True, slots=True)
class Report:
    """All runs of a logdir: `assert nd.check(logdir).healthy`."""

    logdir: str
    runs: Sequence[RunReport]

    @property
    def healthy(self) -> bool:
        """All runs were read, and none has an error or a warning."""
        return all(run.verdict == "healthy" for run in self.runs)

    @property
    def worst(self) -> Severity:
        severities = [finding.severity for run in self.runs for finding in run.findings]
        return max(severities, default=Severity.INFO)

    def as_dict(self) -> dict[str, Any]:
        """As `netdebug check --json` prints it."""
        return {"schema": SCHEMA, "logdir": self.logdir, "runs": [run.as_dict() for run in self.runs]}
