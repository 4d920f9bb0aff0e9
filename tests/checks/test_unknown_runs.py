"""Runs of which nothing is known: unknown at every door, with the reason; and the exit code of `check`."""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import torch
from tensorboard.compat.proto.event_pb2 import Event
from tensorboard.compat.proto.summary_pb2 import Summary

import tb_netdebug as nd
from tb_netdebug.cli import main
from tb_netdebug.core.eventlog.reader.logdir import LogDir
from tb_netdebug.core.eventlog.writer import EventWriter
from tb_netdebug.core.eventlog.writer.framing import frame
from tb_netdebug.core.records.findings import encode_findings
from tb_netdebug.core.records.run_info import encode_run_info
from tb_netdebug.core.records.verdict import RunEvidence, Verdict, verdict
from tb_netdebug.viewer.plugin.rows import read_row
from tb_netdebug.viewer.plugin.verdicts import Verdicts
from tb_netdebug.viewer.plugin.workers import Workers
from tests.support.event_files import newer_block
from tests.support.run_cases import RecordedRun

SECRET = "\x1b[31mred"


def healthy(folder: Path) -> None:
    run = RecordedRun(folder)
    run.add(10)
    run.close()


def sick(folder: Path) -> None:
    run = RecordedRun(folder)
    run.add(5)
    run.add(5, scalars={"loss": math.nan})
    run.close()


def forgotten(folder: Path) -> None:
    """By `nd.watch`, without a `monitor.step`."""
    model = torch.nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    nd.watch(model, optimizer, logdir=folder.parent, run=folder.name).close()


def stepped_alone(folder: Path) -> None:
    """`monitor.step` in a loop that trains something else, or nothing."""
    with watched(folder) as (_, monitor):
        for _ in range(50):
            monitor.step()


def evaluated(folder: Path) -> None:
    """A loop without gradients, with a loss that only the model in sight can have."""
    with watched(folder) as (model, monitor), torch.no_grad():
        for _ in range(20):
            monitor.step(loss=model(torch.randn(8, 4)).square().mean())


def never_updated(folder: Path) -> None:
    """Forward and backward, and the optimizer does not step."""
    with watched(folder) as (model, monitor):
        for _ in range(20):
            loss = model(torch.randn(8, 4)).square().mean()
            loss.backward()
            monitor.step(loss=loss)


@contextmanager
def watched(folder: Path) -> Iterator[tuple[torch.nn.Module, Any]]:
    model = torch.nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with nd.watch(model, optimizer, logdir=folder.parent, run=folder.name) as monitor:
        yield model, monitor


def described(folder: Path, told: object) -> None:
    """Nothing but a description, and findings of a trainer that had nothing to judge."""
    writer = EventWriter(folder, mirror=None)
    writer.run_info(encode_run_info({"before_first_step": told}))
    writer.payload("findings", encode_findings([], steps=0, checks={}))
    writer.close()


def callbacks(folder: Path) -> None:
    described(folder, {"is_users": False, "is_closed": True, "optimizer_steps": 0})


def hostile(folder: Path) -> None:
    told = {"is_users": True, "optimizer_steps": SECRET, "is_fit": [1], "is_closed": {}, "has_failed": "no"}
    described(folder, told)


def no_description(folder: Path) -> None:
    described(folder, SECRET)


def empty_file(folder: Path) -> None:
    folder.mkdir()
    (folder / "events.out.tfevents.1700000000.host.1.0.netdebug").touch()


def empty_foreign_file(folder: Path) -> None:
    folder.mkdir()
    (folder / "events.out.tfevents.1700000000.host.1.0").touch()


def foreign_without_curves(folder: Path) -> None:
    """A SummaryWriter that has written a text alone."""
    value = Summary.Value(tag="notes")
    value.metadata.plugin_data.plugin_name = "text"
    value.tensor.dtype = 7
    value.tensor.string_val.append(b"hello")
    event = Event(step=0, wall_time=1e9, summary=Summary(value=[value]))
    folder.mkdir()
    (folder / "events.out.tfevents.1700000000.host.1.0").write_bytes(frame(event.SerializeToString()))


def damaged(folder: Path) -> None:
    healthy(folder)
    (path,) = folder.glob("*.netdebug")
    path.write_bytes(b"\xff" * 4096)
    os.utime(path, (1.7e9, 1.7e9))  # what has only just been written may be on its way as yet


def newer(folder: Path) -> None:
    folder.mkdir()
    file = folder / "events.out.tfevents.1700000000.host.1.0.netdebug"
    file.write_bytes(newer_block(9))


