"""`remote=`: a training that is watched from elsewhere trains as ever, and its run arrives there whole."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from torch import nn

import tb_netdebug as nd
from tb_netdebug.integrations.recording import CallbackRecording
from tb_netdebug.recording.remote import below, error_that_ends, fit, host_name, name_there, remote_of
from tb_netdebug.recording.settings import Settings
from tb_netdebug.transport.identity import NAME
from tests.support.collector_process import CollectorProcess
from tests.support.loops import ROOT, Recorded
from tests.support.streamed import Home, contents, wait_for
from tests.support.tensorboard_process import TensorBoard

# A training as people write it, with workers that are forked in every epoch: 80 of them.
LOADER_PROGRAM = """
import sys, torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
import tb_netdebug as nd

torch.manual_seed(0)
model = nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
data = TensorDataset(torch.randn(32, 4), torch.randn(32, 1))
loader = DataLoader(data, batch_size=8, num_workers=2, multiprocessing_context="fork")
monitor = nd.watch(model, optimizer, run="soak", on_finding="ignore")
for epoch in range(40):
    for x, y in loader:
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(model(x), y)
        loss.backward()
        optimizer.step()
        monitor.step(loss)
assert "grpc" not in sys.modules
print(monitor.run_dir)
"""
RANK_PROGRAM = """
import sys
import torch
import torch.distributed as dist
from torch import nn
import tb_netdebug as nd

dist.init_process_group("gloo")
model = nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
with nd.watch(model, optimizer, logdir=sys.argv[1], run="ranks", on_finding="ignore") as monitor:
    for _ in range(5):
        optimizer.zero_grad()
        loss = model(torch.randn(8, 4)).square().mean()
        loss.backward()
        optimizer.step()
        monitor.step(loss)
dist.barrier()
dist.destroy_process_group()
"""
PLAIN_PROGRAM = """
import torch
model = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for _ in range(20):
    optimizer.zero_grad()
    model(torch.randn(8, 4)).square().mean().backward()
    optimizer.step()
raise SystemExit(3)
"""


@pytest.fixture
def home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Home]:
    """Also for trainings in this very process. pytest has made its own folder by then."""
    with Home() as found:
        for name, value in found.env.items():
            monkeypatch.setenv(name, value)
        monkeypatch.setattr(tempfile, "tempdir", str(found.temporary))
        yield found


@pytest.fixture(scope="module")
def collector(tmp_path_factory: pytest.TempPathFactory) -> Iterator[CollectorProcess]:
    """One for all of them: each has a run of its own."""
    with CollectorProcess(tmp_path_factory.mktemp("collector") / "there") as found:
        yield found


def trained(**options: object) -> tuple[list[float], nd.Monitor | None]:
    """The losses of a little training, watched when there are options."""
    torch.manual_seed(3)
    model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 1))
    optimizer = torch.optim.Adam(model.parameters())
    monitor = nd.watch(model, optimizer, every=1, strict=True, **options) if options else None  # type: ignore[arg-type]
    losses = []
    for _ in range(10):
        optimizer.zero_grad()
        loss = model(torch.randn(16, 4)).square().mean()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
        if monitor is not None:
            monitor.step(loss)
    if monitor is not None:
        monitor.close()
    return losses, monitor


def program(
    home: Home, folder: Path, *words: str, text: str, remote: str = ""
) -> subprocess.CompletedProcess[str]:
    folder.mkdir(exist_ok=True)
    path = "" if sys.flags.isolated else str(ROOT)
    return subprocess.run(
        [sys.executable, *words],
        input=text,
        cwd=folder,
        env={**os.environ, **home.env, "PYTHONPATH": path, "OMP_NUM_THREADS": "1", "NETDEBUG_REMOTE": remote},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def heard(capfd: pytest.CaptureFixture[str]) -> str:
    """What is said at the terminal, as soon as something is."""
    told: list[str] = []

    def is_told() -> bool:
        told.append(capfd.readouterr().err)
        return any(told)

    wait_for(is_told)
    return "".join(told)


def test_with_a_logdir_the_run_is_in_both_places(
    home: Home, collector: CollectorProcess, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """The same losses, the same files; a name that nobody has chosen gets the host's."""
    expected, _ = trained()
    losses, monitor = trained(remote=collector.address, logdir=tmp_path / "here")
    assert expected == losses
    assert monitor is not None
    wait_for(lambda: not home.notes())
    there = collector.root / f"{monitor.run_dir.name}-{host_name()}"
    assert contents(monitor.run_dir) == contents(there)
    assert expected == Recorded(there).series("loss")
    assert "" == capfd.readouterr().err


