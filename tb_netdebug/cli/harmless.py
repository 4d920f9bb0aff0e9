"""Names and messages from a log file as text that can do nothing but be read.

A log file is written by others: a name in it may hold escape sequences that move the cursor or rename the
window, marks that turn the direction of the line, or ten thousand letters. `core/records/visible.py` knows
what is no letter, sign or space.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator

from rich.cells import cell_len, chop_cells, set_cell_size

from tb_netdebug.core.records.visible import LEFT_TO_RIGHT, UNPRINTABLE, escape

# Longer texts are cut before anything else is done with them.
MOST_CHARACTERS = 1000
MOST_MARKS_PER_LETTER = 3
ELLIPSIS = "…"
MARKS = frozenset({"Mn", "Me"})
FROM_RIGHT_TO_LEFT = frozenset({"R", "AL", "AN"})


def harmless(text: str) -> str:
    """The text on one line, with a visible escape such as \\x1b for what is no letter, sign or space."""
    if len(text) > MOST_CHARACTERS:
        text = text[: MOST_CHARACTERS // 2] + ELLIPSIS + text[-MOST_CHARACTERS // 2 :]
    shown = "".join(_visible(text))
    # Numbers that follow letters written from right to left would change places with each other.
    is_reversed = any(unicodedata.bidirectional(character) in FROM_RIGHT_TO_LEFT for character in shown)
    return shown + LEFT_TO_RIGHT if is_reversed else shown


def fitted(text: str, width: int) -> str:
    """A harmless text in at most `width` cells. The middle goes first: names differ at their ends."""
    text = harmless(text)
    if cell_len(text) <= width:
        return text
    if width < 3:
        return set_cell_size(text, max(width, 0))
    head = (width - 1) // 3
    pieces = chop_cells(text[::-1], width - 1 - head)
    return set_cell_size(text, head) + ELLIPSIS + pieces[0][::-1]


def _visible(text: str) -> Iterator[str]:
    marks = 0
    for character in text:
        category = unicodedata.category(character)
        marks = marks + 1 if category in MARKS else 0
        if category in UNPRINTABLE:
            yield escape(character)
        elif marks <= MOST_MARKS_PER_LETTER:
            yield " " if category == "Zs" else character