EMPTY = {
    forgotten: "Nothing was recorded: `monitor.step` was not called, and no optimizer step was seen.",
    callbacks: "Nothing was recorded: the training ended before its first step.",
    hostile: "Nothing is recorded yet: no step has ended, and no optimizer step was seen.",
    no_description: "Nothing was recorded: the files hold no step.",
    empty_file: "Nothing was recorded: the files hold no step.",
    empty_foreign_file: "Nothing can be judged: the files of this run hold no scalar and no histogram.",
    foreign_without_curves: "Nothing can be judged: the files of this run hold no scalar and no histogram.",
}
UNTRAINED = {
    stepped_alone: (
        50,
        "Nothing can be judged: 50 steps were recorded, without a loss, a gradient or a change",
    ),
    evaluated: (20, "Nothing can be judged: 20 steps were recorded, in which the model was only evaluated"),
    never_updated: (20, "Nothing can be judged: 20 steps were recorded, without an optimizer step and"),
}
UNREADABLE = {damaged: "Nothing could be read: ", newer: "Nothing could be read: "}


def made(logdir: Path, *makers: Any) -> Path:
    for maker in makers:
        maker(logdir / maker.__name__)
    return logdir


def checked(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str]:
    capsys.readouterr()
    code = main(["check", *words])
    return code, capsys.readouterr().out


def details_of(logdir: Path, name: str) -> dict[str, Any]:
    """As the HTTP API gives them."""
    places, workers = LogDir([("", str(logdir))]), Workers(1)
    places.refresh()
    run = places.open(name)
    run.refresh()
    told = Verdicts(workers).added(run, run.details())
    workers.close()
    return told


@pytest.mark.parametrize(
    ("maker", "steps", "reason"),
    [
        *((maker, 0, reason) for maker, reason in [*EMPTY.items(), *UNREADABLE.items()]),
        *((maker, steps, reason) for maker, (steps, reason) in UNTRAINED.items()),
    ],
)
def test_unknown_at_every_door(
    logdir: Path, capsys: pytest.CaptureFixture[str], maker: Any, steps: int, reason: str
) -> None:
    """With the same reason in `check`, its JSON, `watch`, the list of runs and the run's details."""
    made(logdir, maker)
    code, out = checked(capsys, str(logdir), "--json")
    (told,) = json.loads(out)["runs"]
    assert (2, "unknown", steps, []) == (code, told["verdict"], told["steps"], told["findings"])
    assert told["reason"].startswith(reason)
    details = details_of(logdir, maker.__name__)
    assert "unknown" == details["verdict"]
    assert details["reason"].startswith(reason)
    row = read_row(details)
    assert ("unknown", details["reason"]) == (row["verdict"], row["reason"])
    code, out = checked(capsys, str(logdir))
    assert 2 == code
    assert [maker.__name__, str(steps), "unknown"] == out.splitlines()[1].split()
    assert reason.split(": ")[1][:30] in " ".join(out.split())
    assert "healthy" not in out
    assert 0 == main(["watch", str(logdir), "--once"])
    screen = capsys.readouterr().out
    assert reason[:60] in " ".join(screen.split())
    assert "no sign of trouble" not in screen
    assert SECRET not in out + screen
    assert not nd.check(logdir).healthy


@pytest.mark.parametrize("maker", [healthy, sick])
def test_a_judged_run_has_no_reason(logdir: Path, capsys: pytest.CaptureFixture[str], maker: Any) -> None:
    """The field is there all the same."""
    made(logdir, maker)
    (told,) = json.loads(checked(capsys, str(logdir), "--json")[1])["runs"]
    assert (maker.__name__, None) == (told["verdict"], told["reason"])
    details = details_of(logdir, maker.__name__)
    assert (maker.__name__, None) == (details["verdict"], details["reason"])


@pytest.mark.parametrize(
    ("makers", "codes"),
    [
        ((healthy,), (0, 0, 0)),
        ((sick,), (1, 1, 0)),
        ((forgotten,), (2, 2, 2)),
        ((forgotten, empty_file, foreign_without_curves), (2, 2, 2)),
        ((healthy, forgotten, empty_file, foreign_without_curves), (0, 0, 0)),
        ((sick, forgotten), (1, 1, 0)),
        ((damaged,), (2, 2, 2)),
        ((healthy, damaged), (2, 2, 2)),
        ((sick, damaged, forgotten), (1, 1, 2)),
        ((stepped_alone, evaluated, never_updated), (2, 2, 2)),
        ((healthy, stepped_alone), (0, 0, 0)),
        ((healthy, newer), (2, 2, 2)),
    ],
    ids=lambda value: "+".join(each.__name__ for each in value) if callable(value[0]) else "",
)
def test_the_exit_code(
    logdir: Path, capsys: pytest.CaptureFixture[str], makers: Any, codes: tuple[int, int, int]
) -> None:
    """With `--fail-on` error, warning and never; `nd.check(...).healthy` is that of "warning"."""
    made(logdir, *makers)
    found = [
        checked(capsys, str(logdir), "--fail-on", severity)[0] for severity in ("error", "warning", "never")
    ]
    assert list(codes) == found
    assert (codes[1] == 0) is nd.check(logdir).healthy


