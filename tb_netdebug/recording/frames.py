"""Determine whose code is running: ours, a framework's, or the user's, whose lines are reported."""

from __future__ import annotations

from pathlib import Path
from types import FrameType

from tb_netdebug.core.user_code import OURS, TYPED, is_foreign, is_ours

__all__ = ["MOST_FRAMES", "OURS", "TYPED", "is_foreign", "is_ours", "place_of", "user_frame"]

MOST_FRAMES = 64


def user_frame(frame: FrameType | None, folders: tuple[str, ...] = ()) -> FrameType | None:
    """Return the nearest frame from `frame` outwards that is not foreign.

    A library's frame is returned when a library makes the call.
    """
    for _ in range(MOST_FRAMES):
        if frame is None or not is_foreign(frame.f_code, folders):
            return frame
        frame = frame.f_back
    return None


def place_of(frame: FrameType) -> str:
    """Return file and line in short form: "train.py:41"."""
    return f"{Path(frame.f_code.co_filename).name}:{frame.f_lineno}"
