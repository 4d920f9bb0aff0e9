"""Other users of the same machine at the agent's socket: neither end speaks with anybody but its own user.

Only root can be two users at once; anybody else sees that the own user is served.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tb_netdebug.transport import stream_pb2 as pb
from tb_netdebug.transport.agent_paths import AgentPaths
from tb_netdebug.transport.local_wire import packed
from tests.support.collector_process import CollectorProcess
from tests.support.streamed import Home, StreamedTrainer, contents, wait_for

NOBODY = 65534
USERS = [os.getuid(), *([NOBODY] if os.getuid() == 0 else [])]
# Says what it is given, and tells how much is answered until the other end or the answer ends.
CALLER = """
import os, socket, sys
path, user, said = sys.argv[1:]
os.setuid(int(user))
connection = socket.socket(socket.AF_UNIX)
try:
    connection.connect(path)
    connection.sendall(bytes.fromhex(said))
    print(len(connection.recv(100)))
except OSError:
    print(0)
"""
# Sits in the agent's place, and tells how much it was told by the first who comes.
IMPOSTOR = """
import os, socket, sys
path, user = sys.argv[1:]
server = socket.socket(socket.AF_UNIX)
server.bind(path)
os.chmod(path, 0o777)
os.setuid(int(user))
server.listen()
print("listening", flush=True)
print(len(server.accept()[0].recv(100)))
"""


@pytest.fixture
def home() -> Iterator[Home]:
    with Home() as made:
        yield made


@pytest.fixture
def collector(tmp_path: Path) -> Iterator[CollectorProcess]:
    with CollectorProcess(tmp_path / "there") as made:
        yield made


@pytest.mark.parametrize("user", USERS)
def test_a_stranger_who_calls_the_agent(
    home: Home, collector: CollectorProcess, tmp_path: Path, user: int
) -> None:
    """Even when somebody has opened the folder: he is answered nothing, and the training goes on."""
    with StreamedTrainer(home, collector.address, tmp_path / "here/run") as trainer:
        trainer.wait_until_joined()
        (socket,) = home.run.glob("netdebug/agent-*.sock")
        for each in (home.folder, home.run, socket.parent):
            each.chmod(0o711)
        socket.chmod(0o777)
        own = pb.Join(version=1, run_dir=str(tmp_path), run=["theirs"], pid=os.getpid())
        messages = [pb.FromTrainer(join=own), pb.FromTrainer(goodbye=pb.Goodbye())]
        said = b"".join(map(packed, messages)).hex()
        words = [str(socket), str(user), said]
        ran = subprocess.run(
            [sys.executable, "-I", "-c", CALLER, *words], capture_output=True, text=True, check=True
        )
        assert (user == os.getuid()) == (int(ran.stdout) > 0)
        trainer.put(100)
        trainer.close()
        wait_for(lambda: contents(tmp_path / "here/run") == contents(collector.root / "run"))


@pytest.mark.parametrize("user", USERS)
def test_a_stranger_in_the_agents_place(
    home: Home, collector: CollectorProcess, tmp_path: Path, user: int
) -> None:
    """A trainer tells him nothing, and starts an agent of its own."""
    place = AgentPaths.of(collector.address, {**os.environ, **home.env}).socket
    command = [sys.executable, "-I", "-c", IMPOSTOR, str(place), str(user)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as impostor:
        assert impostor.stdout is not None
        assert "listening\n" == impostor.stdout.readline()
        with StreamedTrainer(home, collector.address, tmp_path / "here/run") as trainer:
            assert (user == os.getuid()) == (int(impostor.stdout.readline()) > 0)
            trainer.put(100)
            trainer.wait_until_joined()
            trainer.close()
            wait_for(lambda: contents(tmp_path / "here/run") == contents(collector.root / "run"))
