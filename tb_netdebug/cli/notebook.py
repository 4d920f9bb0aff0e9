"""`%load_ext tb_netdebug` in IPython or Jupyter: watches what is trained in the notebook from then on.

`%netdebug` shows what was found so far, `%netdebug off` stops watching, and `%netdebug on --every 1` starts
again with other options.
"""

from __future__ import annotations

import argparse
import atexit
import shlex
import sys
from collections.abc import Callable
from typing import Any, NoReturn

from tb_netdebug.cli.mistakes import UserMistake
from tb_netdebug.cli.run import add_options, settings_of, spelled_out
from tb_netdebug.core.records.visible import visible, visible_lines
from tb_netdebug.training.zero_code.driver import ZeroCode

NAME = "netdebug"


def load_ipython_extension(shell: Any) -> None:
    """Register the magic and begin to watch; called by IPython."""
    notebook = Notebook()
    shell.register_magic_function(notebook.magic, "line", NAME)
    shell.netdebug = notebook
    notebook.on([])
    atexit.register(notebook.off)


def unload_ipython_extension(shell: Any) -> None:
    """Stop watching; called by IPython."""
    notebook = getattr(shell, NAME, None)
    if isinstance(notebook, Notebook):
        notebook.off()
        atexit.unregister(notebook.off)


class Notebook:
    """The magic command and the ZeroCode watcher that it switches on and off."""

    def __init__(self) -> None:
        self._watched: ZeroCode | None = None
        self._commands: dict[str, Callable[[list[str]], None]] = {
            "": self.show,
            "show": self.show,
            "on": self.on,
            "off": self.off,
        }

    def magic(self, line: str) -> None:
        """%netdebug [show | on [options] | off]: what was found so far; watch; watch no more"""
        word, *rest = shlex.split(line) or [""]
        command = self._commands.get(word)
        if command is None:
            sys.stdout.write(f"%netdebug {visible(word)} is not a command; use show, on or off\n")
            return
        try:
            command(rest)
        except UserMistake as mistake:
            sys.stdout.write(visible_lines(f"%netdebug: {mistake}\n"))

    def on(self, words: list[str]) -> None:
        """Watch with these options.

        A watcher that is on is closed first: its options cannot change midway.
        """
        parser = MagicParser(prog="%netdebug on", add_help=False)
        add_options(parser)
        settings = settings_of(parser.parse_args(spelled_out(words)))
        self.off()
        self._watched = ZeroCode(settings)
        self._watched.install()

    def off(self, _: list[str] | None = None) -> None:
        if self._watched is not None:
            self._watched.close()

    def show(self, _: list[str]) -> None:
        from tb_netdebug.training.zero_code.run_summary import closing_words

        if self._watched is None:
            return
        for training in self._watched.trainings:
            training.catch_up()
        sys.stdout.write(visible_lines(f"{closing_words(self._watched)}\n"))


class MagicParser(argparse.ArgumentParser):
    """An argument parser that raises instead of exiting: a mistake must not end the notebook."""

    def error(self, message: str) -> NoReturn:
        raise UserMistake(message)
