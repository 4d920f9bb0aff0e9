"""The loss of a step in a program that reports none: the tensors on which `backward` is called."""

from __future__ import annotations

import math
import weakref
from collections import deque
from typing import Any

import torch

from tb_netdebug.frameworks.torch.values import is_functorch_wrapped

# A scaled loss is differentiated at once, so no more than a few can be waiting for it.
MOST_SCALED = 8

# A number, or a one-element tensor on a device that is not waited for.
Value = Any


class Objectives:
    """Adds up what is differentiated until an optimizer steps on it.

    The sum is what the optimizer follows: accumulated parts of a batch, or the losses of several tasks. An
    optimizer with a closure (LBFGS) evaluates its loss many times; there the first one counts.
    """

    def __init__(self) -> None:
        self._sum: Value | None = None
        self._is_in_closure = self._is_doubtful = False
        self.is_ruined = False  # a loss is not finite, so the program may leave the batch out
        self._scaled: deque[tuple[weakref.ref[Any], torch.Tensor]] = deque(maxlen=MOST_SCALED)

    def add(self, roots: Any) -> None:
        """Add the roots of a call of torch.autograd.backward."""
        if self._is_doubtful:
            self._sum, self._is_doubtful, self.is_ruined = None, False, False
        for root in [roots] if isinstance(roots, torch.Tensor) else list(roots):
            if not isinstance(root, torch.Tensor) or (self._is_in_closure and self._sum is not None):
                continue
            value = value_of(self._unscaled(root))
            if value is not None:
                self._sum = value if self._sum is None else self._sum + value
                if isinstance(value, float) and not math.isfinite(value):
                    self.is_ruined = True

    def scaled(self, before: Any, after: Any) -> None:
        """Note that a GradScaler has multiplied a loss."""
        if isinstance(before, torch.Tensor) and isinstance(after, torch.Tensor) and after is not before:
            self._scaled.append((weakref.ref(after), before.detach()))

    def doubt(self) -> None:
        """Note non-finite gradients: the sum is dropped unless a step comes before the next backward pass."""
        self._is_doubtful = True

    @property
    def is_left_out(self) -> bool:
        """Whether the batch was left out; valid when the next backward pass begins, or no more comes."""
        return self._is_doubtful

    def begin_closure(self) -> None:
        """Start a sum for an optimizer with a closure."""
        self._is_in_closure, self._sum = True, None

    def take(self) -> Value | None:
        """Return the sum and start again, as an optimizer has stepped; None if nothing was differentiated."""
        taken, self._sum = self._sum, None
        self._is_in_closure = self._is_doubtful = self.is_ruined = False
        return taken

    def _unscaled(self, root: torch.Tensor) -> torch.Tensor:
        for reference, before in self._scaled:
            if reference() is root:
                return before
        return root


def value_of(root: torch.Tensor) -> Value | None:
    """Return the value of a loss, or the mean of several values, without waiting for a device."""
    if is_functorch_wrapped(root) or not root.numel() or root.is_complex():
        return None
    value = root.detach()
    if value.numel() > 1:
        value = value.float().mean()
    if type(value) is torch.Tensor and value.is_cpu:
        return float(value.item())
    return value.reshape(()).float().clone()
