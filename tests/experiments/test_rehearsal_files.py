"""A process that is held: what it writes, it reads back, and nothing of it is there afterwards."""

from __future__ import annotations

import hashlib
import json
import os
import signal
import socket
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import h5py
import psutil
import pytest
import torch

from tb_netdebug.experiments.rehearsal.confinement import LEVELS, hold
from tb_netdebug.experiments.rehearsal.report import RehearsalReport

ROOT = str(Path(__file__).resolve().parents[2])
SCRIPTS = Path(__file__).parents[1] / "support/scripts"
ALL_LEVELS = ("overlay", "landlock", "python")
WORKS = {
    "new_file", "other_mounts", "relative", "append", "through_a_link", "mapped", "truncated",
    "by_descriptor", "status", "remove", "tree", "rename", "links", "copies", "temporary", "child",
    "database", "archives", "program", "torch_file", "hdf5", "tensors",
}  # fmt: skip
# A program of its own is not redirected by Python, and is not started where the kernel does not hold it.
WORKS_OF = {"overlay": WORKS, "landlock": WORKS - {"program"}, "python": WORKS - {"program"}}
WRITTEN = {
    "new.txt", "relative.txt", "log.txt", "folder/inside.txt", "linked.txt", "mapped.bin", "cut.txt",
    "cut2.txt", "folder/fd2.txt", "mode.txt", "after.txt", "replaced.txt", "symbolic",
    "tree2/e.txt", "moved.txt", "data.db", "ckpt.pt", "kept.pt", "old.h5", "new.h5", "model.safetensors",
}  # fmt: skip
DELETED = {"gone.txt", "before.txt", "folder/a.txt"}


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of files, the current one; what is temporary for us lies beside it."""
    found = tmp_path / "place"
    for name in ("folder", "old/deep", "dir/sub", "tree"):
        (found / name).mkdir(parents=True)
    for name, text in {
        "log.txt": "begin\n", "linked.txt": "before", "cut.txt": "too long", "cut2.txt": "too long",
        "folder/a.txt": "a", "mode.txt": "m", "gone.txt": "g", "old/deep/b.txt": "b", "before.txt": "renamed",
        "dir/sub/c.txt": "c", "replaced.txt": "old", "tree/d.txt": "d", "tree/e.txt": "e",
        "byprogram.txt": "p", "mapped.bin": "0" * 5000,
    }.items():  # fmt: skip
        (found / name).write_text(text)
    (found / "link").symlink_to(found / "folder")
    (found / "filelink").symlink_to("linked.txt")
    connection = sqlite3.connect(found / "data.db")
    connection.executescript("create table t (n); insert into t values (0)")
    connection.close()
    with h5py.File(found / "old.h5", "w") as file:
        file["x"] = [1]
    torch.save({"a": torch.zeros(3)}, found / "kept.pt")
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    monkeypatch.setenv("TMPDIR", str(scratch))
    monkeypatch.setattr(tempfile, "tempdir", None)
    monkeypatch.chdir(found)
    return found


def digest(folder: Path) -> str:
    """Of names, bytes, times and modes of everything in it."""
    total = hashlib.sha256()
    for path in sorted([folder, *folder.rglob("*")]):
        status = path.lstat()
        content = b""
        if path.is_symlink():
            content = os.fsencode(path.readlink())
        elif path.is_file():
            content = path.read_bytes()
        told = (str(path), status.st_mode, status.st_mtime_ns, status.st_size, status.st_ino)
        total.update(repr(told).encode() + content)
    return total.hexdigest()


def held(script: Path, level: str, monkeypatch: pytest.MonkeyPatch) -> RehearsalReport:
    monkeypatch.setenv(LEVELS, level)
    return hold("runpy:run_path", {"path_name": str(script), "run_name": "__main__"})


@pytest.fixture
def run(place: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str, str], RehearsalReport]:
    """A script by its text, at a level."""

    def go(text: str, level: str) -> RehearsalReport:
        script = place.parent / "script.py"
        script.write_text(text)
        return held(script, level, monkeypatch)

    return go


@pytest.fixture
def elsewhere() -> Iterator[list[Path]]:
    """Files on other file systems and below other folders, which are not there."""
    name = f"netdebug-test-{os.getpid()}"
    folders = [Path("/tmp"), Path("/var/tmp"), Path("/dev/shm"), Path.home()]
    found = [each / name for each in folders if os.access(each, os.W_OK)]
    yield found
    for each in found:
        each.unlink(missing_ok=True)


@pytest.mark.parametrize("level", ALL_LEVELS)
def test_it_reads_back_what_it_wrote_and_nothing_of_it_is_left(
    level: str,
    place: Path,
    elsewhere: list[Path],
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    """In 22 ways of writing, by libraries, workers and programs, too; each tree has the bits that it had."""
    monkeypatch.setenv("OUTSIDE", json.dumps(list(map(str, elsewhere))))
    before = digest(place)
    report = held(SCRIPTS / "writes_everything.py", level, monkeypatch)
    caught = capfd.readouterr()
    assert WORKS_OF[level] == set(json.loads(caught.out)), caught.err
    assert before == digest(place)
    assert [] == [each for each in elsewhere if each.exists()]
    assert [] == list((place.parent / "scratch").iterdir())
    assert (level, 0, True, []) == (report.level, report.status, report.is_done, report.passed_over)
    written = {os.path.relpath(each, place) for each in report.written}
    assert WRITTEN <= written
    assert set() == {os.path.relpath(str(each), place) for each in elsewhere} - written
    assert ("dir2" if level == "overlay" else "dir2/sub/c.txt") in written
    assert DELETED <= {os.path.relpath(each, place) for each in report.deleted}
    assert level != "python" or "which is weaker" in next(report.sentences())


NO_FILES = """
import ctypes, os, stat
libc = ctypes.CDLL(None)
assert libc.shmget(0x6e640001, 4096, 0o1600) >= 0
assert libc.msgget(0x6e640001, 0o1600) >= 0
assert libc.semget(0x6e640001, 1, 0o1600) >= 0
for kind, number in ((stat.S_IFBLK, (7, 0)), (stat.S_IFCHR, (1, 1))):
    try:
        os.mknod("device", 0o600 | kind, os.makedev(*number))
    except PermissionError:
        print("refused")
