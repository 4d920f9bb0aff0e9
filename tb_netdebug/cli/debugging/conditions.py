"""Watchpoint conditions and hits as text."""

from __future__ import annotations

from tb_netdebug.cli.harmless import harmless
from tb_netdebug.debugger.client.client import Json


def condition_text(told: Json) -> str:
    """Return the condition of a hit or watchpoint, such as "abs_max > 100"."""
    if told.get("statistic") == "nonfinite":
        return "not finite"
    threshold = told.get("threshold")
    number = "?" if threshold is None else f"{float(threshold):g}"
    return f"{told.get('statistic')} {told.get('comparison')} {number}"


def actual_text(hit: Json) -> str:
    """Return the value that caused a hit; for "nonfinite", how many values were not finite."""
    if hit.get("actual") is None:
        return ""
    actual = float(hit["actual"])
    return f"{actual:.0f} values" if hit.get("statistic") == "nonfinite" else f"{actual:.6g}"


def hit_text(hit: Json) -> str:
    return harmless(
        f"  hit {hit.get('number')} of watchpoint {hit.get('watchpoint')}: {hit.get('tensor')}: "
        f"{condition_text(hit)}: {actual_text(hit)}"
    )
