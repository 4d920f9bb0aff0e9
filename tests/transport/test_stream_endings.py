"""However a training and its agent end, the rest is sent, and how it was is told."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.collector_process import CollectorProcess
from tests.support.streamed import Home, StreamedTrainer, again, contents, seen, steps, wait_for


@pytest.fixture
def home() -> Iterator[Home]:
    with Home() as found:
        yield found


@pytest.fixture
def collector(tmp_path: Path) -> Iterator[CollectorProcess]:
    with CollectorProcess(tmp_path / "there") as found:
        yield found


def test_a_killed_trainer_is_sent_to_its_end(home: Home, collector: CollectorProcess, tmp_path: Path) -> None:
    """And the last thing that is recorded is how it ended."""
    here = tmp_path / "here/run"
    with StreamedTrainer(home, collector.address, here) as trainer:
        trainer.wait_until_joined()
        trainer.put(100)
        trainer.kill(signal.SIGKILL)
    wait_for(lambda: not home.notes())
    assert contents(here) == contents(collector.root / "run")
    ending = seen(collector.root / "run")[-1].ending
    assert ending is not None
    assert (False, None, signal.SIGKILL, False) == (
        ending.well,
        ending.exit_code,
        ending.signal,
        ending.out_of_memory,
    )
    assert ending.sentence.startswith("The process was killed by SIGKILL in the middle of the training.")


@pytest.mark.parametrize(
    ("code", "sentence"),
    [
        (3, "The program ended with exit code 3, without closing its recording."),
        (None, "The recording was closed because of a ValueError."),
    ],
)
def test_other_endings(
    home: Home, collector: CollectorProcess, tmp_path: Path, code: int | None, sentence: str
) -> None:
    """What the system tells of a process that somebody else has waited for, and what it said itself."""
    with StreamedTrainer(home, collector.address, tmp_path / "here/run") as trainer:
        trainer.wait_until_joined()
        trainer.put(10)
        if code == 3:
            with pytest.raises(AssertionError, match="ended with 3"):
                trainer.do("leave", 3)
        else:
            trainer.close("ValueError")
    wait_for(lambda: not home.notes())
    ending = seen(collector.root / "run")[-1].ending
    assert ending is not None
    assert (False, code, sentence) == (ending.well, ending.exit_code, ending.sentence)


def test_what_both_have_left_is_sent_by_the_next_agent(
    home: Home, collector: CollectorProcess, tmp_path: Path
) -> None:
    """Trainer and agent are killed while nobody collects; the next training there has it sent."""
    here = tmp_path / "here"
    collector.kill()
    with StreamedTrainer(home, collector.address, here / "run") as trainer:
        trainer.put(300)
        os.kill(home.agent(), signal.SIGKILL)
        trainer.kill()
    assert 1 == len(home.notes())
    with again(collector), StreamedTrainer(home, collector.address, here / "next", run=("next",)) as trainer:
        trainer.put(10)
        trainer.close()
        wait_for(lambda: not home.notes())
    assert contents(here) == contents(collector.root)
    assert [] == home.notes()


def test_an_agent_has_patience_and_an_end(home: Home, tmp_path: Path) -> None:
    """With a trainer it stays, also when it is asked to go; without one and without a collector it ends, and
    keeps everything for the next one."""
    with CollectorProcess(tmp_path / "there") as gone:
        address = gone.address
    env = {"NETDEBUG_PATIENCE_SECS": "0.5"}
    with StreamedTrainer(home, address, tmp_path / "spool/run", is_spool=True, env=env) as trainer:
        trainer.put(100)
        trainer.wait_until_joined()
        agent = home.agent()
        os.kill(agent, signal.SIGTERM)
        wait_for(trainer.notices)
        assert [agent] == home.agents()
        trainer.kill()
    wait_for(lambda: not home.agents())
    assert 1 == len([name for name in home.notes() if name.endswith(".join")])
    assert list(range(100)) == steps(tmp_path / "spool/run")


def test_what_is_recorded_for_the_collector_alone_goes_when_it_has_it(
    home: Home, collector: CollectorProcess, tmp_path: Path
) -> None:
    """Files that are not sent, such as capsules, stay."""
    spool = tmp_path / "spool"
    for name in ("run", "kept"):
        with StreamedTrainer(home, collector.address, spool / name, run=(name,), is_spool=True) as trainer:
            trainer.put(100)
            if name == "kept":
                (spool / name / "capsule.pt").write_bytes(b"a batch")
            trainer.close()
            assert list(range(100)) == steps(collector.root / name)
    wait_for(lambda: not home.notes())
    assert ["kept", "kept/capsule.pt"] == sorted(str(path.relative_to(spool)) for path in spool.rglob("*"))
