"""Processes that do what they are told, a line of JSON at a time, and answer each line with one."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any, TypeVar

ROOT = Path(__file__).resolve().parents[2]
Spoken = TypeVar("Spoken", bound="SpokenTo")


class SpokenTo:
    """Starts `file` as a program, which calls `listen`; use it as a context manager. `prefix` goes before the
    command, to run it elsewhere."""

    def __init__(
        self, file: str, *arguments: str, env: Mapping[str, str] | None = None, prefix: Sequence[str] = ()
    ) -> None:
        # Behind everything else, so that an installed package goes before the checkout's.
        path = os.pathsep.join([*(entry for entry in sys.path if entry), str(ROOT)])
        self.process = subprocess.Popen(
            [*prefix, sys.executable, file, *arguments],
            env={**os.environ, "PYTHONPATH": path, "GRPC_VERBOSITY": "NONE", **(env or {})},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def __enter__(self: Spoken) -> Spoken:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.kill()

    def do(self, name: str, *arguments: object) -> Any:
        """Calls one of the program's methods; its result."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(json.dumps([name, *arguments]) + "\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        assert line, f"the process ended with {self.process.wait()} at {name}"
        return json.loads(line)

    def leave(self) -> int:
        """The program comes to its end; the exit code."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        return self.process.wait()

    def kill(self, signum: int = signal.SIGKILL) -> int:
        """The exit code; of a process that has ended already, too."""
        self.process.send_signal(signum)
        for pipe in (self.process.stdin, self.process.stdout):  # a child of it may hold the other ends
            if pipe is not None:
                with suppress(BrokenPipeError):
                    pipe.close()
        return self.process.wait()


def listen(program: object) -> None:
    """In the process: until standard input ends."""
    for line in sys.stdin:
        name, *arguments = json.loads(line)
        sys.stdout.write(json.dumps(getattr(program, name)(*arguments)) + "\n")
        sys.stdout.flush()
