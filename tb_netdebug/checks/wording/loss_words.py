"""Texts that several rules over the loss share."""

from __future__ import annotations

from tb_netdebug.checks.finding import Severity, Sign


def over(step: int, how: str) -> Sign:
    """Return the sign that a finding about the loss no longer holds, and how that shows."""
    return Sign(
        Severity.INFO,
        f"By step {step} this is over: {how}.",
        "Do nothing while the loss goes on falling.",
        {},
        is_over=True,
    )
