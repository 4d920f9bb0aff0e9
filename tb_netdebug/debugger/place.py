"""The places at which a run can stop."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

START, FORWARD, BACKWARD, OPTIMIZER, END, CODE = "start", "forward", "backward", "optimizer", "end", "code"
PHASES = (START, FORWARD, BACKWARD, OPTIMIZER, END, CODE)
BEFORE, AFTER = "before", "after"


@dataclass(frozen=True, slots=True)
class Place:
    """A place within a batch.

    `module` is a layer by its name in the graph of the run, None if the place is about the whole batch; `op`
    is an operation of the framework. `file`, `line` and `function` are the user's own line, filled in only
    when needed; `number` counts the stops within a batch.
    """

    phase: str
    module: str | None = None
    class_name: str | None = None
    edge: str = BEFORE
    op: str | None = None
    number: int = 0
    file: str | None = None
    line: int = 0
    function: str = ""

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)
