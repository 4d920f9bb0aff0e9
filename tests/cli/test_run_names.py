"""Runs of one name stay apart, unless one is resumed; all processes of a launch find the same folder."""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from torch import nn

import tb_netdebug as nd
from tb_netdebug.cli import main
from tb_netdebug.cli.run import add_options
from tb_netdebug.recording.run_sessions import (
    adopt_identity,
    identity_of,
    known_identity,
    place_for,
    sessions_in,
)
from tb_netdebug.transport.identity import NAME
from tests.cli.test_run_command import ROOT, python, watched
from tests.support.loops import Recorded

SCRIPT = """
import torch
from torch import nn
torch.manual_seed(0)
model = nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for _ in range(6):
    loss = model(torch.randn(8, 4)).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""


def trained(logdir: Path, steps: int = 4, **options: object) -> Path:
    """The folder of a run of this many steps."""
    model = nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    with nd.watch(model, optimizer, logdir=logdir, on_finding="ignore", memory=False, **options) as monitor:
        for _ in range(steps):
            loss = model(torch.randn(8, 4)).square().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            monitor.step(loss)
    return monitor.run_dir


def steps_checked(logdir: Path, capsys: pytest.CaptureFixture[str]) -> dict[str, int]:
    """By run, as `netdebug check` counts them."""
    capsys.readouterr()
    main(["check", str(logdir), "--json", "--fail-on", "never"])
    return {each["run"]: each["steps"] for each in json.loads(capsys.readouterr().out)["runs"]}


def test_a_name_that_exists_gets_a_suffix(logdir: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """In `nd.watch`, and it is said in one line."""
    names = [trained(logdir, run="mine").name for _ in range(3)]
    assert ["mine", "mine-2", "mine-3"] == names
    told = capsys.readouterr().err.splitlines()
    assert 2 == len(told)
    assert "the run 'mine' exists already, so this one is called 'mine-2'" in told[0]
    assert "resume=True" in told[0]
    assert {"mine": 4, "mine-2": 4, "mine-3": 4} == steps_checked(logdir, capsys)


def test_a_folder_without_records_is_no_run(logdir: Path) -> None:
    """What others have put there is left alone, and does not take the name."""
    (logdir / "mine").mkdir()
    (logdir / "mine/config.yaml").write_text("lr: 0.1")
    (logdir / "mine/events.out.tfevents.1.host").write_text("")
    assert logdir / "mine" == trained(logdir, run="mine")


def test_a_run_of_an_older_version_is_not_added_to(logdir: Path) -> None:
    """It has no session file, but it has records."""
    for path in trained(logdir, run="mine").glob(".netdebug-session-*"):
        path.unlink()
    assert logdir / "mine-2" == trained(logdir, run="mine")


def test_a_run_is_resumed_behind_its_last_step(logdir: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Command line and page count the same steps, each once, in a second event file."""
    trained(logdir, run="mine")
    assert "" == capsys.readouterr().err
    assert logdir / "mine" == trained(logdir, 3, run="mine", resume=True)
    assert "NetDebug: the run 'mine' continues at step 4.\n" == capsys.readouterr().err
    assert logdir / "mine" == trained(logdir, 2, run="mine", resume=True)
    assert "NetDebug: the run 'mine' continues at step 7.\n" == capsys.readouterr().err
    assert list(range(9)) == Recorded(logdir / "mine").steps
    assert {"mine": 9} == steps_checked(logdir, capsys)
    assert 3 == len(Recorded(logdir / "mine").run.files)
    assert [0, 4, 7] == [each.first_step for each in sessions_in(logdir / "mine")]


