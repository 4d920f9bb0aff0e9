"""What is seen of a training from outside: its processes, and how it ended."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tb_netdebug.core.eventlog.reader.payloads import StoredPayload, read_payloads
from tb_netdebug.core.records import netdebug_pb2 as stored
from tb_netdebug.core.records.errors import DamagedBlock, UnsupportedVersion
from tb_netdebug.core.records.witness import Ending, Witness, decode_witness, encode_witness
from tb_netdebug.transport import stream_pb2 as pb
from tb_netdebug.transport.memory_events import OomKills, counting_file
from tb_netdebug.transport.process import Vigil, is_alive, stat_of
from tb_netdebug.transport.trainer_exit import ending_of
from tb_netdebug.transport.witness import Observer, ProcessTree, witness_name
from tests.support.streamed import wait_for

NUMBERS = st.floats(allow_nan=False, allow_infinity=False)
MAYBE = st.none() | st.integers(-(2**31), 2**31 - 1)
ENDINGS = st.builds(Ending, NUMBERS, st.booleans(), MAYBE, MAYBE, st.booleans(), st.text(max_size=2000))
WITNESSES = st.builds(
    Witness,
    NUMBERS,
    st.integers(0, 2**32 - 1),
    st.integers(0, 2**64 - 1),
    st.integers(0, 2**32 - 1),
    st.integers(0, 2**32 - 1),
    NUMBERS,
    st.sampled_from(["", "R", "S", "D"]),
    st.none() | ENDINGS,
)
WELL = pb.Goodbye()


@given(WITNESSES)
def test_what_is_stored_is_what_is_read(witness: Witness) -> None:
    """Every field, also those of an ending of which nothing is known."""
    assert witness == decode_witness(encode_witness(witness))


@given(st.binary(max_size=100))
def test_bytes_from_elsewhere_are_no_surprise(payload: bytes) -> None:
    """A sample, or one of two errors."""
    with suppress(DamagedBlock, UnsupportedVersion):
        decode_witness(payload)


@pytest.mark.parametrize(
    "message",
    [
        stored.Witness(time=1.0),
        stored.Witness(version=1, time=float("nan")),
        stored.Witness(version=1, cpu_share=float("inf")),
        stored.Witness(version=1, state="RR"),
        stored.Witness(version=1, ending=stored.Ending(time=float("inf"))),
        stored.Witness(version=1, ending=stored.Ending(sentence="x" * 2001)),
        stored.Witness(version=1, ending=stored.Ending(sentence="x" * 20_000)),
    ],
)
def test_what_no_agent_writes_is_refused(message: stored.Witness) -> None:
    """Times and shares are numbers, and texts are short."""
    with pytest.raises(DamagedBlock):
        decode_witness(message.SerializeToString())


def test_a_newer_version_says_to_upgrade() -> None:
    """As everywhere."""
    with pytest.raises(UnsupportedVersion, match="sample of the processes"):
        decode_witness(stored.Witness(version=2).SerializeToString())


@pytest.mark.parametrize(
    ("goodbye", "status", "oom", "expected"),
    [
        (
            WELL,
            None,
            False,
            (True, None, None, False, "The training ended normally and closed its recording."),
        ),
        (WELL, 0, False, (True, 0, None, False, "The training ended normally and closed its recording.")),
        (WELL, 0x100, False, (False, 1, None, False, "The program ended with exit code 1.")),
        (WELL, 15, False, (False, None, 15, False, "killed by SIGTERM after it had closed its recording.")),
        (pb.Goodbye(error="OSError"), 0x100, False, (False, 1, None, False, "1 because of an OSError.")),
        (
            pb.Goodbye(error="KeyboardInterrupt"),
            2,
            False,
            (False, None, 2, False, "The program was interrupted (KeyboardInterrupt)"),
        ),
        (None, 0, False, (False, 0, None, False, "exit code 0, without closing its recording")),
        (None, 0x300, False, (False, 3, None, False, "exit code 3, without closing its recording.")),
        (None, 11, True, (False, None, 11, False, "killed by SIGSEGV in the middle of the training.")),
        (None, 9, False, (False, None, 9, False, "The sender of the signal is unknown")),
        (None, 9, True, (False, None, 9, True, "most likely this one.")),
        (None, None, False, (False, None, None, False, "how it ended is unknown.")),
        (None, None, True, (False, None, None, False, "possibly this one.")),
    ],
)
def test_the_sentence_claims_no_more_than_was_seen(
    goodbye: pb.Goodbye | None, status: int | None, oom: bool, expected: tuple[object, ...]
) -> None:
    """Each with its exit code or signal where there is one."""
    ending = ending_of(time=1.0, goodbye=goodbye, status=status, memory_ran_out=oom)
    *facts, words = expected
    assert facts == [ending.well, ending.exit_code, ending.signal, ending.out_of_memory]
    assert str(words) in ending.sentence


@pytest.mark.parametrize(("program", "expected"), [("raise SystemExit(3)", 0x300), ("", 0)])
def test_the_end_of_somebody_elses_child(program: str, expected: int) -> None:
    """Known while nobody has waited for it; on newer systems afterwards, too."""
    child = subprocess.Popen([sys.executable, "-c", f"input()\n{program}"], stdin=subprocess.PIPE)
    stat = stat_of(child.pid)
    assert stat is not None
    vigil = Vigil(child.pid, stat.started)
    assert not vigil.is_over
    assert child.stdin is not None
    child.stdin.write(b"\n")
    child.stdin.close()
    wait_for(lambda: vigil.is_over)
    assert expected == vigil.exit_status
    child.wait()
    assert vigil.exit_status in (expected, None)
    assert not is_alive(child.pid, stat.started)
    vigil.close()


def test_a_number_that_is_used_again_is_another_process() -> None:
    """What counts is when it began."""
    stat = stat_of(os.getpid())
    assert stat is not None
    assert is_alive(os.getpid(), stat.started)
    assert not is_alive(os.getpid(), stat.started + 1)
    vigil = Vigil(os.getpid(), stat.started + 1)
    assert vigil.is_over
    assert vigil.exit_status is None


def test_a_tree_of_processes_is_summed_up() -> None:
    """Memory, processes and threads of all; processors by what was used between two looks."""
    code = "import os, signal\nif os.fork() == 0: signal.pause()\nprint(1, flush=True)\nwhile True: pass"
    child = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, start_new_session=True)
    try:
        assert child.stdout is not None
        child.stdout.readline()
        tree = ProcessTree(child.pid, rank=2)
        first = tree.sample()
        assert first is not None
        assert (2, 2, 2, 0.0) == (first.rank, first.processes, first.threads, first.cpu_share)
        assert first.tree_bytes > 2 << 20
        shares: list[float] = []
        wait_for(lambda: shares.append((tree.sample() or first).cpu_share) or shares[-1] > 0.1)  # type: ignore[func-returns-value]
    finally:
        os.killpg(child.pid, signal.SIGKILL)
        child.wait()
        child.stdout.close()  # type: ignore[union-attr]
    assert tree.sample() is None


def test_the_file_of_an_observer_is_one_of_the_run(tmp_path: Path) -> None:
    """Named after the training's process, framed as its own files are, one payload a sample, the end last."""
    observer = Observer(tmp_path, pid=os.getpid(), rank=3)
    assert observer.look(0.0)
    assert not observer.look(0.5)
    assert observer.look(1.0)
    ending = ending_of(time=5.0, goodbye=WELL, status=None, memory_ran_out=False)
    observer.end(ending)
    observer.close()
    (path,) = tmp_path.glob("plugins/netdebug/*")
    assert path.name.startswith("agent3.")
    assert f".{os.getpid()}." in path.name
    found = list(read_payloads(path))
    assert ["witness"] * 3 == [each.name for each in found if isinstance(each, StoredPayload)]
    assert ending == decode_witness(found[-1].data).ending  # type: ignore[union-attr]
    assert witness_name(3, 7).rpartition("/")[2].split(".")[3] == "7"


def test_kills_for_want_of_memory_are_counted_where_the_system_does() -> None:
    """None has happened meanwhile; a process that is gone has no count."""
    assert not OomKills(os.getpid()).has_risen
    assert counting_file(2**22 + 1) is None
