"""A line that was typed, taken apart: words, options, slices, ranges, and a file for the output."""

from __future__ import annotations

import argparse
import re
import shlex
from typing import NoReturn

_TO_FILE = re.compile(r"(?P<command>.*?)(?:^|\s)>\s*(?P<file>\S+)\s*")
_RANGE = re.compile(r"\[?\s*([^\[\],\s]+)\s*,\s*([^\[\],\s]+)\s*\]?")


class CommandError(Exception):
    """What was typed is not possible; a sentence for the person who typed it."""


class OptionParser(argparse.ArgumentParser):
    """Of the options of one command: what is wrong is an error to be shown, not the end of the program."""

    def __init__(self, name: str) -> None:
        super().__init__(prog=name, add_help=False, allow_abbrev=False)

    def error(self, message: str) -> NoReturn:
        usage = self.format_usage().removeprefix("usage: ").strip()
        raise CommandError(f"{message}. Usage: {usage}")


def words_of(text: str) -> list[str]:
    """Separated by spaces, except within quotes. Backslashes stay: regular expressions are full of them."""
    lexer = shlex.shlex(text, posix=True)
    lexer.whitespace_split, lexer.escape, lexer.commenters = True, "", ""
    try:
        return list(lexer)
    except ValueError:
        raise CommandError("A quotation mark is missing its partner.") from None


def compact(text: str) -> str:
    """Without the spaces within brackets: `a[0, :]` is one word."""
    depth, kept = 0, []
    for letter in text:
        depth += (letter == "[") - (letter == "]" and depth > 0)
        if not (depth and letter.isspace()):
            kept.append(letter)
    return "".join(kept)


def without_file(text: str) -> tuple[str, str | None]:
    """The command, and the file that its output should go to: `tensors > all.txt`."""
    found = _TO_FILE.fullmatch(text)
    return (found["command"], found["file"]) if found else (text, None)


def split_slice(text: str) -> tuple[str, str | None]:
    """`name[0, :]` into name and slice. A name may have brackets of its own: this takes the last ones."""
    start = text.rfind("[")
    return (text[:start], text[start:]) if start > 0 and text.endswith("]") else (text, None)


def ranges_of(text: str) -> list[tuple[float, float]]:
    """Of `1,inf` or `[[-inf,-1],[1,inf]]`. CommandError."""
    inner = text.strip()
    inner = inner[1:-1] if inner.startswith("[[") and inner.endswith("]]") else inner
    found = _RANGE.findall(inner)
    left = _RANGE.sub("", inner).strip(" ,")
    try:
        if found and not left:
            return [(float(lower), float(upper)) for lower, upper in found]
    except ValueError:
        pass  # is said below
    raise CommandError(f"{text!r} are no ranges: write 1,inf or [[-inf,-1],[1,inf]].")


def excluding(match: str | None, exclude: str | None) -> str | None:
    """One regular expression for both wishes, as the wire has only one."""
    if exclude is None:
        return match
    return rf"^(?!.*(?:{exclude}))" + (rf".*(?:{match})" if match else "")
