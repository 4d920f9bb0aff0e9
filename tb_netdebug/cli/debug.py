"""Step through a running training in the terminal: pause, step, break, watch, look at tensors.

    netdebug debug                      the TensorBoard of this machine
    netdebug debug localhost:6006       or http(s)://HOST:PORT/PREFIX/, as in a browser
    netdebug debug -c pause where 'tensors -k gradient --nonfinite'

The training has to be armed (debugger= in nd.watch, or netdebug run --debugger), and TensorBoard has to be
running. `help` lists the commands. With -c or from a pipe they run one after the other; the exit code is 0
when all went well, 1 when one did not. For a TensorBoard that others can open, too, the token comes from
NETDEBUG_TOKEN_FILE or NETDEBUG_TOKEN, and travels over https only.
"""

from __future__ import annotations

import argparse
import getpass
import os
import socket
import sys
from collections import deque
from collections.abc import Sequence

from tb_netdebug.cli.debugging.choice import address_of_hub, choose_training
from tb_netdebug.cli.debugging.output import DebuggerOutput
from tb_netdebug.cli.debugging.prompt import Prompt, run_commands
from tb_netdebug.cli.debugging.trainings import tell_choice
from tb_netdebug.cli.debugging.workspace import Workspace
from tb_netdebug.cli.harmless import harmless
from tb_netdebug.cli.watch_screen import sigterm_as_exit
from tb_netdebug.core.records.visible import visible_lines
from tb_netdebug.debugger.client.attendance import Attendance
from tb_netdebug.debugger.client.client import Client
from tb_netdebug.debugger.client.http_client import HttpClient


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "address", nargs="?", metavar="HOST:PORT", help="a TensorBoard (default: the one of this machine)"
    )
    parser.add_argument("--run", metavar="NAME", help="the run to debug")
    parser.add_argument("--rank", type=int, metavar="N", help="which of its ranks (default: 0)")
    parser.add_argument(
        "-c",
        dest="commands",
        nargs="+",
        action="extend",
        metavar="COMMAND",
        help="run these commands, then exit",
    )


def run(arguments: argparse.Namespace) -> int:
    address, how = address_of_hub(arguments.address)
    if how:
        print(visible_lines(how), file=sys.stderr)
    client = HttpClient(address, label=label(), environ=os.environ)
    with sigterm_as_exit():
        return debug(client, commands=arguments.commands, run=arguments.run, rank=arguments.rank)


def debug(
    client: Client, *, commands: Sequence[str] | None = None, run: str | None = None, rank: int | None = None
) -> int:
    """Run the debugger until the user quits or all commands are done. Return the exit code.

    Without `commands`, read them from the terminal; without a terminal, from standard input.
    """
    is_interactive = commands is None and sys.stdin.isatty() and sys.stdout.isatty()
    news: deque[str] = deque()

    # Called on the thread of the attendance; the prompt prints the messages when it is its turn.
    def hear(trouble: str | None) -> None:
        news.append(harmless(trouble) if trouble else "TensorBoard is back.")

    with Attendance(client, hear) as attendance:
        workspace = Workspace(client, attendance, DebuggerOutput(), is_interactive=is_interactive)
        choose_training(workspace, run=run, rank=rank)
        if not is_interactive:
            return run_commands(workspace, sys.stdin if commands is None else commands)
        tell_choice(workspace)
        workspace.output.say("`help` lists the commands.")
        Prompt(workspace, news).run()
    return 0


def label() -> str:
    """Return the name under which others see who has the controls."""
    try:
        name = getpass.getuser()
    except (OSError, KeyError):  # a container may have no entry for this user
        name = "somebody"
    return f"{name} in a terminal on {socket.gethostname()}"
