"""Finds the folders that TensorBoard shows, by the rules of its own flags."""

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
    """Return (prefix of run names, path or URL) for each folder; none if TensorBoard has no logdir."""
    flags = getattr(context, "flags", None)
    logdir = getattr(context, "logdir", None) or getattr(flags, "logdir", None)
    if logdir:
        return [("", _path(str(logdir)))]
    return parse_spec(getattr(flags, "logdir_spec", None) or "")


def is_url(path: str) -> bool:
    return _URL.match(path) is not None


def described(roots: list[Root]) -> str:
    """Return the roots as a user would type them."""
    return ", ".join(f"{name}:{path}" if name else path for name, path in roots)


def names_of(roots: Sequence[Root], run_dir: str) -> list[str] | None:
    """Return the folders in the name of a run below one of the roots; None for a run elsewhere."""
    for name, path in roots:
        with suppress(ValueError):
            parts = [*filter(None, [name]), *Path(run_dir).relative_to(path).parts]
            return None if ".." in parts else parts
    return None


def parse_spec(spec: str) -> list[Root]:
    """Return the roots in a `--logdir_spec`, such as `a:/x,b:/y,/z`.

    The name stands before the first colon, unless that colon belongs to a URL, an absolute path or a Windows
    drive.
    """
    return [_root(entry) for entry in spec.split(",") if entry]


def _root(entry: str) -> Root:
    named = ":" in entry and not (_URL.match(entry) or entry.startswith("/") or os.path.splitdrive(entry)[0])
    name, _, path = entry.partition(":") if named else ("", "", entry)
    return name, _path(path)


def _path(path: str) -> str:
    return path if _URL.match(path) else os.path.abspath(os.path.expanduser(path))  # noqa: PTH100, PTH111
