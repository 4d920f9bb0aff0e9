"""The trainer's end of the stream: never in the way, not in forked children, and with an agent again."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from tb_netdebug.transport import stream_pb2 as pb
from tb_netdebug.transport.agent_connection import environment
from tb_netdebug.transport.local_wire import MOST_BYTES, Unpacker, WireError, packed
from tb_netdebug.transport.outbox import Outbox, Wake, WakeLost
from tb_netdebug.transport.private_folder import made_private
from tests.support.collector_process import CollectorProcess
from tests.support.spoken_to import ROOT
from tests.support.streamed import Home, StreamedTrainer, contents, wait_for


@pytest.fixture
def home() -> Iterator[Home]:
    with Home() as found:
        yield found


@pytest.fixture(scope="module")
def collector(tmp_path_factory: pytest.TempPathFactory) -> Iterator[CollectorProcess]:
    """One for all of them: each has a run of its own."""
    with CollectorProcess(tmp_path_factory.mktemp("collector") / "there") as found:
        yield found


def test_the_trainer_imports_no_grpc(home: Home, collector: CollectorProcess, tmp_path: Path) -> None:
    """Not before it is connected, and not after."""
    with StreamedTrainer(home, collector.address, tmp_path / "run") as trainer:
        trainer.wait_until_joined()
        trainer.put(10)
        assert not trainer.do("imports", "grpc")
        trainer.close()


def test_a_killed_agent_is_replaced(home: Home, collector: CollectorProcess, tmp_path: Path) -> None:
    """Again and again; the trainer hears nothing of it, and nothing is lost."""
    with StreamedTrainer(home, collector.address, tmp_path / "run", run=("killed",)) as trainer:
        earlier = 0
        for _ in range(3):
            trainer.wait_until_joined()
            wait_for(lambda before=earlier: home.agents() not in ([], [before]))
            (earlier,) = home.agents()
            trainer.put(100)
            os.kill(earlier, signal.SIGKILL)
        trainer.put(100)
        assert [] == trainer.close()
    wait_for(lambda: not home.notes())
    assert contents(tmp_path / "run") == contents(collector.root / "killed")


def test_a_forked_child_holds_nothing(home: Home, collector: CollectorProcess, tmp_path: Path) -> None:
    """It has no connection of its parent's, so it can neither speak nor make the parent look alive."""
    with StreamedTrainer(home, collector.address, tmp_path / "run", run=("forked",)) as trainer:
        trainer.wait_until_joined()
        child, *sockets = trainer.do("fork")
        try:
            assert [] == sockets
            trainer.put(10)
            trainer.kill()
            wait_for(lambda: not home.notes())
        finally:
            os.kill(int(child), signal.SIGKILL)
    assert contents(tmp_path / "run") == contents(collector.root / "forked")


def test_the_debuggers_two_ends_hear_each_other(
    home: Home, collector: CollectorProcess, tmp_path: Path
) -> None:
    """Whole messages in their order, also such as are cut into pieces on the way."""
    up, down = ["first", "x" * 3_000_000, ""], ["one", "y" * 3_000_000]
    with StreamedTrainer(home, collector.address, tmp_path / "run", takes_control=True) as trainer:
        trainer.wait_until_joined()
        wait_for(collector.trainers)
        (known,) = collector.trainers()
        assert [True] * 3 == [trainer.do("send", each) for each in up]
        assert [True] * 2 == [collector.send(known["key"], each.encode()) for each in down]
        wait_for(lambda: len(collector.heard()) == 3 and len(trainer.do("controls")) == 2)
        assert [(known["key"], each.encode()) for each in up] == collector.heard()
        assert down == trainer.do("controls")


def test_an_agent_that_cannot_start_is_told_once(
    home: Home, collector: CollectorProcess, tmp_path: Path
) -> None:
    """As on a machine whose gRPC is broken: the training goes on with its local files."""
    (tmp_path / "broken/grpc").mkdir(parents=True)
    (tmp_path / "broken/grpc/__init__.py").write_text("raise ImportError('gRPC is broken here')")
    here = tmp_path / "here/run"
    path = os.pathsep.join([str(tmp_path / "broken"), *filter(None, sys.path), str(ROOT)])
    with StreamedTrainer(home, collector.address, here, env={"PYTHONPATH": path}) as trainer:
        trainer.put(100)
        wait_for(trainer.notices)
        trainer.put(100)
        (told,) = trainer.close()
    assert "its helper process could not be started: ImportError: gRPC is broken here" in told
    assert str(here) in told


def test_a_folder_that_others_can_open_is_not_used(
    home: Home, collector: CollectorProcess, tmp_path: Path
) -> None:
    """Whoever could put a socket there could read along."""
    (home.run / "netdebug").mkdir(mode=0o755)
    with StreamedTrainer(home, collector.address, tmp_path / "run") as trainer:
        wait_for(trainer.notices)
        trainer.put(10)
        assert f"{home.run}/netdebug is open to other users" in trainer.close()[0]
    assert [] == home.agents()