def test_with_remote_alone_nothing_stays(
    home: Home, collector: CollectorProcess, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither in the current folder nor where the records have waited."""
    monkeypatch.chdir(tmp_path)
    expected, _ = trained()
    losses, monitor = trained(remote=collector.address, run="group/one")
    assert expected == losses
    assert monitor is not None
    assert monitor.run_dir.is_relative_to(home.temporary)
    wait_for(lambda: not home.notes())
    assert expected == Recorded(collector.root / "group/one").series("loss")
    assert [] == [path for path in home.waiting() if path.is_file()]
    assert not Path("runs").exists()


def test_without_a_collector_the_training_goes_on(
    home: Home, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """One sentence says so, and where the records are; the next training sends them."""
    with CollectorProcess(tmp_path / "there") as gone:
        address = gone.address
    expected, _ = trained()
    losses, _ = trained(remote=address, run="one")
    assert expected == losses
    told = heard(capfd)
    assert 1 == told.count("NetDebug")
    assert f"NetDebug: the collector at {address} cannot be reached" in told
    assert "wait in " in told
    with CollectorProcess(gone.root, at=address):
        trained(remote=address, run="two")
        wait_for(lambda: not home.notes())
    assert expected == Recorded(gone.root / "one").series("loss")
    assert expected == Recorded(gone.root / "two").series("loss")


def test_a_refused_token_is_said(
    home: Home,
    collector: CollectorProcess,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    """In the collector's words; the token itself is in none of ours, nor in a list of processes."""
    monkeypatch.setenv("NETDEBUG_TOKEN", "another-token-than-theirs")
    trained(remote=collector.address)
    wait_for(home.agents)
    with open(f"/proc/{home.agent()}/cmdline") as file:  # noqa: PTH123
        assert "another-token" not in file.read()
    told = heard(capfd)
    assert f"nothing is sent to the collector at {collector.address}: The token is missing or wrong" in told
    assert "another-token" not in told + home.logs()


def test_loaders_that_fork_are_left_alone(home: Home, collector: CollectorProcess, tmp_path: Path) -> None:
    """Workers come and go while records are sent; when the program ends, the collector has everything."""
    ran = program(home, tmp_path / "work", "-c", LOADER_PROGRAM, text="", remote=collector.address)
    assert (0, "") == (ran.returncode, ran.stderr)
    assert list(range(160)) == Recorded(collector.root / "soak").steps
    assert str(home.temporary) in ran.stdout
    assert [] == list((tmp_path / "work").iterdir())
    wait_for(lambda: not home.notes())


def test_netdebug_run_sends_what_it_finds(home: Home, collector: CollectorProcess, tmp_path: Path) -> None:
    """And says where it is; the script's own exit code is its own."""
    words = ("-m", "tb_netdebug", "run", "--remote", collector.address, "--run", "mine", "-")
    ran = program(home, tmp_path / "work", *words, text=PLAIN_PROGRAM)
    assert 3 == ran.returncode
    assert f"Sent to {collector.address}" in ran.stderr
    assert "Recorded in" not in ran.stderr
    assert list(range(20)) == Recorded(collector.root / "mine").steps
    wait_for(lambda: not home.notes())


def test_netdebug_run_says_when_nobody_listened(home: Home, tmp_path: Path) -> None:
    """Nothing is "sent" then; where the records are, and how they get there."""
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        port = closed.getsockname()[1]
    words = ("-m", "tb_netdebug", "run", "--remote", f":{port}", "--run", "mine")
    for options, kept in (((), home.temporary), (("--logdir", "logs"), tmp_path / "work/logs")):
        ran = program(home, tmp_path / "work", *words, *options, "-", text=PLAIN_PROGRAM)
        assert 3 == ran.returncode
        assert "Sent to" not in ran.stderr
        told = ran.stderr[ran.stderr.index("Nothing was sent.") :]
        assert f"No collector is running at 127.0.0.1:{port}. Start one with `netdebug collect" in told
        assert f"--listen :{port}`" in told
        (run,) = (path.parent for path in kept.glob("**/mine/*.netdebug"))
        shown = run.relative_to(tmp_path / "work") if options else run
        assert f"The records are in {shown}. They are sent as soon as a collector answers" in told
        assert list(range(20)) == Recorded(run).steps


def test_netdebug_run_says_when_it_was_refused(
    home: Home, collector: CollectorProcess, tmp_path: Path
) -> None:
    """There is a collector, but it takes nothing: it is not said that there is none."""
    home.env["NETDEBUG_TOKEN"] = "another-token-than-theirs"
    words = ("-m", "tb_netdebug", "run", "--remote", collector.address, "--run", "mine", "-")
    ran = program(home, tmp_path / "work", *words, text=PLAIN_PROGRAM)
    assert "Sent to" not in ran.stderr
    assert f"Nothing was sent. The collector at {collector.address} refused the records" in ran.stderr
    assert "No collector is running" not in ran.stderr


def test_the_same_name_twice_is_two_runs_there(
    home: Home, collector: CollectorProcess, tmp_path: Path
) -> None:
    """Although nothing of the first one has stayed here; the closing line names it as it is there."""
    words = ("-m", "tb_netdebug", "run", "--remote", collector.address, "--run", "twice", "-")
    for called in ("", " as twice-2"):
        ran = program(home, tmp_path / "work", *words, text=PLAIN_PROGRAM)
        assert f"Sent to {collector.address}{called}: " in ran.stderr
        wait_for(lambda: not home.notes())
    for name in ("twice", "twice-2"):
        assert list(range(20)) == Recorded(collector.root / name).steps


def test_the_same_name_on_two_machines_is_two_runs_there(
    home: Home, collector: CollectorProcess, tmp_path: Path
) -> None:
    """The closing line names the run as it is there, and a line before it says why."""
    words = ("-m", "tb_netdebug", "run", "--remote", collector.address, "--run", "shared", "-")
    with Home() as elsewhere:
        first, second = (
            program(each, tmp_path / "work", *words, text=PLAIN_PROGRAM) for each in (home, elsewhere)
        )
        wait_for(lambda: not home.notes() and not elsewhere.notes())
    assert f"Sent to {collector.address}: " in first.stderr
    assert "another run called" not in first.stderr
    assert f"Sent to {collector.address} as shared-2: " in second.stderr
    assert 1 == second.stderr.count(
        "has another run called 'shared', so this one is called 'shared-2' there."
    )
    for name in ("shared", "shared-2"):
        assert list(range(20)) == Recorded(collector.root / name).steps


def test_a_resumed_run_goes_on_there(home: Home, collector: CollectorProcess, tmp_path: Path) -> None:
    """From this machine in its own folder, whatever that is called; from another one in the run of that name,
    behind the last step when the logdir was taken along."""
    words = (
        "-m",
        "tb_netdebug",
        "run",
        "--remote",
        collector.address,
        "--logdir",
        "logs",
        "--run",
        "resumed",
    )

    def run(at: Home, folder: str, *options: str) -> None:
        assert 3 == program(at, tmp_path / folder, *words, *options, "-", text=PLAIN_PROGRAM).returncode
        wait_for(lambda: not at.notes())

    with Home() as elsewhere:
        run(home, "one")
        run(elsewhere, "two")
        run(home, "one", "--resume")
        run(elsewhere, "two", "--resume")
    assert list(range(40)) == Recorded(collector.root / "resumed").steps
    assert list(range(40)) == Recorded(collector.root / "resumed-2").steps
    with Home() as third:
        shutil.copytree(tmp_path / "one", tmp_path / "three")
        (tmp_path / "three/logs/resumed" / NAME).unlink()
        for path in (tmp_path / "three/logs/resumed").glob(".netdebug-session-*"):
            path.unlink()
        run(third, "three", "--resume")
    assert list(range(60)) == Recorded(collector.root / "resumed").steps
    assert not (collector.root / "resumed-3").exists()


def test_launches_on_several_hosts_are_a_run_each(collector: CollectorProcess, tmp_path: Path) -> None:
    """Their ranks, which have no disk in common, come together; a second launch at the same address, with the
    same name and on fresh machines, stays apart."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    for launch in ("first", "second"):
        with Home() as one, Home() as two:
            started = [
                subprocess.Popen(
                    [sys.executable, "-c", RANK_PROGRAM, str(tmp_path / launch / str(rank))],
                    env={
                        **os.environ, **home.env, "PYTHONPATH": "" if sys.flags.isolated else str(ROOT),
                        "NETDEBUG_REMOTE": collector.address, "RANK": str(rank), "WORLD_SIZE": "2",
                        "LOCAL_WORLD_SIZE": "1", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port),
                        "OMP_NUM_THREADS": "1",
                    },
                )
                for rank, home in enumerate((one, two))
            ]  # fmt: skip
            assert [0, 0] == [each.wait(120) for each in started]
            wait_for(lambda one=one, two=two: not one.notes() and not two.notes())  # type: ignore[misc]
    for launch, name in (("first", "ranks"), ("second", "ranks-2")):
        sent = {
            path: data for rank in "01" for path, data in contents(tmp_path / launch / rank / "ranks").items()
        }
        assert sent == contents(collector.root / name)
        for rank in (0, 1):
            assert list(range(5)) == Recorded(collector.root / name, rank).steps
    assert not (collector.root / "ranks-3").exists()


def test_its_session_is_called_as_its_run(home: Home, tmp_path: Path) -> None:
    """There, where the name of the host is added to one that nobody has chosen."""
    flags = ("--logdir", str(tmp_path), "--netdebug_listen", ":0")
    with TensorBoard(*flags, env=home.env) as board:
        address = board.wait_for_log(r"takes the records of trainings at (\S+)")[1]
        with nd.watch(nn.Linear(4, 1), remote=address, debugger=True, on_finding="ignore") as monitor:
            monitor.step()
            wait_for(lambda: board.json("debugger/sessions")["sessions"])
            wait_for(lambda: board.json("runs")["runs"])
            (entry,), (run,) = board.json("debugger/sessions")["sessions"], board.json("runs")["runs"]
    assert run["name"] == "/".join(entry["session"]["run"])


def test_a_bad_address_ends_netdebug_run_before_the_script(home: Home, tmp_path: Path) -> None:
    """With a sentence; from the environment, too."""
    for words, remote in ((("--remote", "nowhere"), ""), ((), "nowhere")):
        ran = program(home, tmp_path, "-m", "tb_netdebug", "run", *words, "-", text="print(1)", remote=remote)
        assert 2 == ran.returncode
        assert "" == ran.stdout
        assert "'nowhere' is not an address" in ran.stderr


def test_callbacks_take_it_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """As an option or from the environment; what was given goes first."""
    monkeypatch.delenv("NETDEBUG_REMOTE", raising=False)
    assert CallbackRecording("Callback", {}).settings.remote is None
    monkeypatch.setenv("NETDEBUG_REMOTE", "there:6007")
    assert "there:6007" == CallbackRecording("Callback", {}).settings.remote
    assert ":6008" == CallbackRecording("Callback", {"remote": ":6008"}).settings.remote
    assert None is remote_of(None, {"NETDEBUG_REMOTE": ""})


@pytest.mark.parametrize(
    ("run_dir", "options", "environment", "expected"),
    [
        ("/logs/a/b", {"logdir": "/logs", "run": "a/b"}, {}, ("a", "b")),
        ("/logs/2026", {"logdir": "/logs"}, {}, (f"2026-{host_name()}",)),
        ("/logs/2026", {"logdir": "/logs"}, {"WORLD_SIZE": "2"}, ("2026",)),
        ("/else/where", {"logdir": "/logs", "run": "x"}, {}, ("where",)),
        ("/logs/a\nb", {"logdir": "/logs", "run": "a\nb"}, {}, ("a_b",)),
        ("/logs" + "/x" * 20, {"logdir": "/logs", "run": "x"}, {}, ("x",) * 16),
    ],
)
def test_what_a_run_is_called_there(
    run_dir: str, options: dict[str, str], environment: dict[str, str], expected: tuple[str, ...]
) -> None:
    """As below the logdir, in names that every collector takes."""
    assert expected == name_there(Path(run_dir), Settings(remote=":1", **options), environment)  # type: ignore[arg-type]


def test_names_that_are_long_are_cut() -> None:
    """By bytes, and not within a character."""
    assert "ä" * 90 == fit("ä" * 200)
    assert "_" == fit("\n")
    assert ("here",) == below(Path.cwd() / "here", None)


def test_the_error_that_ends_a_recording_is_named() -> None:
    """Not the ordinary end of a program by sys.exit."""
    try:
        raise LookupError
    except LookupError:
        assert "LookupError" == error_that_ends()
    try:
        raise SystemExit(1)
    except SystemExit:
        assert "" == error_that_ends()
