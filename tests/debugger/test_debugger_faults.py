"""What happens to a training that is debugged when somebody who takes part is killed; all parts are real."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from tb_netdebug.core.eventlog.reader.run import read_run
from tb_netdebug.debugger.client.client import ClientError
from tests.support.asker import Asker
from tests.support.streamed import Home, steps, wait_for
from tests.support.tensorboard_process import TensorBoard
from tests.support.terminal import environment
from tests.support.told_training import ToldTraining

# Who is gone is noticed sooner than people would want it.
IMPATIENT = (
    "from tb_netdebug.debugger.hub import controls, hub\n"
    "controls.AWAY_SECS, hub.LEASE_SECS, hub.RENEW_SECS = 3.0, 4.0, 0.5\n"
)
GONE_ON = "nobody is attached to its debugger any more"


@pytest.fixture(scope="module")
def home() -> Iterator[Home]:
    with Home() as found:
        yield found


@pytest.fixture(scope="module")
def board(home: Home, tmp_path_factory: pytest.TempPathFactory) -> Iterator[TensorBoard]:
    with TensorBoard("--logdir", str(tmp_path_factory.mktemp("faults")), env=home.env) as found:
        yield found


def impatient_board(home: Home, folder: Path) -> TensorBoard:
    return TensorBoard("--logdir", str(folder), env=home.env, preamble=IMPATIENT)


def is_whole(training: ToldTraining) -> bool:
    """All batches are recorded, each of them once."""
    return list(range(len(training.trained()) - 1)) == steps(training.logdir / "run")


def test_a_client_that_is_gone_keeps_nobody(home: Home, tmp_path: Path) -> None:
    """Paused, the training goes on within the lease; running, nobody's wishes slow it any more."""
    with (
        impatient_board(home, tmp_path) as board,
        ToldTraining(home, tmp_path / "one") as training,
    ):
        asker = Asker(board)
        key = asker.meet()
        asker.pause(key)
        training.wait_for_more(20)
        wait_for(lambda: not asker.client.sessions()[0].state["is_attached"])
        (session,) = asker.client.sessions()
        assert "running" == session.state["status"]
        assert GONE_ON in str(session.state["note"])
        asker.ask(key, "step", by="op", match="nothing", wait=0.0)
        assert asker.state(key)["is_waiting"]
        wait_for(lambda: not asker.client.sessions()[0].state["is_waiting"])
        training.end()
        assert is_whole(training)


def test_a_killed_tensorboard_keeps_nobody(home: Home, tmp_path: Path) -> None:
    """The training goes on within the lease; another TensorBoard at another port has the session again."""
    with ToldTraining(home, tmp_path / "one") as training:
        keys = []
        for is_paused in (True, False):
            with impatient_board(home, tmp_path) as board:
                asker = Asker(board)
                keys.append(asker.meet())
                asker.pause(keys[-1])
                if not is_paused:
                    asker.ask(keys[-1], "continue")
                board.kill()
                training.wait_for_more(20)
        assert keys[0] == keys[1]
        assert GONE_ON in training.said
        training.end()
        assert is_whole(training)


def test_a_killed_agent_is_replaced(home: Home, board: TensorBoard, tmp_path: Path) -> None:
    """Within the lease the training stays where it is; the session goes on under its key."""
    with ToldTraining(home, tmp_path / "one") as training:
        asker = Asker(board)
        key = asker.meet()
        step = asker.pause(key)["step"]
        kill_agent(home, asker, key)
        assert ("paused", step) == (asker.state(key)["status"], asker.state(key)["step"])
        asker.ask(key, "continue")
        training.wait_for_more()
        kill_agent(home, asker, key)
        training.wait_for_more()
        assert step < asker.pause(key)["step"]
        asker.ask(key, "detach")
        training.end()
        assert is_whole(training)


def kill_agent(home: Home, asker: Asker, key: str) -> None:
    """Until the next one has brought the session back."""
    pid = home.agent()
    os.kill(pid, signal.SIGKILL)
    wait_for(lambda: home.agent() != pid)
    wait_for(lambda: asker.answers(key))


def test_a_killed_training_is_seen(home: Home, board: TensorBoard, tmp_path: Path) -> None:
    """What it had recorded stays as it is, and its session says that it is not connected."""
    asker = Asker(board)
    for is_paused in (True, False):
        with ToldTraining(home, tmp_path / str(is_paused)) as training:
            run_dir = training.logdir / "run"
            key = asker.meet()
            asker.pause(key)
            wait_for(lambda: len(training.trained()) == len(steps(run_dir)))  # noqa: B023
            recorded = steps(run_dir)
            if not is_paused:
                asker.ask(key, "continue")
                training.wait_for_more()
            training.process.kill()
            wait_for(lambda: not asker.connected())
            with pytest.raises(ClientError, match="not connected"):
                asker.client.call(key, "hits")
            left = read_run(run_dir).main.steps.tolist()
            assert recorded == left[: len(recorded)] if not is_paused else recorded == left
            assert list(range(len(left))) == left


def test_ctrl_c_in_a_pause_keeps_the_step(home: Home, board: TensorBoard, tmp_path: Path) -> None:
    """At the end of a batch that batch is over, and recorded; the training ends by KeyboardInterrupt."""
    with ToldTraining(home, tmp_path / "one") as training:
        asker = Asker(board)
        state = asker.pause(asker.meet())
        assert ("end", len(training.trained())) == (state["place"]["phase"], state["step"])
        training.process.send_signal(signal.SIGINT)
        assert -signal.SIGINT == training.process.wait(60)
        assert training.said.endswith("KeyboardInterrupt\n")
        assert list(range(state["step"] + 1)) == steps(training.logdir / "run")


