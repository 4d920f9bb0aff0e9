"""The error by which a finding ends the training, where the user has asked for that."""

from __future__ import annotations

from tb_netdebug.checks.finding import Finding
from tb_netdebug.checks.words import paragraph


class FindingError(RuntimeError):
    """With `on_finding="raise"`: the training is sick. `finding` says how."""

    def __init__(self, finding: Finding) -> None:
        super().__init__(paragraph(finding))
        self.finding = finding
