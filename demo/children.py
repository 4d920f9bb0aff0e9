"""Processes that the demo starts, watches and ends."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

TETHER = Path(__file__).with_name("tether.py")
# Ctrl-C has to be over within two seconds: whoever has not ended after this long is killed.
PATIENCE_SECS = 1.2


@dataclass(frozen=True, slots=True)
class Child:
    """A program that runs; everything it prints goes to the file `output`."""

    name: str
    process: subprocess.Popen[bytes]
    output: Path

    @classmethod
    def start(cls, name: str, words: Sequence[str | Path], *, output: Path) -> Child:
        """`words` as after `python`. The folder of `output` is the program's current one."""
        return cls.run(name, [sys.executable, TETHER, *words], output=output)

    @classmethod
    def run(
        cls, name: str, command: Sequence[str | Path], *, output: Path, env: Mapping[str, str] | None = None
    ) -> Child:
        """Start a program that ends when its standard input does; `env` is added to ours."""
        output.parent.mkdir(exist_ok=True)
        with output.open("wb") as file:
            process = subprocess.Popen(
                [str(word) for word in command],
                stdin=subprocess.PIPE,
                stdout=file,
                stderr=subprocess.STDOUT,
                cwd=output.parent,
                env={**os.environ, "PYTHONUNBUFFERED": "1", **(env or {})},
                start_new_session=True,  # Ctrl-C is for the demo alone, which then ends the others
            )
        return cls(name, process, output)

    @property
    def is_running(self) -> bool:
        return self.process.poll() is None

    @property
    def has_failed(self) -> bool:
        return self.process.poll() not in (None, 0)

    def ending(self) -> str:
        """How it has ended, in words."""
        code = self.process.poll()
        if code is None or code == 0:
            return f"{self.name} {'is still running' if code is None else 'has ended'}."
        how = f"was killed by {signal.Signals(-code).name}" if code < 0 else f"failed with exit code {code}"
        if code == -signal.SIGKILL:
            how += ", perhaps because the memory ran out"
        last = self.last_line()
        return f"{self.name} {how}{f': {last}' if last else ''}. All that it printed is in {self.output}."

    def last_line(self) -> str:
        lines = [line.strip() for line in self.printed().splitlines()]
        return next((line for line in reversed(lines) if line), "").rstrip(".")[:300]

    def printed(self) -> str:
        return self.output.read_text(encoding="utf-8", errors="replace")


def stop(children: Sequence[Child]) -> None:
    """Asks all of them to end, and ends those that do not; returns within two seconds."""
    for child in children:
        if child.is_running:
            child.process.terminate()
    deadline = time.monotonic() + PATIENCE_SECS
    for child in children:
        try:
            child.process.wait(max(deadline - time.monotonic(), 0.0))
        except subprocess.TimeoutExpired:
            child.process.kill()
            child.process.wait()
        if child.process.stdin is not None:
            child.process.stdin.close()
