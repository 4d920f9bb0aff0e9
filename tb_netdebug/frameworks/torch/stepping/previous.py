"""Copies of the previous batch's values, for those tensors that somebody wants to compare."""

from __future__ import annotations

import torch
from torch import Tensor

from tb_netdebug.core.stats import kernel
from tb_netdebug.frameworks.torch.reader import host_item
from tb_netdebug.frameworks.torch.stepping.quiet import reading
from tb_netdebug.frameworks.torch.stepping.readable import differences
from tb_netdebug.frameworks.torch.values import UnreadableError, is_direct, laid_out, plain

# The copies lie on the device of the tensors, where the run needs the memory itself.
MOST_BYTES_EACH = 64 << 20
MOST_BYTES = 256 << 20


class PreviousValues:
    """Copies by name, on the device of the tensors, within a limit for each and for all."""

    def __init__(self, *, most_bytes_each: int = MOST_BYTES_EACH, most_bytes: int = MOST_BYTES) -> None:
        self.most_bytes_each = most_bytes_each
        self._most_bytes = most_bytes
        self._copies: dict[str, Tensor] = {}
        self._squares: dict[str, float] = {}

    def __len__(self) -> int:
        return len(self._copies)

    def get(self, name: str) -> Tensor | None:
        return self._copies.get(name)

    def keep_only(self, names: frozenset[str]) -> None:
        for name in self._copies.keys() - names:
            self.forget(name)

    def forget(self, name: str) -> None:
        self._copies.pop(name, None)
        self._squares.pop(name, None)

    def take(self, name: str, tensor: Tensor) -> None:
        """Copy the present values over the previous copy; forget that one if copying fails."""
        old = self._copies.get(name)
        self.forget(name)
        with reading():
            try:
                values = laid_out(tensor)
            except UnreadableError:
                return
            if not self._has_room(values):
                return
            # Reuse the memory: the copies are made in every batch.
            if old is not None and is_alike(old, values):
                old.copy_(values)
            else:
                old = values.clone()
        self._copies[name] = old

    def change(self, name: str, tensor: Tensor) -> float | None:
        """Return the norm of the difference divided by the norm before; None when they cannot be compared."""
        old = self._copies.get(name)
        if old is None:
            return None
        with reading():
            try:
                if old.shape != laid_out(tensor).shape:
                    return None
                moved = sum(squares(each) for each in differences(tensor, old))
                if name not in self._squares:
                    self._squares[name] = squares(old)
            except (UnreadableError, RuntimeError):
                return None
        before = self._squares[name]
        if not before:
            # A tensor of zeros has no norm to divide by.
            return float("inf") if moved else 0.0
        return float((moved / before) ** 0.5)

    def _has_room(self, tensor: Tensor) -> bool:
        needed = tensor.numel() * tensor.element_size()
        held = sum(each.numel() * each.element_size() for each in self._copies.values())
        return needed <= self.most_bytes_each and held + needed <= self._most_bytes


def is_alike(one: Tensor, other: Tensor) -> bool:
    return one.shape == other.shape and one.dtype is other.dtype and one.device == other.device


def squares(tensor: Tensor) -> float:
    """Return the sum of squares of all finite values."""
    if not is_direct(tensor):
        tensor = plain(tensor.cpu()).contiguous()
    return kernel.sum_squares([host_item(tensor)], torch.get_num_threads())[0]
