"""`netdebug debug` with a real TensorBoard and a real training: from the first prompt to the last."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

from tests.support.hub_page import HubPage
from tests.support.streamed import Home
from tests.support.tensorboard_process import TensorBoard
from tests.support.terminal import Terminal, environment
from tests.support.told_training import ToldTraining

PROMPT = r"\(netdebug\) $"
TRAINING = """
import os
import time
import torch
from torch import nn
from torch.nn import functional
import tb_netdebug as nd

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(6, 8), nn.ReLU())
        self.head = nn.Linear(8, 3)

    def forward(self, x):
        return self.head(self.encoder(x))

torch.manual_seed(0)
torch.set_num_threads(1)
model = Net()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
with nd.watch(model, optimizer, logdir="logs", run="mlp", debugger=True, on_finding="ignore") as monitor:
    while not os.path.exists("enough"):
        inputs, labels = torch.randn(16, 6), torch.arange(16) % 3
        optimizer.zero_grad()
        loss = functional.cross_entropy(model(inputs), labels)
        loss.backward()
        optimizer.step()
        monitor.step(loss=loss)
        time.sleep(0.002)
print("learning rate", optimizer.param_groups[0]["lr"])
"""


@pytest.fixture
def home() -> Iterator[Home]:
    with Home() as found:
        yield found


class Training:
    """It trains until it is told that it is enough."""

    def __init__(self, folder: Path, home: Home) -> None:
        self.folder = folder
        (folder / "train.py").write_text(TRAINING)
        self.process = subprocess.Popen(
            [sys.executable, "train.py"],
            cwd=folder,
            env=environment(**home.env, OMP_NUM_THREADS="1"),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def end(self) -> str:
        """What it has printed; it has to end well."""
        (self.folder / "enough").touch()
        told, _ = self.process.communicate(timeout=120)
        assert 0 == self.process.returncode, told
        return told


@contextmanager
def trained(folder: Path, home: Home) -> Iterator[Training]:
    training = Training(folder, home)
    try:
        yield training
    finally:
        is_cut_short = training.process.poll() is None
        training.process.kill()
        told, _ = training.process.communicate()
        if is_cut_short or training.process.returncode:
            sys.stderr.write(told)


def debugger(home: Home, *words: str) -> Terminal:
    """Without an address: it finds the TensorBoard by itself."""
    command = [sys.executable, "-m", "tb_netdebug", "debug", *words]
    return Terminal(command, {**home.env, "XDG_STATE_HOME": str(home.folder), "NO_COLOR": "1"}, width=110)


def typed(terminal: Terminal, line: str, *patterns: str) -> str:
    """What a line brings, once it has the patterns and there is a new prompt."""
    before = len(terminal.written)
    terminal.press(f"{line}\r")
    terminal.wait_until(
        lambda: all(re.search(each, terminal.written[before:]) for each in (*patterns, PROMPT)),
        f"{patterns} after {line!r}",
    )
    return terminal.written[before:]


def test_a_whole_session(home: Home, tmp_path: Path) -> None:
    """Pause by Ctrl-C, into a layer, its tensors, a watchpoint and its hit, a learning rate, and off."""
    with (
        TensorBoard("--logdir", str(tmp_path / "logs"), env=home.env) as board,
        trained(tmp_path, home) as training,
        debugger(home) as terminal,
    ):
        terminal.wait_for_output(f"The TensorBoard of this machine: http://localhost:{board.port}", PROMPT)
        terminal.press("wait\r")
        terminal.wait_for_output(r"Running, step \d+, loss")
        terminal.press("\x03")
        terminal.wait_for_output(r"Paused in step \d+: you asked for it", PROMPT)
        typed(
            terminal,
            "until head",
            r"forward, before head \(Linear\)",
            r"return self.head\(self.encoder\(x\)\)",
        )
        typed(terminal, "print output:encoder.1\t -s", r"output:encoder.1  float32\[16, 8\]", "128 values")
        typed(terminal, f"print input:head[0] -w {tmp_path}/x.npy", "x.npy: ")
        assert (8,) == np.load(tmp_path / "x.npy").shape
        typed(terminal, "batch", r"input  batch:0 .*\[16, 6\]")
        typed(terminal, r"watch gradient encoder\..* abs_max > 1e-9", "watchpoint 1")
        hit = r"watchpoint 1 was hit: abs_max of gradient:encoder\.0"
        typed(terminal, "continue", hit, r"optimizer\.step\(\)", r"hit 1 of watchpoint 1")
        typed(terminal, "hits", "Advice: ")
        typed(terminal, "eval norm(`gradient:encoder.0.weight`) > 0", r"bool\[\]")
        typed(terminal, "delete all", "removed")
        typed(terminal, "step optimizer", "before optimizer step", r"optimizer\.step\(\)")
        typed(terminal, "lr 0.025", r"0\.025")
        typed(terminal, "step op 2", r"before aten\.")
        typed(terminal, "where", r"#\d+ .*train\.py:\d+ in <module>")
        typed(terminal, "detach", "Running")
        terminal.press("\x04")
        assert 0 == terminal.end()
        assert "learning rate 0.025" in training.end()


def test_commands_without_a_terminal(home: Home, tmp_path: Path) -> None:
    """From the command line, plain, one after the other; a training that is left alone goes on."""
    with (
        TensorBoard("--logdir", str(tmp_path / "logs"), env=home.env) as board,
        trained(tmp_path, home) as training,
    ):
        with debugger(home) as terminal:  # which waits for the training
            terminal.wait_for_output(PROMPT)
            terminal.press("\x04")
            assert 0 == terminal.end()
        commands = ["pause", "next", "tensors -k weight", "break nowhere_at_all", "snapshot"]
        ran = subprocess.run(
            [sys.executable, "-m", "tb_netdebug", "debug", board.url, "--run", "mlp", "-c", *commands],
            env=environment(**home.env),
            cwd=sys.prefix,
            capture_output=True,
            text=True,
            check=False,
        )
        assert (0, "") == (ran.returncode, ran.stderr)
        assert "forward, before " in ran.stdout
        assert "4 tensors" in ran.stdout
        assert "\x1b" not in ran.stdout
        (capsule,) = tmp_path.glob("logs/mlp/capsules/*.pt")
        assert capsule.name in ran.stdout
        training.end()


def test_the_first_batch_before_it_comes(home: Home, tmp_path: Path) -> None:
    """Paused at the start, the model has been given nothing; one step further its batch is there."""
    with (
        TensorBoard("--logdir", str(tmp_path), env=home.env) as board,
        ToldTraining(home, tmp_path / "one", pause_at_start=True),
    ):
        HubPage(board).key()
        ran = subprocess.run(
            [sys.executable, "-m", "tb_netdebug", "debug", board.url, "-c", "batch", "step layer", "batch"],
            env=environment(**home.env),
            capture_output=True,
            text=True,
            check=True,
        )
        before, _, after = ran.stdout.partition("you stepped to here")
        assert (
            "had no input yet. It gets its first with the next step (`step layer` goes to its first" in before
        )
        assert re.search(r"input +batch:0 +float32 +\[5, 6\]", after)


def test_the_training_ends_while_it_is_waited_for(home: Home, tmp_path: Path) -> None:
    """The prompt comes back, and other commands say why they cannot be done."""
    with (
        TensorBoard("--logdir", str(tmp_path / "logs"), env=home.env),
        trained(tmp_path, home) as training,
        debugger(home) as terminal,
    ):
        terminal.wait_for_output(PROMPT)
        terminal.press("wait\r")
        terminal.wait_for_output(r"Running, step \d+, loss")
        training.end()
        terminal.wait_for_output("The run is over", PROMPT)
        typed(terminal, "next", "over|no longer available")
        terminal.press("\x04")
        assert 0 == terminal.end()


def test_a_tensorboard_that_is_started_again(home: Home, tmp_path: Path) -> None:
    """The debugger says that it is away, finds it again, and the training too."""
    with trained(tmp_path, home) as training:
        first = TensorBoard("--logdir", str(tmp_path / "logs"), env=home.env)
        with debugger(home, first.url) as terminal:
            terminal.wait_for_output(PROMPT)
            typed(terminal, "pause", r"Paused in step \d+")
            first.kill()
            typed(terminal, "modules", f"Nothing listens at {first.url}")
            with TensorBoard("--logdir", str(tmp_path / "logs"), "--port", str(first.port), env=home.env):
                terminal.press("continue &\r")
                terminal.wait_until(lambda: again(terminal), "a training that is there again")
                typed(terminal, "pause", r"Paused in step \d+: you asked for it")
                typed(terminal, "modules", "encoder")
                terminal.press("quit\r")
                terminal.wait_for_output("Let it continue")
                terminal.press("\r")
                assert 0 == terminal.end()
                training.end()


def again(terminal: Terminal) -> bool:
    """Asks once more whenever the prompt is there."""
    is_there = "   encoder " in terminal.written.rpartition("TensorBoard is back")[2]
    if not is_there and re.search(PROMPT, terminal.written):
        terminal.press("modules\r")
    return is_there
