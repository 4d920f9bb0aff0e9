"""Event files: made once, appended to, and abandoned when in doubt."""

from __future__ import annotations

import errno
import os
import resource
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tb_netdebug.core.eventlog.reader.frames import LogRecord, read_frames
from tb_netdebug.core.eventlog.writer.event_file import EventFile, file_name
from tb_netdebug.core.eventlog.writer.framing import frame


@contextmanager
def file_size_limit(size: int) -> Iterator[None]:
    """Files of this process cannot grow beyond `size`: a real write error without a special disk."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        signal.signal(signal.SIGXFSZ, handler)


def payloads(path: Path) -> list[bytes]:
    return [item.payload for item in read_frames(path) if isinstance(item, LogRecord)]


def test_names_sort_by_age_and_hold_what_tensorboard_looks_for() -> None:
    """Only rank 0 makes TensorBoard see a run."""
    names = [file_name(0) for _ in range(20)]
    assert sorted(set(names)) == names
    assert all("tfevents" in name and name.endswith(".netdebug") for name in names)
    assert "tfevents" not in file_name(3)


def test_no_file_is_ever_opened_twice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A name that is taken is passed over, and what it holds stays as it is."""
    taken = tmp_path / "taken.netdebug"
    taken.write_bytes(b"another one's")
    names = iter([taken.name, "free.netdebug"])
    monkeypatch.setattr("tb_netdebug.core.eventlog.writer.event_file.file_name", lambda rank: next(names))
    file = EventFile.create(tmp_path)
    file.close()
    assert ("free.netdebug", b"another one's") == (file.path.name, taken.read_bytes())


def test_other_ranks_write_where_tensorboard_does_not_look(tmp_path: Path) -> None:
    """Their files lie in the side folder of the run."""
    file = EventFile.create(tmp_path, rank=2)
    file.close()
    assert tmp_path / "plugins" / "netdebug" == file.path.parent


def test_a_write_that_fails_halfway_goes_on_where_it_stopped(tmp_path: Path) -> None:
    """No byte is written twice and none is left out."""
    file = EventFile.create(tmp_path)
    with file_size_limit(1000):
        file.add(frame(b"a" * 900))
        file.drain()
        file.add(frame(b"b" * 500))
        with pytest.raises(OSError, match="too large") as caught:
            file.drain()
        assert (errno.EFBIG, 1000, True) == (caught.value.errno, file.path.stat().st_size, file.unfinished)
    file.check()
    file.drain()
    file.close()
    assert [b"a" * 900, b"b" * 500] == payloads(file.path)


def test_an_abandoned_file_ends_with_a_whole_record(tmp_path: Path) -> None:
    """The front part of a record is cut off, so that readers do not see damage."""
    file = EventFile.create(tmp_path)
    file.add(frame(b"a" * 900))
    file.drain()
    file.add(frame(b"b" * 500))
    with file_size_limit(1000), pytest.raises(OSError, match="too large"):
        file.drain()
    file.abandon()
    assert frame(b"a" * 900) == file.path.read_bytes()


def test_a_file_that_somebody_deleted_is_noticed(tmp_path: Path) -> None:
    """Writing to it would succeed, into nothing."""
    file = EventFile.create(tmp_path)
    file.path.unlink()
    with pytest.raises(FileNotFoundError):
        file.check()
    file.close()


def test_a_file_that_somebody_changed_is_noticed_and_left_alone(tmp_path: Path) -> None:
    """After a cut or a foreign write nobody knows where a record begins."""
    file = EventFile.create(tmp_path)
    file.add(frame(b"a"))
    file.drain()
    os.truncate(file.path, 5)
    with pytest.raises(OSError, match="has 5 bytes, not 17"):
        file.check()
    file.abandon()
    assert 5 == file.path.stat().st_size


def test_a_program_that_closes_every_descriptor(tmp_path: Path) -> None:
    """And opens files of its own: ours does not write into them, and does not close them."""
    file = EventFile.create(tmp_path)
    file.add(b"one")
    file.drain()
    with (tmp_path / "own").open("wb") as own:
        taken = os.dup2(own.fileno(), file._fd)
        file.add(b"two")
        for refused in (file.drain, file.check):
            with pytest.raises(OSError, match="closed by the program"):
                refused()
        file.abandon()
        assert os.fstat(own.fileno()) == os.fstat(taken)
        os.close(taken)
    assert (b"", b"one") == ((tmp_path / "own").read_bytes(), file.path.read_bytes())
