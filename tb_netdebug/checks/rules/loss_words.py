"""Words that several rules over the loss have in common."""

from __future__ import annotations

from tb_netdebug.checks.finding import Severity, Sign


def over(step: int, how: str) -> Sign:
    """Return the sign that what was said of a loss holds no longer, and how that shows."""
    return Sign(
        Severity.INFO,
        f"By step {step} this is over: {how}.",
        "Nothing, when the loss goes on falling.",
        {},
        is_over=True,
    )
