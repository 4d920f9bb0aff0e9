"""Untrusted text with visible escapes in place of every unprintable character.

Names of runs, layers and files may hold escape sequences that move a terminal's cursor or rename its window,
and marks that reverse the direction of a line or cannot be seen. Everything NetDebug prints goes through
here; `cli/harmless.py` adds what tables and single lines need.
"""

from __future__ import annotations

import json
import unicodedata

# Unicode categories: control, format, surrogate, private, unassigned; line and paragraph separators.
UNPRINTABLE = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})
# Appended to right-to-left text, so that numbers after it keep their place.
LEFT_TO_RIGHT = "\u200e"


def visible(text: str, *, kept: str = "") -> str:
    """Return the text with unprintable characters escaped as in \\x1b, except those in `kept`."""
    if text.isascii() and text.isprintable():  # nearly all text, decided without a look at each character
        return text
    return "".join(each if each in kept or not is_unprintable(each) else escape(each) for each in text)


def visible_lines(text: str) -> str:
    """Return text of several lines made visible; it may have been through `cli/harmless.py` already."""
    return visible(text, kept=f"\n{LEFT_TO_RIGHT}")


def is_unprintable(character: str) -> bool:
    return unicodedata.category(character) in UNPRINTABLE


def escape(character: str) -> str:
    return character.encode("unicode_escape").decode("ascii")


def json_text(value: object, *, indent: int | None = None) -> str:
    """Return JSON in printable ASCII, from which every name can be read back unchanged."""
    # json.dumps escapes every unprintable character except DEL, which can only stand inside a string.
    return json.dumps(value, indent=indent).replace("\x7f", "\\u007f")
