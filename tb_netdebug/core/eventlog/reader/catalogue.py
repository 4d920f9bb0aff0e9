"""The names of scalars and tensors in a run, in the order in which they are shown."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from tb_netdebug.core.eventlog.reader.places import clean
from tb_netdebug.core.records.graph import Graph
from tb_netdebug.core.records.step import Kind, Series

Key = tuple[int, bytes]
# A bound on the memory that a hostile file can take.
MOST_NAMES = 100_000


@dataclass(slots=True)
class Catalogue:
    """Shown names, and how each is stored: a stored name may hold bytes that cannot be sent."""

    scalars: dict[str, bytes] = field(default_factory=dict)
    series: dict[Series, Key] = field(default_factory=dict)

    def add(self, scalars: Iterable[bytes], series: Iterable[Key]) -> None:
        for name in scalars:
            if len(self.scalars) < MOST_NAMES:
                self.scalars.setdefault(text_of(name), name)
        for kind, name in series:
            if len(self.series) < MOST_NAMES:
                self.series.setdefault(Series(Kind(kind), text_of(name)), (kind, name))

    def of_kind(self, kind: Kind, graph: Graph | None) -> list[Series]:
        return in_execution_order([series for series in list(self.series) if series.kind == kind], graph)


def text_of(name: bytes) -> str:
    return clean(name.decode("utf-8", "surrogatepass"))


def in_execution_order(series: list[Series], graph: Graph | None) -> list[Series]:
    """Sort the series by the first call of their module; those of equal rank stay as they came."""
    if graph is None:
        return series
    never = len(graph.nodes)
    places: dict[str, tuple[int, int]] = {}
    for at, node in enumerate(graph.nodes):
        place = (never if node.order is None else node.order, at)
        names = [node.name, *(f"{node.name}.{one.name}".lstrip(".") for one in node.own_parameters)]
        places.update(dict.fromkeys(map(clean, names), place))
    return sorted(series, key=lambda one: _place(one.name, places, (never + 1, 0)))


def _place(name: str, places: dict[str, tuple[int, int]], missing: tuple[int, int]) -> tuple[int, int]:
    """Return the place of the module with the longest name that `name` begins with."""
    while name not in places:
        name, dot, _ = name.rpartition(".")
        if not dot:
            return missing
    return places[name]
