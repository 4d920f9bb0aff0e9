"""A training process that the agent looks after: its files, the process itself, and its connection."""

from __future__ import annotations

import asyncio
import itertools
import re
import time
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from tb_netdebug.core.eventlog.writer.event_file import SIDE_FOLDER, SUFFIX
from tb_netdebug.transport import stream_pb2 as pb
from tb_netdebug.transport.local_wire import packed
from tb_netdebug.transport.memory_events import OomKills
from tb_netdebug.transport.notes import Note
from tb_netdebug.transport.process import Vigil
from tb_netdebug.transport.replica import Replica
from tb_netdebug.transport.trainer_exit import ending_of
from tb_netdebug.transport.witness import Observer

# How often its folder is listed: a trainer creates its files at the start, and later ones only after a disk
# failure.
EARLY_SECS, EARLY_FOLDER_SECS, FOLDER_SECS = 10.0, 0.2, 1.0
# How long the exit status may take to become known, after a goodbye or the end of the process.
STATUS_SECS = 1.0
# The debugger's messages to the collector wait in memory. Above this the trainer's socket is not read.
MOST_CONTROL_BYTES = 32 << 20

_numbers = itertools.count(1)


class Trainee:
    """One recording of one process.

    It `has_left` when it has said goodbye or its process has ended; its files are complete then. A trainer
    that came for the debugger alone (`records_stay`) sends no files, and leaves when its connection closes.
    """

    def __init__(self, join: pb.Join, note: Note | None) -> None:
        self.number = next(_numbers)
        self.join = join
        self.note = note
        self.run_dir = Path(join.run_dir)
        self.replicas: dict[Path, Replica] = {}
        self.is_begun = False
        self.rests_until = 0.0
        self.goodbye: pb.Goodbye | None = None
        self.left_at: float | None = None
        self.is_settled = False
        self.connection: asyncio.StreamWriter | None = None
        self.owes_answer = False
        self.controls: deque[bytes] = deque()
        self.control_bytes = 0
        self.told: dict[str, float] = {}
        self.knows_undebugged = False
        self._placed: pb.Placed | None = None
        self.vigil = Vigil(join.pid, join.started)
        self._oom_kills = OomKills(join.pid)
        self._observer = Observer(self.run_dir, pid=join.pid, rank=join.rank)
        # The names of files that this process writes, and of those that agents write about it.
        self._own = re.compile(
            rf"(?:events\.out\.tfevents|rank{join.rank}|agent{join.rank})\.\d+\.[\w-]+\.{join.pid}\.\d+"
            + re.escape(SUFFIX)
        )
        self._joined_at = time.monotonic()
        self._folder_due = 0.0

    # ---- what happens to it ------------------------------------------------------------------------------

    @property
    def has_left(self) -> bool:
        return self.left_at is not None

    def say_goodbye(self, goodbye: pb.Goodbye) -> None:
        self.goodbye = goodbye
        self.owes_answer = self.connection is not None
        self._leave()

    def look(self, now: float, taken: dict[Path, int]) -> bool:
        """Check the files and the process; return whether there is something to send.

        A file in `taken` that belongs to another recording of the same process is left to that one.
        """
        if not self.has_left and self._is_over:
            if self.note is not None:
                self.goodbye = self.note.goodbye  # the trainer may have left it there without a connection
            self._leave()
        if self.join.records_stay:
            self.is_settled = self.has_left
            return self.has_left
        has_news = not self.has_left and self._observer.look(now)
        if self.has_left:
            has_news |= self._settle(now)
        if has_news or now >= self._folder_due or (self.has_left and not self.is_settled):
            is_early = now < self._joined_at + EARLY_SECS
            self._folder_due = now + (EARLY_FOLDER_SECS if is_early else FOLDER_SECS)
            self._find_files(taken)
        for replica in self.replicas.values():
            has_news |= replica.look()
        return has_news

    @property
    def is_delivered(self) -> bool:
        """Whether the collector has everything that the trainer itself has written."""
        # Without the agent's own file about this process.
        own = [each for path, each in self.replicas.items() if not path.name.startswith("agent")]
        return self.has_left and all(each.is_safe for each in own)

    @property
    def is_done(self) -> bool:
        return self.is_settled and all(each.is_safe for each in self.replicas.values())

    # ---- the connection ----------------------------------------------------------------------------------

    def hang_up(self, connection: asyncio.StreamWriter) -> None:
        """Forget a connection that has closed."""
        if self.connection is connection:
            self.connection = None
            if self.join.records_stay:
                self._leave()

    def tell_connected(self) -> None:
        """Tell the trainer whether its debugger messages reach the collector."""
        self.tell(pb.ToTrainer(connected=self.is_begun))

    def take_place(self, run: Sequence[str]) -> None:
        """Note the name of the run at the collector, and tell the trainer."""
        self._placed = pb.Placed(run=run)
        self.tell_place()

    def tell_place(self) -> None:
        if self._placed is not None:
            self.tell(pb.ToTrainer(placed=self._placed))

    def tell(self, message: pb.ToTrainer) -> None:
        """Send a message to the trainer, if it is connected."""
        if self.connection is None or self.connection.is_closing():
            return
        self.connection.write(packed(message))
        if self.connection.transport.get_write_buffer_size() > MOST_CONTROL_BYTES:
            self.connection.transport.abort()  # it has stopped reading; it reconnects if it can

    def answer(self, *, delivered: bool) -> None:
        """Answer a goodbye, once."""
        if self.owes_answer:
            self.owes_answer = False
            self.tell(pb.ToTrainer(delivered=delivered))

    def take_control(self, data: bytes) -> None:
        """Queue a debugger message for the collector; drop it while there is none."""
        if self.is_begun:
            self.controls.append(data)
            self.control_bytes += len(data)

    def next_control(self) -> bytes | None:
        if not self.controls:
            return None
        data = self.controls.popleft()
        self.control_bytes -= len(data)
        return data

    # ---- the end -----------------------------------------------------------------------------------------

    def forget_stream(self) -> None:
        if self.is_begun:
            self.is_begun = False
            self.tell_connected()
        self.controls.clear()
        self.control_bytes = 0
        self.rests_until = 0.0
        for replica in self.replicas.values():
            replica.forget_stream()

    def close(self) -> None:
        """Release files, process and connection: the agent ends and another takes over, or all is done."""
        for replica in self.replicas.values():
            replica.close()
        self._observer.close()
        self.vigil.close()
        if self.connection is not None:
            self.connection.close()
        if self.note is not None:
            self.note.let_go()

    def finish(self) -> None:
        """Clean up once the collector has everything: answer, close, and delete the spool and the note."""
        self.answer(delivered=True)
        self.close()
        if self.join.is_spool:
            self._empty_spool()
        if self.note is not None:
            self.note.remove()

    @property
    def _is_over(self) -> bool:
        """Whether the process has ended; where the system is not sure, an open connection means no."""
        return self.vigil.is_over and (self.vigil.is_sure or self.connection is None)

    # ---- parts -------------------------------------------------------------------------------------------

    def _leave(self) -> None:
        if self.left_at is None:
            self.left_at = time.monotonic()
            if self.goodbye is not None and not self.join.records_stay:
                # Now, in case the agent dies; `_settle` adds a better one if the exit status says more.
                self._write_ending(None)

    def _settle(self, now: float) -> bool:
        """Wait a moment for the exit status, then record how the process ended.

        Return whether that has just been done.
        """
        if self.is_settled or self.left_at is None:
            return False
        status = self.vigil.exit_status
        is_late = time.monotonic() - self.left_at > STATUS_SECS
        if status is None and not is_late:
            return False
        self.is_settled = True
        if self.goodbye is None or status:
            self._write_ending(status)
        return True

    def _write_ending(self, status: int | None) -> None:
        was_told = self.note is not None and self.note.is_ended  # an earlier agent may have known more
        if (was_told and status is None) or not self.run_dir.is_dir():
            return
        if self.note is not None:
            self.note.mark_ended()
        self._observer.end(
            ending_of(
                time=time.time(),
                goodbye=self.goodbye,
                status=status,
                memory_ran_out=self._oom_kills.has_risen,
            )
        )

    def _find_files(self, taken: dict[Path, int]) -> None:
        for folder, is_side in ((self.run_dir, False), (self.run_dir / SIDE_FOLDER, True)):
            with suppress(OSError):  # there may be none yet
                for path in folder.iterdir():
                    if self._own.fullmatch(path.name) and taken.setdefault(path, self.number) == self.number:
                        self.replicas.setdefault(path, Replica(path, is_side=is_side))

    def _empty_spool(self) -> None:
        """Delete the files that were sent, and then their folders.

        A folder stays when something else, such as a capsule, is in it.
        """
        for path in self.replicas:
            with suppress(OSError):
                path.unlink()
        side = self.run_dir / SIDE_FOLDER
        for folder in (side, side.parent, self.run_dir):
            with suppress(OSError):
                folder.rmdir()
