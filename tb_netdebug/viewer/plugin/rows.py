"""The rows in the list of runs, from what is known of a run."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from tb_netdebug.core.eventlog.reader.pulse import LIVE_SECS

if TYPE_CHECKING:
    from tb_netdebug.core.eventlog.reader.places import RunListing

_OF_FILES = ("name", "kind", "started", "changed", "size_bytes")
# Null until the run has been read.
_OF_CONTENT = (
    "version", "first_step", "last_step", "steps", "loss", "ranks", "gaps", "complaint", "verdict",
    "reason", "ending", "late",
)  # fmt: skip


def unread_row(place: RunListing) -> dict[str, object]:
    """Return the row of a run of which only its folder was listed."""
    is_live = time.time() - place.changed < LIVE_SECS
    of_files = {name: getattr(place, name) for name in _OF_FILES}
    return {**of_files, **dict.fromkeys(_OF_CONTENT), "state": "live" if is_live else "unknown"}


def read_row(details: Mapping[str, Any]) -> dict[str, object]:
    """Return the row of a run that was read."""
    row = {name: details[name] for name in (*_OF_FILES, *_OF_CONTENT, "state")}
    return {**row, "ranks": len(details["ranks"])}


def may_change(row: Mapping[str, object]) -> bool:
    """Return whether time alone can change the row: a live run becomes idle, a silent one ends."""
    return row.get("version") is None or row.get("state") == "live" or row.get("late") is not None


def failed_row(before: Mapping[str, object], complaint: str) -> dict[str, object]:
    """Return the row of a run that could not be read: the last one, with the reason."""
    return {**before, "version": before.get("version") or 0, "complaint": complaint}
