"""Dates of what files say of the time, which may be any number."""

from __future__ import annotations

import time
from typing import Any

UNKNOWN = "at an unknown time"
# About the year 5000: the calendar of the C library ends at some later one.
MOST_SECS = 1e11


def is_date(secs: Any) -> bool:
    return isinstance(secs, int | float) and 0 <= secs < MOST_SECS


def date_text(secs: Any) -> str:
    """Return the date and the time of day of this place."""
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(secs)) if is_date(secs) else UNKNOWN
