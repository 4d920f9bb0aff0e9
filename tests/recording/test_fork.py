"""A copy of the process that is asked something can change nothing outside of itself."""

from __future__ import annotations

import multiprocessing
import os
import queue
import random
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest

from tb_netdebug.recording.fork.question import Question, why_not

ENOUGH_SECS = 60.0


def asked(ask: Callable[[], Any], *, most_secs: float = ENOUGH_SECS) -> tuple[Any, str]:
    """The answer, and why there is none."""
    question = Question(ask, most_secs=most_secs)
    answer = question.answer(ENOUGH_SECS)
    assert question.is_over
    return answer, question.why_not


def test_it_answers() -> None:
    """With what the process knew when it was asked."""
    number = random.random()
    assert "" == why_not()
    assert ({"number": number, "sum": 4950}, "") == asked(lambda: {"number": number, "sum": sum(range(100))})


OUTWARD: dict[str, Callable[[Path], object]] = {
    "write": lambda path: path.write_text("written", encoding="utf-8"),
    "append": lambda path: path.open("a").write("more"),
    "read": lambda path: path.read_bytes(),
    "unlink": lambda path: path.unlink(),
    "rename": lambda path: path.rename(path.with_name("other")),
    "mkdir": lambda path: path.with_name("folder").mkdir(),
    "chmod": lambda path: path.chmod(0o600),
    "kill": lambda path: os.kill(os.getppid(), signal.SIGTERM),
    # os.fork would first ask handlers of libraries, which may wait for threads that the copy does not have.
    "fork": lambda path: os.posix_spawn(sys.executable, [sys.executable, "-c", ""], {}),
    "program": lambda path: subprocess.run([sys.executable, "-c", ""], check=True),
    "socket": lambda path: socket.socket(),
    "thread": lambda path: threading.Thread(target=print).start(),
    "pipe": lambda path: os.pipe(),
    "environment of another process": lambda path: psutil.Process(os.getppid()).environ(),
}


