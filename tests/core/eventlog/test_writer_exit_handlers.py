"""However a training ends, what it put is in the file."""

from __future__ import annotations

import signal
import time
from pathlib import Path

import pytest

from tb_netdebug.core.eventlog.reader.run import read_run
from tests.support.trainer import Trainer


def steps(run_dir: Path) -> list[int]:
    run = read_run(run_dir)
    assert [] == run.losses
    found: list[int] = run.main.steps.tolist()
    return found


@pytest.mark.parametrize(("how", "code"), [("normally", 0), ("exception", 1)])
def test_a_program_that_ends_without_closing(logdir: Path, how: str, code: int) -> None:
    """Also by an exception that nobody catches."""
    with Trainer(logdir, flush_secs=600) as trainer:
        trainer.put(1000, samples=2)
        assert code == trainer.leave(how)
    assert list(range(1000)) == steps(logdir)


def test_sigterm_saves_everything_and_kills_as_ever(logdir: Path) -> None:
    """The exit status says that it was the signal."""
    with Trainer(logdir, flush_secs=600) as trainer:
        trainer.put(1000, samples=2)
        assert -signal.SIGTERM == trainer.kill(signal.SIGTERM)
    assert list(range(1000)) == steps(logdir)


@pytest.mark.parametrize("attempt", range(5))
def test_sigterm_in_the_middle_of_a_put(logdir: Path, attempt: int) -> None:
    """The handler runs between any two steps of `put` without waiting for itself."""
    with Trainer(logdir, flush_secs=600) as trainer:
        trainer.send("terminate_while_putting")
        trainer.process.wait()
        assert -signal.SIGTERM == trainer.process.returncode
    found = steps(logdir)
    assert list(range(max(100, len(found)))) == found


@pytest.mark.parametrize("installed", ["before", "after"])
def test_the_users_sigterm_handler_decides(logdir: Path, installed: str) -> None:
    """It is called, and the training that goes on is recorded to its end."""
    with Trainer(logdir) as trainer:
        if installed == "before":
            trainer.do("handle_sigterm", "go on")
        trainer.put(10)
        if installed == "after":
            trainer.do("handle_sigterm", "go on")
        trainer.process.send_signal(signal.SIGTERM)
        assert "handled" == trainer.hear()
        trainer.put(10)
        assert 0 == trainer.leave("normally")
    assert list(range(20)) == steps(logdir)


def test_an_ignored_sigterm_stays_ignored(logdir: Path) -> None:
    """As under nohup-like tools that protect a training."""
    with Trainer(logdir) as trainer:
        trainer.do("handle_sigterm", "ignore")
        trainer.put(10)
        trainer.process.send_signal(signal.SIGTERM)
        trainer.put(10)
        assert 0 == trainer.leave("normally")
    assert list(range(20)) == steps(logdir)


@pytest.mark.parametrize("attempt", range(3))
def test_kill_9_keeps_all_that_was_flushed_and_breaks_nothing(logdir: Path, attempt: int) -> None:
    """The file holds the first steps up to some number, without a gap and none twice."""
    with Trainer(logdir) as trainer:
        trainer.put(700, samples=3)
        assert trainer.flush()
        trainer.send("put", 100_000, 3)
        time.sleep(0.05 * attempt)  # another place to be killed at, nothing is waited for
        assert -signal.SIGKILL == trainer.kill()
    found = steps(logdir)
    assert list(range(max(700, len(found)))) == found


def test_kill_9_loses_nothing_that_is_older_than_the_flush_interval(logdir: Path) -> None:
    """Records get to the file by themselves, without flush, close or further records."""
    with Trainer(logdir) as trainer:
        for count in (1, 10, 100):
            trainer.put(count, samples=2)
            trainer.do("wait_until_written")
        trainer.kill()
    assert list(range(111)) == steps(logdir)


def test_a_large_backlog_is_written_before_the_interval_ends(logdir: Path) -> None:
    """Memory does not fill up while the thread waits for more."""
    with Trainer(logdir, flush_secs=600) as trainer:
        trainer.put(4000, samples=5)
        trainer.do("wait_for_some_written")
        trainer.kill()
    found = steps(logdir)
    assert list(range(max(500, len(found)))) == found


def test_children_of_a_fork_write_nothing_and_never_hang(logdir: Path) -> None:
    """They may call everything; the parent goes on, with the thread that only it has."""
    with Trainer(logdir, flush_secs=0.001) as trainer:
        trainer.put(10, samples=2)
        assert [0] * 30 == trainer.do("fork", 30)
        trainer.put(10)
        trainer.close()
    assert list(range(200)) == steps(logdir)
    assert {} == read_run(logdir).latest


def test_a_child_that_ends_like_a_program_writes_nothing(logdir: Path) -> None:
    """What happens at exit happens in the child, too, but has nothing to do there."""
    with Trainer(logdir, flush_secs=600) as trainer:
        trainer.put(10)
        assert 7 == trainer.do("fork_and_leave")
        trainer.close()
    assert list(range(10)) == steps(logdir)


def test_a_child_dies_of_sigterm(logdir: Path) -> None:
    """Data loaders end their workers this way, and expect them to be gone."""
    with Trainer(logdir) as trainer:
        trainer.put(10)
        assert -signal.SIGTERM == trainer.do("fork_and_terminate")
        trainer.put(10)
        trainer.close()
    assert list(range(20)) == steps(logdir)
