"""Code of ours that runs as it is written while torch.compile is looking on."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch


def never_compiled(function: Callable[..., Any]) -> None:
    """Neither this function nor what it calls is compiled when it is called from compiled code.

    Where torch.compile takes it into a larger piece instead, `torch.compiler.is_compiling` is true in it; it
    should do nothing then, for anything else may break the piece in two.
    """
    frames = torch._C._dynamo.eval_frame
    code = function.__code__
    if hasattr(frames, "set_code_exec_strategy"):
        skip = frames._FrameAction.SKIP
        frames.set_code_exec_strategy(code, frames._FrameExecStrategy(skip, skip))
    elif hasattr(frames, "skip_code_recursive"):  # until torch 2.6
        frames.skip_code_recursive(code)
