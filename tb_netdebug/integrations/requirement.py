"""Imports the library that an integration is for, or says how to install it."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib import import_module
from importlib.util import find_spec
from typing import Any


def library(*names: str, wanted_by: str, extra: str) -> Any:
    """Return the first of these modules whose library is installed.

    Raise ImportError with the command that installs one when none is.
    """
    for name in names:
        if sys.modules.get(name) is not None or find_spec(name.partition(".")[0]) is not None:
            return import_module(name)
    raise ImportError(
        f"nd.{wanted_by} needs {alternatives(names)}, which is not installed: "
        f"pip install 'tb_netdebug[{extra}]'"
    )


def alternatives(names: Sequence[str]) -> str:
    return " or ".join(name.partition(".")[0] for name in names)
