"""Names chosen by a regular expression that a user typed."""

from __future__ import annotations

from collections.abc import Callable

from tb_netdebug.core.eventlog.reader.errors import ReaderError
from tb_netdebug.core.records.linear_regex import LinearPattern, PatternError

# A search takes time in proportion to pattern times name, and a run may have many names.
_MOST_PATTERN = 300
_MOST_NAME = 1000


def matcher(pattern: str | None) -> Callable[[str], bool]:
    """Return a predicate that finds the pattern in a name; without a pattern every name matches.

    Raises ReaderError if the pattern is no regular expression, or not one that can be searched in linear
    time.
    """
    if not pattern:
        return lambda name: True
    if len(pattern) > _MOST_PATTERN:
        raise ReaderError(f"A pattern of {len(pattern)} characters is too long.")
    try:
        search = LinearPattern(pattern).search
    except PatternError as error:
        raise ReaderError(str(error)) from None
    return lambda name: search(name[:_MOST_NAME])
