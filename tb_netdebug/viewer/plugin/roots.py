"""Which folders TensorBoard was told to show, by the rules of its own flags."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tensorboard.plugins.base_plugin import TBContext

_URL = re.compile(r"[a-zA-Z][0-9a-zA-Z.+-]*://.*", re.DOTALL)

Root = tuple[str, str]


def roots_of(context: TBContext) -> list[Root]:
    """(prefix of the run names, path or URL) of each folder; none when TensorBoard has no logdir."""
    flags = getattr(context, "flags", None)
    logdir = getattr(context, "logdir", None) or getattr(flags, "logdir", None)
    if logdir:
        return [("", _path(str(logdir)))]
    return parse_spec(getattr(flags, "logdir_spec", None) or "")


def is_url(path: str) -> bool:
    return _URL.match(path) is not None


def described(roots: list[Root]) -> str:
    """As a person would write it."""
    return ", ".join(f"{name}:{path}" if name else path for name, path in roots)


def names_of(roots: Sequence[Root], run_dir: str) -> list[str] | None:
    """The folders in the name of a run, when it is in one of these; None for one elsewhere."""
    for name, path in roots:
        with suppress(ValueError):
            parts = [*filter(None, [name]), *Path(run_dir).relative_to(path).parts]
            return None if ".." in parts else parts
    return None


def parse_spec(spec: str) -> list[Root]:
    """`a:/x,b:/y,/z`: the name stands before the first colon, unless that is one of a URL, of an absolute
    path or of a Windows drive."""
    return [_root(entry) for entry in spec.split(",") if entry]


def _root(entry: str) -> Root:
    named = ":" in entry and not (_URL.match(entry) or entry.startswith("/") or os.path.splitdrive(entry)[0])
    name, _, path = entry.partition(":") if named else ("", "", entry)
    return name, _path(path)


def _path(path: str) -> str:
    return path if _URL.match(path) else os.path.abspath(os.path.expanduser(path))  # noqa: PTH100, PTH111
