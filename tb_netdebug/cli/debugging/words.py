"""Parses typed lines: words, options, slices, ranges, and a file for the output."""

from __future__ import annotations

import argparse
import re
import shlex
from typing import NoReturn

_TO_FILE = re.compile(r"(?P<command>.*?)(?:^|\s)>\s*(?P<file>\S+)\s*")
_RANGE = re.compile(r"\[?\s*([^\[\],\s]+)\s*,\s*([^\[\],\s]+)\s*\]?")


class CommandError(Exception):
    """A typed command is not possible; the message is a sentence for the user."""


class OptionParser(argparse.ArgumentParser):
    """The parser of one command's options; it raises CommandError where argparse would exit."""

    def __init__(self, name: str) -> None:
        super().__init__(prog=name, add_help=False, allow_abbrev=False)

    def error(self, message: str) -> NoReturn:
        usage = self.format_usage().removeprefix("usage: ").strip()
        raise CommandError(f"{message}. Usage: {usage}")


def words_of(text: str) -> list[str]:
    """Return the words of a line, split at spaces except within quotes. Raise CommandError.

    Backslashes are kept: regular expressions are full of them.
    """
    lexer = shlex.shlex(text, posix=True)
    # No commenters: "#" is an ordinary character.
    lexer.whitespace_split, lexer.escape, lexer.commenters = True, "", ""
    try:
        return list(lexer)
    except ValueError:
        raise CommandError("A quotation mark is not closed.") from None


def compact(text: str) -> str:
    """Return the text without spaces inside brackets, so that `a[0, :]` is one word."""
    depth, kept = 0, []
    for letter in text:
        depth += (letter == "[") - (letter == "]" and depth > 0)
        if not (depth and letter.isspace()):
            kept.append(letter)
    return "".join(kept)


def without_file(text: str) -> tuple[str, str | None]:
    """Return the command and the file that its output goes to, as in `tensors > all.txt`."""
    found = _TO_FILE.fullmatch(text)
    return (found["command"], found["file"]) if found else (text, None)


def split_slice(text: str) -> tuple[str, str | None]:
    """Split `name[0, :]` into name and slice. A name may contain brackets: the last ones are the slice."""
    start = text.rfind("[")
    return (text[:start], text[start:]) if start > 0 and text.endswith("]") else (text, None)


def ranges_of(text: str) -> list[tuple[float, float]]:
    """Return the ranges in text such as `1,inf` or `[[-inf,-1],[1,inf]]`. Raise CommandError."""
    inner = text.strip()
    inner = inner[1:-1] if inner.startswith("[[") and inner.endswith("]]") else inner
    found = _RANGE.findall(inner)
    left = _RANGE.sub("", inner).strip(" ,")
    try:
        if found and not left:
            return [(float(lower), float(upper)) for lower, upper in found]
    except ValueError:
        pass  # reported below
    raise CommandError(f"{text!r} is not a list of ranges: write 1,inf or [[-inf,-1],[1,inf]].")


def excluding(match: str | None, exclude: str | None) -> str | None:
    """Return one regular expression for both options: the protocol has only one."""
    if exclude is None:
        return match
    # A negative lookahead for `exclude`, followed by `match`.
    return rf"^(?!.*(?:{exclude}))" + (rf".*(?:{match})" if match else "")
