"""The modules behind the names of tensors: what they are, and in which order they run."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from tb_netdebug.core.records.graph import Graph, Node

# Sorts behind all modules whose order is known.
UNKNOWN = 1 << 30


@dataclass(slots=True)
class LayerTable:
    """The modules of a run, from the graph of its first forward pass.

    Without a graph it is empty, and nothing fails.
    """

    nodes: dict[str, Node] = field(default_factory=dict)
    _owners: dict[str, str] = field(default_factory=dict)
    _seen: dict[str, int] = field(default_factory=dict)

    @classmethod
    def of(cls, graph: Graph | None) -> LayerTable:
        made = cls()
        for node in graph.nodes if graph else ():
            made.nodes[node.name] = node
            for parameter in node.own_parameters:
                made._owners[f"{node.name}.{parameter.name}" if node.name else parameter.name] = node.name
        return made

    def module(self, name: str) -> Node | None:
        """Return the module of a tensor.

        A parameter's module is its owner, an activation's (whose name may end in an index such as [0]) is the
        module itself.
        """
        owner = self._owners.get(name)
        if owner is not None:
            return self.nodes[owner]
        return self.nodes.get(name) or self.nodes.get(name.partition("[")[0])

    def class_name(self, name: str) -> str:
        """Return the module's class name, such as "ReLU", or "" if it is not known."""
        module = self.module(name)
        return module.class_name if module else ""

    def order(self, name: str) -> tuple[int, int]:
        """Return a sort key: execution order, then unknown names in the order they were first asked for."""
        module = self.module(name)
        place = self._seen.setdefault(name, len(self._seen))
        return (module.order if module and module.order is not None else UNKNOWN, place)

    def in_order(self, names: Iterable[str]) -> list[str]:
        """Return the names in the order of execution, each once."""
        return sorted(dict.fromkeys(names), key=self.order)

    def is_trainable(self, name: str) -> bool:
        """Return whether a parameter is trainable; True if nothing is known of it."""
        module = self.module(name)
        own = name.rpartition(".")[2]
        found = [each for each in module.own_parameters if each.name == own] if module else []
        return found[0].trainable if found else True
