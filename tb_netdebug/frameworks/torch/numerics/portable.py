"""Turns nested values into tensors and plain values, which load without running anybody's code."""

from __future__ import annotations

from typing import Any

import torch

from tb_netdebug.core.machine.own_memory import UnreadableMemoryError
from tb_netdebug.frameworks.torch.late_copy import late_copy
from tb_netdebug.frameworks.torch.values import UnreadableError, is_tensor, plain
from tb_netdebug.recording.containers import Parts, items_of, key_text, plain_atom

ATOMS = (bool, int, float, str)
MOST_DEPTH = 12
MOST_LEFT_OUT = 100


class Portable:
    """Converts values with `of`; what cannot be converted becomes None and is named in `left_out`.

    `late` is for values whose memory the program may have taken back, such as a batch that is used up.
    """

    def __init__(self) -> None:
        self._is_late = False
        self.left_out: list[str] = []
        self._tensors: dict[int, tuple[torch.Tensor, torch.Tensor | None]] = {}

    def of(self, value: Any, name: str, depth: int = 0) -> Any:
        """Return the value in portable form; `name` describes it in `left_out`."""
        if value is None or type(value) in (*ATOMS, torch.dtype):
            return value
        if is_tensor(value):
            return self._tensor(value, name)
        atom = plain_atom(value)  # a NumPy scalar or an enum
        if atom is not None:
            return atom
        if depth >= MOST_DEPTH:
            return self._leave(value, name)
        items = items_of(value)
        if items is not None:
            return self._items(items, name, depth)
        if type(value) in (list, tuple, torch.Size):
            return self._row(value, name, depth)
        return self._leave(value, name)

    def late(self, value: Any, name: str) -> Any:
        """Return the value in portable form, reading memory that may be gone with care."""
        self._is_late = True
        try:
            return self.of(value, name)
        finally:
            self._is_late = False

    def _items(self, items: Parts, name: str, depth: int) -> dict[Any, Any]:
        found = {}
        for place, (key, each) in enumerate(items):
            text = key_text(key, place)
            found[key if type(key) in ATOMS else text] = self.of(each, f"{name}[{text}]", depth + 1)
        return found

    def _row(self, value: Any, name: str, depth: int) -> Any:
        row = [self.of(each, f"{name}[{place}]", depth + 1) for place, each in enumerate(value)]
        return tuple(row) if type(value) is not list else row

    def _tensor(self, tensor: torch.Tensor, name: str) -> torch.Tensor | None:
        known = self._tensors.get(id(tensor))
        if known is None:
            # The original is kept with the result, so that its id is not reused meanwhile.
            known = self._tensors[id(tensor)] = tensor, self._plain(tensor, name)
        return known[1]

    def _plain(self, tensor: torch.Tensor, name: str) -> torch.Tensor | None:
        if type(tensor) not in (torch.Tensor, torch.nn.Parameter) or tensor.is_meta:
            try:
                tensor = plain(tensor)
            except UnreadableError as error:
                self._leave(tensor, name, str(error))
                return None
        tensor = tensor.detach()
        if self._is_late:
            try:
                tensor = late_copy(tensor)
            except UnreadableMemoryError:
                self._leave(tensor, name, "its memory can no longer be read")
                return None
        if tensor.layout is torch.strided and tensor.untyped_storage().nbytes() > tensor.nbytes:
            return tensor.clone()  # a view would drag its whole base along into the file
        return tensor

    def _leave(self, value: Any, name: str, why: str = "") -> None:
        if len(self.left_out) < MOST_LEFT_OUT:
            self.left_out.append(f"{name}: " + (why or f"a {type(value).__name__} is not a plain value"))


def bytes_of(value: Any) -> int:
    """Return the bytes of all tensors inside, counting each storage once."""
    return sum(sizes_in(value).values())


def sizes_in(value: Any) -> dict[int, int]:
    if isinstance(value, torch.Tensor):
        if value.layout is not torch.strided:
            return {id(value): value.nbytes if value.layout is not torch.sparse_coo else sparse_bytes(value)}
        storage = value.untyped_storage()
        return {storage._cdata: storage.nbytes()}
    sizes: dict[int, int] = {}
    if isinstance(value, dict):
        value = value.values()
    elif not isinstance(value, list | tuple):
        return sizes
    for each in value:
        sizes.update(sizes_in(each))
    return sizes


def sparse_bytes(tensor: torch.Tensor) -> int:
    tensor = tensor.coalesce()
    return tensor.values().nbytes + tensor.indices().nbytes
