"""Trainings on hosts that have nothing in common but a network, and a network that is taken away."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tb_netdebug.cli import main
from tb_netdebug.transport.credentials import fingerprint_of
from tests.support.collector_process import CollectorProcess
from tests.support.hosts import Host, Hosts
from tests.support.loops import ROOT, Recorded
from tests.support.streamed import Home, StreamedTrainer, contents, steps, wait_for

STEPS = 6
# On each host one process of it; the name of the run is left to the processes.
PROGRAM = f"""
import sys
import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.fsdp import fully_shard
import tb_netdebug as nd

dist.init_process_group("gloo")
torch.manual_seed(5)
model = nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 3))
for layer in (model[0], model[2]):
    fully_shard(layer)
fully_shard(model)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
monitor = nd.watch(model, optimizer, logdir=sys.argv[1], every=1, strict=True)
for _ in range({STEPS}):
    optimizer.zero_grad()
    loss = model(torch.randn(5, 6)).square().mean()
    loss.backward()
    optimizer.step()
    monitor.step(loss)
monitor.close()
dist.destroy_process_group()
"""


@pytest.fixture
def hosts(tmp_path: Path) -> Iterator[Hosts]:
    with Hosts(tmp_path) as made:
        yield made


@pytest.fixture
def home() -> Iterator[Home]:
    with Home() as made:
        yield made


def launched(host: Host, script: Path, endpoint: str) -> subprocess.Popen[str]:
    """torchrun with one of two processes, as docs/distributed.md has it."""
    words = ["--nnodes", "2", "--nproc-per-node", "1", "--rdzv-backend", "c10d", "--rdzv-id", "job7"]
    words += ["--rdzv-endpoint", endpoint]
    env = {
        **os.environ,
        "PYTHONPATH": "" if sys.flags.isolated else str(ROOT),
        "GLOO_SOCKET_IFNAME": host.device,
        "OMP_NUM_THREADS": "1",
    }
    command = [*host.prefix, sys.executable, "-m", "torch.distributed.run", *words, str(script)]
    command.append(str(script.with_name("logs")))
    return subprocess.Popen(command, env=env, stderr=subprocess.PIPE, text=True)


def free_port(host: Host) -> int:
    """Of a namespace of its own every port is free."""
    with socket.create_server(("127.0.0.1" if host.prefix else host.address, 0)) as server:
        return int(server.getsockname()[1])


def test_two_hosts_write_one_run(hosts: Hosts, tmp_path: Path) -> None:
    """Nobody has named it, and each has a file of its own there; what they hold in parts is merged."""
    script = tmp_path / "train.py"
    script.write_text(PROGRAM)
    endpoint = f"{hosts.one.name}:{free_port(hosts.one)}"
    launchers = [launched(host, script, endpoint) for host in (hosts.one, hosts.two)]
    told = [each.communicate(timeout=120)[1] for each in launchers]
    assert [0, 0] == [each.returncode for each in launchers], told
    (run,) = (tmp_path / "logs").iterdir()
    names = sorted(path.name.split(".") for path in run.rglob("*.netdebug"))
    assert ["events", "rank1"] == [parts[0] for parts in names]
    if hosts.apart:
        assert ["one", "two"] == [parts[-4] for parts in names]
    assert [STEPS, STEPS] == [len(Recorded(run, rank).steps) for rank in range(2)]
    assert [2.0] * STEPS == Recorded(run).series("ranks/merged")


def test_a_cable_that_is_pulled_out(hosts: Hosts, home: Home, tmp_path: Path) -> None:
    """The training does not notice, both ends find out by themselves, and nothing is lost or doubled."""
    keys, here = tmp_path / "keys", tmp_path / "here/run"
    assert 0 == main(["token", "--tls", "--output", str(keys)])
    pinned = {"NETDEBUG_TLS_FINGERPRINT": fingerprint_of((keys / "cert.pem").read_bytes())}
    with CollectorProcess(
        tmp_path / "there", at=f"{hosts.one.address}:0", certificate=keys, prefix=hosts.one.prefix,
        keep_alive_secs=0.3, keep_alive_wait_secs=0.3,
    ) as collector:  # fmt: skip
        target = hosts.way_to(collector.address)
        with StreamedTrainer(home, target, here, env=pinned, prefix=hosts.two.prefix) as trainer:
            trainer.put(100)
            wait_for(collector.trainers)
            hosts.unplug()
            trainer.put(100)
            wait_for(lambda: not collector.trainers())
            trainer.put(100)
            hosts.plug()
            wait_for(collector.trainers)
            trainer.close()
            wait_for(lambda: not home.notes())
    assert list(range(300)) == steps(collector.root / "run")
    assert contents(tmp_path / "here") == contents(collector.root)
