"""A line of the list of runs."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tb_netdebug.reader.places import RunPlace

# Written to this recently, a run is live.
LIVE_SECS = 10.0
_OF_FILES = ("name", "kind", "started", "changed", "size_bytes")
# What only reading the run can tell; null until then.
_OF_CONTENT = (
    "version", "first_step", "last_step", "steps", "loss", "ranks", "gaps", "complaint", "verdict",
)  # fmt: skip


def unread_row(place: RunPlace) -> dict[str, object]:
    """What the folder alone tells of a run."""
    is_live = time.time() - place.changed < LIVE_SECS
    of_files = {name: getattr(place, name) for name in _OF_FILES}
    return {**of_files, **dict.fromkeys(_OF_CONTENT), "state": "live" if is_live else "unknown"}


def read_row(details: Mapping[str, Any]) -> dict[str, object]:
    """What reading it has told."""
    row = {name: details[name] for name in (*_OF_FILES, *_OF_CONTENT, "state")}
    return {**row, "ranks": len(details["ranks"])}


def failed_row(before: Mapping[str, object], complaint: str) -> dict[str, object]:
    """Of a run that could not be read: as it was, with the reason."""
    return {**before, "version": before.get("version") or 0, "complaint": complaint}
