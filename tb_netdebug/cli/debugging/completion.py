"""Tab completion: commands, and the words that a command takes."""

from __future__ import annotations

from collections.abc import Iterator

from tb_netdebug.cli.debugging.commands import COMMANDS, command_of
from tb_netdebug.cli.debugging.words import CommandError
from tb_netdebug.cli.debugging.workspace import Workspace
from tb_netdebug.cli.harmless import harmless
from tb_netdebug.debugger.client.client import ClientError

# Brackets, dots and colons are missing: they belong to names.
DELIMITERS = " \t\n'\"`(),"


class Completion:
    """The completer for readline. It asks the training for names of tensors once per stop."""

    def __init__(self, workspace: Workspace) -> None:
        self._workspace = workspace
        self._found: list[str] = []
        self._tensors: tuple[object, list[str]] = (None, [])

    def offer(self, line: str, text: str) -> list[str]:
        """Return the completions of the word `text` at the end of `line`."""
        word, space, _ = line.lstrip().partition(" ")
        found = sorted({each for each in self._known(word, is_first=not space) if each.startswith(text)})
        # A name with control characters must not get into the user's line.
        found = [each for each in found if harmless(each) == each and " " not in each]
        # A space follows a complete word, but not a tensor name, which may get a slice.
        return [f"{found[0]} "] if len(found) == 1 and ":" not in found[0] else found

    def _known(self, word: str, *, is_first: bool) -> Iterator[str]:
        if is_first:
            yield from (command.name for command in COMMANDS)
            return
        try:
            for each in command_of(word).completes:
                yield from self._names(each)
        except (CommandError, ClientError):
            return  # nothing to offer; the command itself will report the error

    def _names(self, kind: str) -> list[str]:
        if kind == "commands":
            return [command.name for command in COMMANDS]
        if kind == "layers":
            return [str(layer["name"]) for layer in self._workspace.layers()]
        if kind == "files":
            return [str(layer["file"]) for layer in self._workspace.layers() if layer.get("file")]
        if kind == "runs":
            return [training.run for training in self._workspace.client.sessions()]
        if kind == "tensors":
            return self._tensor_names()
        return [kind]

    def _tensor_names(self) -> list[str]:
        place = (self._workspace.training.key, self._workspace.state.get("version"))
        if self._tensors[0] != place:
            self._tensors = (place, self._workspace.tensor_names())
        return self._tensors[1]

    def next_for_readline(self, text: str, number: int) -> str | None:
        """Return candidate number `number`, or None after the last; readline calls it with 0, 1, 2, ..."""
        import readline

        if number == 0:
            self._found = self.offer(readline.get_line_buffer()[: readline.get_endidx()], text)
        return self._found[number] if number < len(self._found) else None
