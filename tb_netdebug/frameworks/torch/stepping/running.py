"""Reads off the thread's frames what is being computed at the moment, without tracing any call."""

from __future__ import annotations

from types import FrameType

import torch
from torch import nn
from torch.optim import Optimizer

from tb_netdebug.debugger.place import BACKWARD, FORWARD, OPTIMIZER
from tb_netdebug.frameworks.torch.frames import FOREIGN
from tb_netdebug.frameworks.torch.stepping.layers import SteppedLayer, SteppedLayers
from tb_netdebug.frameworks.torch.stepping.spans import Spans
from tb_netdebug.frameworks.torch.stepping.visits import current_backward
from tb_netdebug.recording.frames import OURS

CALL = nn.Module._call_impl.__code__
OPTIMIZING = Optimizer.profile_hook_step(Optimizer.step).__code__
ENGINE_FOLDER = torch.autograd.__file__.rpartition("__init__")[0]


def running(
    frame: FrameType | None, layers: SteppedLayers, spans: Spans
) -> tuple[str, SteppedLayer | None] | None:
    """Return the phase and the innermost layer of what `frame` has called; None for NetDebug's own work."""
    in_backward = current_backward() != -1
    is_nearest = True
    while frame is not None:
        code = frame.f_code
        if code is CALL and (layer := layers.of(frame.f_locals.get("self"))) is not None:
            return BACKWARD if in_backward else FORWARD, layer
        # Frames further out have called backward. They are not what runs now.
        if in_backward and code.co_filename.startswith(ENGINE_FOLDER):
            break
        if code is OPTIMIZING:
            return OPTIMIZER, None
        if is_nearest and not code.co_filename.startswith(FOREIGN):
            if code.co_filename.startswith(OURS):
                return None
            is_nearest = False  # frames of ours further out may just be running the program
        frame = frame.f_back
    return (BACKWARD, spans.running()) if in_backward else (FORWARD, None)
