"""Notes that trainers leave for later agents: where their files are, and whether these are complete.

A trainer writes a note, the agent that replicates its files holds (locks) it and removes it when the
collector has everything. So the note survives a crash of either process.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from google.protobuf.message import DecodeError

from tb_netdebug.transport import stream_pb2 as pb
from tb_netdebug.transport.file_lock import taken

ENDING = ".join"
FAREWELL = ".goodbye"
ENDED = ".ended"
MOST_BYTES = 1 << 20
_numbers = itertools.count()


class Note:
    """The note of one recording by one process, as a file with a marker file for each of its later states."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._held = -1

    @classmethod
    def leave(cls, folder: Path, join: pb.Join) -> Note:
        """Write a new note, as the trainer does, and put its name into `join`. Raise OSError."""
        note = cls(folder / f"{join.pid}-{join.started}-{next(_numbers)}{ENDING}")
        join.note = note.path.name
        write_at_once(note.path, join.SerializeToString())
        return note

    def read(self) -> pb.Join | None:
        """Return the content; None for a note that was never written completely."""
        try:
            join = pb.Join.FromString(read_bytes(self.path))
        except (OSError, DecodeError):
            return None
        join.note = self.path.name
        return join if join.run_dir and join.run and join.pid else None

    def say_goodbye(self, goodbye: pb.Goodbye) -> None:
        """Mark the recording as complete, from the trainer. Raise OSError."""
        write_at_once(self._farewell, goodbye.SerializeToString())

    @property
    def goodbye(self) -> pb.Goodbye | None:
        try:
            return pb.Goodbye.FromString(read_bytes(self._farewell))
        except (OSError, DecodeError):
            return None

    def hold(self) -> bool:
        """Lock the note for this agent. Return whether this agent now holds it."""
        if self._held >= 0:
            return True
        try:
            descriptor = taken(self.path, create=False)
        except OSError:
            return False
        self._held = -1 if descriptor is None else descriptor
        return descriptor is not None

    @property
    def is_free(self) -> bool:
        """Whether no agent holds it."""
        if self._held >= 0 or not self.hold():
            return False
        self.let_go()
        return True

    def let_go(self) -> None:
        """Unlock it for another agent."""
        if self._held >= 0:
            descriptor, self._held = self._held, -1
            os.close(descriptor)

    def remove(self) -> None:
        """Delete the note and its markers: everything has been delivered."""
        for path in (self._ended, self._farewell, self.path):
            with suppress(OSError):
                path.unlink()
        self.let_go()

    @property
    def is_ended(self) -> bool:
        """Whether an agent has already recorded how the training process ended."""
        return self._ended.exists()

    def mark_ended(self) -> None:
        with suppress(OSError):  # the ending is then written twice if this agent dies early
            self._ended.touch(mode=0o600)

    @property
    def _ended(self) -> Path:
        return self.path.with_suffix(ENDED)

    @property
    def _farewell(self) -> Path:
        return self.path.with_suffix(FAREWELL)


def notes_in(folder: Path) -> Iterator[Note]:
    for path in sorted(folder.glob(f"*{ENDING}")):
        yield Note(path)


def write_at_once(path: Path, data: bytes) -> None:
    """Write a file under its name in one step, so that no reader finds half of it."""
    half = path.with_name(f"{path.name}.half")
    half.write_bytes(data)
    half.replace(path)


def read_bytes(path: Path) -> bytes:
    """Return the bytes of a small file of our own, without following a link. Raise OSError."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    with os.fdopen(descriptor, "rb") as file:
        return file.read(MOST_BYTES)
