"""Decides whether a run is live, idle or ended, and what is known of a training process that fell silent.

Called by `followed_run.py`. It combines when the files last changed, what the agents saw, and on the same
machine whether the process still exists.
"""

from __future__ import annotations

import os
import re
import socket
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from enum import Enum
from typing import Any

import psutil

from tb_netdebug.core.eventlog.reader.places import started_at
from tb_netdebug.core.eventlog.reader.storage import FileState
from tb_netdebug.core.eventlog.reader.witnesses import Account, is_agents, rank_of
from tb_netdebug.core.records.witness import Ending

LIVE_SECS = 10.0
# An agent writes at least every ten seconds. If nothing has come for this long, the agent, its machine or the
# network is gone.
SILENT_SECS = 25.0
# With long steps, silence means that this many usual steps have passed, up to a limit: a pause between two
# training processes of a run makes the mean step long, too.
_USUAL_STEPS = 3.0
_LONGEST_SECS = 300.0
# The time in a file's name and the start time of a process may differ by some seconds.
_CLOCK_SECS = 5.0


@dataclass(frozen=True, slots=True)
class Late:
    """The ranks of which nothing has come since the time `since`.

    With `is_alive` the process still exists. Otherwise all is silent: the machine, the network or the agent
    is gone.
    """

    since: float
    is_alive: bool
    ranks: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Pulse:
    """The state of a run: live, idle or ended; `endings` has the ranks whose end an agent has seen."""

    state: str
    endings: dict[int, Ending]
    late: Late | None

    def as_dict(self) -> dict[str, Any]:
        """Return plain values; `ending` is the first that went wrong, or the first of all."""
        endings = [{"rank": rank, **asdict(ending)} for rank, ending in sorted(self.endings.items())]
        return {
            "state": self.state,
            "ending": min(endings, key=lambda each: (each["well"], each["time"]), default=None),
            "endings": endings,
            "late": asdict(self.late) if self.late is not None else None,
        }


class _Fate(Enum):
    ALIVE, SILENT, GONE, UNKNOWN = range(4)


@dataclass(slots=True)
class _Rank:
    """The newest file of a rank, and when its training process and its agent last wrote."""

    path: str = ""
    came: float = 0.0
    agent_came: float = 0.0

    @property
    def started(self) -> float:
        return (started_at(self.path) or 0.0) - _CLOCK_SECS


def pulse(
    files: Mapping[str, FileState], accounts: Mapping[int, Account], *, now: float, step_secs: float = 0.0,
    is_remote: bool = False,
) -> Pulse:  # fmt: skip
    """Return the pulse of a run; `files` are sorted by age, `step_secs` is the usual time of a step."""
    ranks = _ranks(files)
    # An ending from before the newest file is that of an earlier process of the same run.
    endings = {
        rank: account.ending
        for rank, account in accounts.items()
        if account.ending is not None and (rank not in ranks or account.ending.time >= ranks[rank].started)
    }
    unended = {rank: each for rank, each in ranks.items() if each.path and rank not in endings}
    if endings and not unended:
        return Pulse("ended", endings, None)
    patience_secs = max(LIVE_SECS, min(_USUAL_STEPS * step_secs, _LONGEST_SECS))
    fates = {
        rank: _fate(each, now, is_remote) for rank, each in unended.items() if now - each.came >= LIVE_SECS
    }
    quiet = {rank: fates[rank] for rank in fates if now - unended[rank].came >= patience_secs}
    # No agent saw these processes end, but every one is known to be gone.
    if unended and all(fates.get(rank) is _Fate.GONE for rank in unended):
        state = "ended"
    else:
        state = "live" if len(quiet) < len(unended) else "idle"
    return Pulse(state, endings, _late(unended, quiet))


def _ranks(files: Mapping[str, FileState]) -> dict[int, _Rank]:
    found: dict[int, _Rank] = {}
    for path, state in files.items():
        rank = found.setdefault(rank_of(path), _Rank())
        if is_agents(path):
            rank.agent_came = max(rank.agent_came, state.changed)
        else:
            # Files come sorted by age, so the path of the newest one stays.
            rank.path, rank.came = path, max(rank.came, state.changed)
    return found


def _late(ranks: Mapping[int, _Rank], quiet: Mapping[int, _Fate]) -> Late | None:
    for fate in (_Fate.SILENT, _Fate.ALIVE):  # the worst first
        found = tuple(rank for rank in quiet if quiet[rank] is fate)
        if found:
            heard = [ranks[rank].came for rank in found]
            if fate is _Fate.SILENT:
                heard += [ranks[rank].agent_came for rank in found]
            return Late(max(heard), fate is _Fate.ALIVE, found)
    return None


def _fate(rank: _Rank, now: float, is_remote: bool) -> _Fate:
    """Return what became of the process that wrote last, and has written nothing for a while."""
    has_agent = rank.agent_came >= rank.started  # otherwise it is an earlier process's agent
    if has_agent and now - rank.agent_came < SILENT_SECS:
        return _Fate.ALIVE
    here = _Fate.UNKNOWN if is_remote else _fate_here(rank.path)
    return _Fate.SILENT if here is _Fate.UNKNOWN and has_agent else here


def _fate_here(path: str) -> _Fate:
    """Return the fate of the process named in the file, if it runs on this machine.

    It keeps the file open until the run is closed.
    """
    name = path.rpartition("/")[2]
    parts = name.split(".")
    host = re.sub(r"[^A-Za-z0-9_-]", "-", socket.gethostname())[:64]
    if len(parts) < 4 or parts[-1] != "netdebug" or not parts[-3].isdecimal() or parts[-4] != host:
        return _Fate.UNKNOWN
    pid = int(parts[-3])
    has_it = _has_open(pid, name)
    if has_it is not None:
        return _Fate.ALIVE if has_it else _Fate.GONE
    try:
        # A process that reuses the PID is younger than the file.
        is_other = psutil.Process(pid).create_time() > (started_at(path) or 0.0) + _CLOCK_SECS
    except (psutil.NoSuchProcess, OverflowError):
        return _Fate.GONE
    except psutil.Error:
        return _Fate.UNKNOWN
    return _Fate.GONE if is_other else _Fate.ALIVE


def _has_open(pid: int, name: str) -> bool | None:
    """Return whether the process has the file open; None if that cannot be seen.

    That is so for another user's process. Only the names of the links are read: to stat their targets could
    block on a disk that is gone.
    """
    folder = f"/proc/{pid}/fd"
    try:
        links = os.listdir(folder)  # noqa: PTH208
    except OSError:
        return None
    for link in links:
        with suppress(OSError):
            if os.readlink(f"{folder}/{link}").rpartition("/")[2] == name:  # noqa: PTH115
                return True
    return False
