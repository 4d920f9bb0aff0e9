"""Names chosen by a regular expression that somebody has typed."""

from __future__ import annotations

import re

from tb_netdebug.reader.errors import ReaderError

_MOST_PATTERN = 300
_MOST_NAME = 1000


def matches(pattern: str | None, name: str) -> bool:
    """ReaderError for what is no regular expression."""
    if not pattern:
        return True
    if len(pattern) > _MOST_PATTERN:
        raise ReaderError(f"A pattern of {len(pattern)} characters is too long.")
    try:
        return re.search(pattern, name[:_MOST_NAME]) is not None
    except (re.error, RecursionError, OverflowError):
        raise ReaderError(f"{pattern!r} is no regular expression.") from None
