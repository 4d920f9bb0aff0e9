"""The browser of the desktop, when there is one."""

from __future__ import annotations

import os
import sys
import webbrowser
from collections.abc import Mapping

REMOTE = ("SSH_CONNECTION", "SSH_CLIENT", "SSH_TTY", "CI")
DISPLAYS = ("DISPLAY", "WAYLAND_DISPLAY")


def has_desktop(environment: Mapping[str, str], platform: str) -> bool:
    """Whether a window would be seen by who typed the command."""
    if any(environment.get(name) for name in REMOTE):
        return False
    return platform in ("darwin", "win32") or any(environment.get(name) for name in DISPLAYS)


def open_page(url: str) -> bool:
    """Whether a browser took it."""
    if not has_desktop(os.environ, sys.platform):
        return False
    try:
        return webbrowser.open(url)
    except (OSError, webbrowser.Error):
        return False