"""


def test_shared_memory_of_system_v_and_devices(
    run: Callable[[str, str], RehearsalReport], capfd: pytest.CaptureFixture[str]
) -> None:
    """The first is the held process's own and gone with it; a disk cannot be opened past its files."""
    before = [Path("/proc/sysvipc", name).read_text() for name in ("shm", "msg", "sem")]
    report = run(NO_FILES, "overlay")
    assert 0 == report.status
    assert ["refused"] * 2 == capfd.readouterr().out.split()
    assert before == [Path("/proc/sysvipc", name).read_text() for name in ("shm", "msg", "sem")]


LATE = """
import atexit, os, threading
atexit.register(lambda: open("atexit.txt", "w").write("late"))
try:
    raise SystemExit(7)
finally:
    open("finally.txt", "w").write("late")
"""


@pytest.mark.parametrize("level", ALL_LEVELS)
def test_up_to_the_end_of_the_process(
    level: str, place: Path, run: Callable[[str, str], RehearsalReport]
) -> None:
    """What `finally` and atexit write goes the same way; the exit status is the script's."""
    before = digest(place)
    report = run(LATE, level)
    assert before == digest(place)
    assert {"atexit.txt", "finally.txt"} == {Path(each).name for each in report.written}
    assert (7, False) == (report.status, report.is_done)


DAEMON = """
import os, signal, sys, time
if os.fork() == 0:
    os.setsid()
    if os.fork():
        os._exit(0)
    for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
        signal.signal(number, signal.SIG_IGN)
    print(os.getpid(), flush=True)
    while True:
        open("daemon.txt", "a").write("x")
        time.sleep(0.01)
os.wait()
"""


@pytest.mark.parametrize("level", ALL_LEVELS)
def test_a_daemon_stays_inside_and_is_ended(
    level: str, place: Path, run: Callable[[str, str], RehearsalReport], capfd: pytest.CaptureFixture[str]
) -> None:
    """A grandchild in a session of its own, deaf to signals; it is named."""
    before = digest(place)
    report = run(DAEMON, level)
    pid = int(capfd.readouterr().out)
    assert not psutil.pid_exists(pid)
    assert before == digest(place)
    assert [str(pid)] == [each.rpartition("(")[2].rstrip(")") for each in report.ended]
    assert any("were terminated" in each for each in report.sentences())


