"""The target of a run that was told where to stop next."""

from __future__ import annotations

from dataclasses import dataclass

from tb_netdebug.debugger.place import BACKWARD, BEFORE, END, FORWARD, OPTIMIZER, Place
from tb_netdebug.debugger.protocol.statements import ReasonJson
from tb_netdebug.debugger.tensors.name_pattern import NamePattern

# A finding may have a long text.
MOST_LETTERS = 1000


@dataclass(frozen=True, slots=True)
class Reason:
    """Why the run is paused; `id` is that of a breakpoint or watchpoint."""

    kind: str
    text: str
    id: int | None = None

    def as_dict(self) -> ReasonJson:
        return {"kind": self.kind, "text": self.text[:MOST_LETTERS], "id": self.id}


@dataclass(slots=True)
class RunTarget:
    """Where to stop next.

    `by` is "now", one of `choices.STEPS`, "step" (a batch by its number) or "layer-named".
    """

    by: str
    count: int = 1
    match: NamePattern | None = None
    step: int = 0

    @property
    def wants_layers(self) -> bool:
        return self.by in ("layer", "layer-named")

    @property
    def wants_backward(self) -> bool:
        return self.by == "backward"

    @property
    def wants_ops(self) -> bool:
        return self.by == "op"

    def arrives(self, place: Place, step: int) -> Reason | None:
        """Return the reason to stop if the target is reached; called once for each place that is passed."""
        if self.by == "now":
            return Reason("asked", "you asked for it")
        if self.by == "step":
            is_there = place.phase == END and step >= self.step
            return Reason("step", f"batch {self.step} is over") if is_there else None
        if not self._counts(place):
            return None
        self.count -= 1
        if self.count > 0:
            return None
        return Reason("step", "you stepped to here")

    def _counts(self, place: Place) -> bool:
        if self.by == "batch":
            return place.phase == END
        if self.by == "optimizer":
            return place.phase == OPTIMIZER and place.edge == BEFORE and place.op is None
        name = place.op if self.by == "op" else place.module
        if self.match is not None:
            return name is not None and self._is_kind(place) and self.match.finds(name)
        # The end of the batch stops any of these, so that nobody gets into the next batch by accident.
        return place.phase == END or self._is_kind(place) or (self.by != "op" and self._begins_phase(place))

    def _is_kind(self, place: Place) -> bool:
        if self.by == "op":
            return place.op is not None
        if place.op is not None or place.module is None:
            return False
        if self.by == "backward":
            return place.phase == BACKWARD
        return place.phase == FORWARD and place.edge == BEFORE

    def _begins_phase(self, place: Place) -> bool:
        is_later = place.phase == OPTIMIZER or (place.phase == BACKWARD and self.by != "backward")
        return is_later and place.module is None and place.edge == BEFORE and place.op is None
