"""`netdebug replay`: what a capsule holds, and its batch run again."""

from __future__ import annotations

import json
import os
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import tb_netdebug as nd
from tb_netdebug.experiments.rehearsal import channel
from tb_netdebug.frameworks.torch.numerics.replay import CapsuleError
from tests.support.replayed_here import replay_here

NETWORK = """
import torch
from torch import nn

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.drop, self.last = nn.Linear(4, 4), nn.Dropout(0.5), nn.Linear(4, 1)

    def forward(self, x, *, scale=1.0):
        return self.last(torch.log(self.drop(self.first(x)) * scale))

def make():
    return Net()

def fail():
    raise ValueError("no model today")
"""
SCRIPT = """
import sys
import torch
from net import Net
import tb_netdebug as nd

torch.manual_seed(0)
model = Net()
monitor = nd.watch(model, logdir=sys.argv[1], run="run", on_finding="ignore")
loss = model(torch.randn(3, 4), scale=2.0).mean()
loss.backward()
monitor.step(loss=loss)
monitor.close()
"""


@pytest.fixture
def trained(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a network, the script that has trained it, and the capsule of its bad step."""
    (tmp_path / "net.py").write_text(NETWORK)
    (tmp_path / "train.py").write_text(SCRIPT)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setenv("COLUMNS", "120")
    for name in ("net",):
        monkeypatch.delitem(__import__("sys").modules, name, raising=False)
    code = compile(SCRIPT, "train.py", "exec")
    monkeypatch.setattr("sys.argv", ["train.py", str(tmp_path / "logs")])
    exec(code, {"__name__": "__main__"})
    return tmp_path


CAPSULE = "logs/run/capsules/step-0.pt"


def test_what_is_inside(trained: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Step, batch, weights and what was found, without a model."""
    assert 0 == replay_here([CAPSULE])
    shown = capsys.readouterr().out
    for text in (
        "step",
        "the model(float32[3, 4], scale=2.0)",
        "4 tensors, 0.0001 MB",
        "The first NaN is produced in Net (Net (own code)) by log, net.py:11, from finite inputs.",
        "To run the batch again",
    ):
        assert text in shown


@pytest.mark.parametrize(
    "words",
    [["--model", "net:make"], ["--model", "net.py:Net"], ["--backward", "--model", "net:make"]],
)
def test_the_batch_is_run_again(words: list[str], trained: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """On the weights and random numbers of then; each module with its numbers; nothing new is recorded."""
    assert 1 == replay_here([*words, CAPSULE])
    shown = capsys.readouterr().out
    rows = [line.split() for line in shown.splitlines()]
    assert ["drop", "(Dropout)"] in [row[:2] for row in rows]
    assert any(row[:3] == ["last", "(Linear)", "float32[3,"] and row[-1] == "3" for row in rows)
    assert shown.rstrip().endswith("from finite inputs.")


def test_a_batch_that_takes_long_is_waited_for(trained: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The keeper is told before the batch, and after it; see there for the words that it says then."""
    monkeypatch.setattr(channel, "_descriptors", [])
    reading, writing = os.pipe()
    channel.open_to_keeper(writing)
    (trained / "shows.py").write_text(
        "import net, os\nclass Net(net.Net):\n    def forward(self, x, *, scale):\n"
        f"        os.write({writing}, b'\"forward\"\\n')\n        return super().forward(x, scale=scale)\n"
    )
    assert 1 == replay_here(["--model", "shows.py:Net", CAPSULE])
    os.close(writing)
    with os.fdopen(reading) as said:
        *_, before, during, after = map(json.loads, said)
    assert ["waiting", "the replay of the batch has not ended"] == before
    assert ("forward", ["waiting", ""]) == (during, after)


def test_the_same_numbers(trained: Path) -> None:
    """Dropout drops what it has dropped: the outputs are those of the training, bit for bit."""
    import net  # type: ignore[import-not-found]

    torch.manual_seed(0)
    model = net.Net()
    x = torch.randn(3, 4)
    dropped = model.drop(model.first(x))
    done = nd.replay(CAPSULE, net.Net())
    (row,) = [row for row in done.rows if row.module == "drop"]
    assert row.summary is not None
    assert (dropped.sum().item(), dropped.min().item()) == pytest.approx((row.summary.sum, row.summary.min))
    assert ("log", False) == (done.as_dict()["operation"], done.is_finite)


def test_a_finite_capsule(trained: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """One that was asked for: 0 when everything is finite, gradients included."""
    model = nn.Sequential(nn.Linear(4, 2), nn.ReLU())
    with nd.watch(model, logdir="logs", run="fine", on_finding="ignore") as monitor:
        model(torch.randn(3, 4))
        path = monitor.capsule()
    assert make_finite(trained)
    assert 0 == replay_here([str(path), "--backward", "--model", "finite.py:make"])
    assert capsys.readouterr().out.rstrip().endswith("Everything was finite.")


def make_finite(folder: Path) -> bool:
    text = "from torch import nn\ndef make(): return nn.Sequential(nn.Linear(4, 2), nn.ReLU())\n"
    return bool((folder / "finite.py").write_text(text))


def test_gradients(trained: Path) -> None:
    """With a loss of one's own, the layer is named where the way back goes wrong."""
    model = nn.Sequential(nn.Linear(4, 2), nn.Linear(2, 2), nn.ReLU())
    with nd.watch(model, logdir="logs", run="grad", on_finding="ignore") as monitor:
        model(torch.randn(3, 4))
        path = monitor.capsule()
    assert path is not None
    assert nd.replay(path, model, backward=True).is_finite
    done = nd.replay(path, model, backward=True, loss=lambda output: (output * 0.0).sqrt().sum())
    assert done.gradient is not None
    assert ("gradient", "1") == (done.gradient.what, done.gradient.where)


def refused(words: list[str], capsys: pytest.CaptureFixture[str]) -> str:
    assert 2 == replay_here(words)
    caught = capsys.readouterr()
    assert caught.err.startswith("netdebug: ")
    assert "Traceback" not in caught.err
    return caught.err


class Hostile:
    """Runs code when it is unpickled without care."""

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        return Path.touch, (Path("was-run"),)


def test_hostile_and_damaged_files(trained: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Each is refused with a sentence, and nothing in it runs."""
    torch.save({"netdebug_capsule": 1, "calls": Hostile()}, "hostile.pt")
    Path("pickle.pt").write_bytes(pickle.dumps(Hostile()))
    whole = Path(CAPSULE).read_bytes()
    Path("half.pt").write_bytes(whole[: len(whole) // 2])
    Path("empty.pt").write_bytes(b"")
    Path("text.pt").write_text("hello")
    torch.save({"a": torch.ones(1)}, "other.pt")
    torch.save([1, 2], "list.pt")
    content = torch.load(CAPSULE, weights_only=True)
    torch.save({**content, "netdebug_capsule": 99}, "newer.pt")
    torch.save({**content, "calls": 3}, "calls.pt")
    torch.save({**content, "calls": [{"args": []}]}, "call.pt")
    for name in ("hostile", "pickle", "half", "empty", "text"):
        assert "cannot be read as a capsule" in refused([f"{name}.pt"], capsys), name
    for name in ("other", "list"):
        assert "not a NetDebug capsule" in refused([f"{name}.pt"], capsys), name
    assert "newer NetDebug" in refused(["newer.pt"], capsys)
    assert "'calls' is missing" in refused(["calls.pt"], capsys)
    assert "incomplete" in refused(["call.pt"], capsys)
    assert "there is no file nowhere.pt" in refused(["nowhere.pt"], capsys)
    assert not Path("was-run").exists()


def test_a_hostile_text_is_shown_harmlessly(trained: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Escape sequences and marks are visible letters."""
    content = torch.load(CAPSULE, weights_only=True)
    torch.save({**content, "reason": "\x1b[2Jgone[bold]", "step": 5}, "text.pt")
    assert 0 == replay_here(["text.pt"])
    shown = capsys.readouterr().out
    assert "\x1b" not in shown
    assert "\\x1b[2Jgone[bold]" in shown


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["--model", "net"], "expected MODULE:CALLABLE"),
        (["--model", "net:nothing"], "has no attribute 'nothing'"),
        (["--model", "net:fail"], "ValueError: no model today"),
        (["--model", "nonet:make"], "ModuleNotFoundError"),
        (["--model", "nonet.py:make"], "there is no file nonet.py"),
        (["--model", "torch.nn:Identity"], "do not fit a Identity"),
    ],
)
def test_mistakes(words: list[str], text: str, trained: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A sentence says what was wrong, and the exit code is 2."""
    assert text in refused([*words, CAPSULE], capsys)


def test_a_capsule_without_weights(trained: Path) -> None:
    """The weights that the model was built with are used, and that is said."""
    import net

    content = torch.load(CAPSULE, weights_only=True)
    torch.save({**content, "models": {}}, "small.pt")
    assert ["the capsule holds no weights; the replay uses those that the model was built with"] == nd.replay(
        "small.pt", net.Net()
    ).notes
    torch.save({**content, "calls": [], "left_out": ["the batch: more than 1 MiB in all"]}, "smaller.pt")
    with pytest.raises(CapsuleError, match="holds no batch: the batch: more than 1 MiB"):
        nd.replay("smaller.pt", net.Net())
