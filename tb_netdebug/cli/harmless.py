"""Makes names and messages from log files safe to print on a terminal.

Log files are untrusted: a name may hold escape sequences that move the cursor or rename the window, marks
that change the direction of the text, or ten thousand letters. `core/records/visible.py` defines which
characters are escaped.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator

from rich.cells import cell_len, chop_cells, set_cell_size

from tb_netdebug.core.records.visible import LEFT_TO_RIGHT, UNPRINTABLE, escape

# Longer texts are cut first, before any work whose cost grows with their length.
MOST_CHARACTERS = 1000
MOST_MARKS_PER_LETTER = 3
ELLIPSIS = "…"
# Combining marks: a letter with hundreds of them covers the lines above and below ("Zalgo" text).
MARKS = frozenset({"Mn", "Me"})
FROM_RIGHT_TO_LEFT = frozenset({"R", "AL", "AN"})


def harmless(text: str) -> str:
    r"""Return the text on one line, with escapes such as \x1b for all but letters, signs and spaces."""
    if len(text) > MOST_CHARACTERS:
        text = text[: MOST_CHARACTERS // 2] + ELLIPSIS + text[-MOST_CHARACTERS // 2 :]
    shown = "".join(_visible(text))
    # Without the mark, the terminal's bidirectional algorithm would reorder numbers that follow the text.
    is_reversed = any(unicodedata.bidirectional(character) in FROM_RIGHT_TO_LEFT for character in shown)
    return shown + LEFT_TO_RIGHT if is_reversed else shown


def fitted(text: str, width: int) -> str:
    """Return a harmless text in at most `width` cells. The middle is cut: names differ at their ends."""
    text = harmless(text)
    if cell_len(text) <= width:
        return text
    if width < 3:
        return set_cell_size(text, max(width, 0))
    head = (width - 1) // 3
    # Reversed, because chop_cells fills its pieces from the left.
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
