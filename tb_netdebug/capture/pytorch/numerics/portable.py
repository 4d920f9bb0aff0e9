"""Any nested value as tensors and plain values, which can be loaded without running anybody's code."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from tb_netdebug.capture.pytorch.values import UnreadableError, plain

ATOMS = (bool, int, float, str)
MOST_DEPTH = 12
MOST_LEFT_OUT = 100


class Portable:
    """`of` turns a value into what can be carried; what cannot is None there and named in `left_out`."""

    def __init__(self) -> None:
        self.left_out: list[str] = []
        self._tensors: dict[int, tuple[torch.Tensor, torch.Tensor | None]] = {}

    def of(self, value: Any, name: str, depth: int = 0) -> Any:
        if value is None or type(value) in (*ATOMS, torch.dtype):
            return value
        if isinstance(value, torch.Tensor):
            return self._tensor(value, name)
        for kind in ATOMS:
            if isinstance(value, kind):  # a number of NumPy, an enumeration
                return kind(value)
        if depth >= MOST_DEPTH:
            return self._leave(value, name)
        if isinstance(value, Mapping):
            return {
                key if type(key) in ATOMS else str(key): self.of(each, f"{name}[{key}]", depth + 1)
                for key, each in value.items()
            }
        if type(value) in (list, tuple, torch.Size):
            return self._row(value, name, depth)
        return self._leave(value, name)

    def _row(self, value: Any, name: str, depth: int) -> Any:
        row = [self.of(each, f"{name}[{place}]", depth + 1) for place, each in enumerate(value)]
        return tuple(row) if isinstance(value, tuple) else row

    def _tensor(self, tensor: torch.Tensor, name: str) -> torch.Tensor | None:
        known = self._tensors.get(id(tensor))
        if known is None:
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
        if tensor.layout is torch.strided and tensor.untyped_storage().nbytes() > tensor.nbytes:
            return tensor.clone()  # a slice would take all that it is a slice of along
        return tensor

    def _leave(self, value: Any, name: str, why: str = "") -> None:
        if len(self.left_out) < MOST_LEFT_OUT:
            self.left_out.append(f"{name}: " + (why or f"a {type(value).__name__} is no plain value"))


def bytes_of(value: Any) -> int:
    """Of all tensors inside, each memory once."""
    return sum(sizes_in(value).values())


def sizes_in(value: Any) -> dict[int, int]:
    if isinstance(value, torch.Tensor):
        if value.layout is not torch.strided:
            return {id(value): value.nbytes if value.layout is not torch.sparse_coo else sparse_bytes(value)}
        storage = value.untyped_storage()
        return {storage._cdata: storage.nbytes()}
    sizes: dict[int, int] = {}
    if isinstance(value, Mapping):
        value = value.values()
    elif not isinstance(value, list | tuple):
        return sizes
    for each in value:
        sizes.update(sizes_in(each))
    return sizes


def sparse_bytes(tensor: torch.Tensor) -> int:
    tensor = tensor.coalesce()
    return tensor.values().nbytes + tensor.indices().nbytes
