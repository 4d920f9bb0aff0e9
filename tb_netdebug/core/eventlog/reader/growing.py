"""Arrays that grow while other threads read them."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray


class Growing:
    """An array to append to; a `view` stays valid and unchanged, because written rows are never changed."""

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
            # Growing by half keeps the cost of copying in proportion to what is added.
            self._move(max(size, len(self._data) + len(self._data) // 2 + 16))
        self._data[self._size : size] = values
        # The size comes last: another thread may take a view at any moment.
        self._size = size

    def trim(self) -> None:
        """Release most of the spare room, which is a lot in a long run."""
        if len(self._data) > self._size + self._size // 4 + 16:
            self._move(self._size + self._size // 8)

    def _move(self, room: int) -> None:
        moved = np.empty(room, self._data.dtype)
        moved[: self._size] = self._data[: self._size]
        # Views that readers hold keep the old array, to which nobody writes any more.
        self._data = moved
