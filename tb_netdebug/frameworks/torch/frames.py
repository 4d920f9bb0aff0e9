"""The lines of the user's program that have called torch, and torch us."""

from __future__ import annotations

from types import FrameType

import torch

from tb_netdebug.recording import frames

FOREIGN = (torch.__file__.rpartition("__init__")[0],)


def user_frame(frame: FrameType | None) -> FrameType | None:
    """The nearest one from `frame` outwards that is neither torch's nor ours."""
    return frames.user_frame(frame, FOREIGN)
