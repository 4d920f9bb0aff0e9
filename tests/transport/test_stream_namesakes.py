"""Runs of one name from several machines stay apart at a collector; those of one run come together."""

from __future__ import annotations

import errno
import os
import signal
import stat
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tb_netdebug.transport.identity import NAME, derived
from tests.support.collector_process import CollectorProcess
from tests.support.faults import FaultyDisk
from tests.support.stream_peer import AGENT, MAIN_NAME, Agent, Peer
from tests.support.streamed import Home, StreamedTrainer, again, contents, steps, wait_for

ONE, TWO, THREE = derived("one"), derived("two"), derived("three")


@pytest.fixture
def collector(tmp_path: Path) -> Iterator[CollectorProcess]:
    with CollectorProcess(tmp_path / "there") as found:
        yield found


@pytest.fixture
def homes() -> Iterator[list[Home]]:
    """Two machines, as far as trainers and agents can tell."""
    with Home() as one, Home() as two:
        yield [one, two]


@pytest.fixture
def agent(collector: CollectorProcess) -> Iterator[Agent]:
    with Peer() as peer:
        agent = Agent(peer.stream(collector.address))
        agent.greet()
        yield agent


def runs(collector: CollectorProcess) -> list[str]:
    return sorted(path.name for path in collector.root.iterdir())


# ---- real agents


def test_two_trainings_of_one_name_stay_apart(
    homes: list[Home], collector: CollectorProcess, tmp_path: Path
) -> None:
    """Each has all of its bytes; the second one is told its name, and the page's collector knows it."""
    here = [tmp_path / "one/mine", tmp_path / "two/mine"]
    with ExitStack() as stack:
        first, second = (
            stack.enter_context(
                StreamedTrainer(home, collector.address, folder, run=("mine",), identity=identity)
            )
            for home, folder, identity in zip(homes, here, (ONE, TWO), strict=True)
        )
        first.put(50)
        wait_for(lambda: contents(collector.root / "mine"))
        second.put(70)
        wait_for(lambda: contents(collector.root / "mine-2"))
        assert {("mine",), ("mine-2",)} == {tuple(each["run"]) for each in collector.trainers()}
        assert [] == first.close()
        assert [
            f"the collector at {collector.address} has another run called 'mine', so this one is called "
            "'mine-2' there."
        ] == second.close()
        wait_for(lambda: not homes[0].notes() and not homes[1].notes())
    assert ["mine", "mine-2"] == runs(collector)
    for folder, name, count in zip(here, ("mine", "mine-2"), (50, 70), strict=True):
        assert contents(folder) == contents(collector.root / name)
        assert list(range(count)) == steps(collector.root / name)


def test_the_same_run_goes_on_after_every_end_of_agent_and_collector(
    homes: list[Home], collector: CollectorProcess, tmp_path: Path
) -> None:
    """A killed agent, a killed collector, and a trainer killed with its agent, whose rest is sent later."""
    here = [tmp_path / "one/mine", tmp_path / "two/mine"]
    with ExitStack() as stack:
        first, second = (
            stack.enter_context(
                StreamedTrainer(home, collector.address, folder, run=("mine",), identity=identity)
            )
            for home, folder, identity in zip(homes, here, (ONE, TWO), strict=True)
        )
        first.put(20)
        wait_for(lambda: contents(collector.root / "mine"))
        second.put(20)
        wait_for(lambda: contents(collector.root / "mine-2"))

        for home, trainer in zip(homes, (first, second), strict=True):
            pid = home.agent()
            os.kill(pid, signal.SIGKILL)
            wait_for(lambda home=home, pid=pid: home.agents() and home.agent() != pid)  # type: ignore[misc]
            trainer.put(20)
        for folder, name in zip(here, ("mine", "mine-2"), strict=True):
            wait_for(lambda folder=folder, name=name: is_there(folder, collector.root / name))  # type: ignore[misc]

        collector.kill()
        # In the other order, and with the first one gone.
        second.put(20)
        first.put(20)
        os.kill(homes[0].agent(), signal.SIGKILL)
        first.kill()
        later = stack.enter_context(again(collector))
        second.put(20)
        second.close()
        with StreamedTrainer(
            homes[0], later.address, tmp_path / "next", run=("next",), identity=THREE
        ) as third:
            third.close()
            wait_for(lambda: not homes[0].notes() and not homes[1].notes())
    assert ["mine", "mine-2", "next"] == runs(collector)
    for folder, name, count in zip(here, ("mine", "mine-2"), (60, 80), strict=True):
        assert contents(folder) == contents(collector.root / name)
        assert list(range(count)) == steps(collector.root / name)


