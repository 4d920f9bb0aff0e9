"""Dates from times stored in files, which may be any number."""

from __future__ import annotations

import time
from typing import Any

UNKNOWN = "at an unknown time"
# About the year 5000. Far later times overflow the calendar of the C library.
MOST_SECS = 1e11


def is_date(secs: Any) -> bool:
    return isinstance(secs, int | float) and 0 <= secs < MOST_SECS


def date_text(secs: Any) -> str:
    """Return the date and time of day in the local time zone."""
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(secs)) if is_date(secs) else UNKNOWN
