"""`netdebug watch` as text."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import cast

import pytest
import torch
from tensorboard.compat.proto.event_pb2 import Event
from tensorboard.compat.proto.summary_pb2 import Summary
from tensorboard.summary.writer.event_file_writer import EventFileWriter
from torch import nn

import tb_netdebug as nd
from tb_netdebug.cli import main
from tb_netdebug.core.records.step import Kind
from tests.support.loops import fit, mlp
from tests.support.run_cases import RecordedRun, layer, sample
from tests.support.watching import row, shown, watch, written


@pytest.fixture
def write(logdir: Path) -> Iterator[Callable[..., RecordedRun]]:
    """Makes a run of this name; all of them are closed at the end."""
    yield from written(logdir)


def test_a_real_training(logdir: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Step, loss, phases and the norms of every layer are those of the training."""
    torch.manual_seed(0)
    model = mlp()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with nd.watch(model, optimizer, logdir=logdir, run="real", every=1) as monitor:
        losses = fit(model, optimizer, steps=5, monitor=monitor)
    text = shown(capsys, logdir)
    assert "step 4" in row(text, "real")
    assert f"{losses[-1]:.4f}" in row(text, "loss")
    assert {"F", "B", "O"} <= set(row(text, "step time"))
    assert "1 in 1 " in row(text, "samples")
    assert "(step 4)" in row(text, "layer, worst first")
    first = cast(nn.Linear, next(model.children()))
    norm = torch.cat([first.weight.flatten(), first.bias]).norm().item()
    before = float(row(text, "0 ").split()[1])
    assert math.isclose(norm, before, rel_tol=0.05)  # it is the one before the last update


def test_the_course_of_the_run(
    logdir: Path, write: Callable[..., RecordedRun], capsys: pytest.CaptureFixture[str]
) -> None:
    """Loss, norm and own numbers have their last value and a line, in which a cross is not finite."""
    run = write("a", 8, scalars={"scalar/accuracy": 0.5})
    run.add(8, scalars={"loss": math.nan, "gradient_norm": 2.0, "nonfinite_gradients": 7.0})
    text = shown(capsys, logdir)
    assert re.fullmatch(r"loss +NaN  [▁-█]{8}×{8}", row(text, "loss"))
    assert re.fullmatch(r"gradient norm +NaN  ×{8}", row(text, "gradient norm"))
    assert re.fullmatch(r"accuracy +0\.5000  ▄{8}", row(text, "accuracy"))


@pytest.mark.parametrize("began", [1e300, -1e18, 1e17])
def test_a_time_that_no_calendar_has(
    began: float, logdir: Path, write: Callable[..., RecordedRun], capsys: pytest.CaptureFixture[str]
) -> None:
    """It may stand in any file, and the rest of the run is shown."""
    write("a", 3, began=began)
    text = shown(capsys, logdir)
    assert re.search(r"^a +(live|idle), step 2, at an unknown time$", text, re.MULTILINE)
    assert re.search(r"^loss +0\.3333 ", text, re.MULTILINE)


def test_the_worst_layer_comes_first(
    logdir: Path, write: Callable[..., RecordedRun], capsys: pytest.CaptureFixture[str]
) -> None:
    """What is not finite, then updates far from a thousandth of the weight, then the others as they run."""
    samples = [
        *layer("good", 1.0, 0.5, 1e-3),
        *layer("slow", 1.0, 1e-6, 1e-9),
        *layer("broken", 1.0, math.nan, 1e-3),
        *layer("wild", 1.0, 9.0, 0.5),
        sample(Kind.ACTIVATION, "relu", [0.0] * 8, active=[False] * 6 + [True] * 2),
    ]
    write("a", 2, samples=samples)
    table = shown(capsys, logdir).partition("layer, worst first")[2].splitlines()[1:]
    assert ["broken", "slow", "relu", "wild", "good"] == [line.split()[0] for line in table]
    assert ["broken", "1.00", "NaN/Inf", "0.00100", "-"] == table[0].split()
    assert ["slow", "1.00", "1.0e-06", "1.0e-09", "-"] == table[1].split()
    assert ["relu", "-", "-", "-", "75", "%"] == table[2].split()


def test_the_list_of_layers_is_as_long_as_asked(
    logdir: Path, write: Callable[..., RecordedRun], capsys: pytest.CaptureFixture[str]
) -> None:
    """How many more there are is told; 0 shows none."""
    write("a", 1, samples=[each for name in "abcde" for each in layer(name, 1.0, 1.0, 1e-3)])
    assert "and 3 more" == shown(capsys, logdir, "--layers", 2).splitlines()[-1]
    assert "worst first" not in shown(capsys, logdir, "--layers", 0)
    assert 2 == main(["watch", str(logdir), "--layers", "-1"])