def test_ranks_on_several_hosts_are_one_run(
    homes: list[Home], collector: CollectorProcess, tmp_path: Path
) -> None:
    """Beside another run of the name, they get the same suffix, and rank 0 says so."""
    with ExitStack() as stack:
        other = stack.enter_context(
            StreamedTrainer(homes[0], collector.address, tmp_path / "other", run=("mine",), identity=ONE)
        )
        other.put(10)
        wait_for(lambda: contents(collector.root / "mine"))
        ranks = [
            stack.enter_context(
                StreamedTrainer(
                    home, collector.address, tmp_path / f"host{rank}", run=("mine",), rank=rank, identity=TWO
                )
            )
            for rank, home in enumerate(homes)
        ]
        for trainer in ranks:
            trainer.put(30)
        told = [trainer.close() for trainer in ranks]
        other.close()
        wait_for(lambda: not homes[0].notes() and not homes[1].notes())
    assert [1, 0] == [len(each) for each in told]
    assert ["mine", "mine-2"] == runs(collector)
    assert contents(tmp_path / "other") == contents(collector.root / "mine")
    sent = {**contents(tmp_path / "host0"), **contents(tmp_path / "host1")}
    assert sent == contents(collector.root / "mine-2")


def is_there(here: Path, there: Path) -> bool:
    """Whether the recording itself has come; what agents write goes on."""
    ours, theirs = contents(here), contents(there)
    return all(data == theirs.get(name) for name, data in ours.items() if "agent" not in name)


# ---- the collector's rules, told by a peer


def placed(agent: Agent, *run: str, number: int, identity: str, resumes: bool = False) -> str:
    agent.begin(*run, number=number, identity=identity, resumes=resumes)
    return "/".join(agent.until("placed").run)


def test_identities_are_looked_for_before_names(agent: Agent, collector: CollectorProcess) -> None:
    """A name that became free is taken by a new run, not by one that has a folder; resuming means the name,
    unless the run has a folder. Names that only look alike are others."""
    assert "group/mine" == placed(agent, "group", "mine", number=1, identity=ONE)
    assert "group/mine-2" == placed(agent, "group", "mine", number=2, identity=TWO)
    assert "group/mine-2" == placed(agent, "group", "mine", number=3, identity=TWO, resumes=True)
    assert "group/mine" == placed(agent, "group", "mine", number=4, identity=THREE, resumes=True)
    (collector.root / "group/mine" / NAME).unlink()
    (collector.root / "group/mine").rmdir()
    assert "group/mine-2" == placed(agent, "group", "mine", number=5, identity=TWO)
    assert "group/mine" == placed(agent, "group", "mine", number=6, identity=THREE)
    assert "group/mine-1" == placed(agent, "group", "mine-1", number=7, identity=ONE)
    assert "group/mine-3" == placed(agent, "group", "mine", number=8, identity=ONE)
    status = (collector.root / "group/mine" / NAME).stat()
    assert (32, 0o600) == (status.st_size, stat.S_IMODE(status.st_mode))


def test_a_run_without_identity_is_named_as_ever(agent: Agent, collector: CollectorProcess) -> None:
    """That of an older agent; a newer one does not add to its records, but may resume it."""
    assert "mine" == placed(agent, "mine", number=1, identity=ONE)
    agent.begin("mine", number=2)
    agent.offer(trainer=2)
    assert (collector.root / "mine" / MAIN_NAME).exists()
    agent.begin("old", number=3)
    agent.offer(trainer=3, file=2)
    assert not (collector.root / "old" / NAME).exists()
    assert "old-2" == placed(agent, "old", number=4, identity=TWO)
    assert "old" == placed(agent, "old", number=5, identity=THREE, resumes=True)
    (collector.root / "empty").mkdir()
    (collector.root / "empty/notes.txt").write_text("of somebody else")
    assert "empty" == placed(agent, "empty", number=6, identity=TWO)


