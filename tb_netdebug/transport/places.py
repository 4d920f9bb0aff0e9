"""Validation of names from the wire: what a run and a file may be called before a path is made of them."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass

from tb_netdebug.core.eventlog.writer.event_file import SIDE_FOLDER, SUFFIX
from tb_netdebug.transport.identity import is_identity
from tb_netdebug.transport.limits import Limits

# The names that core/eventlog/writer/event_file.py makes: files of rank 0 lie in the run's folder itself
# (_MAIN), those of other ranks and of agents in its side folder (_SIDE).
_MADE = r"\.[0-9]{10,11}\.[A-Za-z0-9_-]{1,64}\.[0-9]{1,10}\.[0-9]{4,9}" + re.escape(SUFFIX)
_MAIN = re.compile(r"events\.out\.tfevents" + _MADE, re.ASCII)
_NAMESAKE = re.compile(r"[2-9]|[1-9][0-9]{1,5}", re.ASCII)
_SIDE = re.compile(r"(?:rank|agent)[0-9]{1,7}" + _MADE, re.ASCII)
# Control characters and line separators; surrogates cannot be encoded.
_UNFIT = frozenset({"Cc", "Cs", "Zl", "Zp"})


class RefusedFile(Exception):  # noqa: N818  # it is an answer, not a failure of ours
    """A refusal of a run or a file, in a sentence for the agent.

    With `for_now` the agent may send the same again later.
    """

    def __init__(self, sentence: str, *, for_now: bool = False) -> None:
        super().__init__(sentence)
        self.for_now = for_now


@dataclass(frozen=True, slots=True)
class Destination:
    """Where a file belongs: the folders below the root, and the file name in the last of them."""

    folders: tuple[str, ...]
    name: str

    def __str__(self) -> str:
        return "/".join((*self.folders, self.name))


def run_of(parts: Sequence[str], limits: Limits) -> tuple[str, ...]:
    """Return the folders of a run whose name came over the wire. Raise RefusedFile for an unusable name."""
    if not 1 <= len(parts) <= limits.run_parts:
        raise RefusedFile(f"A run's name has 1 to {limits.run_parts} parts, not {len(parts)}.")
    for part in parts:
        if part in ("", ".", "..") or not _is_fit(part) or len(part.encode()) > limits.name_bytes:
            raise RefusedFile(f"{part[:100]!r} cannot be a part of a run's name.")
    return tuple(parts)


def namesake(run: tuple[str, ...], number: int, limits: Limits) -> tuple[str, ...]:
    """Return the name of the run that comes at this number among its namesakes. Raise RefusedFile."""
    return run if number == 1 else run_of((*run[:-1], f"{run[-1]}-{number}"), limits)


def namesake_number(name: str, other: str) -> int:
    """Return which namesake of `name` the folder `other` is: 1 without a suffix, 0 when it is none."""
    if other == name:
        return 1
    suffix = other.removeprefix(f"{name}-")
    return int(suffix) if suffix != other and _NAMESAKE.fullmatch(suffix) else 0


def checked_identity(text: str) -> str:
    """Return the identity of a run as it came, or "" for none. Raise RefusedFile for anything else."""
    if text and not is_identity(text):
        raise RefusedFile("That is not the identity of a run.")
    return text


def place_of(run: tuple[str, ...], name: str, *, in_side_folder: bool) -> Destination:
    """Return where a file of a run belongs. Raise RefusedFile for any name that no NetDebug writer makes."""
    if len(name) > 200 or not (_SIDE if in_side_folder else _MAIN).fullmatch(name):
        raise RefusedFile(f"{name[:100]!r} is not the name of a file that NetDebug writes there.")
    return Destination((*run, *SIDE_FOLDER.parts) if in_side_folder else run, name)


def _is_fit(part: str) -> bool:
    return not any(each in "/\\" or unicodedata.category(each) in _UNFIT for each in part)
