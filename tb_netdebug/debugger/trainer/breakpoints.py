"""Breakpoints: places at which a run stops by itself."""

from __future__ import annotations

from dataclasses import dataclass, field

from tb_netdebug.debugger.place import BACKWARD, BEFORE, END, FORWARD, Place
from tb_netdebug.debugger.protocol.statements import BreakpointJson
from tb_netdebug.debugger.tensors.name_pattern import NamePattern
from tb_netdebug.debugger.workbench import WorkbenchError

MOST_BREAKPOINTS = 100
OF_LAYERS = (FORWARD, BACKWARD)
MOST_REMEMBERED = 100_000


@dataclass(slots=True)
class Breakpoint:
    """A breakpoint, as set by the verb `set_breakpoint`; without a layer it is for the whole batch."""

    id: int
    phase: str = FORWARD
    layer: NamePattern | None = None
    step: int | None = None
    is_on: bool = True
    hits: int = field(default=0, compare=False)

    def is_at(self, phase: str, module: str | None) -> bool:
        if self.phase != phase or not self.is_on:
            return False
        if self.layer is None:
            return module is None
        return module is not None and self.layer.finds(module)

    def as_dict(self) -> BreakpointJson:
        return {
            "id": self.id,
            "layer": None if self.layer is None else self.layer.text,
            "phase": self.phase,
            "step": self.step,
            "is_on": self.is_on,
            "hits": self.hits,
        }


class Breakpoints:
    """All breakpoints of a run, by number. They stop it where a phase begins: a layer before it is called."""

    def __init__(self) -> None:
        self._all: dict[int, Breakpoint] = {}
        self._last_id = 0
        # Cache of the breakpoints at a place, whatever the step: each layer that is passed takes one lookup.
        self._at: dict[tuple[str, str | None], tuple[Breakpoint, ...]] = {}

    def set(
        self,
        id: int | None = None,
        *,
        layer: str | None = None,
        phase: str = FORWARD,
        step: int | None = None,
        is_on: bool = True,
    ) -> Breakpoint:
        """Add a breakpoint, or replace the one with this number; raise WorkbenchError."""
        before = self._known(id) if id is not None else None
        if layer is not None and phase not in OF_LAYERS:
            raise WorkbenchError(f"{phase!r} is about the whole batch: leave out the layer.")
        if before is None and len(self._all) >= MOST_BREAKPOINTS:
            raise WorkbenchError(f"There are {MOST_BREAKPOINTS} breakpoints: remove one first.")
        pattern = NamePattern(layer) if layer is not None else None
        made = Breakpoint(self._next_id(before), phase, pattern, step, is_on, before.hits if before else 0)
        self._all[made.id] = made
        self._at.clear()
        return made

    def remove(self, id: int) -> None:
        """Remove a breakpoint; raise WorkbenchError if there is none."""
        del self._all[self._known(id).id]
        self._at.clear()

    def as_list(self) -> list[BreakpointJson]:
        return [each.as_dict() for each in list(self._all.values())]

    def hit(self, place: Place, step: int) -> Breakpoint | None:
        """Return the first breakpoint at this place and count its hit; called once per place."""
        if place.op is not None or (place.edge != BEFORE and place.phase != END):
            return None
        for each in self._those_at(place.phase, place.module):
            if each.step is None or step >= each.step:
                each.hits += 1
                return each
        return None

    @property
    def is_empty(self) -> bool:
        """Whether none of them is on."""
        return not any(each.is_on for each in self._all.values())

    @property
    def wants_layers(self) -> bool:
        return self._wants(FORWARD)

    @property
    def wants_backward(self) -> bool:
        return self._wants(BACKWARD)

    def _wants(self, phase: str) -> bool:
        return any(each.is_on and each.phase == phase and each.layer for each in self._all.values())

    def _those_at(self, phase: str, module: str | None) -> tuple[Breakpoint, ...]:
        found = self._at.get((phase, module))
        if found is None:
            if len(self._at) >= MOST_REMEMBERED:
                self._at.clear()
            found = tuple(each for each in self._all.values() if each.is_at(phase, module))
            self._at[phase, module] = found
        return found

    def _known(self, id: int) -> Breakpoint:
        if id not in self._all:
            raise WorkbenchError(f"There is no breakpoint {id}.")
        return self._all[id]

    def _next_id(self, before: Breakpoint | None) -> int:
        if before is not None:
            return before.id
        self._last_id += 1
        return self._last_id
