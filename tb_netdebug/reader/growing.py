"""Columns that grow while others read them."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray


class Growing:
    """`view` stays valid and unchanged when more is added: what was written is never moved or changed."""

    def __init__(self, dtype: Any) -> None:
        self._data: NDArray[Any] = np.empty(0, dtype)
        self._size = 0

    def __len__(self) -> int:
        return self._size

    @property
    def view(self) -> NDArray[Any]:
        return self._data[: self._size]

    def add(self, values: NDArray[Any]) -> None:
        size = self._size + len(values)
        if size > len(self._data):
            # By an eighth: a long run must not hold twice the room that it needs.
            grown = np.empty(max(size, len(self._data) + len(self._data) // 8 + 16), self._data.dtype)
            grown[: self._size] = self._data[: self._size]
            self._data = grown
        self._data[self._size : size] = values
        self._size = size
