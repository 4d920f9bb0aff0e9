"""Two processes that train one model, debugged together: real ones under torchrun, which meet by gloo."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tb_netdebug.core.eventlog.reader.run import read_run
from tests.support.asker import Asker
from tests.support.streamed import Home, wait_for
from tests.support.tensorboard_process import TensorBoard
from tests.support.told_training import TORCHRUN, ToldTraining

BOTH = (0, 1)


@pytest.fixture(scope="module")
def home() -> Iterator[Home]:
    with Home() as found:
        yield found


@pytest.fixture(scope="module")
def board(home: Home, tmp_path_factory: pytest.TempPathFactory) -> Iterator[TensorBoard]:
    with TensorBoard("--logdir", str(tmp_path_factory.mktemp("ranks")), env=home.env) as found:
        yield found


def where(asker: Asker, keys: list[str]) -> list[tuple[int, str, str]]:
    """Of each rank; the same for all that are paused together."""
    asker.wait_for_pause(*keys)
    states = asker.states(keys)
    return [(each["step"], each["place"]["phase"], each["place"]["module"]) for each in states]


def test_ranks_pause_step_and_go_on_together(home: Home, board: TensorBoard, tmp_path: Path) -> None:
    """At the end of one batch, at the same layer of the next, and nobody waits for the other for ever."""
    with ToldTraining(home, tmp_path, launcher=TORCHRUN) as training:
        asker = Asker(board)
        keys = asker.meet_ranks(2)
        asker.ask(keys[0], "pause", wait=0.0)
        first, second = where(asker, keys)
        assert first == second
        asker.ask(keys[1], "step", by="batch", wait=0.0)
        wait_for(lambda: all(each["step"] == first[0] + 1 for each in asker.states(keys)))
        assert [(first[0] + 1, "end", None)] * 2 == where(asker, keys)
        asker.ask(keys[0], "step", by="layer", match="3$", wait=0.0)
        wait_for(lambda: all(each["step"] == first[0] + 2 for each in asker.states(keys)))
        assert [(first[0] + 2, "forward", "3")] * 2 == where(asker, keys)
        asker.ask(keys[0], "continue")
        training.wait_for_more(ranks=BOTH)
        asker.client.attend([])
        training.end()
        run = read_run(training.logdir / "run")
        recorded = [run.ranks[rank].steps.tolist() for rank in BOTH]
        assert [list(range(len(training.trained(rank)) - 1)) for rank in BOTH] == recorded


def test_a_rank_that_is_killed_in_a_pause_holds_up_nobody(
    home: Home, board: TensorBoard, tmp_path: Path
) -> None:
    """Its launcher ends the others, paused as they are; what they have recorded is whole."""
    with ToldTraining(home, tmp_path, launcher=TORCHRUN) as training:
        asker = Asker(board)
        keys = asker.meet_ranks(2)
        asker.ask(keys[0], "pause", wait=0.0)
        (step, *_), _ = where(asker, keys)
        (other,) = [each for each in asker.connected() if each.rank == 1]
        os.kill(int(other.session["pid"]), signal.SIGKILL)
        assert 0 != training.process.wait(60)
        steps = read_run(training.logdir / "run").main.steps.tolist()
        assert list(range(step)) == steps[:step]
        wait_for(lambda: not asker.connected())


def test_ranks_go_on_before_the_others_give_up(home: Home, board: TensorBoard, tmp_path: Path) -> None:
    """Although somebody attends: the time that is left is told, and the training lives."""
    with ToldTraining(home, tmp_path, launcher=TORCHRUN, timeout_secs=8) as training:
        asker = Asker(board)
        keys = asker.meet_ranks(2)
        asker.ask(keys[0], "pause", wait=0.0)
        asker.wait_for_pause(*keys)
        state = asker.state(keys[0])
        assert 6.4 == pytest.approx(state["resumes_at"] - state["paused_at"])
        wait_for(lambda: all(each["status"] == "running" for each in asker.states(keys)))
        assert "other processes wait" in asker.state(keys[1])["note"]
        training.wait_for_more(ranks=BOTH)
        asker.client.attend([])
        training.end()
