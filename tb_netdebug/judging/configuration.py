"""The project's settings for the checks, from `netdebug.toml`."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

FILE = "netdebug.toml"
MOST_BYTES = 1 << 20


class ConfigurationError(ValueError):
    """A settings file that is malformed or holds unknown settings."""


def read_checks(path: Path) -> dict[str, Any]:
    """Return the table `[checks]` of a settings file.

        [checks]
        loss-spike = false          # switched off
        [checks.dead-units]
        share = 0.8                 # a threshold

    Raise OSError, and ConfigurationError with a sentence.
    """
    data = path.read_bytes()
    if len(data) > MOST_BYTES:
        raise ConfigurationError(f"{path} is too big for a settings file")
    try:
        settings = tomllib.loads(data.decode())
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ConfigurationError(f"{path} cannot be read: {error}") from None
    unknown = sorted(settings.keys() - {"checks"})
    if unknown:
        raise ConfigurationError(f"{path}: unknown setting {unknown[0]!r}; [checks] is the only table")
    checks = settings.get("checks", {})
    # Only its form: the Engine knows which checks and thresholds there are.
    if not isinstance(checks, dict):
        raise ConfigurationError(f"{path}: checks must be a table: [checks], then one line per check")
    return checks


def checks_of(given: Mapping[str, Any] | None, folder: Path) -> dict[str, Any]:
    """Merge the given settings over those of the file in this folder, if there is one.

    Raise TypeError for what is no mapping.
    """
    if given is not None and not isinstance(given, Mapping):
        raise TypeError(
            f'checks={given!r} must be a dictionary such as {{"dead-units": False}} or {{"dead-units": '
            '{"share": 0.8}}, or None'
        )
    path = folder / FILE
    return joined(read_checks(path) if path.is_file() else {}, given or {})


def joined(first: Mapping[str, Any], then: Mapping[str, Any]) -> dict[str, Any]:
    """Merge two sets of settings: thresholds of one check are combined, and `then` overrides `first`."""
    both = dict(first)
    for slug, wish in then.items():
        before = both.get(slug)
        if isinstance(before, Mapping) and isinstance(wish, Mapping):
            wish = {**before, **wish}
        both[slug] = wish
    return both
