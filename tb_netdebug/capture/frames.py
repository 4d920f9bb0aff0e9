"""Whose code is running: ours, a framework's, or the user's, whose lines are what gets told."""

from __future__ import annotations

from pathlib import Path
from types import CodeType, FrameType

# Where the package lies, in the spelling that the code objects of its modules have.
OURS = __file__.rpartition("capture")[0]
# Code that a program has made up has names such as "<eval_with_key>"; these are what a person has typed.
TYPED = ("<stdin>", "<string>", "<python-input", "<ipython-input")
MOST_FRAMES = 64


def is_ours(code: CodeType) -> bool:
    """Also the code that a function runs while we listen to its calls, see `pytorch.taps`."""
    return code.co_filename.startswith(OURS) or "__netdebug_tell" in code.co_varnames


def is_foreign(code: CodeType, folders: tuple[str, ...] = ()) -> bool:
    """Whether no line of it is worth telling: it is ours, lies in one of the folders, or was made up."""
    path = code.co_filename
    return path.startswith(folders) or is_ours(code) or (path.startswith("<") and not path.startswith(TYPED))


def user_frame(frame: FrameType | None, folders: tuple[str, ...] = ()) -> FrameType | None:
    """The nearest one from `frame` outwards that is not foreign; a library's, when a library calls."""
    for _ in range(MOST_FRAMES):
        if frame is None or not is_foreign(frame.f_code, folders):
            return frame
        frame = frame.f_back
    return None


def place_of(frame: FrameType) -> str:
    """File and line, short: "train.py:41"."""
    return f"{Path(frame.f_code.co_filename).name}:{frame.f_lineno}"
