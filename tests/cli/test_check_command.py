"""`netdebug check` and `nd.check`: recorded trainings judged, for people and for CI."""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import torch
from tensorboard.compat.proto.event_pb2 import Event
from tensorboard.compat.proto.summary_pb2 import Summary
from tensorboard.summary.writer.event_file_writer import EventFileWriter

import tb_netdebug as nd
from tb_netdebug.checks.finding import Finding, Severity
from tb_netdebug.cli import main
from tb_netdebug.judging.logdir import CheckError
from tests.support.run_cases import RecordedRun


@pytest.fixture
def sick(logdir: Path) -> Path:
    """A logdir with a healthy run, and one whose loss is no number from step 5 on."""
    for name, bad in (("healthy", 1.0), ("sick", math.nan)):
        run = RecordedRun(logdir / name)
        run.add(5)
        run.add(5, scalars={"loss": bad})
        run.close()
    return logdir


def checked(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str, str]:
    code = main(["check", *words])
    return code, *capsys.readouterr()


@pytest.mark.parametrize(
    ("error", "sentence"),
    [
        (ValueError, "The program ended with ValueError: the verdict is on the steps before."),
        (KeyboardInterrupt, "The program was interrupted: the verdict is on the steps before."),
        (None, None),
    ],
)
def test_how_the_program_ended(
    error: type[BaseException] | None, sentence: str | None, logdir: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its error is no finding, but no tick stands for the whole of it."""
    model = torch.nn.Linear(2, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with (
        suppress(ValueError, KeyboardInterrupt),
        nd.watch(model, optimizer, logdir=logdir, run="r") as monitor,
    ):
        loss = model(torch.ones(3, 2)).square().mean()
        loss.backward()
        optimizer.step()
        monitor.step(loss=loss)
        if error is not None:
            raise error
    _, out, _ = checked(capsys, str(logdir), "--json")
    assert ([sentence] if sentence else []) == json.loads(out)["runs"][0]["complaints"]


def test_the_object_for_programs(sick: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = checked(capsys, str(sick), "--json")
    told = json.loads(out)
    assert (1, "") == (code, err)
    assert (1, str(sick)) == (told["schema"], told["logdir"])
    healthy, ill = told["runs"]
    assert ("healthy", 10, "healthy", []) == tuple(
        healthy[name] for name in ("run", "steps", "verdict", "findings")
    )
    assert ("sick", 10, "sick") == tuple(ill[name] for name in ("run", "steps", "verdict"))
    (found,) = [each for each in ill["findings"] if each["rule"] == "nonfinite-loss"]
    assert ("error", 5) == (found["severity"], found["first_step"])
    assert {
        "rule", "severity", "first_step", "last_step", "where", "message", "evidence", "advice",
        "sureness", "cause", "consequences",
    } == found.keys()  # fmt: skip
    assert found["message"]
    assert found["advice"]


def test_the_text_for_people(sick: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A line a run with its verdict, then what is wrong."""
    code, out, err = checked(capsys, str(sick))
    assert (1, "") == (code, err)
    lines = out.splitlines()
    assert ["run", "steps", "verdict", "errors", "warnings", "notes"] == lines[0].split()
    assert ["healthy", "10", "healthy"] == lines[1].split()
    assert ["sick", "10", "sick"] == lines[2].split()[:3]
    assert any(line.startswith("ERROR nonfinite-loss, steps 5 to 9") for line in lines)
    assert any(line.strip().startswith("Try: ") for line in lines)


def test_a_command_stays_on_one_line(
    logdir: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """However narrow the terminal is, it can be copied whole."""
    monkeypatch.setenv("COLUMNS", "40")
    monkeypatch.setattr("sys.argv", ["-c"])
    model = torch.nn.Linear(2, 1)
    with nd.watch(model, logdir=logdir, run="run", on_finding="ignore") as monitor:
        loss = torch.log(-model(torch.ones(2, 2)).abs()).mean()
        loss.backward()  # type: ignore[no-untyped-call]
        monitor.step(loss=loss)
    capsule = logdir / "run" / "capsules" / "step-0.pt"
    assert capsule.is_file()
    _, out, _ = checked(capsys, str(logdir))
    assert f"    netdebug replay {capsule} YOUR_SCRIPT" in out.splitlines()


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (["--fail-on", "never"], 0),
        (["--fail-on", "warning"], 1),
        (["--off", "nonfinite-loss", "--fail-on", "error"], 0),
    ],
)
def test_when_a_build_fails(
    sick: Path, capsys: pytest.CaptureFixture[str], words: list[str], code: int
) -> None:
    assert code == checked(capsys, str(sick), *words)[0]