def test_the_run_that_began_last_is_shown(
    logdir: Path, write: Callable[..., RecordedRun], capsys: pytest.CaptureFixture[str]
) -> None:
    """Or the one that was asked for, by its name or the last part of it."""
    write("old/net", 3).close()
    newer = write("new", 5)
    later = newer.path.with_name(re.sub(r"\d{10}", "4000000000", newer.path.name))
    newer.close()
    newer.path.rename(later)
    assert "step 4" in row(shown(capsys, logdir), "▸ new")
    assert "step 2" in row(shown(capsys, logdir, "--run", "old/net"), "▸ old/net")
    assert "step 2" in row(shown(capsys, logdir, "--run", "net"), "▸ old/net")


def test_a_folder_that_all_runs_share_is_told_once(
    logdir: Path, write: Callable[..., RecordedRun], capsys: pytest.CaptureFixture[str]
) -> None:
    """In the title, so that the names differ where one sees it."""
    write("monday/a")
    write("monday/b")
    text = shown(capsys, logdir)
    assert "/monday/ " in text.splitlines()[0]
    assert ["a", "b"] == [line[2:].split()[0] for line in text.splitlines()[1:3]]


def test_the_output_is_the_same_each_time(logdir: Path, write: Callable[..., RecordedRun]) -> None:
    """Nothing in it depends on the moment, the width is fixed, and there are no colours."""
    run = write("a", 40, samples=layer("one", 1.0, 1.0, 1e-3))
    run.close()
    os.utime(run.path, (1e9, 1e9))  # what was written just now would be called live, for a while
    first, second = watch(logdir, "--once", FORCE_COLOR="", COLUMNS="50"), watch(logdir)
    assert (0, "") == (first.returncode, first.stderr)
    assert first.stdout == second.stdout
    assert "\x1b" not in first.stdout


def test_damage_is_told(
    logdir: Path, write: Callable[..., RecordedRun], capsys: pytest.CaptureFixture[str]
) -> None:
    """What is whole is shown, and how many places are not."""
    run = write("a", 3)
    run.add(3)
    run.close()
    data = bytearray(run.path.read_bytes())
    data[len(data) // 3] ^= 0xFF
    run.path.write_bytes(data)
    assert "cannot be read" in row(shown(capsys, logdir), "gaps")


def test_several_ranks(
    logdir: Path, write: Callable[..., RecordedRun], capsys: pytest.CaptureFixture[str]
) -> None:
    """It is said that there are others than the one shown."""
    write("a")
    other = RecordedRun(logdir / "a", rank=1)
    other.add(3)
    other.close()
    assert "2  rank 0 is shown" in row(shown(capsys, logdir), "ranks")


def test_runs_of_other_writers(logdir: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Their scalars are shown, whatever their names are."""
    writer = EventFileWriter(str(logdir))
    for step in range(5):
        value = Summary.Value(tag="Loss/train", simple_value=5.0 - step)
        writer.add_event(Event(step=step, wall_time=1e9 + step, summary=Summary(value=[value])))
    writer.close()
    assert "1.0000  █" in row(shown(capsys, logdir), "Loss/train")


def test_nothing_heavy_is_imported(logdir: Path, run_python: Callable[..., str]) -> None:
    """A training can be watched where there is no torch, and the view is there at once."""
    RecordedRun(logdir / "a").close()
    run = RecordedRun(logdir / "b")
    run.add(3)
    run.close()
    code = (
        f"import sys; from tb_netdebug.cli import main; main(['watch', {str(logdir)!r}, '--once']);"
        "print([name for name in ('torch', 'tensorboard', 'grpc') if name in sys.modules])"
    )
    assert "[]" == run_python(code).splitlines()[-1]


# ---- mistakes --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["nowhere"], "there is no folder nowhere. Give the logdir"),
        (["file"], "file is a file. Give the folder that it is in: ."),
        (["empty"], "there is no run in empty yet"),
        ([".", "--run", "b"], "has no run of that name. The runs are: a"),
        ([".", "--layers", "many"], "--layers"),
        ([], "LOGDIR|HOST:PORT"),
    ],
)
def test_mistakes_are_explained(
    words: Sequence[str],
    expected: str,
    logdir: Path,
    write: Callable[..., RecordedRun],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """One message that says what to do, no stack trace, and exit code 2."""
    monkeypatch.chdir(logdir)
    (logdir / "file").touch()
    (logdir / "empty").mkdir()
    write("a")
    assert 2 == main(["watch", *words])
    told = capsys.readouterr()
    assert expected in told.err
    assert ("", False) == (told.out, "Traceback" in told.err)