@pytest.mark.parametrize("level", ALL_LEVELS)
def test_a_killed_script_leaves_nothing(
    level: str, place: Path, run: Callable[[str, str], RehearsalReport]
) -> None:
    """The folder with its copies is removed by those who are left."""
    report = run("import os; open('a', 'w').write('a'); os.kill(os.getpid(), 9)", level)
    assert (-signal.SIGKILL, False, "signal SIGKILL") == (report.status, report.is_done, report.ending)
    assert [] == list((place.parent / "scratch").iterdir())
    assert not (place / "a").exists()


NETWORK = """
import socket, sys
s = socket.create_connection(("127.0.0.1", {port}))
s.sendall(b"hello")
s.close()
"""


@pytest.mark.parametrize("level", ALL_LEVELS)
def test_connections_are_left_alone_and_named(level: str, run: Callable[[str, str], RehearsalReport]) -> None:
    """With host and port."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        report = run(NETWORK.format(port=port), level)
        connection, _ = server.accept()
        with connection:
            assert b"hello" == connection.recv(100)
    assert [f"127.0.0.1:{port}"] == report.connections
    assert f"Network connections were not confined: 127.0.0.1:{port}." in list(report.sentences())


WAITING = """
import time
try:
    print("ready", flush=True)
    while True:
        time.sleep(1)
finally:
    open("finally.txt", "w").write("x")
    print("cleaned", flush=True)
"""
HOLDING = (
    "import json, sys; from tb_netdebug.experiments.rehearsal.confinement import hold; "
    "report = hold('runpy:run_path', {'path_name': sys.argv[1], 'run_name': '__main__'}); "
    "print(json.dumps([report.status, report.level]))"
)


@pytest.mark.parametrize(("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, -signal.SIGTERM)])
def test_a_signal_ends_it_cleanly(number: int, status: int, place: Path) -> None:
    """Sent to the command alone, it reaches the script; the folder is gone, and the report comes."""
    script = place.parent / "waiting.py"
    script.write_text(WAITING)
    before = digest(place)
    command = [sys.executable, *(["-I"] if sys.flags.isolated else []), "-c", HOLDING, str(script)]
    env = {**os.environ, "PYTHONPATH": ROOT}
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, text=True, start_new_session=True, env=env
    ) as held:
        assert held.stdout is not None
        assert "ready\n" == held.stdout.readline()
        held.send_signal(number)
        rest = held.stdout.read().splitlines()
    assert (["cleaned"] if number == signal.SIGINT else []) == rest[:-1]
    assert [status, "overlay"] == json.loads(rest[-1])
    assert before == digest(place)
    assert [] == list((place.parent / "scratch").iterdir())


@pytest.mark.parametrize("level", ["landlock", "python"])
def test_a_killed_command_leaves_nothing(level: str, place: Path) -> None:
    """Its keeper ends the script, and removes the folder."""
    script = place.parent / "waiting.py"
    script.write_text(WAITING.replace('"ready"', "os.getpid()").replace("import time", "import os, time"))
    command = [sys.executable, *(["-I"] if sys.flags.isolated else []), "-c", HOLDING, str(script)]
    env = {**os.environ, "PYTHONPATH": ROOT, LEVELS: level}
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, text=True, start_new_session=True, env=env
    ) as held:
        assert held.stdout is not None
        process = psutil.Process(int(held.stdout.readline()))
        keeper = process.parent()
        held.kill()
        held.stdout.read()  # until nobody holds it any more
    assert keeper is not None
    psutil.wait_procs([process, keeper], timeout=60)
    assert not process.is_running()
    assert not (place / "finally.txt").exists()
    assert [] == list((place.parent / "scratch").iterdir())


MOVING = """
import os, shutil
os.rename("dir", "dir2")
assert open("dir2/sub/c.txt").read() == "c" and not os.path.exists("dir")
shutil.rmtree("old")
os.mkdir("old")
assert os.listdir("old") == []
"""
# As a user who may start namespaces, and where there may be no further ones.
AS_USER = (
    "import os, sys; from pathlib import Path; from tb_netdebug.experiments.rehearsal import syscalls as s; "
    "user, group = os.getuid(), os.getgid(); s.unshare(s.CLONE_NEWUSER); "
    "Path('/proc/self/setgroups').write_text('deny'); "
    "Path('/proc/self/uid_map').write_text(f'0 {user} 1'); "
    "Path('/proc/self/gid_map').write_text(f'0 {group} 1'); "
)
WITHOUT_NAMESPACES = "Path('/proc/sys/user/max_mnt_namespaces').write_text('0'); "


@pytest.mark.parametrize(
    ("before", "level", "passed_over"),
    [
        (AS_USER, "overlay", []),
        (AS_USER + WITHOUT_NAMESPACES, "landlock", ["overlay: unshare: No space left on device"]),
    ],
)
def test_what_a_user_may_have(before: str, level: str, passed_over: list[str], place: Path) -> None:
    """In a user namespace an overlay with less in it; without one, Landlock, and the reason is told."""
    script = place.parent / "script.py"
    script.write_text(MOVING)
    unchanged = digest(place)
    code = before + HOLDING.replace("report.level", "report.level, report.passed_over")
    command = [sys.executable, *(["-I"] if sys.flags.isolated else []), "-c", code, str(script)]
    env = {**os.environ, "PYTHONPATH": ROOT}
    ran = subprocess.run(command, capture_output=True, text=True, env=env, check=False)
    assert [0, level, passed_over] == json.loads(ran.stdout), ran.stderr
    assert unchanged == digest(place)


def test_the_keeper_is_light(run_python: Callable[..., str]) -> None:
    """Namespaces need a process of one thread, so no framework is imported before there is one."""
    names = ("confinement", "keeper", "overlay", "landlock", "refusal")
    code = (
        f"import importlib, os, sys\n"
        f"for name in {names}: importlib.import_module(f'tb_netdebug.experiments.rehearsal.{{name}}')\n"
        "frameworks = {'torch', 'keras', 'tensorflow', 'numpy'} & set(sys.modules)\n"
        "print(len(os.listdir('/proc/self/task')), *frameworks)"
    )
    assert "1" == run_python(code).strip()


KEEPING = """
import os, sys, time
from tb_netdebug.experiments.rehearsal import keeper
from tb_netdebug.experiments.rehearsal.channel import open_to_keeper, tell
keeper.FIRST_WORD_SECS = keeper.LISTEN_SECS = 0.05
sys.stderr = sys.stdout
reading, writing = os.pipe()
pid = os.fork()
if not pid:
    open_to_keeper(writing)
    tell("waiting", "train.py has made no step")
    time.sleep(1)
    tell("waiting", "the batch has not ended")
    time.sleep(0.5)
    tell("waiting", "")
    tell("limit", 0.1)
    time.sleep(1000)