def test_the_file_of_settings(
    sick: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In the current folder, or named; the command line goes before it."""
    monkeypatch.chdir(tmp_path)
    Path("netdebug.toml").write_text("[checks]\nnonfinite-loss = false\n")
    assert 0 == checked(capsys, str(sick))[0]
    other = tmp_path / "other.toml"
    other.write_text("[checks]\n")
    assert 1 == checked(capsys, str(sick), "--config", str(other))[0]
    assert nd.check(sick).healthy
    assert not nd.check(sick, checks={"nonfinite-loss": True}).healthy


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[checks", "cannot be read"),
        ("checks = 3", "checks must be a table"),
        ("[check]\n", "unknown setting 'check'"),
        ("[checks]\nno-such-thing = false", "no check 'no-such-thing'"),
        ("[checks.nonfinite-loss]\nshare = 1", "no threshold 'share'"),
    ],
)
def test_a_bad_file_of_settings_is_said(
    sick: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path, text: str, said: str
) -> None:
    path = tmp_path / "netdebug.toml"
    path.write_text(text)
    code, out, err = checked(capsys, str(sick), "--config", str(path))
    assert (2, "") == (code, out)
    assert said in err
    assert "Traceback" not in err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "LOGDIR is missing"),
        (["{empty}"], "holds no run"),
        (["{empty}/nothing"], "there is no folder"),
        (["{file}"], "{file} is a file. Give the folder that it is in: {folder}"),
        (["{sick}", "--set", "dead-units"], "CHECK.NAME=NUMBER"),
        (["{sick}", "--set", "dead-units.share=much"], "CHECK.NAME=NUMBER"),
        (["{sick}", "--off", "bla"], "no check 'bla'"),
        (["{sick}", "--config", "{empty}/none.toml"], "none.toml"),
    ],
)
def test_mistakes_are_said_in_a_sentence(
    sick: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], words: list[str], said: str
) -> None:
    empty = tmp_path / "empty"
    empty.mkdir()
    file = tmp_path / "file"
    file.touch()
    places = {"sick": sick, "empty": empty, "file": file, "folder": tmp_path}
    code, out, err = checked(capsys, *(word.format(**places) for word in words))
    assert (2, "") == (code, out)
    assert said.format(**places) in err
    assert "Traceback" not in err


@pytest.mark.parametrize(
    ("place", "said"),
    [
        ("", "{} holds no run"),
        ("nowhere", "there is no folder {}"),
        ("file", "{} is a file"),
    ],
)
def test_the_object_of_what_cannot_be_judged(
    place: str, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").touch()
    path = str(tmp_path / place)
    code, out, err = checked(capsys, path, "--json")
    told = json.loads(out)
    sentence = told.pop("error")
    assert (2, {"schema": 1, "logdir": path, "runs": []}) == (code, told)
    assert sentence.startswith(said.format(path))
    assert f"netdebug: {sentence}\n" == err


def test_every_check_is_listed(capsys: pytest.CaptureFixture[str]) -> None:
    """With its thresholds, as --set takes them."""
    from tb_netdebug.checks.rules import ALL

    code, out, _ = checked(capsys, "--list")
    assert 0 == code
    assert [rule.slug for rule in ALL] == [line.split()[0] for line in out.splitlines()]


def test_a_damaged_run_is_judged_by_what_is_left(sick: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (path,) = (sick / "sick").glob("*.netdebug")
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 0xFF
    path.write_bytes(data)
    code, out, _ = checked(capsys, str(sick), "--json")
    told = {each["run"]: each for each in json.loads(out)["runs"]}
    assert told["sick"]["complaints"]
    assert told["healthy"]["complaints"] == []
    assert code in (0, 1)


def test_a_run_that_cannot_be_read_is_not_healthy(logdir: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Nothing of it is left but the name."""
    run = RecordedRun(logdir / "run")
    run.add(3)
    run.close()
    (path,) = (logdir / "run").glob("*.netdebug")
    path.write_bytes(b"\xff" * 4096)
    code, out, _ = checked(capsys, str(logdir), "--json")
    (told,) = json.loads(out)["runs"]
    assert (2, "unknown") == (code, told["verdict"])
    assert told["reason"].startswith("Nothing could be read: ")
    assert not nd.check(logdir).healthy


def test_a_run_of_another_writer_is_judged_by_its_curves(
    logdir: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """And it is said what would need NetDebug's own recorder."""
    writer = EventFileWriter(str(logdir / "theirs"))
    for step in range(40):
        value = Summary.Value(tag="Loss/train", simple_value=math.nan if step >= 30 else 1 / (step + 1))
        writer.add_event(Event(step=step, wall_time=1e9 + step, summary=Summary(value=[value])))
    writer.close()
    code, out, _ = checked(capsys, str(logdir), "--json")
    (run,) = json.loads(out)["runs"]
    assert (1, 40) == (code, run["steps"])
    assert ["nonfinite-loss", 30] == [run["findings"][0]["rule"], run["findings"][0]["first_step"]]
    assert "recorded by another writer" in run["complaints"][0]
    assert "dead-units" in run["not_judged"]


@pytest.mark.parametrize(
    ("tag", "verdict"), [("lr", "unknown"), ("accuracy", "unknown"), ("g_loss", "healthy")]
)
def test_a_run_of_another_writer_without_a_loss(
    tag: str, verdict: str, logdir: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nothing in it tells a sick training from a healthy one."""
    writer = EventFileWriter(str(logdir / "theirs"))
    for step in range(40):
        value = Summary.Value(tag=tag, simple_value=1 / (step + 1))
        writer.add_event(Event(step=step, wall_time=1e9 + step, summary=Summary(value=[value])))
    writer.close()
    code, out, _ = checked(capsys, str(logdir), "--json")
    (run,) = json.loads(out)["runs"]
    assert (verdict, 2 if verdict == "unknown" else 0) == (run["verdict"], code)
    assert (verdict == "unknown") == str(run["reason"]).startswith("Nothing can be judged: ")


def test_check_in_a_test_of_ones_own(logdir: Path) -> None:
    """`assert nd.check(logdir).healthy`, and what to read when it fails."""
    torch.manual_seed(0)
    train(logdir, torch.nn.Linear(8, 1), rate=0.05)
    report = nd.check(logdir)
    assert report.healthy, report.as_dict()
    assert Severity.WARNING > report.worst
    with pytest.raises(CheckError, match="there is no folder"):
        nd.check(logdir / "nothing")


def test_the_trainer_and_the_files_say_the_same(logdir: Path) -> None:
    """Of a training that blows up: the findings online, those stored, and those judged anew."""
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(8, 32), torch.nn.ReLU(), torch.nn.Linear(32, 1))
    online = [finding.as_dict() for finding in train(logdir, model, rate=30.0)]
    assert "nonfinite-loss" in {finding["rule"] for finding in online}
    (run,) = nd.check(logdir).runs
    assert online == [finding.as_dict() for finding in run.findings]
    assert online == stored(logdir)


def train(logdir: Path, model: torch.nn.Module, *, rate: float) -> list[Finding]:
    """The sum of eight numbers is learned; what the trainer itself has found."""
    optimizer = torch.optim.SGD(model.parameters(), lr=rate)
    with nd.watch(model, optimizer, logdir=logdir, run="run", on_finding="ignore") as monitor:
        for _ in range(60):
            inputs = torch.randn(16, 8)
            loss = (model(inputs) - inputs.sum(1, keepdim=True)).square().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            monitor.step(loss=loss)
    return monitor.findings


def stored(logdir: Path) -> list[dict[str, Any]]:
    from tb_netdebug.core.eventlog.reader.logdir import LogDir

    places = LogDir([("", str(logdir))])
    places.refresh()
    run = places.open("run")
    run.refresh()
    found: list[dict[str, Any]] = run.details()["findings"]
    return found


def test_the_command_itself(sick: Path) -> None:
    """As a process of its own: exit code, and nothing but the object on standard output."""
    command = [sys.executable, "-m", "tb_netdebug", "check", str(sick), "--json"]
    done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, "COLUMNS": "80"})
    assert (1, "") == (done.returncode, done.stderr)
    assert 1 == json.loads(done.stdout)["schema"]


def test_a_reader_that_has_enough(sick: Path) -> None:
    """`netdebug check … | head` ends as the shell's own commands do, without a word."""
    command = [sys.executable, "-m", "tb_netdebug", "check", str(sick), "--json"]
    reading, writing = os.pipe()
    os.close(reading)
    done = subprocess.run(command, stdout=writing, stderr=subprocess.PIPE, text=True)
    os.close(writing)
    assert (141, "") == (done.returncode, done.stderr)
