"""The error by which a finding ends the run, where the user has asked for that."""

from __future__ import annotations

from tb_netdebug.checks.finding import Finding
from tb_netdebug.checks.wording.words import paragraph


class FindingError(RuntimeError):
    """Raised with `on_finding="raise"` when a check finds a fault; `finding` is what it found."""

    def __init__(self, finding: Finding) -> None:
        super().__init__(paragraph(finding))
        self.finding = finding