def test_a_run_whose_folder_was_deleted_is_made_anew_with_its_identity(
    agent: Agent, collector: CollectorProcess
) -> None:
    """So that it is known after a restart, too."""
    assert "mine" == placed(agent, "mine", number=1, identity=ONE)
    (collector.root / "mine" / NAME).unlink()
    (collector.root / "mine").rmdir()
    assert 0 == agent.offer().size
    assert ONE == (collector.root / "mine" / NAME).read_text()


@pytest.mark.parametrize(
    "identity", ["../../etc", "A" * 32, "a" * 31, "a" * 33, "a" * 32 + "\n", "a" * 100_000]
)
def test_what_is_no_identity_is_refused(agent: Agent, collector: CollectorProcess, identity: str) -> None:
    """And nothing is made; the stream goes on."""
    agent.begin("mine", number=1, identity=identity)
    refusal = agent.until("refusal")
    assert (1, False, "That is not the identity of a run.") == (
        refusal.trainer, refusal.for_now, refusal.sentence
    )  # fmt: skip
    assert not collector.root.exists()
    assert "mine" == placed(agent, "mine", number=2, identity=ONE)


def test_hostile_files_of_identities_belong_to_nobody(
    agent: Agent, collector: CollectorProcess, tmp_path: Path
) -> None:
    """Links, pipes, folders, what is too long and what is no identity: the name is taken, nobody waits."""
    secret = tmp_path / "secret"
    secret.write_text(ONE)
    for name in ("link", "pipe", "folder", "long", "empty", "binary"):
        (collector.root / name).mkdir(parents=True)
    (collector.root / "link" / NAME).symlink_to(secret)
    os.mkfifo(collector.root / "pipe" / NAME)
    (collector.root / "folder" / NAME).mkdir()
    (collector.root / "long" / NAME).write_text(ONE + "0" * 5_000_000)
    (collector.root / "empty" / NAME).touch()
    (collector.root / "binary" / NAME).write_bytes(bytes(range(128, 160)))
    (collector.root / "elsewhere").symlink_to(tmp_path)
    (collector.root / "file").write_text("")
    for number, name in enumerate(sorted(path.name for path in collector.root.iterdir()), start=1):
        assert f"{name}-2" == placed(agent, name, number=number, identity=ONE)
    assert ONE == secret.read_text()
    assert not (tmp_path / NAME).exists()


def test_a_full_disk_makes_the_run_wait(tmp_path: Path) -> None:
    """Its files are refused for now, as ever; nothing half-written takes its name."""
    disk = FaultyDisk(tmp_path, marker=NAME)
    with CollectorProcess(tmp_path / "there", env=disk.env) as collector, Peer() as peer:
        agent = Agent(peer.stream(collector.address), AGENT)
        agent.greet()
        disk.fail(errno.ENOSPC)
        agent.begin("mine", identity=ONE)
        refusal = agent.offer()
        assert (1, True) == (refusal.file, refusal.for_now)
        assert os.strerror(errno.ENOSPC) in refusal.sentence
        assert [] == collector.trainers()
        disk.order("ok")
        assert 0 == agent.offer().size
        assert [["mine"]] == [each["run"] for each in collector.trainers()]
    assert {NAME, MAIN_NAME} == {path.name for path in (tmp_path / "there/mine").iterdir()}


def test_runs_of_one_name_are_bounded(tmp_path: Path) -> None:
    """And so is their name; a run that is there goes on."""
    with CollectorProcess(tmp_path / "there", namesakes=2, name_bytes=20) as collector, Peer() as peer:
        agent = Agent(peer.stream(collector.address), AGENT)
        agent.greet()
        assert "mine" == placed(agent, "mine", number=1, identity=ONE)
        assert "mine-2" == placed(agent, "mine", number=2, identity=TWO)
        agent.begin("mine", number=3, identity=THREE)
        assert "There are 2 runs called 'mine'." == agent.until("refusal").sentence
        assert "mine-2" == placed(agent, "mine", number=4, identity=TWO)
        assert "x" * 20 == placed(agent, "x" * 20, number=5, identity=ONE)
        agent.begin("x" * 20, number=6, identity=TWO)
        assert "cannot be a part of a run's name" in agent.until("refusal").sentence
