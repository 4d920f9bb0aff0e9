"""The event files of a run: usually one, and a new one whenever the current cannot be continued."""

from __future__ import annotations

import errno
import time
import weakref
from collections.abc import Sequence
from pathlib import Path

from tb_netdebug.core.eventlog.writer.event_file import EventFile
from tb_netdebug.core.eventlog.writer.framing import frame
from tb_netdebug.core.eventlog.writer.values import SummaryPoint, events, opening

# Errors that may pass, such as a full disk: the same file can go on afterwards.
_PASSING = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EAGAIN, errno.EINTR, errno.ENOMEM})

# A run in an object store is written in parts. The first ones are short, so that a new run appears soon; then
# a part covers this share of the run so far: 120 parts in the first 200 minutes, 144 a day from then on.
PART_SHARE = 0.05
SHORTEST_PART_SECS, LONGEST_PART_SECS = 5.0, 600.0
PART_BYTES = 8 << 20

_all_logs: weakref.WeakSet[RunLog] = weakref.WeakSet()


class RunLog:
    """The log of one run; after an error of `write` the caller repeats the same call until it succeeds.

    The `preamble` (values that describe the run) begins every file, so that each can be read by itself. With
    `in_parts` a file is ended from time to time: when `is_due` is true, `close` ends it, and the next `write`
    makes another. Only the writer's thread writes and closes.
    """

    def __init__(self, run_dir: Path, *, rank: int = 0, in_parts: bool = False) -> None:
        self.run_dir = run_dir
        self.files = 0
        self.written_bytes = 0
        self.preamble: dict[str, SummaryPoint] = {}
        self._rank = rank
        self._file: EventFile | None = None
        self._staged = False
        self._known_tags: set[str] = set()
        self._new_tags: set[str] = set()
        self._in_parts = in_parts
        self._began_secs = self._opened_secs = time.monotonic()
        _all_logs.add(self)

    @property
    def path(self) -> Path | None:
        """The current file, or None before the first one and between two."""
        return self._file.path if self._file is not None else None

    @property
    def is_due(self) -> bool:
        """Whether the current part is large or old enough to be ended; may be called from any thread."""
        file = self._file
        if not self._in_parts or file is None:
            return False
        moment = time.monotonic()
        wanted = PART_SHARE * (moment - self._began_secs)
        wanted = min(max(wanted, SHORTEST_PART_SECS), LONGEST_PART_SECS)
        return file.size >= PART_BYTES or moment - self._opened_secs >= wanted

    def write(self, values: Sequence[SummaryPoint]) -> None:
        """Append values; after an OSError nothing is lost: repeat the call with the same values."""
        try:
            self._write(values)
        except OSError as error:
            # A file whose end is in doubt is left alone; the next call opens another.
            if error.errno not in _PASSING:
                self._abandon()
            raise

    def close(self) -> None:
        if self._file is not None and self._file.unfinished:
            self._abandon()
        elif self._file is not None:
            self._file.close()
            self._file = None

    def _write(self, values: Sequence[SummaryPoint]) -> None:
        file = self._file or self._open()
        # Before anything is written, because a deleted or replaced file takes it without an error.
        file.check()
        # A repeated call finds the values framed already: only what the file has not taken is written again.
        if not self._staged:
            serialized, self._new_tags = events(values, self._known_tags)
            file.add(b"".join(map(frame, serialized)))
            self._staged = True
        size = file.size
        try:
            file.drain()
        finally:
            self.written_bytes += file.size - size
        self._known_tags |= self._new_tags
        self._staged = False

    def _open(self) -> EventFile:
        file = self._file = EventFile.create(self.run_dir, rank=self._rank)
        self.files += 1
        self._opened_secs = time.monotonic()
        serialized, self._known_tags = events(list(self.preamble.values()), ())
        file.add(b"".join(map(frame, [opening(time.time()), *serialized])))
        return file

    def _abandon(self) -> None:
        if self._file is not None:
            self._file.abandon()
        self._file = None
        self._staged = False


def open_paths() -> set[Path]:
    """Return the files that this process is writing."""
    return {path for log in list(_all_logs) if (path := log.path) is not None}
