"""The table of all commands, `help`, and the parser of a typed line."""

from __future__ import annotations

from argparse import Namespace

from tb_netdebug.cli.debugging import looking, moving, stops, trainings, values
from tb_netdebug.cli.debugging.command import Command
from tb_netdebug.cli.debugging.words import CommandError, OptionParser
from tb_netdebug.cli.debugging.workspace import Workspace

GROUPS = {
    "moving": moving.COMMANDS,
    "stopping": stops.COMMANDS,
    "where it is": looking.COMMANDS,
    "tensors": values.COMMANDS,
    "trainings": trainings.COMMANDS,
}


def give_help(workspace: Workspace, arguments: Namespace) -> None:
    """List the commands, or explain one.

    Every command can be shortened as long as it is unambiguous. `COMMAND > FILE` writes its output to a file.
    An empty line repeats the last step. Ctrl-C pauses a running training, Ctrl-D leaves.
    """
    if arguments.command is not None:
        return _explain(workspace, command_of(arguments.command))
    for group, commands in {**GROUPS, "help": (HELP,)}.items():
        workspace.output.line((group, "bold"))
        for command in commands:
            names = ", ".join((command.name, *command.short))
            workspace.output.say(f"  {names:<18} {command.purpose}")
    workspace.output.say(f"\n{HELP.help.partition(chr(10))[2].strip()}")


def _explain(workspace: Workspace, command: Command) -> None:
    short = f" (short: {', '.join(command.short)})" if command.short else ""
    workspace.output.say(f"{command.usage}{short}\n\n{command.help}")


def _command(parser: OptionParser) -> None:
    parser.add_argument("command", nargs="?", metavar="COMMAND")


HELP = Command("help", give_help, short=("h", "?"), takes=_command, completes=("commands",))
COMMANDS = (*(command for group in GROUPS.values() for command in group), HELP)


def command_of(word: str) -> Command:
    """Return a command by name, short form, or unambiguous beginning of a name. Raise CommandError."""
    exact = [command for command in COMMANDS if word in (command.name, *command.short)]
    found = exact or [command for command in COMMANDS if command.name.startswith(word)]
    if not found:
        raise CommandError(f"There is no command {word!r}. `help` lists the commands.")
    if len(found) > 1:
        raise CommandError(f"Which one: {', '.join(command.name for command in found)}?")
    return found[0]


def run_line(workspace: Workspace, line: str) -> Command:
    """Run a typed line and return its command. Raise CommandError, ClientError."""
    word, _, rest = line.strip().partition(" ")
    command = command_of(word)
    command.run(workspace, rest)
    return command
