"""A workbench over arrays of NumPy: what the debugger sees of a training, without a framework."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tb_netdebug.core.stats.packed import Summary
from tb_netdebug.debugger.place import AFTER, BACKWARD, BEFORE, END, FORWARD, OPTIMIZER, Place
from tb_netdebug.debugger.tensors.array_readable import ArrayReadable
from tb_netdebug.debugger.trainer.watchpoints import Watchpoints
from tb_netdebug.debugger.workbench import KINDS, Needs, Readable, TensorEntry, WorkbenchError

Array = NDArray[Any]


@dataclass
class ArrayBench:
    """Tensors by name, those of each kind in the order in which they were put in."""

    arrays: dict[str, Array] = field(default_factory=dict)
    before: dict[str, Array] = field(default_factory=dict)
    numbers: dict[str, float] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)  # of which summaries were made
    can: tuple[str, ...] = ("batch", "layer", "backward", "optimizer")
    cannot: list[str] = field(default_factory=list)
    needs: Needs | None = None

    def need(self, needs: Needs) -> None:
        self.needs = needs

    def end_batch(self) -> None:
        self.before = {name: array.copy() for name, array in self.arrays.items()}

    def keep_user(self, name: str, value: Any) -> None:
        self.arrays[f"user:{name}"] = np.asarray(value)

    def modules(self) -> list[dict[str, Any]]:
        return []

    def entries(self, kind: str | None = None) -> Iterator[TensorEntry]:
        for each in KINDS if kind is None else (kind,):
            yield from (self._entry(name) for name in list(self.arrays) if name.startswith(f"{each}:"))

    def tensor(self, name: str) -> Readable:
        if name not in self.arrays:
            raise WorkbenchError(f"There is no tensor {name!r}.")
        return ArrayReadable(self._entry(name), self.arrays[name], self.before.get(name))

    def summaries(self, names: Sequence[str]) -> Mapping[str, Summary]:
        """Without bins, as of torch."""
        self.asked += names
        found = {name: self.tensor(name).summary() for name in names if name in self.arrays}
        return {
            name: replace(each, bins=each.bins[:0], counts=each.counts[:0]) for name, each in found.items()
        }

    def changes(self, names: Sequence[str]) -> Mapping[str, float]:
        return {name: self._change(name) for name in names if name in self.before}

    def _change(self, name: str) -> float:
        now, before = self.arrays[name], self.before[name]
        norm = float(np.linalg.norm(before))
        moved = float(np.linalg.norm(now - before))
        return moved / norm if norm else np.inf if moved else 0.0

    def scalars(self) -> Mapping[str, float]:
        return self.numbers

    def learning_rates(self) -> list[dict[str, Any]]:
        return []

    def set_learning_rate(self, optimizer: int, group: int | None, value: float) -> None:
        raise WorkbenchError("There is no optimizer.")

    def close(self) -> None:
        self.arrays.clear()

    def _entry(self, name: str) -> TensorEntry:
        kind, _, of = name.partition(":")
        module = of.partition("[")[0] if kind in ("input", "output", "output_gradient") else None
        if kind in ("weight", "gradient"):
            module = of.rpartition(".")[0]
        array = self.arrays[name]
        return TensorEntry(name, kind, of, array.shape, str(array.dtype), "cpu", array.nbytes, module)


def bench_of(**kinds: Mapping[str, Any]) -> ArrayBench:
    """Such as `bench_of(weight={"fc.weight": [1.0, 2.0]})`."""
    return ArrayBench(
        {
            f"{kind}:{name}": np.asarray(values)
            for kind, tensors in kinds.items()
            for name, values in tensors.items()
        }
    )


def at(phase: str, module: str | None = None, edge: str = BEFORE, *, op: str | None = None) -> Place:
    return Place(phase, module=module, edge=edge, op=op)


def batch(layers: Sequence[str] = ("fc",)) -> list[Place]:
    """All places that a training passes in a batch, in order."""
    return [
        at(FORWARD),
        *(at(FORWARD, layer, edge) for layer in layers for edge in (BEFORE, AFTER)),
        at(FORWARD, edge=AFTER),
        at(BACKWARD),
        *(at(BACKWARD, layer, edge) for layer in reversed(layers) for edge in (BEFORE, AFTER)),
        at(OPTIMIZER),
        at(OPTIMIZER, edge=AFTER),
        at(END),
    ]


def hit_in_batch(
    watchpoints: Watchpoints, bench: ArrayBench, step: int, layers: Sequence[str] = ("fc",)
) -> list[str]:
    """What hits in a whole batch, and where: "forward/output:fc"."""
    return [
        f"{hit.place.phase}/{hit.tensor}"
        for place in batch(layers)
        for hit in watchpoints.check(place, step, bench)
    ]
