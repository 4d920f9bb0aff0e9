"""A line of the list of runs."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tb_netdebug.reader.places import RunPlace

# Written to this recently, a run is live.
LIVE_SECS = 10.0
# What only reading the run can tell; null until then.
_READ = ("version", "first_step", "last_step", "steps", "loss", "ranks", "gaps", "complaint", "verdict")


def unread_row(place: RunPlace) -> dict[str, object]:
    """What the folder alone tells of a run."""
    return {**_of_place(place), **dict.fromkeys(_READ), "state": _state(place.changed, "unknown")}


def read_row(place: RunPlace, details: Mapping[str, Any], *, version: int) -> dict[str, object]:
    row = {**unread_row(place), **{name: details[name] for name in _READ if name in details}}
    row["version"] = version
    ranks = row["ranks"]
    if isinstance(ranks, (list, tuple)):
        row["ranks"] = len(ranks)
    row["changed"] = max(place.changed, details.get("changed") or 0.0)
    row["size_bytes"] = max(place.size_bytes, details.get("size_bytes") or 0)
    row["state"] = "ended" if details.get("state") == "ended" else _state(row["changed"], "idle")
    return row


def failed_row(place: RunPlace, complaint: str) -> dict[str, object]:
    """Of a run that cannot be read at all."""
    return {**unread_row(place), "version": 0, "complaint": complaint}


def _of_place(place: RunPlace) -> dict[str, object]:
    return {
        "name": place.name,
        "kind": place.kind,
        "started": place.started,
        "changed": place.changed,
        "size_bytes": place.size_bytes,
    }


def _state(changed: object, otherwise: str) -> str:
    recent = isinstance(changed, float) and time.time() - changed < LIVE_SECS
    return "live" if recent else otherwise