@pytest.mark.parametrize("kind", ["file", "link", "open"])
def test_a_private_folder_is_really_private(tmp_path: Path, kind: str) -> None:
    """Neither a file nor a link to a folder elsewhere nor one that others may look into."""
    path = tmp_path / "folder"
    if kind == "file":
        path.touch()
    elif kind == "link":
        path.symlink_to(made_private(tmp_path / "elsewhere"))
    else:
        path.mkdir(mode=0o750)
    with pytest.raises(PermissionError, match="NetDebug does not use it"):
        made_private(path)


def test_the_agent_finds_files_from_wherever_it_runs(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """What the trainer was given relative to its folder, or to the user's home."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("NETDEBUG_TOKEN_FILE", "secret/token")
    monkeypatch.setenv("NETDEBUG_TLS_CA", "~/cert.pem")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(["", "here", "/there"]))
    found = environment()
    assert str(tmp_path / "secret/token") == found["NETDEBUG_TOKEN_FILE"]
    assert str(Path.home() / "cert.pem") == found["NETDEBUG_TLS_CA"]
    assert [str(tmp_path / "here"), "/there"] == found["PYTHONPATH"].split(os.pathsep)[1:]


def test_what_the_trainer_imports_leads_to_no_grpc(run_python: Callable[..., str]) -> None:
    """Nor to asyncio, which the agent needs and a training may do without."""
    code = (
        "import sys, tb_netdebug.transport.link, tb_netdebug.transport.addresses\n"
        "import tb_netdebug.transport.credentials\n"
        "print(*(name for name in ('grpc', 'asyncio', 'torch') if name in sys.modules))"
    )
    assert "" == run_python(code).strip()


def test_messages_come_out_as_they_went_in() -> None:
    """However they are cut on the way; a length that cannot be meant ends it."""
    messages = [pb.FromTrainer(control=bytes(size)) for size in (0, 1, 70_000)]
    data = b"".join(map(packed, messages))
    unpacker = Unpacker()
    found = [each for start in range(0, len(data), 999) for each in unpacker.feed(data[start : start + 999])]
    assert [each.SerializeToString() for each in messages] == found
    with pytest.raises(WireError):
        Unpacker().feed((MOST_BYTES + 1).to_bytes(4, "little"))


def test_the_outbox_is_bounded() -> None:
    """What has no room is refused, and so is everything while nobody is there to take it."""
    outbox = Outbox(most_bytes=10)
    assert not outbox.put(b"1")
    outbox.open()
    assert [True, True, False] == [outbox.put(each) for each in (b"12345", b"67890", b"!")]
    assert [b"12345", b"67890", b""] == [outbox.take() for _ in range(3)]
    outbox.close()
    assert not outbox.put(b"1")


def test_the_outbox_counts_what_many_threads_put_and_take() -> None:
    """Nothing is counted twice or forgotten: in the end it has room for as much as at first."""
    outbox = Outbox(most_bytes=1 << 20)
    outbox.open()

    def use() -> None:
        for _ in range(5000):
            outbox.put(b"12345")
            outbox.take()

    threads = [threading.Thread(target=use) for _ in range(4)]
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    sys.setswitchinterval(interval)
    while outbox.take():
        pass
    assert 0 == outbox._bytes


def test_a_sleep_is_ended_from_elsewhere() -> None:
    """Also when the call came before it, and any number of times."""
    wake = Wake()
    for _ in range(100_000):
        wake.rouse()
    wake.sleep(60)
    wake.close()


def test_a_program_that_closes_everything_keeps_its_own_files(tmp_path: Path) -> None:
    """What has our number now is not read, not written to and not closed."""
    wake = Wake()
    wake.rouse()
    path = tmp_path / "theirs"
    path.write_text("theirs")
    theirs = os.open(path, os.O_RDWR)
    for each in (wake.descriptor, wake._write_end):
        os.dup2(theirs, each)
    wake.rouse()
    with pytest.raises(WakeLost):
        wake.drain()
    wake.close()
    assert [b"theirs", b""] == [os.read(wake.descriptor, 10), os.read(wake._write_end, 10)]
    for each in (theirs, wake.descriptor, wake._write_end):
        os.close(each)


def test_no_process_stays_behind_after_the_trainer(
    home: Home, collector: CollectorProcess, tmp_path: Path
) -> None:
    """The agent is nobody's child: a program that waits for all of its own never waits for it."""
    with StreamedTrainer(home, collector.address, tmp_path / "run") as trainer:
        trainer.wait_until_joined()
        assert [] == psutil.Process(trainer.process.pid).children()
        trainer.close()
    wait_for(lambda: not home.agents())
