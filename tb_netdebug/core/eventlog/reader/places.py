"""Finds the runs below a folder: their files, kind and size. Used by `logdir.py`."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import islice

from tb_netdebug.core.eventlog.reader.storage import FileState, Storage, is_ours
from tb_netdebug.core.eventlog.reader.witnesses import is_agents

SIDE_FOLDER = "/plugins/netdebug"
_STARTED = re.compile(r"(?:tfevents|rank\d+)\.(\d{9,11})(?:\.|$)")
_DIGITS = re.compile(r"(\d+)")
MOST_FILES_OF_A_RUN = 4096
# A bound on the search, for a user who names the root of a disk by mistake.
MOST_FOLDERS = 100_000


@dataclass(frozen=True, slots=True)
class RunListing:
    """A run as its folder shows it; `changed` is when the training process itself last wrote."""

    name: str
    path: str
    kind: str
    started: float
    changed: float
    size_bytes: int
    files: int


@dataclass(slots=True)
class RunFiles:
    """The event files of one run by path, those of rank 0 first, each rank's from oldest to newest."""

    storage: Storage
    path: str
    files: dict[str, FileState] = field(default_factory=dict)

    @property
    def kind(self) -> str:
        return "netdebug" if any(map(is_ours, self.files)) else "summary"

    def is_as(self, other: RunFiles) -> bool:
        return (self.path, self.kind) == (other.path, other.kind)

    def read(self) -> dict[str, FileState]:
        """Return the files to read: ours if there are any, else those of other programs.

        Files of others beside ours are copies or older. Of too many files, the newest of rank 0 and the first
        of the other ranks are chosen.
        """
        ours = {path: state for path, state in self.files.items() if is_ours(path)}
        chosen = ours or self.files
        side = sorted(path for path in chosen if self.is_side(path))
        main = sorted(chosen.keys() - side)[min(len(side), MOST_FILES_OF_A_RUN // 2) - MOST_FILES_OF_A_RUN :]
        return {path: chosen[path] for path in [*main, *side[: MOST_FILES_OF_A_RUN - len(main)]]}

    def look(self) -> None:
        """List the files that there are now."""
        self.files = {
            f"{folder.rstrip('/')}/{name}": state
            for folder in (self.path, self.path.rstrip("/") + SIDE_FOLDER)
            for name, state in self.storage.files(folder).items()
            if folder == self.path or is_ours(name)
        }

    def is_side(self, path: str) -> bool:
        return path.rpartition("/")[0] != self.path

    def place(self, name: str) -> RunListing:
        states = self.read()
        started = [found for path in states if (found := started_at(path)) is not None]
        # An agent's writes do not show that the training process itself goes on.
        own = [state for path, state in states.items() if not is_agents(path)]
        changed = [state.changed for state in own or states.values()]
        return RunListing(
            name=name,
            path=self.path,
            kind=self.kind,
            started=min(started or changed, default=0.0),
            changed=max(changed, default=0.0),
            size_bytes=sum(state.size for state in states.values()),
            files=len(states),
        )


def find_runs(storage: Storage, root: str, prefix: str) -> tuple[dict[str, RunFiles], list[str]]:
    """Return the runs at and below `root`, and all folders; raises OSError if `root` cannot be read."""
    runs: dict[str, RunFiles] = {}
    folders: list[str] = []
    for folder, files in islice(storage.walk(root), MOST_FOLDERS):
        folders.append(folder)
        home = folder
        if folder.endswith(SIDE_FOLDER) and (folder == root or folder.startswith(f"{root.rstrip('/')}/")):
            above = folder.removesuffix(SIDE_FOLDER)
            # A logdir may begin below the run's folder, and no run's name reaches above the logdir.
            home = above if len(above) >= len(root) else folder
            # Other tools may keep files in there, too; only ours belong to the run.
            files = {name: state for name, state in files.items() if is_ours(name)}
        if not files:
            continue
        run = runs.setdefault(run_name(home, root, prefix), RunFiles(storage, home))
        run.files.update({f"{folder.rstrip('/')}/{name}": state for name, state in files.items()})
    return runs, folders


def run_name(folder: str, root: str, prefix: str) -> str:
    relative = folder[len(root) :].strip("/")
    return clean("/".join(part for part in (prefix, relative) if part) or ".")


def clean(text: str) -> str:
    """Return text that can be sent: lone surrogates become replacement characters."""
    return text.encode("utf-8", "surrogatepass").decode("utf-8", "replace") if not text.isascii() else text


def natural(name: str) -> list[tuple[int, int, str]]:
    """Return a sort key that puts run2 before run10."""
    return [
        # A hostile name may hold thousands of digits, which int() reads slowly or refuses.
        (0, int(part[:300]), "") if part.isdecimal() and part.isascii() else (1, 0, part)
        for part in _DIGITS.split(name)
    ]


def started_at(path: str) -> float | None:
    found = _STARTED.search(path.rpartition("/")[2])
    return float(found[1]) if found else None


def in_order(names: Iterable[str]) -> list[str]:
    return sorted(names, key=natural)
