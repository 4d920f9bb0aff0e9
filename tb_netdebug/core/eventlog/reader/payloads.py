"""NetDebug's payloads in one event file; ordinary summaries are skipped. Used by `run.py` and `judging/`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from google.protobuf.message import DecodeError

from tb_netdebug.core.eventlog.reader.frames import Gap, LogRecord, read_frame, read_frames
from tb_netdebug.core.eventlog.writer.values import PLUGIN
from tb_netdebug.core.records import netdebug_pb2 as pb
from tb_netdebug.core.records.errors import DamagedBlock

_PREFIX = f"{PLUGIN}/"


@dataclass(frozen=True, slots=True)
class StoredPayload:
    """One payload; `name` is its tag without `netdebug/`, offset and size are those of its record."""

    name: str
    step: int
    data: bytes
    offset: int
    size: int

    def gap(self, reason: str) -> Gap:
        """Return the record as a gap, for a payload that cannot be decoded."""
        return Gap(self.offset, self.size, reason)


def read_payloads(path: Path, *, start: int = 0) -> Iterator[StoredPayload | Gap]:
    """Yield payloads and gaps in order; raises OSError. See `read_frames`."""
    for found in read_frames(path, start=start):
        if isinstance(found, Gap):
            yield found
        elif _PREFIX.encode() in found.payload:  # most records mirror scalars for TensorBoard: skip parsing
            yield from _payloads_in(found)


def payload_at(path: Path, offset: int, number: int = 0) -> bytes:
    """Return one payload of the record at `offset`. Raises OSError, and DamagedBlock if it is gone."""
    frame = read_frame(path, offset)
    found = [] if frame is None else [each for each in _payloads_in(frame) if isinstance(each, StoredPayload)]
    if number >= len(found):
        raise DamagedBlock("a record disappeared: the file was changed while it was read")
    return found[number].data


def _payloads_in(frame: LogRecord) -> Iterator[StoredPayload | Gap]:
    size = frame.end - frame.offset
    try:
        event = pb.Event.FromString(frame.payload)
    except DecodeError:
        yield Gap(frame.offset, size, "payload")
        return
    for value in event.summary.value:
        if value.tag.startswith(_PREFIX) and value.metadata.plugin_data.plugin_name == PLUGIN:
            for data in value.tensor.string_val:
                yield StoredPayload(value.tag.removeprefix(_PREFIX), event.step, data, frame.offset, size)
