"""A command of the debugger: its name, its arguments, and the function that runs it."""

from __future__ import annotations

import inspect
from argparse import Namespace
from collections.abc import Callable
from dataclasses import dataclass

from tb_netdebug.cli.debugging.words import CommandError, OptionParser, compact, without_file, words_of
from tb_netdebug.cli.debugging.workspace import Workspace


def _nothing(parser: OptionParser) -> None:
    """Declare no arguments, as most commands do."""


@dataclass(frozen=True, slots=True)
class Command:
    """A command. `act` runs it, and the docstring of `act` is its help; `takes` declares the arguments.

    `completes` names what Tab offers: "layers", "tensors" and the like, or words to choose from. `is_raw`:
    the command gets the rest of the line as typed, in `text`. `compares`: ">" is a comparison, not a
    redirection to a file. `repeats`: an empty line runs the command again.
    """

    name: str
    act: Callable[[Workspace, Namespace], None]
    short: tuple[str, ...] = ()
    takes: Callable[[OptionParser], None] = _nothing
    completes: tuple[str, ...] = ()
    is_raw: bool = False
    compares: bool = False
    repeats: bool = False

    @property
    def purpose(self) -> str:
        return self.help.partition("\n")[0]

    @property
    def help(self) -> str:
        return inspect.cleandoc(self.act.__doc__ or "")

    @property
    def usage(self) -> str:
        if self.is_raw:
            return f"{self.name} ..."
        return " ".join(self._parser().format_usage().removeprefix("usage: ").split())

    def run(self, workspace: Workspace, text: str) -> None:
        """Run the command with `text`, the rest of the line. Raise CommandError, ClientError."""
        if self.is_raw:
            desk_arguments, file = Namespace(text=text), None
        else:
            text, file = (text, None) if self.compares else without_file(text)
            # Names of tensors may carry a slice with spaces, `a[0, :]`, which has to stay one word.
            words = words_of(compact(text) if "tensors" in self.completes else text)
            desk_arguments = self._parser().parse_args(words)
        with workspace.output.onto(file):
            self.act(workspace, desk_arguments)

    def _parser(self) -> OptionParser:
        parser = OptionParser(self.name)
        self.takes(parser)
        return parser


def whole(text: str, what: str) -> int:
    """Return the text as an integer. Raise CommandError, which calls it `what`."""
    try:
        return int(text)
    except ValueError:
        raise CommandError(f"{text!r} is not a {what}.") from None
