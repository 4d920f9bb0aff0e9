"""What a network does to the stream costs time, and nothing else."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.bad_network import BadNetwork
from tests.support.collector_process import CollectorProcess
from tests.support.streamed import Home, StreamedTrainer, contents, wait_for


@pytest.fixture
def collector(tmp_path: Path) -> Iterator[CollectorProcess]:
    with CollectorProcess(tmp_path / "there", window_bytes=1 << 18, chunk_bytes=1 << 16) as found:
        yield found


@pytest.fixture
def network(collector: CollectorProcess) -> Iterator[BadNetwork]:
    with BadNetwork(collector.address) as found:
        yield found


@pytest.fixture
def home() -> Iterator[Home]:
    with Home() as found:
        yield found


def test_a_connection_that_is_cut_again_and_again(
    home: Home, collector: CollectorProcess, network: BadNetwork, tmp_path: Path
) -> None:
    """Each time the stream goes on where the collector's disk ends."""
    with StreamedTrainer(home, network.address, tmp_path / "here/run") as trainer:
        for _ in range(5):
            trainer.bulk(1.0)
            wait_for(network.cut)
        trainer.close()
        wait_for(lambda: not home.notes())
    assert network.connections > 4
    assert contents(tmp_path / "here") == contents(collector.root)


def test_a_network_that_holds_everything_up(
    home: Home, collector: CollectorProcess, network: BadNetwork, tmp_path: Path
) -> None:
    """The training does not notice, and the stream outlives it."""
    with StreamedTrainer(home, network.address, tmp_path / "here/run") as trainer:
        trainer.wait_until_joined()
        wait_for(lambda: network.connections)
        network.hold(2.0)
        trainer.bulk(2.0)
        trainer.close()
        wait_for(lambda: not home.notes())
    assert 1 == network.connections
    assert contents(tmp_path / "here") == contents(collector.root)


def test_a_slow_network(home: Home, collector: CollectorProcess, network: BadNetwork, tmp_path: Path) -> None:
    """More than the window waits in the file, not in memory."""
    with StreamedTrainer(home, network.address, tmp_path / "here/run") as trainer:
        network.slow(1_000_000)
        trainer.bulk(2.0)
        trainer.close()
        wait_for(lambda: not home.notes())
    assert contents(tmp_path / "here") == contents(collector.root)


def test_bits_that_turn_on_the_way(
    home: Home, collector: CollectorProcess, network: BadNetwork, tmp_path: Path
) -> None:
    """Checksums find them: what is on the collector's disk is what was written."""
    with StreamedTrainer(home, network.address, tmp_path / "here/run") as trainer:
        trainer.wait_until_joined()
        network.damage(300_000)
        trainer.bulk(3.0)
        trainer.do("sleep", 1.0)
        network.damage(0)
        trainer.close()
        wait_for(lambda: not home.notes())
    assert contents(tmp_path / "here") == contents(collector.root)
