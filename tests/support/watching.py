"""For the tests of `netdebug watch`: runs to look at, and the command in a terminal or without one."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tb_netdebug.cli import main
from tests.support.run_cases import RecordedRun
from tests.support.terminal import Terminal, environment


def written(logdir: Path) -> Iterator[Callable[..., RecordedRun]]:
    """Makes a run of this name; all of them are closed at the end."""
    runs: list[RecordedRun] = []

    def make(name: str, steps: int = 3, **options: object) -> RecordedRun:
        runs.append(RecordedRun(logdir / name))
        runs[-1].add(steps, **options)  # type: ignore[arg-type]
        return runs[-1]

    yield make
    for run in runs:
        run.close()


def watch(*words: object, **env: str) -> subprocess.CompletedProcess[str]:
    """The command in a process of its own, with pipes for its output."""
    return subprocess.run(
        [sys.executable, "-m", "tb_netdebug", "watch", *map(str, words)],
        env=environment(**env),
        cwd=sys.prefix,
        capture_output=True,
        text=True,
        encoding="utf-8",
        check=False,
    )


def live(logdir: Path, *words: object, width: int = 80, height: int = 24, **env: str) -> Terminal:
    command = [sys.executable, "-m", "tb_netdebug", "watch", str(logdir), *map(str, words)]
    return Terminal(command, env, width=width, height=height)


def shown(capsys: pytest.CaptureFixture[str], *words: object) -> str:
    """What the command prints here; it has to succeed."""
    assert 0 == main(["watch", *map(str, words)])
    return capsys.readouterr().out


def row(text: str, start: str) -> str:
    return next(line for line in text.splitlines() if line.startswith(start))
