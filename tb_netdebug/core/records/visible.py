"""Text that others wrote, with visible escapes for what is no letter, sign or space.

Names of runs, layers and files may hold escape sequences that move a terminal's cursor or rename its window,
and marks that turn the direction of a line or cannot be seen. Whatever is printed by us goes through here;
`cli/harmless.py` adds what tables and single lines need.
"""

from __future__ import annotations

import json
import unicodedata

# Control, format, surrogate, private, unassigned; separators of lines and paragraphs.
UNPRINTABLE = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})
# Put behind text that is written from right to left, so that numbers after it keep their place.
LEFT_TO_RIGHT = "\u200e"


def visible(text: str, *, kept: str = "") -> str:
    """Return the text with escapes such as \\x1b, all but those characters that are `kept`."""
    if text.isascii() and text.isprintable():
        return text
    return "".join(each if each in kept or not is_unprintable(each) else escape(each) for each in text)


def visible_lines(text: str) -> str:
    """Return text of several lines that may have been through `cli/harmless.py` already."""
    return visible(text, kept=f"\n{LEFT_TO_RIGHT}")


def is_unprintable(character: str) -> bool:
    return unicodedata.category(character) in UNPRINTABLE


def escape(character: str) -> str:
    return character.encode("unicode_escape").decode("ascii")


def json_text(value: object, *, indent: int | None = None) -> str:
    """Return JSON in printable ASCII, in which every name survives as it is."""
    # Of all that is no text, Python's own leaves DEL alone; it can only be within a string.
    return json.dumps(value, indent=indent).replace("\x7f", "\\u007f")