os.close(writing)
report = keeper.Keeper(pid, reading, os.getppid()).wait()
print(report.status, *report.notes)
"""


CHILDREN = """
import os, time
from tb_netdebug.experiments.rehearsal import keeper
from tb_netdebug.experiments.rehearsal.channel import open_to_keeper, tell
def kept(*said):
    reading, writing = os.pipe()
    pid = os.fork()
    if not pid:
        open_to_keeper(writing)
        for each in said: tell(*each)
        time.sleep(1)
        os._exit(7)
    os.close(writing)
    report = keeper.Keeper(pid, reading, os.getppid()).wait()
    print(report.status, *report.notes)
kept(("patience", 0.1), ("child", "train.py:3"), ("child", "train.py:4"))
kept(("patience", 0.1), ("child", "train.py:3"), ("limit", None))
kept(("patience", 0.1), ("limit", None), ("child", "train.py:3"))
"""


def test_a_script_that_waits_for_children_which_were_stopped(run_python: Callable[..., str]) -> None:
    """It is killed with a sentence that says why; not if it gets to its own step or has ended."""
    first, *others = run_python(CHILDREN).splitlines()
    assert first.startswith("-9 It trains in processes that it starts (train.py:3)")
    assert first.endswith("give --model MODULE:CALLABLE instead.")
    assert ["7", "7"] == [each.strip() for each in others]


def test_what_is_waited_for_is_said_and_what_does_not_end_is_killed(run_python: Callable[..., str]) -> None:
    """By the keeper: the held process may not let a thread of its own run."""
    *words, last = run_python(KEEPING).splitlines()
    assert ["netdebug: the batch has not ended", "netdebug: train.py has made no step"] == sorted(
        {each.partition(" after ")[0] for each in words}
    )
    assert "-9 It did not end when asked to, and was killed." == last
