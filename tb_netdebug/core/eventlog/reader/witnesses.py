"""What the agents saw of the training processes from outside: their memory, and how they ended.

Filled by `recording.py` from the agents' files, read by `pulse.py` and `followed_run.py`. An agent samples
once a second for as long as the training runs. The memory for this is bounded: in a long curve neighbouring
samples are merged, with their mean and their maximum.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tb_netdebug.core.records.errors import DamagedBlock, UnsupportedVersion
from tb_netdebug.core.records.witness import Ending, Witness, decode_witness

MOST_ROWS = 512
# At most this many samples of one scanned piece are decoded, so that a whole day of them is read quickly.
_MOST_OF_A_PIECE = 512
_RANK = re.compile(r"(agent|rank)(\d{1,9})\.")

Doubles = NDArray[np.float64]
_TIME, _SAMPLES = 0, 1
_SUMMED = [1, 2, 4]


def is_agents(path: str) -> bool:
    """Return whether an agent wrote this file, and not the training process itself."""
    found = _RANK.match(path.rpartition("/")[2])
    return found is not None and found[1] == "agent"


def rank_of(path: str) -> int:
    """Return the rank that a file belongs to, from its name."""
    found = _RANK.match(path.rpartition("/")[2])
    return int(found[2]) if found else 0


@dataclass(frozen=True, slots=True, eq=False)
class MemoryCurve:
    """Columns of one length by rising time, with the memory and processor use of one rank's processes.

    A row holds the mean and the greatest memory of all its processes, the mean number of busy processors, and
    the greatest number of processes.
    """

    time: Doubles
    tree_bytes: Doubles
    most_bytes: Doubles
    cpu_share: Doubles
    processes: Doubles


class Account:
    """The contents of one agent's file.

    The columns of `table` are time, samples, sum of bytes, most bytes, sum of busy processors, most
    processes.
    """

    def __init__(self) -> None:
        self.newest: Witness | None = None
        self.ending: Ending | None = None
        self._table = np.zeros((MOST_ROWS, 6))
        self._rows = 0
        self._samples_of_a_row = 1

    @property
    def table(self) -> Doubles:
        found: Doubles = self._table[: self._rows].copy()
        return found

    def add(self, witness: Witness) -> None:
        self.ending = witness.ending or self.ending
        if witness.processes == 0:  # only the ending: no process was left to sample
            return
        self.newest = witness
        memory, busy = float(witness.tree_bytes), max(witness.cpu_share, 0.0)
        row = np.array([witness.time, 1.0, memory, memory, busy, float(witness.processes)])
        last = self._rows - 1
        if last >= 0 and self._table[last, _SAMPLES] < self._samples_of_a_row:
            self._table[last] = _together(self._table[last], row)
            return
        # The table is full: merge rows in pairs, and let each new row take twice as many samples.
        if self._rows == MOST_ROWS:
            self._table[: MOST_ROWS // 2] = _together(self._table[::2], self._table[1::2])
            self._rows = MOST_ROWS // 2
            self._samples_of_a_row *= 2
        self._table[self._rows] = row
        self._rows += 1


def _together(first: Doubles, second: Doubles) -> Doubles:
    """Merge rows with those that follow them, one each."""
    found = np.maximum(first, second)
    found[..., _SUMMED] = first[..., _SUMMED] + second[..., _SUMMED]
    found[..., _TIME] = first[..., _TIME]
    return found


class Witnesses:
    """The accounts of all agents' files of a run."""

    def __init__(self) -> None:
        self._files: dict[str, Account] = {}

    def take(self, path: str, payloads: Sequence[bytes]) -> str:
        """Add payloads of a file; return a complaint about them, or an empty string."""
        account = self._files.setdefault(path, Account())
        complaint = ""
        for payload in _some_of(payloads):
            try:
                account.add(decode_witness(payload))
            except UnsupportedVersion as error:
                complaint = str(error)
            except DamagedBlock:
                continue  # one sample a second: the next one will do
        return complaint

    def drop(self, path: str) -> None:
        self._files.pop(path, None)

    def newest(self) -> dict[int, Account]:
        """Return the account of the newest agent's file of each rank."""
        files = {**self._files}
        found = {
            rank_of(path): files[path]
            # The names contain the start time, so they sort by age.
            for path in sorted(files, key=lambda each: each.rpartition("/")[2])
            if files[path].newest is not None or files[path].ending is not None
        }
        return dict(sorted(found.items()))

    def course(self, rank: int) -> MemoryCurve:
        """Return the curve of one rank through all of its training processes in this run."""
        tables = [account.table for path, account in [*self._files.items()] if rank_of(path) == rank]
        whole = np.concatenate([np.empty((0, 6)), *tables])
        time, samples, memory, most, busy, processes = whole[np.argsort(whole[:, _TIME], kind="stable")].T
        return MemoryCurve(time, memory / samples, most, busy / samples, processes)


def _some_of(payloads: Sequence[bytes]) -> Sequence[bytes]:
    """Return an even choice of the payloads that includes the last one, which may hold the ending."""
    if len(payloads) <= _MOST_OF_A_PIECE:
        return payloads
    places = np.linspace(0, len(payloads) - 1, _MOST_OF_A_PIECE).astype(np.int64)
    return [payloads[place] for place in places.tolist()]