@pytest.mark.parametrize("name", OUTWARD)
def test_it_reaches_nothing(name: str, tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_text("as it was", encoding="utf-8")
    before = path.stat()

    def ask() -> dict[str, Any]:
        try:
            OUTWARD[name](path)
        except Exception as error:  # what it is depends on who asks the kernel
            return {"refused": type(error).__name__}
        return {}

    answer, _ = asked(ask)
    assert answer["refused"]
    assert "as it was" == path.read_text(encoding="utf-8")
    after = path.stat()
    assert (before.st_mtime_ns, before.st_mode) == (after.st_mtime_ns, after.st_mode)
    assert [path] == list(tmp_path.iterdir())


def test_open_files_and_pipes_are_closed(tmp_path: Path) -> None:
    """Their positions are shared with the parent: what is read there is gone here."""
    reader, writer = os.pipe()
    os.write(writer, b"kept")
    with (tmp_path / "file").open("w+") as file:
        file.write("begun")
        assert {"file": "OSError", "pipe": "OSError"} == asked(
            lambda: {
                "file": raised(lambda: (file.write("x" * 100_000), file.flush())),
                "pipe": raised(lambda: os.read(reader, 4)),
            }
        )[0]
    assert "begun" == (tmp_path / "file").read_text(encoding="utf-8")
    assert b"kept" == os.read(reader, 4)
    os.close(reader)
    os.close(writer)


def raised(action: Callable[[], object]) -> str:
    try:
        action()
    except Exception as error:
        return type(error).__mro__[-4].__name__ if isinstance(error, OSError) else type(error).__name__
    return ""


def test_shared_memory_can_be_read_only() -> None:
    """Who writes to it there dies, and nobody else notices."""
    shared = multiprocessing.get_context("fork").Value("i", 3)
    assert ({"value": 3}, "") == asked(lambda: {"value": shared.get_obj().value})

    def write() -> dict[str, Any]:
        shared.get_obj().value = 5
        return {"value": 5}

    answer, why = asked(write)
    assert (None, 3) == (answer, shared.value)
    assert "failed" in why


def test_a_mapped_file_can_be_read_only(tmp_path: Path) -> None:
    mapped = np.memmap(tmp_path / "numbers", np.int64, "w+", shape=8)
    mapped[:] = 1

    def write() -> dict[str, Any]:
        mapped[:] = 2
        return {"done": True}

    assert None is asked(write)[0]
    assert [1] * 8 == mapped.tolist()


def test_one_that_waits_is_given_up() -> None:
    """For a queue that nobody fills there, or a lock that another thread held."""
    question = Question(lambda: {"got": queue.Queue().get()}, most_secs=0.2)
    (pid,) = (each.pid for each in psutil.Process().children())
    assert None is question.answer(ENOUGH_SECS)
    assert "repeating it took too long" == question.why_not
    assert not psutil.pid_exists(pid)


def test_it_may_answer_later() -> None:
    """The program goes on meanwhile; closing gives it up."""
    question = Question(lambda: {"got": queue.Queue().get()}, most_secs=ENOUGH_SECS)
    assert (None, False) == (question.answer(), question.is_over)
    question.close()
    question.close()
    assert (True, "the run ended first") == (question.is_over, question.why_not)


def test_one_that_dies_or_raises() -> None:
    assert None is asked(lambda: os._exit(3))[0]
    answer, why = asked(lambda: {"one": 1 / 0})
    assert (None, "ZeroDivisionError: division by zero") == (answer, why)
    assert "SystemExit: 3" == asked(lambda: sys.exit(3))[1]


def test_the_numbers_of_the_process_stay() -> None:
    """Python seeds its generator anew in every child; here it goes on where the process is."""
    random.seed(7)
    expected = random.Random(7).random()
    assert ({"drawn": expected}, "") == asked(lambda: {"drawn": random.random()})
    assert expected == random.random()


def test_a_program_that_waits_for_all_its_children(run_python: Callable[..., str]) -> None:
    """It may have waited for ours: that is no error."""
    told = run_python(
        "import signal, os\n"
        "signal.signal(signal.SIGCHLD, signal.SIG_IGN)\n"  # then nobody can wait for any
        "from tb_netdebug.recording.fork.question import Question\n"
        "question = Question(lambda: {'answer': 42}, most_secs=60)\n"
        "print(question.answer(60), repr(question.why_not))\n"
    )
    assert "{'answer': 42} ''\n" == told


ASKS = """
from tb_netdebug.recording.fork.question import Question
question = Question(lambda: {"answer": 42}, most_secs=60)
print(question.answer(60))
"""


def test_the_program_is_not_told_of_its_end(run_python: Callable[..., str]) -> None:
    """Neither its handler, which may end it, nor who waits for all of its children."""
    told = run_python(
        "import os, signal, sys\n"
        "signal.signal(signal.SIGCHLD, lambda *_: sys.exit(3))\n"
        f"{ASKS}"
        "try:\n"
        "    os.wait()\n"
        "except ChildProcessError:\n"
        "    print('no child')\n"
    )
    assert "{'answer': 42}\nno child\n" == told


def test_nothing_of_the_program_runs_there(run_python: Callable[..., str], tmp_path: Path) -> None:
    """What it has registered for its forks cannot write, and what waits to be printed is printed once."""
    told = run_python(
        "import atexit, os, pathlib, sys, threading\n"
        "print('once', end=' ')\n"
        "atexit.register(print, 'exit')\n"
        "def forked():\n"
        "    made = threading.Thread(target=os.mkdir, args=['made'])\n"
        "    for action in (pathlib.Path('written').touch, made.start):\n"
        "        try:\n"
        "            action()\n"
        "        except Exception:\n"
        "            pass\n"
        "os.register_at_fork(after_in_child=forked)\n"
        f"{ASKS}"
    )
    assert "once {'answer': 42}\nexit\n" == told
    assert [] == [each.name for each in tmp_path.iterdir()]


def test_without_room_for_a_process(run_python: Callable[..., str]) -> None:
    """What was opened for the answer is closed again."""
    told = run_python(
        "import os, resource\n"
        "from tb_netdebug.recording.fork.question import Question\n"
        "before = len(os.listdir('/proc/self/fd'))\n"
        "resource.setrlimit(resource.RLIMIT_NPROC, (0, 0))\n"
        "os.setuid(65534)\n"
        "for _ in range(3):\n"
        "    try:\n"
        "        Question(lambda: {}, most_secs=60)\n"
        "    except OSError as error:\n"
        "        print(type(error).__name__, len(os.listdir('/proc/self/fd')) - before)\n"
    )
    assert "BlockingIOError 0\n" * 3 == told
