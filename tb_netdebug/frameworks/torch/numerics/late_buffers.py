"""Tells a buffer that a forward pass has made non-finite from one that was so before.

Whoever looks for an origin looks after the pass. By then NaN in a batch has also reached whatever the pass
keeps, such as the running mean of a BatchNorm. So the pass is repeated with such buffers made finite: one
that becomes non-finite again tells nothing about what it held before.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import nn

from tb_netdebug.frameworks.torch.numerics.flags import flags_of
from tb_netdebug.frameworks.torch.numerics.origin_report import Origin, names_of

# Neither a divisor of 0 nor the logarithm of 0.
HARMLESS = 1.0


def is_bad_buffer(origin: Origin | None, models: Mapping[str, nn.Module]) -> bool:
    """Return whether the origin is a buffer, no mask, that is non-finite now."""
    if origin is None or origin.what != "parameter" or origin.masked_only:
        return False
    named = buffers_of(models).get((origin.where, origin.tensor))
    return named is not None and flags_of(named).any


def make_finite(models: Mapping[str, nn.Module]) -> None:
    """Overwrite what is not finite in the buffers, except in masks. For a copy of the models only."""
    for buffer in buffers_of(models).values():
        found = flags_of(buffer)
        if found.any and not found.is_mask:
            with torch.inference_mode():  # which may write to all tensors
                buffer.copy_(torch.where(buffer.isfinite(), buffer, HARMLESS))


def buffers_of(models: Mapping[str, nn.Module]) -> dict[tuple[str, str], torch.Tensor]:
    """Return all buffers by the names that an origin gives to the module and to the buffer."""
    names = names_of(models)
    return {
        (names[id(module)][0], name): buffer
        for model in models.values()
        for module in model.modules()
        for name, buffer in module._buffers.items()
        if buffer is not None
    }
