"""The loss of a step, in a program that tells us none: the tensors on which `backward` is called."""

from __future__ import annotations

import weakref
from collections import deque
from typing import Any

import torch

from tb_netdebug.frameworks.torch.values import is_functorch_wrapped

# A scaled loss is differentiated at once; more than a few are not waiting for it.
MOST_SCALED = 8

# A number, or a tensor of one value on a device that is not waited for.
Value = Any


class Objectives:
    """Adds up what is differentiated until an optimizer steps on it.

    The sum is what the optimizer follows: parts of a batch that are accumulated, losses of several tasks. An
    optimizer with a closure (LBFGS) evaluates its loss many times: there the first one counts.
    """

    def __init__(self) -> None:
        self._sum: Value | None = None
        self._is_in_closure = self._is_doubtful = False
        self._scaled: deque[tuple[weakref.ref[Any], torch.Tensor]] = deque(maxlen=MOST_SCALED)

    def add(self, roots: Any) -> None:
        """The argument of torch.autograd.backward."""
        if self._is_doubtful:
            self._sum, self._is_doubtful = None, False
        for root in [roots] if isinstance(roots, torch.Tensor) else list(roots):
            if not isinstance(root, torch.Tensor) or (self._is_in_closure and self._sum is not None):
                continue
            value = value_of(self._unscaled(root))
            if value is not None:
                self._sum = value if self._sum is None else self._sum + value

    def scaled(self, before: Any, after: Any) -> None:
        """A GradScaler has multiplied a loss."""
        if isinstance(before, torch.Tensor) and isinstance(after, torch.Tensor) and after is not before:
            self._scaled.append((weakref.ref(after), before.detach()))

    def doubt(self) -> None:
        """Its gradients are not finite: it is left out when no step comes before the next backward pass."""
        self._is_doubtful = True

    @property
    def is_left_out(self) -> bool:
        """Asked when the next backward pass begins, or no more comes."""
        return self._is_doubtful

    def begin_closure(self) -> None:
        self._is_in_closure, self._sum = True, None

    def take(self) -> Value | None:
        """An optimizer has stepped; None when nothing was differentiated for it."""
        taken, self._sum = self._sum, None
        self._is_in_closure = self._is_doubtful = False
        return taken

    def _unscaled(self, root: torch.Tensor) -> torch.Tensor:
        for reference, before in self._scaled:
            if reference() is root:
                return before
        return root


def value_of(root: torch.Tensor) -> Value | None:
    """Of several values the mean. Never waits for a device."""
    if is_functorch_wrapped(root) or not root.numel() or root.is_complex():
        return None
    value = root.detach()
    if value.numel() > 1:
        value = value.float().mean()
    if type(value) is torch.Tensor and value.is_cpu:
        return float(value.item())
    return value.reshape(()).float().clone()