def test_the_command_itself_says_what_its_exit_code_means(logdir: Path) -> None:
    """As a program: 2 for an empty run; and --help has the rule."""
    made(logdir, empty_file)
    command = [sys.executable, "-m", "tb_netdebug", "check"]
    assert 2 == subprocess.run([*command, str(logdir)], capture_output=True).returncode
    told = subprocess.run([*command, "--help"], capture_output=True, text=True)
    said = " ".join(told.stdout.split())
    assert "else 2 when no run could be judged" in said
    assert "An unknown run beside judged ones does not change it." in said


@pytest.mark.parametrize(
    ("severities", "steps", "word"),
    [
        ([], 1, "healthy"),
        (["info"], 1, "healthy"),
        (["warning"], 1, "suspect"),
        (["error", "info"], 1, "sick"),
        ([], 0, "unknown"),
        (["info"], 0, "unknown"),
        (["error"], 0, "sick"),  # the trainer said it of steps that are lost since
    ],
)
def test_the_one_place(severities: list[str], steps: int, word: str) -> None:
    found = verdict(severities, steps=steps)
    assert word == found.word
    assert (word == "unknown") is (found.reason is not None)


NAMES = {
    "a loss by itself": (["loss", "time/step"], False, None),
    "an optimizer": (["loss", "time/forward", "time/backward", "time/optimizer"], False, None),
    "weights that move by hand": (["time/forward", "time/backward"], True, None),
    "gradients of a loop out of sight": (["gradient_norm"], False, None),
    "a training between evaluations": (["probe/evaluations", "time/optimizer"], False, None),
    "no update": (["loss", "gradient_norm", "time/backward"], False, "without an optimizer step and"),
    "evaluations": (["scalar/eval_loss", "probe/evaluations"], False, "only evaluated"),
    "a loss of evaluations": (["loss", "probe/evaluations"], False, "only evaluated"),
    "nothing but time": (["time/step", "lr/0", "memory/rss"], False, "without a loss"),
    "own numbers": (["scalar/accuracy"], False, "without a loss"),
}


@pytest.mark.parametrize(("scalars", "has_moved", "reason"), NAMES.values(), ids=NAMES.keys())
def test_what_is_evidence_of_a_training(scalars: list[str], has_moved: bool, reason: str | None) -> None:
    """Findings count whatever else there is; without any, the run is healthy only on evidence."""
    evidence = RunEvidence.of(scalars, has_moved=has_moved)
    found = verdict([], steps=7, evidence=evidence)
    assert ("healthy" if reason is None else "unknown") == found.word
    assert found.reason is None if reason is None else reason in (found.reason or "")
    assert Verdict("sick") == verdict(["error"], steps=7, evidence=evidence)


def test_a_training_by_hand_is_evidence_at_every_door(
    logdir: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Without an optimizer the weights themselves tell, in files as in the list of runs."""
    model = torch.nn.Linear(4, 1)
    with nd.watch(model, logdir=logdir, run="by hand") as monitor:
        for _ in range(20):
            model.zero_grad()
            model(torch.randn(8, 4)).square().mean().backward()
            with torch.no_grad():
                for each in model.parameters():
                    each -= 0.1 * each.grad
            monitor.step()
    (told,) = json.loads(checked(capsys, str(logdir), "--json")[1])["runs"]
    assert "unknown" != told["verdict"]
    assert told["verdict"] == details_of(logdir, "by hand")["verdict"]


def test_damage_counts_only_where_steps_may_be_lost() -> None:
    """A description that was written at the end says that there were none."""
    closed = {"before_first_step": {"is_users": False, "is_closed": True}}
    found = verdict([], steps=0, info=closed, damage="x: 3 bytes hold no whole record")
    assert Verdict("unknown", "Nothing was recorded: the training ended before its first step.") == found
    assert not verdict([], steps=0, info={}, damage="x: 3 bytes").is_readable
    assert Verdict("healthy") == verdict([], steps=7, info={}, damage="x: 3 bytes")
