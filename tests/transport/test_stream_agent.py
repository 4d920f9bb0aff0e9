"""The agent brings every byte to the collector, whatever happens to it, to trainers and to collectors."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.support.collector_process import CollectorProcess
from tests.support.faults import FaultyDisk
from tests.support.streamed import Home, StreamedTrainer, again, contents, seen, steps, wait_for

PAGE = 4096
DAMAGES: dict[str, Callable[[bytes], bytes]] = {
    "another byte": lambda data: data[:-1] + b"?",
    "longer": lambda data: data + b"?" * 1_000_000,
    "a torn tail": lambda data: data[:-7],
    "a page of zeros": lambda data: data[:-PAGE] + bytes(min(PAGE, len(data))),
    "a flipped bit": lambda data: data[:99] + bytes([data[99] ^ 4]) + data[100:],
    "nothing left": lambda data: b"",
}


@pytest.fixture
def home() -> Iterator[Home]:
    with Home() as found:
        yield found


@pytest.fixture
def collector(tmp_path: Path) -> Iterator[CollectorProcess]:
    with CollectorProcess(tmp_path / "there") as found:
        yield found


def test_a_run_arrives_while_it_goes_on_and_whole(
    home: Home, collector: CollectorProcess, tmp_path: Path
) -> None:
    """Every file is the same there in the end, and nothing is left waiting."""
    here, there = tmp_path / "here/run", collector.root / "a/b"
    with StreamedTrainer(home, collector.address, here, run=("a", "b")) as trainer:
        trainer.put(100)
        wait_for(lambda: there.is_dir() and steps(there) == list(range(100)))
        trainer.put(100)
        assert [] == trainer.close()
        assert list(range(200)) == steps(there)
        wait_for(lambda: not home.agents())
    assert contents(here) == contents(there)
    assert [] == home.notes()
    assert "The training ended normally and closed its recording." == seen(there)[-1].ending.sentence  # type: ignore[union-attr]


def test_ranks_of_a_host_share_an_agent(home: Home, collector: CollectorProcess, tmp_path: Path) -> None:
    """Three processes of one run, and one of another."""
    here = tmp_path / "here/run"
    ranks = [StreamedTrainer(home, collector.address, here, rank=rank) for rank in range(3)]
    other = StreamedTrainer(home, collector.address, tmp_path / "here/other", run=("other",))
    try:
        for trainer in [*ranks, other]:
            trainer.put(50)
        home.agent()
        for trainer in [*ranks, other]:
            trainer.close()
        wait_for(lambda: not home.notes())
    finally:
        for trainer in [*ranks, other]:
            trainer.kill()
    assert contents(tmp_path / "here") == contents(collector.root)
    assert [0, 1, 2] == sorted({witness.rank for witness in seen(collector.root / "run")})
    assert 8 == len(contents(collector.root))


def test_a_collector_that_comes_late_gets_everything(home: Home, tmp_path: Path) -> None:
    """Until then the trainer is told once that nobody is there; afterwards, that somebody is."""
    with CollectorProcess(tmp_path / "there") as before:
        address = before.address
    here = tmp_path / "here/run"
    with StreamedTrainer(home, address, here) as trainer:
        trainer.put(100)
        wait_for(trainer.notices)
        with CollectorProcess(before.root, at=address) as collector:
            trainer.put(100)
            wait_for(lambda: len(trainer.notices()) == 2)
            missing, found = trainer.close()
            wait_for(lambda: not home.notes())
            assert contents(here) == contents(collector.root / "run")
    assert f"the collector at {address} cannot be reached" in missing
    assert str(here) in missing
    assert "answers; what has waited is being sent" in found


def test_a_collector_that_is_killed_and_comes_back(
    home: Home, collector: CollectorProcess, tmp_path: Path
) -> None:
    """The agent goes on where the disk ends; nothing is there twice."""
    here = tmp_path / "here/run"
    with StreamedTrainer(home, collector.address, here) as trainer:
        trainer.put(500)
        collector.kill()
        trainer.put(500)
        with again(collector):
            trainer.put(500)
            trainer.close()
            wait_for(lambda: not home.notes())
    assert contents(here) == contents(collector.root / "run")
    assert list(range(1500)) == steps(collector.root / "run")


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_copy_that_is_none_is_made_anew(
    home: Home, collector: CollectorProcess, tmp_path: Path, damage: str
) -> None:
    """The collector's machine has lost a write, or somebody has changed the file: the checksum tells."""
    here = tmp_path / "here/run"
    with StreamedTrainer(home, collector.address, here) as trainer:
        trainer.put(100)
        (name,) = contents(here)
        copy = collector.root / "run" / name
        wait_for(lambda: copy.exists() and copy.read_bytes() == (here / name).read_bytes())
        collector.kill()
        copy.write_bytes(DAMAGES[damage](copy.read_bytes()))
        with again(collector):
            trainer.put(100)
            trainer.close()
            wait_for(lambda: not home.notes())
    assert contents(here) == contents(collector.root / "run")


def test_a_disk_that_is_full_there(home: Home, tmp_path: Path) -> None:
    """The collector says so, the trainer hears it once, and everything arrives when there is room again."""
    disk = FaultyDisk(tmp_path)
    here = tmp_path / "here/run"
    with (
        CollectorProcess(tmp_path / "there", env=disk.env) as collector,
        StreamedTrainer(home, collector.address, here) as trainer,
    ):
        trainer.put(100)
        wait_for(lambda: contents(collector.root))
        disk.fail(after_bytes=1000)
        trainer.bulk(1.0)
        wait_for(trainer.notices)
        disk.order("ok")
        trainer.put(100)
        told = trainer.close()
        wait_for(lambda: not home.notes())
        assert contents(here) == contents(collector.root / "run")
        assert f"the collector at {collector.address} takes no more for now" in told[0]


def test_a_run_that_is_refused_for_good(home: Home, tmp_path: Path) -> None:
    """The trainer hears why, and where its records are; not that it is for now."""
    with (
        CollectorProcess(tmp_path / "there", env=home.env) as collector,
        StreamedTrainer(home, collector.address, tmp_path / "here", identity="nobody") as trainer,
    ):
        trainer.put(100)
        wait_for(trainer.notices)
        assert trainer.notices()[0].endswith(
            f"the collector at {collector.address} does not take all records: That is not the identity of a "
            f"run. The training goes on, and they stay in {tmp_path / 'here'}."
        )


def test_a_run_in_the_collectors_own_folder_is_left_alone(home: Home, tmp_path: Path) -> None:
    """TensorBoard reads it as it is written; a copy would be a second run, or be written into the first."""
    with (
        CollectorProcess(tmp_path / "runs", env=home.env) as collector,
        StreamedTrainer(home, collector.address, tmp_path / "runs/one", run=("one-there",)) as trainer,
    ):
        trainer.wait_until_joined()
        trainer.put(100)
        assert [] == trainer.close()
        wait_for(lambda: not home.notes())
    assert ["one"] == [path.name for path in (tmp_path / "runs").iterdir()]
    assert list(range(100)) == steps(tmp_path / "runs/one")
