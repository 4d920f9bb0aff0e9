"""The stack frames of the user's program that called torch, which then called us."""

from __future__ import annotations

from types import FrameType

import torch

from tb_netdebug.recording import frames

FOREIGN = (torch.__file__.rpartition("__init__")[0],)


def user_frame(frame: FrameType | None) -> FrameType | None:
    """Return the nearest frame, from `frame` outwards, that is neither torch's nor ours."""
    return frames.user_frame(frame, FOREIGN)
