"""Names chosen by a regular expression that came over the wire: it must not keep the training waiting."""

from __future__ import annotations

import re

from tb_netdebug.debugger.workbench import WorkbenchError

MOST_LETTERS = 500
MOST_NAME_LETTERS = 300
MOST_REMEMBERED = 100_000
# Python tries all ways in which a pattern may fit. With these bounds there are few for the longest name.
MOST_REPEATS = 4
MOST_CHOICES = 4096

# An escaped letter, a class of letters, the begin of a group, a quantifier (greedy or not), or any letter.
_TOKEN = re.compile(
    r"\\.|\[\^?\]?(?:\\.|[^\]\\])*\]|\((?:\?(?:P<\w+>|<?[=!]|[:#aiLmsux-]*))?|(?:[*+?]|\{\d*,?\d*\})[?+]?|.",
    re.DOTALL,
)
_REPEATS = ("*", "+", "{")


class NamePattern:
    """Raises WorkbenchError for what is no regular expression, or one that may take long."""

    def __init__(self, text: str) -> None:
        self.text = text
        try:
            if len(text) > MOST_LETTERS:
                raise WorkbenchError(f"A pattern of {len(text)} letters is too long: {MOST_LETTERS} may be.")
            self._regex = re.compile(text)
        except (re.error, RecursionError, OverflowError) as error:
            raise WorkbenchError(f"{text[:80]!r} is no regular expression: {error}.") from None
        _refuse_slow(text)
        self._known: dict[str, bool] = {}

    def finds(self, name: str) -> bool:
        """Whether it is found anywhere in the name; the answer is remembered."""
        known = self._known.get(name)
        if known is None:
            if len(self._known) >= MOST_REMEMBERED:
                self._known.clear()
            known = self._known[name] = self._regex.search(name[:MOST_NAME_LETTERS]) is not None
        return known


def _refuse_slow(text: str) -> None:
    """A repetition within another one, or many in a row, may take time without bounds."""
    if re.search(r"\(\?(#|[a-zA-Z]*x)", text):
        raise WorkbenchError("A pattern over the wire has no comments and no flag x.")
    alternatives, has_ways = [1], [False]  # of each open group; it has ways when it may fit in several
    choices, repeats, was_group_with_ways = 1, 0, False
    for token in _TOKEN.findall(text):
        is_repeat = token.startswith(_REPEATS)
        if is_repeat and was_group_with_ways:
            raise WorkbenchError(
                f"The pattern {text[:80]!r} repeats a group that holds a repetition or a choice, which may "
                "take for ever: say it in another way, such as with .* alone."
            )
        was_group_with_ways = False
        if token.startswith("("):
            alternatives.append(1)
            has_ways.append(False)
        elif token == ")" and len(has_ways) > 1:
            choices *= alternatives.pop()
            was_group_with_ways = has_ways.pop()
            has_ways[-1] |= was_group_with_ways
        elif token == "|" and len(has_ways) == 1:
            repeats, choices = 0, 1  # what stands at the sides of it is tried one after the other
        elif token == "|":
            alternatives[-1] += 1
            has_ways[-1] = True
        elif is_repeat or token.startswith("?"):
            repeats += is_repeat
            choices *= 1 if is_repeat else 2
            has_ways[-1] = True
        if repeats > MOST_REPEATS or choices > MOST_CHOICES:
            raise WorkbenchError(
                f"The pattern {text[:80]!r} may take long: it can have {MOST_REPEATS} repetitions (* + {{}}) "
                f"and {MOST_CHOICES} ways through its groups."
            )
