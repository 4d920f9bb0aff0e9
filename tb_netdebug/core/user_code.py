"""Whose code is running (ours, a library's or the user's), so that reports can point at the user's line."""

from __future__ import annotations

import os
import site
import sysconfig
from functools import cache
from types import CodeType

# The folder of the package, spelled as in the code objects of its modules.
OURS = __file__.rpartition("core")[0]
# Generated code has file names such as "<eval_with_key>"; these are the ones of code that a person typed.
TYPED = ("<stdin>", "<string>", "<python-input", "<ipython-input")


def is_ours(code: CodeType) -> bool:
    """Return whether code is ours, such as what a tapped function runs (see `frameworks.torch.taps`)."""
    return code.co_filename.startswith(OURS) or "__netdebug_tell" in code.co_varnames


def is_foreign(code: CodeType, folders: tuple[str, ...] = ()) -> bool:
    """Return whether no line of the code is worth reporting: ours, generated, or in one of the folders."""
    return is_ours(code) or is_foreign_file(code.co_filename, folders)


def is_foreign_file(path: str, folders: tuple[str, ...] = ()) -> bool:
    """Return whether code is foreign as in `is_foreign`, when only its file is known."""
    return path.startswith((OURS, *folders)) or (path.startswith("<") and not path.startswith(TYPED))


@cache
def foreign_folders() -> tuple[str, ...]:
    """Return the folders of Python itself, of installed packages and of this package."""
    paths = sysconfig.get_paths()
    folders = {paths["stdlib"], paths["platstdlib"], paths["purelib"], paths["platlib"]}
    folders |= {*site.getsitepackages(), site.getusersitepackages(), OURS}
    return tuple(folder.rstrip(os.sep) + os.sep for folder in folders if folder)
