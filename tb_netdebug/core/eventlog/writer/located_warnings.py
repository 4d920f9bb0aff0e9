"""Warnings that point at the user's line although another thread raises them."""

from __future__ import annotations

import contextlib
import os
import sys
import warnings
from dataclasses import dataclass
from types import FrameType

from tb_netdebug.core.records.visible import visible, visible_lines

_PACKAGE = __name__.partition(".")[0]


class WriterWarning(RuntimeWarning):
    """A warning that recording is impaired, while training is not."""


@dataclass(frozen=True, slots=True)
class UserLine:
    """The line of the user's program that started the recording."""

    filename: str
    lineno: int
    module: str

    @classmethod
    def current(cls) -> UserLine:
        """Return the innermost line on this thread's stack that is outside this package."""
        frame: FrameType | None = sys._getframe(1)
        while frame is not None and _is_ours(frame) and frame.f_back is not None:
            frame = frame.f_back
        if frame is None:
            return cls("netdebug", 0, "netdebug")
        return cls(frame.f_code.co_filename, frame.f_lineno, str(frame.f_globals.get("__name__", "")))

    def warn(self, message: str) -> None:
        """Show the message at this line; never raises, not even under `python -W error`."""
        message = visible_lines(message)
        try:
            warnings.warn_explicit(message, WriterWarning, self.filename, self.lineno, self.module)
        except Exception:  # from a filter, or from a hook of the user's that does not expect this thread
            with contextlib.suppress(OSError):
                os.write(2, f"{visible(self.filename)}:{self.lineno}: {message}\n".encode("utf-8", "replace"))


def _is_ours(frame: FrameType) -> bool:
    return str(frame.f_globals.get("__name__", "")).partition(".")[0] == _PACKAGE