def test_a_run_without_steps_is_no_run_to_resume(logdir: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """As with a name that is spelled wrong: nothing fails, but it is said."""
    assert logdir / "mime" == trained(logdir, run="mime", resume=True)
    assert "NetDebug: the run 'mime' has no step yet to continue from: it begins at step 0.\n" == (
        capsys.readouterr().err
    )


def test_resume_needs_a_name_and_a_folder(logdir: Path) -> None:
    """What cannot be meant is said before anything is made."""
    with pytest.raises(ValueError, match="needs the name of the run"):
        trained(logdir, resume=True)
    with pytest.raises(ValueError, match="needs a logdir"):
        nd.watch(nn.Linear(1, 1), remote=":6007", run="mine", resume=True)
    assert [] == list(logdir.iterdir())


def test_the_command_keeps_runs_apart_and_resumes_them(tmp_path: Path) -> None:
    """`--run` and `--name` are one; `--resume` goes on."""
    (tmp_path / "train.py").write_text(SCRIPT)
    first = watched("train.py", folder=tmp_path, options=("--run", "mine"))
    assert "exists already" not in first.errors + first.closing
    second = watched("train.py", folder=tmp_path, options=("--name", "mine"))
    assert "the run 'mine' exists already, so this one is called 'mine-2'. (--resume" in (
        second.errors + second.closing
    )
    third = watched("train.py", folder=tmp_path, options=("--name", "mine", "--resume"))
    assert "6 steps recorded" in third.closing
    assert "NetDebug: the run 'mine' continues at step 6.\n" in third.closing
    assert list(range(12)) == Recorded(tmp_path / "runs/mine").steps
    assert list(range(6)) == Recorded(tmp_path / "runs/mine-2").steps
    nameless = python("-m", "tb_netdebug", "run", "--resume", "train.py", folder=tmp_path)
    assert (2, "") == (nameless.code, nameless.output)
    assert "--resume needs the name of the run to continue: add --run NAME" in nameless.errors


def test_a_run_has_one_identity_in_all_of_its_sessions(tmp_path: Path) -> None:
    """Worked out alike by all processes of a launch, kept when the run is resumed, agreed on by hosts;
    other runs have others, and what is no identity is not used."""
    folders = [
        place_for(tmp_path / host, "mine", owner, resume=False).folder
        for host, owner in (("one", "launch 1"), ("two", "launch 1"), ("three", "launch 2"))
    ]
    one, two, three = map(identity_of, folders)
    assert one == two == known_identity(folders[0])
    assert one != three
    place_for(tmp_path / "one", "mine", "launch 3", resume=True)
    assert one == identity_of(folders[0])
    assert [False, True] == [each.resumes for each in sessions_in(folders[0])]
    adopt_identity(folders[2], one)
    assert one == identity_of(folders[2])
    (folders[2] / NAME).write_text("../" * 11)
    assert three == identity_of(folders[2])
    nameless = [tmp_path / "nameless", tmp_path / "other"]
    for folder in nameless:
        folder.mkdir()
    assert identity_of(nameless[0]) == identity_of(nameless[0]) != identity_of(nameless[1])


def claim(folder: Path, owner: str) -> tuple[str, int]:
    place = place_for(folder, "mine", owner, resume=False)
    return owner, int(place.folder.name.rpartition("-")[2]) if "-" in place.folder.name else 1


def test_processes_that_begin_at_once_agree(tmp_path: Path) -> None:
    """Of one launch all find the same folder, those of different ones never the same."""
    owners = [f"launch {number}" for number in range(3) for _ in range(4)]
    with multiprocessing.get_context("spawn").Pool(4) as pool:
        found = pool.starmap(claim, [(tmp_path, owner) for owner in owners])
    assert 3 == len(set(found)) == len({number for _, number in found})
    assert {1, 2, 3} == {number for _, number in found}


PLACE = """
import os, sys
from tb_netdebug.recording.run_folder import run_place
place = run_place(sys.argv[1], "mine", os.environ, resume=len(sys.argv) > 2)
print(place.folder.name)
"""


def test_launches_on_several_hosts_that_say_the_same_stay_apart(tmp_path: Path) -> None:
    """Before their ranks have met: a rank that was there already is of another launch, and so are all that
    come behind it, also those that were missing the first time."""
    launch = {"WORLD_SIZE": "3", "LOCAL_WORLD_SIZE": "1", "MASTER_ADDR": "host0", "MASTER_PORT": "29500"}
    path = "" if sys.flags.isolated else str(ROOT)

    def place(rank: int, *words: str) -> str:
        env = {**os.environ, **launch, "RANK": str(rank), "TORCHELASTIC_RUN_ID": "none", "PYTHONPATH": path}
        command = [sys.executable, "-c", PLACE, str(tmp_path), *words]
        return subprocess.run(command, env=env, capture_output=True, text=True, check=True).stdout.strip()

    assert ["mine", "mine"] == [place(0), place(1)]
    assert ["mine-2", "mine-2", "mine-2"] == [place(1), place(0), place(2)]
    assert ["mine-3", "mine-3"] == [place(2), place(0)]
    assert ["mine", "mine"] == [place(0, "resume"), place(1, "resume")]
    assert 2 == len(sessions_in(tmp_path / "mine"))
    assert known_identity(tmp_path / "mine") != known_identity(tmp_path / "mine-2")


TORCHRUN = ("-m", "torch.distributed.run", "--standalone", "--local-addr", "127.0.0.1", "--nproc-per-node")


def test_under_torchrun_all_ranks_get_the_same_suffix(tmp_path: Path) -> None:
    """Twice the same name: two runs, each with a file of both ranks; resumed, both go on alike."""
    script = str(ROOT / "tests/support/scripts/distributed.py")
    words = (*TORCHRUN, "2", "-m", "tb_netdebug", "run", "--name", "mine")
    for resumed in ((), (), ("--resume",)):
        ran = python(*words, *resumed, script, folder=tmp_path)
        assert 0 == ran.code, ran.errors
        assert 1 == ran.errors.count("NetDebug: 5 steps recorded")
    assert {"mine", "mine-2"} == {path.name for path in (tmp_path / "runs").iterdir()}
    for rank in (0, 1):
        assert list(range(10)) == Recorded(tmp_path / "runs/mine", rank).steps
        assert list(range(5)) == Recorded(tmp_path / "runs/mine-2", rank).steps


RESTARTED = """
import os, sys
import torch
from torch import nn
model = nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for step in range(5):
    optimizer.zero_grad()
    model(torch.randn(8, 4)).square().mean().backward()
    optimizer.step()
if os.environ["TORCHELASTIC_RESTART_COUNT"] == "0":
    sys.exit(3)
"""


@pytest.mark.parametrize(("options", "runs"), [((), {"mine": 5, "mine-2": 5}), (("--resume",), {"mine": 10})])
def test_a_restart_by_the_launcher_is_a_run_of_its_own_or_goes_on(
    tmp_path: Path, options: tuple[str, ...], runs: dict[str, int]
) -> None:
    """Its steps begin anew, so they are not mixed with those before."""
    (tmp_path / "train.py").write_text(RESTARTED)
    words = (*TORCHRUN, "2", "--max-restarts", "1", "-m", "tb_netdebug", "run", "--name", "mine", *options)
    ran = python(*words, "train.py", folder=tmp_path)
    assert 0 == ran.code, ran.errors
    found = {path.name: Recorded(path).steps for path in (tmp_path / "runs").iterdir()}
    assert {name: list(range(steps)) for name, steps in runs.items()} == found


# Every option of `netdebug run`, as it is typed under torchrun.
OPTIONS = (
    ("--logdir", "logs"),
    ("--name", "mine"),
    ("--every", "2"),
    ("--overhead", "0.05"),
    ("--on-finding", "ignore"),
    ("--check-numerics", "layers"),
    ("--include", "weight"),
    ("--exclude", "nothing"),
    ("--console",),
    ("--off", "dead-units"),
    ("--set", "dead-units.share=0.8"),
    ("--config", "netdebug.toml"),
)
LEFT_OUT = {
    "--help",
    "--run",  # torchrun takes it for one of its own, see below
    "--resume",  # tested above
    "--remote",  # needs a collector: test_remote.py
    "--debugger",
    "--pause-at-start",
}


def test_every_option_goes_through_torchrun(tmp_path: Path) -> None:
    """None of them is taken for one of torchrun's own but `--run`, for which there is `--name`."""
    parser = argparse.ArgumentParser()
    add_options(parser)
    known = {word for action in parser._actions for word in action.option_strings if word[:2] == "--"}
    assert known - LEFT_OUT == {words[0] for words in OPTIONS}
    (tmp_path / "netdebug.toml").write_text("[checks]\n")
    words = [word for option in OPTIONS for word in option]
    script = str(ROOT / "tests/support/scripts/distributed.py")
    ran = python(*TORCHRUN, "2", "-m", "tb_netdebug", "run", *words, script, folder=tmp_path)
    assert 0 == ran.code, ran.errors
    found = Recorded(tmp_path / "logs/mine")
    assert list(range(5)) == found.steps
    assert {"every": 2, "check_numerics": "layers", "include": "weight", "console": True}.items() <= (
        found.info["settings"].items()
    )
    refused = python(*TORCHRUN, "1", "-m", "tb_netdebug", "run", "--run", "mine", script, folder=tmp_path)
    assert "ambiguous option: --run" in refused.errors


@pytest.mark.parametrize(
    "options", [("--debugger",), ("--debugger", "127.0.0.1:1"), ("--remote", "127.0.0.1:1")]
)
def test_options_that_open_connections_go_through_torchrun(
    tmp_path: Path, options: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The debugger's and the collector's; nobody is there, and the training goes its way."""
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    monkeypatch.setenv("NETDEBUG_PATIENCE_SECS", "0")
    script = str(ROOT / "tests/support/scripts/distributed.py")
    words = ("--logdir", "logs", "--name", "mine", *options)
    ran = python(*TORCHRUN, "2", "-m", "tb_netdebug", "run", *words, script, folder=tmp_path)
    assert 0 == ran.code, ran.errors
    assert list(range(5)) == Recorded(tmp_path / "logs/mine").steps
