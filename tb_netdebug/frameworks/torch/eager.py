"""Keeps functions of ours from being compiled when torch.compile meets them."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import torch


def never_compiled(function: Callable[..., Any]) -> None:
    """Exclude a function, and all that it calls, from compilation when compiled code calls it.

    When torch.compile traces a larger function that inlines this one, `torch.compiler.is_compiling` is true
    in it. It should do nothing then: anything else may break the graph.
    """
    while isinstance(function, partial):
        function = function.func
    code = getattr(function, "__code__", None)
    # The internal API differs between versions of torch; without either, the function may be compiled.
    frames = torch._C._dynamo.eval_frame
    if code is None:
        return
    if hasattr(frames, "set_code_exec_strategy"):
        skip = frames._FrameAction.SKIP
        frames.set_code_exec_strategy(code, frames._FrameExecStrategy(skip, skip))
    elif hasattr(frames, "skip_code_recursive"):  # until torch 2.6
        frames.skip_code_recursive(code)
