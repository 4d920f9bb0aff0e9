"""Capsules: when one is written, what is in it, and what happens when it cannot be."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import tb_netdebug as nd
from tb_netdebug.frameworks.torch.calls import CallKeeper
from tb_netdebug.frameworks.torch.late_copy import MOST_COPIED_BYTES, late_copy
from tb_netdebug.frameworks.torch.numerics.capsule import CapsuleWriter
from tb_netdebug.frameworks.torch.numerics.portable import Portable, bytes_of
from tests.support.loops import ROOT, our_warnings

NAN = float("nan")


def watched(model: nn.Module, optimizer: Any, logdir: Path, **options: Any) -> nd.Monitor:
    options = {"run": "run", "strict": True, "on_finding": "ignore", "memory": False, **options}
    return nd.watch(model, optimizer, logdir=logdir, **options)


def capsules(logdir: Path) -> list[str]:
    return sorted(path.name for path in (logdir / "run").glob("capsules/*"))


def load(logdir: Path, name: str) -> dict[str, Any]:
    loaded: dict[str, Any] = torch.load(logdir / "run/capsules" / name, weights_only=True)
    return loaded


def train(
    monitor: nd.Monitor,
    model: nn.Module,
    optimizer: torch.optim.Optimizer,
    *,
    steps: int = 4,
    bad: Callable[[int], bool] = lambda step: step == 2,
) -> list[torch.Tensor]:
    """The batches."""
    batches = []
    for step in range(steps):
        x = torch.randn(3, 4)
        batches.append(x.clone())
        optimizer.zero_grad()
        loss = model(x).mean() * (NAN if bad(step) else 1.0)
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        monitor.step(loss=loss)
    return batches


def test_the_first_bad_loss(logdir: Path) -> None:
    """Batch, weights before the step, optimizer and random numbers, loaded without running any code."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 4), nn.Dropout(0.5), nn.Linear(4, 1))
    model[1].eval()
    optimizer = torch.optim.Adam(model.parameters())
    with watched(model, optimizer, logdir) as monitor:
        batches = train(monitor, model, optimizer, steps=2)
        weights = {name: value.clone() for name, value in model.state_dict().items()}
        state = torch.get_rng_state()
        x = torch.randn(3, 4)
        before = torch.get_rng_state()
        loss = model(x).mean() * NAN
        loss.backward()
        optimizer.step()
        monitor.step(loss=loss)
    assert 2 == len(batches)
    assert ["step-2.pt"] == capsules(logdir)
    content = load(logdir, "step-2.pt")
    assert (1, 2, 0) == (content["netdebug_capsule"], content["step"], content["rank"])
    assert [] == content["left_out"]
    (call,) = content["calls"]
    assert torch.equal(x, call["args"][0])
    assert torch.equal(before, call["random"])
    assert not torch.equal(state, before)
    assert weights.keys() == content["models"][""].keys()
    assert all(torch.equal(value, content["models"][""][name]) for name, value in weights.items())
    assert ["1"] == content["evaluating"][""]
    assert "Adam" == content["optimizers"][0]["class"]
    assert 2.0 == content["optimizers"][0]["state"]["state"][0]["step"]
    assert "loss" == json.loads(content["first_nonfinite"])["what"]
    assert {"netdebug", "torch", "python"} == set(content["versions"])


def test_three_are_enough(logdir: Path) -> None:
    """However often a loss is bad; a capsule that is asked for then is refused with a sentence."""
    model = nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.0)
    with our_warnings() as told, watched(model, None, logdir) as monitor:
        for step in range(12):
            loss = model(torch.randn(3, 4)).mean() * (NAN if step % 2 else 1.0)
            loss.backward()
            monitor.step(loss=loss)
        assert [] == told
        assert monitor.capsule() is None
    assert 3 == len(capsules(logdir))
    assert ["NetDebug: no capsule of step 12 was written: a run keeps at most 3 capsules."] == told
    assert optimizer.state_dict()["param_groups"]


