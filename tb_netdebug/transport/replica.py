"""One file of a run on its way to the collector: how far it has been read, sent and acknowledged."""

from __future__ import annotations

import fcntl
import itertools
import os
from contextlib import suppress
from pathlib import Path

import google_crc32c

from tb_netdebug.transport import stream_pb2 as pb

_PIECE_BYTES = 1 << 20
_numbers = itertools.count(1)
_FLAGS = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


class Replica:
    """The replication state of one file.

    Only offsets are in memory; the file itself is the spool. The first `safe` bytes are on the collector's
    disk, the first `sent` are there or on their way. `sent` is None until the collector has answered on this
    stream.
    """

    def __init__(self, path: Path, *, is_side: bool) -> None:
        self.path = path
        self.is_side = is_side
        self.number = next(_numbers)
        self.size = 0
        self.safe = 0
        self.is_gone = False
        self.is_offered = False
        self.is_put_away = False
        self.restarts = False
        self.sent: int | None = None
        self.rests_until = 0.0
        self._descriptor = -1

    # ---- the file ----------------------------------------------------------------------------------------

    def look(self) -> bool:
        """Read the size of the file; return whether it has changed."""
        if self.is_gone:
            return False
        try:
            size = os.fstat(self._open()).st_size
        except OSError:
            self.is_gone = not self.path.exists()  # deleted before it was opened, so nobody can send it
            return False
        has_changed = size != self.size
        self.size = size
        if self.sent is not None and size < self.sent:
            # A torn record at its end was cut off, which is the last thing that happens to a file. Or it was
            # truncated by someone else: then the collector's copy is the only one, and stays as it is.
            self.is_gone = True
        return has_changed

    @property
    def is_safe(self) -> bool:
        return self.is_gone or self.safe == self.size

    @property
    def unsettled(self) -> int:
        """The number of bytes that are sent and not yet acknowledged."""
        return 0 if self.sent is None else max(self.sent - self.safe, 0)

    def close(self) -> None:
        if self._descriptor >= 0:
            descriptor, self._descriptor = self._descriptor, -1
            os.close(descriptor)

    # ---- one stream --------------------------------------------------------------------------------------

    def forget_stream(self) -> None:
        """Forget the offsets of a stream that is gone: the next collector reports anew what it has."""
        self.is_offered = self.is_put_away = self.restarts = False
        self.sent = None
        self.rests_until = 0.0

    def start_anew(self) -> None:
        """Prepare an offer with `restart`: what the collector has is not a prefix of this file."""
        self.is_offered, self.restarts = False, True
        self.sent, self.safe = None, 0

    def put_away(self) -> None:
        """Note that the collector has closed the file; it is offered again when it has grown."""
        self.forget_stream()
        self.is_put_away = True

    def is_due(self, now: float) -> bool:
        return now >= self.rests_until and not (self.is_put_away and self.is_safe)

    def rest_until(self, moment: float) -> None:
        """Pause the file, which the collector refused for now; it is offered again after that moment."""
        self.is_offered = False
        self.sent = None
        self.rests_until = moment

    def resume(self, have: pb.Have) -> bool:
        """Continue behind what the collector has; return whether that is a prefix of this file."""
        self.look()
        if not self._is_front(have):
            self.start_anew()
            return False
        self.sent = self.safe = have.size
        self.restarts = False
        return True

    def chunk(self, most_bytes: int) -> pb.Chunk | None:
        """Return the next chunk, which then counts as sent; None when there is nothing to send."""
        if self.sent is None or self.sent >= self.size or most_bytes <= 0:
            return None
        data = os.pread(self._open(), min(most_bytes, self.size - self.sent), self.sent)
        if not data:
            return None
        chunk = pb.Chunk(file=self.number, offset=self.sent, data=data, crc32c=google_crc32c.value(data))
        self.sent += len(data)
        return chunk

    def acknowledge(self, size: int) -> None:
        if self.sent is not None:
            self.safe = max(self.safe, min(size, self.sent))

    def _is_front(self, have: pb.Have) -> bool:
        if have.size > self.size or have.tail_bytes > have.size:
            return False
        if have.size and not have.tail_bytes:
            return False  # without a checksum its content is unknown
        return self._checksum(have.size - have.tail_bytes, have.size) == have.tail_crc32c

    def _checksum(self, begin: int, end: int) -> int:
        crc = 0
        while begin < end:
            piece = os.pread(self._open(), min(_PIECE_BYTES, end - begin), begin)
            if not piece:
                raise OSError(f"{self.path} was cut while it was read")
            crc = google_crc32c.extend(crc, piece)
            begin += len(piece)
        return int(crc)

    def _open(self) -> int:
        if self._descriptor < 0:
            self._descriptor = os.open(self.path, _FLAGS)
            # A collector that writes to the very folder being sent finds this lock, and refuses the file.
            with suppress(OSError):
                fcntl.flock(self._descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
        return self._descriptor
