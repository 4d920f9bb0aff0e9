"""Whose code is running: ours, a library's, or the user's."""

from __future__ import annotations

import os
import site
import sysconfig
from functools import cache
from types import CodeType

# Where the package lies, in the spelling that the code objects of its modules have.
OURS = __file__.rpartition("core")[0]
# Code that a program has made up has names such as "<eval_with_key>"; these are what a person has typed.
TYPED = ("<stdin>", "<string>", "<python-input", "<ipython-input")


def is_ours(code: CodeType) -> bool:
    """Also the code that a function runs while we listen to its calls, see `frameworks.torch.taps`."""
    return code.co_filename.startswith(OURS) or "__netdebug_tell" in code.co_varnames


def is_foreign(code: CodeType, folders: tuple[str, ...] = ()) -> bool:
    """Return whether no line of it is worth reporting: ours, of one of the folders, or made up."""
    return is_ours(code) or is_foreign_file(code.co_filename, folders)


def is_foreign_file(path: str, folders: tuple[str, ...] = ()) -> bool:
    """Return the same for code of which only the file is known."""
    return path.startswith((OURS, *folders)) or (path.startswith("<") and not path.startswith(TYPED))


@cache
def foreign_folders() -> tuple[str, ...]:
    """Of Python itself, of installed packages and of ours."""
    paths = sysconfig.get_paths()
    folders = {paths["stdlib"], paths["platstdlib"], paths["purelib"], paths["platlib"]}
    folders |= {*site.getsitepackages(), site.getusersitepackages(), OURS}
    return tuple(folder.rstrip(os.sep) + os.sep for folder in folders if folder)
