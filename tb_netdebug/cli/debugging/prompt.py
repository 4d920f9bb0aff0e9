"""Reads commands from a terminal or from a list, and runs them."""

from __future__ import annotations

import os
import sys
from collections import deque
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from tb_netdebug.cli.debugging.command import Command
from tb_netdebug.cli.debugging.commands import run_line
from tb_netdebug.cli.debugging.completion import DELIMITERS, Completion
from tb_netdebug.cli.debugging.moving import DIRECTLY
from tb_netdebug.cli.debugging.place_text import tell_state
from tb_netdebug.cli.debugging.words import CommandError
from tb_netdebug.cli.debugging.workspace import InterruptedWaitError, Workspace, text_of
from tb_netdebug.core.records.visible import visible_lines
from tb_netdebug.debugger.client.client import ClientError

PROMPT = "(netdebug) "
HISTORY = Path("netdebug") / "debug_history"
MOST_HISTORY = 1000


class Prompt:
    """The interactive prompt. `news` holds messages that arrived between two commands."""

    def __init__(self, workspace: Workspace, news: deque[str]) -> None:
        self._workspace = workspace
        self._news = news
        self._repeated = ""

    def run(self) -> None:
        """Run commands until the user quits."""
        with line_editing(Completion(self._workspace)):
            while not self._workspace.is_done:
                try:
                    self._tell_news()
                    self._do(input(PROMPT))
                except KeyboardInterrupt:
                    print()
                    self._workspace.output.say("Type `quit` or press Ctrl-D to leave.")
                except EOFError:
                    print()
                    self._do("quit")

    def _do(self, line: str) -> None:
        line = line.strip() or self._repeated
        command = attempted(self._workspace, line) if line else None
        # `continue &` has returned at once; an empty line after it must not resume the training again.
        is_repeated = command is not None and command.repeats and not line.endswith(DIRECTLY)
        self._repeated = line if is_repeated else ""

    def _tell_news(self) -> None:
        """Print the news, and the state of the training if it has changed since."""
        while self._news:
            self._workspace.output.say(self._news.popleft())
        if not self._workspace.has_training:
            return
        before = self._workspace.state.get("status")
        with suppress(ClientError):  # the attendance thread reports it, once
            self._workspace.refresh()
            if self._workspace.state.get("status") != before:
                tell_state(self._workspace)


def attempted(workspace: Workspace, line: str) -> Command | None:
    """Run a line and print its error, if any. Return its command, or None after an error."""
    try:
        return run_line(workspace, line)
    except (CommandError, ClientError) as error:
        workspace.output.say(text_of(error))
    except InterruptedWaitError:
        workspace.output.say("It has not paused yet, but it will. `wait` waits for that.")
    return None


def run_commands(workspace: Workspace, lines: Iterable[str]) -> int:
    """Run lines without a person and return the exit code; the first error ends it."""
    for line in lines:
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        try:
            run_line(workspace, line)
        except (CommandError, ClientError) as error:
            print(visible_lines(f"netdebug: {text_of(error)}"), file=sys.stderr)
            return 1
        if workspace.is_done:
            break
    return 0


@contextmanager
def line_editing(completion: Completion) -> Iterator[None]:
    """Enable completion and a persistent history within the block, where Python has readline."""
    try:
        import readline
    except ImportError:  # Windows, and Pythons built without it
        yield
        return
    before = readline.get_completer(), readline.get_completer_delims()
    readline.set_completer(completion.next_for_readline)
    readline.set_completer_delims(DELIMITERS)
    # On macOS, `readline` may be libedit, which has a syntax of its own.
    is_libedit = "libedit" in (readline.__doc__ or "")
    readline.parse_and_bind("bind ^I rl_complete" if is_libedit else "tab: complete")
    readline.parse_and_bind("set show-all-if-ambiguous on")
    readline.set_history_length(MOST_HISTORY)
    path = history_path()
    with suppress(OSError):  # there is none the first time
        readline.read_history_file(path)
    try:
        yield
    finally:
        readline.set_completer(before[0])
        readline.set_completer_delims(before[1])
        with suppress(OSError):  # a read-only home is no reason to complain
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            readline.write_history_file(path)


def history_path() -> Path:
    return Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local/state") / HISTORY
