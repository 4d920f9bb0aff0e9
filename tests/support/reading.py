"""Whether a finding reads well: what a beginner stumbles over, as a list of complaints."""

from __future__ import annotations

import re

MANY = "layers|steps|batches|tensors|values|units|calls|parts|classes|rows"
COMPLAINTS = {
    r"\S%": "a percent sign without a space before it",
    r"\b0\.0+ %": "a share that is not nothing, and looks like it",
    r"\b(?:nan|inf|None)\b": "a value as Python prints it",
    r"\de\+\d": "a large number as a power of ten",
    r"  | [,;:)]|\( ": "a space too many",
    r"(?<!\.)\.\.(?!\.)": "two full stops",
    rf"(?<![\d.,])1 (?:\w+ )?(?:{MANY})\b": "one of something, as if it were several",
    r"\b(?:of|into|in|from) \d+ (?:is|are|were|vary)\b": "a bare number that is the name of a layer",
}


def complaints(message: str, advice: str) -> list[str]:
    """Empty when all is well. A message ends as a sentence and holds a number, advice begins with a verb."""
    told = [
        f"{what}: {found.group()!r} in {text!r}"
        for pattern, what in COMPLAINTS.items()
        for text in (message, advice)
        if (found := re.search(pattern, text))
    ]
    told += [f"no number: {message!r}"] if not re.search(r"\d", message) else []
    told += [f"no end: {text!r}" for text in (message, advice) if not text.endswith((".", "?"))]
    told += [f"no capital: {text!r}" for text in (advice,) if not text[:1].isupper()]
    return told
