"""The report on a logdir, as `nd.check` returns and `netdebug check` prints it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from tb_netdebug.checks.finding import Finding, Severity
from tb_netdebug.core.records.verdict import UNKNOWN

SCHEMA = 1
FAIL_ON = {"error": Severity.ERROR, "warning": Severity.WARNING}
# Exit codes of `netdebug check`; everything else is 0.
FOUND, NOT_JUDGED = 1, 2


@dataclass(frozen=True, slots=True)
class RunReport:
    """The report on one run.

    `verdict` is "sick", "suspect", "healthy", or "unknown" for a run of which nothing is known; `reason` then
    says why, and what to do. `not_judged` says of each check that could not judge what it would need.
    """

    run: str
    steps: int
    verdict: str
    findings: list[Finding]
    not_judged: dict[str, str] = field(default_factory=dict)
    complaints: list[str] = field(default_factory=list)
    """The parts of the run that could not be read, and how its program failed."""
    reason: str | None = None
    is_readable: bool = True
    """False when nothing of the run could be read."""

    @property
    def is_judged(self) -> bool:
        return self.verdict != UNKNOWN

    def as_dict(self) -> dict[str, Any]:
        return {
            "run": self.run,
            "steps": self.steps,
            "verdict": self.verdict,
            "reason": self.reason,
            "findings": [finding.as_dict() for finding in self.findings],
            "not_judged": self.not_judged,
            "complaints": self.complaints,
        }


@dataclass(frozen=True, slots=True)
class Report:
    """The reports on all runs of a logdir: `assert nd.check(logdir).healthy`."""

    logdir: str
    runs: Sequence[RunReport]

    @property
    def healthy(self) -> bool:
        """Whether runs were judged, all of them could be read, and none has an error or a warning.

        A run without any step does not count when there are others.
        """
        return self.exit_code("warning") == 0

    def exit_code(self, fail_on: str) -> int:
        """Return the exit code of `netdebug check`.

        It is 1 when a run has a finding at or above `fail_on`, which "never" rules out; else 2 when no run
        could be judged or one could not be read; else 0.
        """
        if fail_on in FAIL_ON and self.worst >= FAIL_ON[fail_on]:
            return FOUND
        is_known = any(run.is_judged for run in self.runs) and all(run.is_readable for run in self.runs)
        return 0 if is_known else NOT_JUDGED

    @property
    def worst(self) -> Severity:
        severities = [finding.severity for run in self.runs for finding in run.findings]
        return max(severities, default=Severity.INFO)

    def as_dict(self) -> dict[str, Any]:
        """Return the report as `netdebug check --json` prints it."""
        return {"schema": SCHEMA, "logdir": self.logdir, "runs": [run.as_dict() for run in self.runs]}
