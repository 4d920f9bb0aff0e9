"""Tests a tensor for NaN and infinities. Use it for host memory, or where waiting for a device is allowed."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from tb_netdebug.core.stats import kernel
from tb_netdebug.frameworks.torch.reader import host_item
from tb_netdebug.frameworks.torch.values import UnreadableError, is_direct, is_functorch_wrapped, plain


@dataclass(frozen=True, slots=True)
class NonFiniteFlags:
    """Which kinds of non-finite values a tensor holds."""

    nan: bool = False
    pos_inf: bool = False
    neg_inf: bool = False

    @property
    def any(self) -> bool:
        return self.nan or self.pos_inf or self.neg_inf

    @property
    def is_mask(self) -> bool:
        """Whether all non-finite values are infinities, as in an attention mask."""
        return self.any and not self.nan

    @property
    def kind(self) -> str:
        """The worst kind: NaN before Inf before -Inf; empty when all values are finite."""
        return "NaN" if self.nan else "Inf" if self.pos_inf else "-Inf" if self.neg_inf else ""


CLEAN = NonFiniteFlags()


def flags_of(tensor: torch.Tensor) -> NonFiniteFlags:
    """Return which non-finite values the tensor holds, waiting for its device.

    A tensor that cannot be read counts as finite.
    """
    if not (tensor.is_floating_point() or tensor.is_complex()) or not tensor.numel():
        return CLEAN
    if is_functorch_wrapped(tensor):  # it has no memory of its own to read
        return CLEAN
    if is_direct(tensor):
        # One fast pass settles the usual case. Only a tensor that fails it is searched for each kind.
        if not kernel.sum_squares([host_item(tensor)], torch.get_num_threads())[1]:
            return CLEAN
        return counted(tensor.detach())
    try:
        return counted(plain(tensor))
    except (UnreadableError, RuntimeError):
        # Blame only what was seen. The reader reports the outputs of layers that it cannot read.
        return CLEAN


def counted(tensor: torch.Tensor) -> NonFiniteFlags:
    """Return the flags by one pass over the values for each kind."""
    if tensor.is_complex():
        tensor = torch.view_as_real(tensor.resolve_conj())
    if not tensor.is_floating_point():
        return CLEAN
    return NonFiniteFlags(
        bool(torch.isnan(tensor).any()),
        bool(torch.isposinf(tensor).any()),
        bool(torch.isneginf(tensor).any()),
    )