def test_a_training_pauses_by_itself(home: Home, board: TensorBoard, tmp_path: Path) -> None:
    """At nd.breakpoint() and monitor.pause() in its code, and for a finding; the reason says which."""
    wishes = {"on_finding": "pause"}
    with ToldTraining(home, tmp_path / "one", **wishes) as training:
        asker = Asker(board)
        training.tell("breakpoint")
        training.wait_for_more()
        key = asker.meet()
        wait_for(lambda: asker.state(key)["is_attached"])
        for word, reason in (
            ("breakpoint", "nd.breakpoint()"),
            ("pause", "monitor.pause()"),
            ("sick", "NaN"),
        ):
            training.tell(word)
            state = asker.wait_for_reason(key, reason)
            assert "told_training.py" == Path(state["place"]["file"]).name
            if word == "breakpoint":
                line = Path(state["place"]["file"]).read_text().splitlines()[state["place"]["line"] - 1]
                assert "nd.breakpoint()" == line.strip()
            asker.ask(key, "continue")
        assert "finding" == state["reason"]["kind"]
        asker.client.attend([])
        training.end()
        assert is_whole(training)


def test_a_training_that_was_looked_into_learns_the_same(
    home: Home, board: TensorBoard, tmp_path: Path
) -> None:
    """Paused, stepped in all ways and looked at everywhere: losses, weights and random numbers are equal."""
    with ToldTraining(None, tmp_path / "alone", batches=8) as alone:
        assert 0 == alone.process.wait()
    wishes = {"batches": 8, "pause_at_start": True}
    with ToldTraining(home, tmp_path / "one", **wishes) as training:
        asker = Asker(board)
        key = asker.meet()
        asker.wait_for_pause(key)
        for kind in ("output", "gradient", "weight"):
            condition = {"statistic": "norm", "comparison": ">", "threshold": -1}
            asker.ask(key, "set_watchpoint", kind=kind, tensors="", **condition)
        for by in ("layer", "op", "layer", "backward", "op", "optimizer"):
            asker.step(key, by)
            look_at_everything(asker, key)
        assert asker.ask(key, "hits")
        while (asker.state(key)["step"], asker.state(key)["place"]["phase"]) != (1, "end"):
            asker.step(key, "batch")
        assert [3] == asker.ask(key, "tensor", name="user:mine")["shape"]
        asker.ask(key, "detach")
        assert 0 == training.process.wait(60)
        assert 9 == len(training.trained())
        assert alone.trained() == training.trained()
        assert is_whole(training)


def look_at_everything(asker: Asker, key: str) -> None:
    for verb in ("stack", "modules", "batch", "recheck"):
        asker.ask(key, verb)
    for each in asker.ask(key, "tensors"):
        asker.client.call(key, "tensor", name=each["name"], previous=True)
        asker.client.call(key, "evaluate", text=f"mean(`{each['name']}` * 2)")


def test_a_large_tensor_is_looked_at_without_room_for_it(
    home: Home, board: TensorBoard, tmp_path: Path
) -> None:
    """Of 1 GB, statistics, cells, a slice, a mean and the whole file: neither side grows by 50 MB."""
    with ToldTraining(home, tmp_path / "one", has_large=True) as training:
        asker = Asker(board)
        key = asker.meet()
        asker.pause(key)
        name = "weight:large"
        asker.ask(key, "tensor", name=name, slice="[:4, :4]")
        processes = [psutil.Process(board.process.pid), psutil.Process(training.process.pid)]
        before = [begin_to_watch(each) for each in processes]
        shown = asker.ask(key, "tensor", name=name, slice="[5, ::2]", cells=30_000)
        assert (1 << 28, 8192) == (shown["statistics"]["count"], len(shown["cells"]["values"]))
        assert [1.0] == asker.ask(key, "evaluate", text=f"mean(`{name}`)")["cells"]["values"]
        size = 0
        for piece in asker.client.download(key, name):
            size += len(piece)
            asker.client.attend([key])
        assert 1 << 30 == size - 128
        assert all(peak_of(each) - was < 50 << 20 for each, was in zip(processes, before, strict=True))


def begin_to_watch(process: psutil.Process) -> int:
    """The bytes of memory that it has now; the highest of them are counted anew."""
    Path(f"/proc/{process.pid}/clear_refs").write_text("5")
    return int(process.memory_info().rss)


def peak_of(process: psutil.Process) -> int:
    (line,) = [
        each for each in Path(f"/proc/{process.pid}/status").read_text().splitlines() if "VmHWM" in each
    ]
    return int(line.split()[1]) << 10


def test_a_script_that_was_not_changed_waits_at_its_start(
    home: Home, board: TensorBoard, tmp_path: Path
) -> None:
    """By `netdebug run --debugger --pause-at-start`: it computes what it does alone."""
    script = Path(__file__).parents[1] / "support/scripts/lbfgs.py"
    env = environment(**home.env, OMP_NUM_THREADS="1")
    alone = subprocess.run([sys.executable, script], env=env, capture_output=True, text=True, check=True)
    options = ("--debugger", "--pause-at-start", "--logdir", str(tmp_path))
    with (
        subprocess.Popen(
            [sys.executable, "-m", "tb_netdebug", "run", *options, script],
            env=env, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
        ) as process,
    ):  # fmt: skip
        asker = Asker(board)
        key = asker.meet()
        state = asker.wait_for_pause(key)
        assert ("start", 0) == (state["reason"]["kind"], state["step"])
        assert "optimizer" == asker.step(key, "optimizer")["place"]["phase"]
        asker.ask(key, "continue")
        output, _ = process.communicate()
    assert (0, alone.stdout) == (process.returncode, output)
