"""The report on a held process: how it was held, what it would have changed, which hosts it contacted."""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field

from tb_netdebug.experiments.rehearsal.changes import FileChange

MOST_NAMED = 5

LEVELS = {
    "overlay": "by the kernel (an overlay over every file system)",
    "landlock": "by the kernel (Landlock) and, for reading back, by Python",
    "python": "by Python only, which is weaker: code that is not written in Python is not confined",
}


@dataclass(slots=True)
class RehearsalReport:
    """The outcome of a held process; written by the keeper, read by its caller.

    `status` is the exit status, or minus the signal. `passed_over` says why a better level was not used.
    """

    level: str = ""
    passed_over: list[str] = field(default_factory=list)
    status: int = 1
    is_done: bool = False
    is_idle: bool = False  # nothing of the user's has run, so there was nothing to hold
    changes: list[FileChange] = field(default_factory=list)
    read_only: list[str] = field(default_factory=list)
    connections: list[str] = field(default_factory=list)
    ended: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    @property
    def written(self) -> list[str]:
        return [each.path for each in self.changes if not each.is_deleted]

    @property
    def deleted(self) -> list[str]:
        return [each.path for each in self.changes if each.is_deleted]

    def to_json(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def of_json(cls, text: str) -> RehearsalReport:
        told = json.loads(text)
        changes = [FileChange(**each) for each in told.pop("changes")]
        return cls(changes=changes, **told)

    def sentences(self) -> Iterator[str]:
        """Yield sentences for the user: how it was held, then whatever else there is to report."""
        if self.is_idle:
            return
        if self.level:
            nothing = "" if self.changes else " There were none."
            yield f"Writes were confined {LEVELS.get(self.level, self.level)}.{nothing}"
        if self.passed_over:
            yield f"Stronger confinement was not possible: {'; '.join(self.passed_over)}."
        if self.written:
            yield f"Written to a temporary copy, now gone: {listed(self.written)}."
        if self.deleted:
            yield f"Deleted in the temporary copy only: {listed(self.deleted)}."
        if self.read_only:
            yield f"Could only be read: {listed(self.read_only)}."
        if self.connections:
            yield f"Network connections were not confined: {listed(self.connections)}."
        if self.ended:
            yield f"Processes that it left running were terminated: {listed(self.ended)}."
        yield from self.notes

    @property
    def ending(self) -> str:
        """The exit status or the name of the signal, as text."""
        if self.status >= 0:
            return f"exit status {self.status}"
        try:
            return f"signal {signal.Signals(-self.status).name}"
        except ValueError:
            return f"signal {-self.status}"


def listed(names: Sequence[str]) -> str:
    more = f" and {len(names) - MOST_NAMED} more" if len(names) > MOST_NAMED else ""
    return ", ".join(names[:MOST_NAMED]) + more