def test_on_request(logdir: Path) -> None:
    """In the middle of a step, with the findings; and again, under another name."""
    model = nn.Linear(4, 1)
    with watched(model, None, logdir) as monitor:
        model(torch.randn(3, 4)).mean().backward()
        first, second = monitor.capsule(), monitor.capsule()
        assert (logdir / "run/capsules/step-0.pt", logdir / "run/capsules/step-0-2.pt") == (first, second)
    content = load(logdir, "step-0-2.pt")
    assert "it was asked for" == content["reason"]
    assert [] == json.loads(content["findings"])
    assert monitor.capsule() is None


def test_none_are_wanted(logdir: Path) -> None:
    """`capsules=False` writes none, whatever happens."""
    model = nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with watched(model, optimizer, logdir, capsules=False) as monitor:
        train(monitor, model, optimizer)
        assert monitor.capsule() is None
    assert not (logdir / "run/capsules").exists()


def test_an_exception_leaves_the_block(logdir: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The batch with which it came is kept, which is said, and the exception goes on its way."""
    model = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 1))
    x = torch.randn(3, 5)
    before = sys.excepthook, threading.excepthook
    with pytest.raises(RuntimeError, match="shapes cannot be multiplied"), watched(model, None, logdir):
        model(x)
    content = load(logdir, "step-0.pt")
    assert torch.equal(x, content["calls"][0]["args"][0])
    assert "shapes cannot be multiplied" in json.loads(content["error"])
    assert "an exception" == content["reason"]
    assert (
        f"the batch and the weights of this step: {logdir}/run/capsules/step-0.pt\n"
        in capsys.readouterr().err
    )
    assert before == (sys.excepthook, threading.excepthook)


def stop(kind: type[BaseException]) -> Callable[..., None]:
    def hook(*_: Any) -> None:
        raise kind("stop")

    return hook


@pytest.mark.parametrize("kind", [KeyboardInterrupt, SystemExit])
def test_who_stops_a_training_gets_no_capsule(kind: type[BaseException], logdir: Path) -> None:
    """Ctrl-C is no crash."""
    model = nn.Linear(4, 1)
    model.register_forward_hook(stop(kind))
    with pytest.raises(kind), watched(model, None, logdir):
        model(torch.randn(3, 4))
    assert [] == capsules(logdir)


def test_an_exception_between_two_steps(logdir: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Without a batch there is nothing to run again, which is said."""
    model = nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with pytest.raises(ValueError, match="stop"), watched(model, optimizer, logdir) as monitor:
        stop(ValueError)(train(monitor, model, optimizer, bad=lambda _: False))
    assert [] == capsules(logdir)
    assert [
        "NetDebug: no capsule of this ValueError was written: it happened between two steps, when no batch "
        "was in the model."
    ] == [line for line in capsys.readouterr().err.splitlines() if "capsule" in line]


def test_an_exception_behind_a_nan(logdir: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The capsule of that step is the one that is named."""
    model = nn.Linear(4, 1)
    with pytest.raises(ValueError, match="stop"), watched(model, None, logdir):
        stop(ValueError)((model(torch.randn(3, 4)).mean() * NAN).backward())
    assert ["step-0.pt"] == capsules(logdir)
    assert (
        f"the batch and the weights of this step: {logdir}/run/capsules/step-0.pt\n"
        in capsys.readouterr().err
    )


def test_an_exception_that_nobody_catches(tmp_path: Path) -> None:
    """Without a `with` block: traceback and exit status are the program's own, the capsule is there."""
    script = tmp_path / "train.py"
    script.write_text(
        "import torch, tb_netdebug as nd\n"
        "model = torch.nn.Linear(4, 1)\n"
        "monitor = nd.watch(model, logdir='logs', run='run')\n"
        "model(torch.randn(3, 4)).mean().backward()\n"
        "raise ValueError('mine')\n"
    )
    path = "" if sys.flags.isolated else str(ROOT)
    ran = subprocess.run(
        [sys.executable, str(script)],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert 1 == ran.returncode
    lines = ran.stderr.splitlines()
    place = lines.index("ValueError: mine")
    assert "NetDebug: the batch and the weights of this step: logs/run/capsules/step-0.pt" == lines[place + 1]
    assert ["step-0.pt"] == [each.name for each in (tmp_path / "logs/run/capsules").iterdir()]


MOVING = """
import os, sys
import torch
import tb_netdebug as nd

os.chdir("started")
monitor = nd.watch(model := torch.nn.Linear(4, 1), logdir="logs", run="run")
os.chdir("../elsewhere")
for step in range(2):
    loss = model(torch.full((3, 4), float("nan") if step else 1.0)).mean()
    loss.backward()
    monitor.step(loss=loss)
model(torch.ones(3, 4)).mean().backward()
raise ValueError("mine")
"""


def test_a_program_that_changes_to_another_folder(tmp_path: Path) -> None:
    """All files are where the logdir was when it was chosen; printed paths hold where the program began."""
    for name in ("started", "elsewhere"):
        (tmp_path / name).mkdir()
    ran = subprocess.run(
        [sys.executable, "-c", MOVING],
        cwd=tmp_path,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert [] == list((tmp_path / "elsewhere").iterdir())
    kept = tmp_path / "started/logs/run/capsules"
    assert ["step-1.pt", "step-2.pt"] == sorted(each.name for each in kept.iterdir()), ran.stderr
    told = ran.stderr.splitlines()
    assert f"    netdebug replay {kept / 'step-1.pt'} YOUR_SCRIPT" in told
    assert "  More: tensorboard --logdir started/logs   (the NetDebug tab)" in told
    assert "NetDebug: the batch and the weights of this step: started/logs/run/capsules/step-2.pt" in told


def test_what_does_not_fit_is_left_out(logdir: Path) -> None:
    """First the optimizer, then the weights, then the batch; what is missing is said inside."""
    model = nn.Linear(100, 100)
    optimizer = torch.optim.Adam(model.parameters())
    model(torch.randn(1, 100)).sum().backward()
    optimizer.step()
    calls = kept_calls(model, torch.randn(10, 100))
    sizes = {"all": 300_000, "no optimizer": 100_000, "no weights": 20_000, "nothing": 100}
    found = {}
    for name, most_bytes in sizes.items():
        writer = CapsuleWriter(logdir / name, most_bytes=most_bytes)
        path = writer.write(7, "test", calls=calls, models={"": model}, optimizers=[optimizer], about={})
        assert isinstance(path, Path)
        content = torch.load(path, weights_only=True)
        found[name] = [bool(content[part]) for part in ("optimizers", "models", "calls")]
        assert found[name].count(False) == len(content["left_out"])
        assert bytes_of(content) <= most_bytes or name == "nothing"
    assert {
        "all": [True, True, True],
        "no optimizer": [False, True, True],
        "no weights": [False, False, True],
        "nothing": [False, False, False],
    } == found


def test_a_module_that_contains_itself(logdir: Path) -> None:
    """Its tensors are written once, as torch's `named_parameters` names them."""
    model = nn.Sequential(nn.Linear(2, 2))
    model[0].above = model
    path = CapsuleWriter(logdir).write(0, "test", calls=[], models={"": model}, optimizers=[], about={})
    assert isinstance(path, Path)
    assert {"0.weight", "0.bias"} == torch.load(path, weights_only=True)["models"][""].keys()


def test_a_full_disk(logdir: Path) -> None:
    """So much room as is asked for is never there: everything big is left out."""
    writer = CapsuleWriter(logdir, room_bytes=1 << 62)
    model = nn.Linear(4, 1)
    path = writer.write(0, "test", calls=[], models={"": model}, optimizers=[], about={})
    assert isinstance(path, Path)
    content = torch.load(path, weights_only=True)
    assert ({}, "the weights: the disk is nearly full") == (content["models"], content["left_out"][1])


def test_a_folder_that_cannot_be_written(logdir: Path) -> None:
    """One sentence, no exception, and nothing half-written is left."""
    (logdir / "run").mkdir()
    (logdir / "run/capsules").write_text("")
    model = nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with our_warnings() as told, watched(model, optimizer, logdir) as monitor:
        train(monitor, model, optimizer)
    (sentence,) = told
    assert sentence.startswith("NetDebug: no capsule of step 2 was written: FileExistsError")


def test_nothing_unfinished_is_left(logdir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """When saving fails halfway the file is gone, and the reason is told."""

    def save(_: Any, path: Path) -> None:
        Path(path).write_bytes(b"half")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(torch, "save", save)
    told = CapsuleWriter(logdir).write(0, "test", calls=[], models={}, optimizers=[], about={})
    assert "OSError: [Errno 28] No space left on device" == told
    assert [] == list((logdir / "capsules").iterdir())


def test_a_rank_of_many_has_files_of_its_own(logdir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Several processes write into one folder."""
    monkeypatch.setenv("RANK", "3")
    monkeypatch.setenv("WORLD_SIZE", "4")
    path = CapsuleWriter(logdir).write(5, "test", calls=[], models={}, optimizers=[], about={})
    assert logdir / "capsules/step-5-rank3.pt" == path


def kept_calls(model: nn.Module, *args: Any, **kwargs: Any) -> Any:
    """The call of a model as the probe keeps it."""
    from tb_netdebug.frameworks.torch.call_hooks import CallHooks
    from tb_netdebug.recording.collector import StepCollector
    from tb_netdebug.recording.guard import Guard

    guard = Guard(strict=True)
    calls_of = CallHooks(StepCollector(), guard)
    keeper = CallKeeper({"": model}, calls_of, guard)
    model(*args, **kwargs)
    calls = list(keeper.calls)
    keeper.close()
    calls_of.close()
    return calls


class Anything(nn.Module):
    """Takes what it is given."""

    def forward(self, *args: Any, **kwargs: Any) -> None:
        return None


def test_arguments_of_all_kinds(logdir: Path) -> None:
    """What is no tensor, number, text, list or dictionary is left out and named."""
    whole = torch.arange(1000.0)
    calls = kept_calls(
        Anything(), whole[3:5], [1, (2.5, None)], np.float32(2), mask={"a": torch.ones(2), 3: object()}
    )
    writer = CapsuleWriter(logdir)
    path = writer.write(0, "test", calls=calls, models={}, optimizers=[], about={})
    assert isinstance(path, Path)
    content = torch.load(path, weights_only=True)
    (call,) = content["calls"]
    assert not call["complete"]
    assert torch.equal(whole[3:5], call["args"][0])
    assert 8 == call["args"][0].untyped_storage().nbytes()
    assert [1, (2.5, None)] == call["args"][1]
    assert call["kwargs"]["mask"][3] is None
    assert [
        "argument of call 0[2]: a float32 is not a plain value",
        "argument of call 0[mask][3]: a object is not a plain value",
    ] == content["left_out"]


@pytest.mark.parametrize(
    "tensor",
    [
        torch.ones(2, dtype=torch.bfloat16),
        torch.ones(2, dtype=torch.complex64),
        torch.eye(3).to_sparse(),
        nn.Parameter(torch.ones(2)),
        torch.ones(4, 4).t(),
        torch.ones(1).expand(5),
        torch.empty(0),
    ],
)
def test_tensors_of_all_kinds(tensor: torch.Tensor, tmp_path: Path) -> None:
    """They come back as they were."""
    torch.save({"x": Portable().of(tensor, "x")}, tmp_path / "x.pt")
    back = torch.load(tmp_path / "x.pt", weights_only=True)["x"]
    assert (tensor.dtype, tensor.shape, tensor.layout) == (back.dtype, back.shape, back.layout)
    assert torch.equal(tensor.detach().to_dense(), back.to_dense())


TENSORS = {
    "contiguous": torch.arange(24.0).reshape(4, 6),
    "turned": torch.arange(24.0).reshape(4, 6).t(),
    "a part": torch.arange(24, dtype=torch.int16).reshape(4, 6)[1:, ::2],
    "expanded": torch.ones(1).expand(3, 5),
    "a number": torch.tensor(2.5),
    "empty": torch.empty(0, 3),
    "bfloat16": torch.ones(3, dtype=torch.bfloat16),
    "conjugated": torch.tensor([1 + 2j]).conj(),
    "sparse": torch.eye(3).to_sparse(),
    "big": torch.zeros(MOST_COPIED_BYTES + 1, dtype=torch.uint8),
}


@pytest.mark.parametrize("name", TENSORS)
def test_late_copies_are_equal(name: str) -> None:
    """Of whatever layout; what is small enough has a memory of its own."""
    tensor = TENSORS[name]
    copy = late_copy(tensor)
    assert (tensor.dtype, tensor.shape) == (copy.dtype, copy.shape)
    assert torch.equal(tensor.to_dense(), copy.to_dense())
    if name not in ("empty", "conjugated", "sparse", "big"):
        assert tensor.data_ptr() != copy.data_ptr()
        assert tensor.stride() == copy.stride()


GONE = """
import os, sys
import numpy as np
import torch
import tb_netdebug as nd

model = torch.nn.Linear(1024, 3)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
monitor = nd.watch(model, optimizer, logdir=sys.argv[1], run="run", on_finding="ignore")
for step in range(8):
    batch = np.ones((int(sys.argv[2]), 1024), np.float32)
    batch[0, 0] = np.nan if step == 5 else 0.0
    batch.tofile("batch.bin")
    x = torch.from_numpy(np.memmap("batch.bin", np.float32, "r+", shape=batch.shape))
    loss = model(x).square().mean()
    if torch.isfinite(loss):
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    os.truncate("batch.bin", 0)
    monitor.step(loss=loss)
monitor.close()
print("ended")
"""


@pytest.mark.parametrize("rows", [64, MOST_COPIED_BYTES // 4096 + 1], ids=["small", "big"])
def test_a_batch_whose_file_was_truncated_is_left_out(rows: int, tmp_path: Path) -> None:
    """The run ends as it would without us, and the capsule says why the batch is missing."""
    words = [sys.executable, "-c", GONE, str(tmp_path / "logs"), str(rows)]
    ran = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (0, "ended") == (ran.returncode, ran.stdout[-6:].strip()), ran.stderr
    content = torch.load(tmp_path / "logs/run/capsules/step-5.pt", weights_only=True)
    assert ["argument of call 0[0]: its memory can no longer be read"] == content["left_out"]
    (call,) = content["calls"]
    assert ([None], False) == (call["args"], call["complete"])
    assert {"weight", "bias"} == set(content["models"][""])


def test_only_so_many_calls_are_kept() -> None:
    """Of a step with many calls the newest; a big one drives the others out."""
    from tb_netdebug.frameworks.torch import calls
    from tb_netdebug.frameworks.torch.call_hooks import CallHooks
    from tb_netdebug.recording.collector import StepCollector
    from tb_netdebug.recording.guard import Guard

    model = Anything()
    guard = Guard(strict=True)
    calls_of = CallHooks(StepCollector(), guard)
    keeper = CallKeeper({"": model}, calls_of, guard)
    for _ in range(calls.MOST_CALLS + 5):
        model(torch.ones(1))
    assert calls.MOST_CALLS == len(keeper.calls)
    model([torch.empty(calls.MOST_BYTES, dtype=torch.uint8)])
    assert 1 == len(keeper.calls)
    with torch.no_grad():
        model(torch.ones(1))
    assert 1 == len(keeper.calls)
    keeper.close()
    calls_of.close()


def test_a_bad_loss_keeps_the_calls_that_led_to_it(logdir: Path) -> None:
    """Batches that were fine are let go when their backward pass begins."""
    model = nn.Linear(4, 1)
    with watched(model, None, logdir) as monitor:
        for bad in (False, False, True):
            x = torch.full((2, 4), NAN if bad else 1.0)
            loss = model(x).mean()
            loss.backward()
        monitor.step(loss=loss)
    (first, second) = load(logdir, "step-0.pt")["calls"]
    assert [False, True] == [bool(call["args"][0].isnan().any()) for call in (first, second)]
