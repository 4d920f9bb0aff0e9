"""Keeps a batch's tensors within reach: inputs, outputs and their gradients, labels, the loss."""

from __future__ import annotations

import weakref
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from tb_netdebug.frameworks.torch.interception import is_intercepted
from tb_netdebug.frameworks.torch.stepping.layers import SteppedLayer
from tb_netdebug.frameworks.torch.stepping.quiet import reading
from tb_netdebug.frameworks.torch.values import is_functorch_wrapped, tensors_in

# The limit on memory that lives on only for us. Memory that several tensors share counts once.
MOST_BYTES = 512 << 20


@dataclass(slots=True, eq=False)
class KeptTensor:
    """A tensor seen in this batch; `tensor` shares its memory, or is None if it is not kept alive."""

    kind: str
    of: str
    module: str | None
    seen: weakref.ref[Tensor]
    tensor: Tensor | None
    version: int
    memory: int

    def present(self) -> Tensor | None:
        """Return the tensor, if it is still there."""
        return self.tensor if self.tensor is not None else self.seen()

    def is_overwritten(self) -> bool:
        """Return whether it was written to in place since, as by ReLU(inplace=True)."""
        tensor = self.present()
        return tensor is not None and version_of(tensor) != self.version


class KeptTensors:
    """This batch's tensors in the order they were seen; a layer's last call replaces earlier ones."""

    def __init__(self, *, most_bytes: int = MOST_BYTES) -> None:
        self._most_bytes = most_bytes
        self._by_name: dict[str, KeptTensor] = {}
        self._holders: dict[int, list[int]] = {}  # by memory: its bytes, and the number of its holders
        self._bytes = 0
        self._keeps = False
        self.is_full = False

    def __iter__(self) -> Iterator[tuple[str, KeptTensor]]:
        return iter(list(self._by_name.items()))

    def get(self, name: str) -> KeptTensor | None:
        return self._by_name.get(name)

    def put_inputs(self, layer: SteppedLayer, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        found = list(tensors_in(args)) + (list(tensors_in(kwargs)) if kwargs else [])
        if len(found) == 1:
            found = [("", found[0][1])]
        for place, tensor in found:
            self.put("input", layer.name + place, tensor, module=layer.name)

    def put_outputs(self, layer: SteppedLayer, output: Any) -> None:
        for place, tensor in tensors_in(output):
            self.put("output", layer.name + place, tensor, module=layer.name)

    def put(self, kind: str, of: str, tensor: Tensor, *, module: str | None = None) -> None:
        """Note a tensor. It is kept alive only while `keep` is on."""
        if is_functorch_wrapped(tensor):
            return
        name = f"{kind}:{of}"
        self._forget(name)
        found = KeptTensor(kind, of, module, weakref.ref(tensor), None, version_of(tensor), 0)
        self._by_name[name] = found
        if self._keeps:
            self._hold(found, tensor)

    def keep(self, is_wanted: bool) -> None:
        """Keep tensors alive from now on, with those that are still there; or stop, and let all go."""
        if self._keeps and not is_wanted:
            self.clear()
        elif is_wanted and not self._keeps:
            for known in self._by_name.values():
                if (tensor := known.seen()) is not None:
                    self._hold(known, tensor)
        self._keeps = is_wanted

    def clear(self) -> None:
        self._by_name.clear()
        self._holders.clear()
        self._bytes = 0
        self.is_full = False

    def _hold(self, known: KeptTensor, tensor: Tensor) -> None:
        memory = memory_of(tensor)
        holders = self._holders.get(memory)
        if holders is None:
            size = bytes_of(tensor)
            if self._bytes + size > self._most_bytes:
                self.is_full = True
                return
            holders = self._holders[memory] = [size, 0]
            self._bytes += size
        holders[1] += 1
        known.memory = memory
        # Hold a gradient itself: with another reference to it, autograd does not add to it in place.
        known.tensor = tensor if known.kind == "output_gradient" else without_graph(tensor)

    def _forget(self, name: str) -> None:
        known = self._by_name.pop(name, None)
        if known is None or known.tensor is None:
            return
        holders = self._holders[known.memory]
        holders[1] -= 1
        if not holders[1]:
            self._bytes -= holders[0]
            del self._holders[known.memory]


def without_graph(tensor: Tensor) -> Tensor:
    """Return the tensor detached, out of sight of the user's modes."""
    if not is_intercepted():  # the usual case, which is worth a short cut
        return tensor.detach()
    with reading():
        return tensor.detach()


def version_of(tensor: Tensor) -> int:
    # Inference tensors have no version counter.
    return 0 if tensor.is_inference() else int(tensor._version)


def memory_of(tensor: Tensor) -> int:
    """Return a key for the tensor's memory; for a sparse or nested tensor, which has none, its own id."""
    if tensor.layout is torch.strided and not tensor.is_nested:
        return int(tensor.untyped_storage()._cdata)
    return id(tensor)


def bytes_of(tensor: Tensor) -> int:
    """Return the bytes of the whole storage that the tensor keeps alive."""
    if tensor.layout is torch.strided and not tensor.is_nested:
        return int(tensor.untyped_storage().nbytes())
    return tensor.numel() * tensor.element_size()
