"""Samples a training process from outside, once a second, into an event file beside its own."""

from __future__ import annotations

import os
import time
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from tb_netdebug.core.eventlog.writer import values
from tb_netdebug.core.eventlog.writer.event_file import SIDE_FOLDER, SUFFIX, EventFile, file_name
from tb_netdebug.core.eventlog.writer.framing import frame
from tb_netdebug.core.machine.host_memory import listed_descendants, searched_descendants
from tb_netdebug.core.records.witness import Ending, Witness, encode_witness
from tb_netdebug.transport.process import TICKS_PER_SEC, Stat, stat_of

PAYLOAD = "witness"
SAMPLE_SECS = 1.0
# At first every sample is kept; after that only changes, and every tenth sample. A day takes 2 MB.
EARLY_SAMPLES = 120
EVERY_NTH = 10
# Changes that get a sample of their own: 2 % of the memory, or half a processor.
NEWS_SHARE = 0.02
NEWS_BUSY = 0.5
_FLAGS = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW


class ProcessTree:
    """A process with all its descendants."""

    def __init__(self, pid: int, rank: int) -> None:
        self._pid = pid
        self._rank = rank
        # Not every kernel is built to list children (CONFIG_PROC_CHILDREN).
        self._is_listed = Path(f"/proc/{pid}/task/{pid}/children").exists()
        self._ticks: dict[int, int] = {}
        self._looked: float | None = None

    def sample(self) -> Witness | None:
        """Return a sample of the whole tree; None when the process is gone."""
        top = stat_of(self._pid)
        if top is None or top.state in "ZX":
            return None
        descendants = listed_descendants if self._is_listed else searched_descendants
        found = {pid: stat for pid in descendants(self._pid) if (stat := stat_of(pid)) is not None}
        found[self._pid] = top
        return Witness(
            time=time.time(),
            rank=self._rank,
            tree_bytes=sum(stat.resident_bytes for stat in found.values()),
            processes=len(found),
            threads=sum(stat.threads for stat in found.values()),
            cpu_share=self._cpu_share(found),
            state=top.state[:1],
        )

    def _cpu_share(self, found: dict[int, Stat]) -> float:
        now = time.monotonic()
        ticks = {pid: stat.ticks for pid, stat in found.items()}
        # A process with a reused PID may have fewer ticks than its predecessor had.
        spent = sum(max(count - self._ticks.get(pid, 0), 0) for pid, count in ticks.items())
        passed = None if self._looked is None else now - self._looked
        self._ticks, self._looked = ticks, now
        return spent / TICKS_PER_SEC / passed if passed else 0.0


class Observer:
    """The file of samples for one training process. It never raises; the first sample creates the file."""

    def __init__(self, run_dir: Path, *, pid: int, rank: int) -> None:
        self._run_dir = run_dir
        self._folder = run_dir / SIDE_FOLDER
        self._pid, self._rank = pid, rank
        self._tree = ProcessTree(pid, rank)
        self._file: EventFile | None = None
        self._written = 0
        self._unwritten = 0
        self._last: Witness | None = None
        self._due = 0.0

    def look(self, now: float) -> bool:
        """Take a sample when it is due; return whether it was written."""
        if now < self._due:
            return False
        self._due = now + SAMPLE_SECS
        try:
            seen = self._tree.sample()
        except Exception:  # the process may end while it is sampled, which fails in many ways
            return False
        if seen is None or not self._is_news(seen):
            self._unwritten += 1
            return False
        return self._write(seen)

    def end(self, ending: Ending) -> None:
        """Write how the process ended, or a better account of it.

        If the clock was set back meanwhile, the ending is dated no earlier than the newest file of the run:
        it would otherwise be taken for the end of an earlier run.
        """
        ending = replace(ending, time=max(ending.time, newest_start(self._run_dir, self._pid)))
        self._write(
            Witness(
                time=ending.time,
                rank=self._rank,
                tree_bytes=0,
                processes=0,
                threads=0,
                cpu_share=0.0,
                state="",
                ending=ending,
            )
        )

    def close(self) -> None:
        if self._file is not None:
            self._file.close()

    def _is_news(self, seen: Witness) -> bool:
        last = self._last
        if last is None or self._written < EARLY_SAMPLES or self._unwritten >= EVERY_NTH - 1:
            return True
        # D waits for a device, T is stopped: either explains a run that stands still.
        return (
            (seen.processes, seen.state in "DT") != (last.processes, last.state in "DT")
            or abs(seen.tree_bytes - last.tree_bytes) > NEWS_SHARE * last.tree_bytes
            or abs(seen.cpu_share - last.cpu_share) > NEWS_BUSY
        )

    def _write(self, seen: Witness) -> bool:
        value = values.payload(PAYLOAD, self._written, seen.time, encode_witness(seen))
        serialized, _ = values.events([value], ())
        try:
            file = self._file or self._create()
            file.drain()  # what a full disk refused before
            file.add(b"".join(map(frame, serialized)))
            file.drain()
        except OSError:  # a full disk, say: samples may be lost, and the next may fit
            return False
        self._last = seen
        self._written += 1
        self._unwritten = 0
        return True

    def _create(self) -> EventFile:
        self._folder.mkdir(parents=True, exist_ok=True)
        while True:
            path = self._folder / witness_name(self._rank, self._pid)
            with suppress(FileExistsError):
                file = self._file = EventFile(path, os.open(path, _FLAGS, 0o644))
                file.add(frame(values.opening(time.time())))
                return file


def witness_name(rank: int, pid: int) -> str:
    """Return a file name modelled on those of the trainer, with its process id.

    By that id later agents know whose file it is.
    """
    _, secs, host, _, number, suffix = file_name(1).split(".")
    return f"agent{rank}.{secs}.{host}.{pid}.{number}.{suffix}"


def newest_start(run_dir: Path, pid: int) -> float:
    """Return when the newest file of this trainer was begun, by its name; 0 when there is none."""
    names = [
        path.name.split(".")
        for folder in (run_dir, run_dir / SIDE_FOLDER)
        for path in folder.glob(f"*.{pid}.*{SUFFIX}")
        if not path.name.startswith("agent")
    ]
    return max((float(parts[-5]) for parts in names if len(parts) > 5 and parts[-5].isdigit()), default=0.0)
