"""Runs a program inside this process as `python SCRIPT ARGS` or `python -m MODULE ARGS` would."""

from __future__ import annotations

import builtins
import io
import os
import pkgutil
import runpy
import sys
import traceback
from dataclasses import dataclass
from importlib.machinery import BuiltinImporter, SourceFileLoader, SourcelessFileLoader
from pathlib import Path
from types import CodeType, ModuleType, TracebackType
from typing import Any

from tb_netdebug.core.records.visible import visible_lines
from tb_netdebug.recording.frames import is_ours

STDIN = "-"


@dataclass(frozen=True, slots=True)
class Script:
    """The script on the command line: a file, folder, archive or "-", or a module; and its own arguments."""

    name: str
    arguments: tuple[str, ...] = ()
    is_module: bool = False


@dataclass(frozen=True, slots=True)
class ScriptEnding:
    """How a program ended; `error` is what it did not catch, other than SystemExit."""

    status: int
    error: BaseException | None = None


def run_as_main(script: Script) -> ScriptEnding:
    """Run the program as `__main__`, which it stays for what it leaves behind: threads, pickles, atexit.

    An uncaught error is shown as Python shows it, without NetDebug's part of the stack. Raises OSError if
    there is no such file.
    """
    source = None if script.is_module or is_importable(script.name) else read(script.name)
    main = sys.modules["__main__"] = ModuleType("__main__")
    vars(main)["__builtins__"] = builtins
    if sys.version_info < (3, 14):
        vars(main)["__annotations__"] = {}
    try:
        if source is None:
            run_module(script)
        else:
            run_source(script, source, main)
    except SystemExit as ending:
        return ScriptEnding(status_of(ending))
    except BaseException as error:
        uncaught = error  # shown outside of this block, or it would be the context of what a hook raises
    else:
        return ScriptEnding(0)
    forget_our_frames(uncaught)
    return ScriptEnding(show(uncaught), uncaught)


# ---- beginning -------------------------------------------------------------------------------------------


def run_module(script: Script) -> None:
    """Run a module by its name, or the `__main__` of a folder or an archive, by runpy as Python does."""
    run = runpy._run_module_as_main  # type: ignore[attr-defined]  # private
    if script.is_module:
        sys.argv[:] = ["-m", *script.arguments]
        replace_first_path(str(Path.cwd()))
        run(script.name, alter_argv=True)
    else:
        sys.argv[:] = [script.name, *script.arguments]
        replace_first_path(absolute(script.name))
        run("__main__", alter_argv=False)


def run_source(script: Script, source: CodeType | bytes, main: ModuleType) -> None:
    sys.argv[:] = [script.name, *script.arguments]
    path = "<stdin>" if script.name == STDIN else absolute(script.name)
    replace_first_path("" if script.name == STDIN else str(Path(path).resolve().parent))
    loader: Any = BuiltinImporter
    if isinstance(source, CodeType):
        loader = SourcelessFileLoader("__main__", path)
    elif script.name != STDIN:
        loader = SourceFileLoader("__main__", path)
    vars(main).update(__file__=path, __loader__=loader)
    if sys.version_info < (3, 14):
        vars(main)["__cached__"] = None
    code = source if isinstance(source, CodeType) else compile(source, path, "exec", dont_inherit=True)
    exec(code, vars(main))


def is_importable(name: str) -> bool:
    """Return whether it is a folder or an archive with a `__main__`."""
    return name != STDIN and pkgutil.get_importer(name) is not None


def read(name: str) -> CodeType | bytes:
    if name == STDIN:
        return sys.stdin.buffer.read()
    with io.open_code(absolute(name)) as file:
        compiled: CodeType | None = pkgutil.read_code(file) if name.endswith(".pyc") else None
        if compiled is not None:
            return compiled
        file.seek(0)
        source: bytes = file.read()
        return source


def absolute(name: str) -> str:
    """Return the path as Python makes it absolute: without normalising it."""
    return name if Path(name).is_absolute() else f"{Path.cwd()}{os.sep}{name}"


def replace_first_path(entry: str) -> None:
    """Replace the path entry of NetDebug's own command, unless Python was told to add none."""
    if not (sys.flags.isolated or getattr(sys.flags, "safe_path", False)):
        sys.path[0] = entry


# ---- ending ----------------------------------------------------------------------------------------------


def status_of(ending: SystemExit) -> int:
    """Return the exit status; a message goes where Python would print it."""
    if ending.code is None:
        return 0
    if isinstance(ending.code, int):
        return ending.code
    told = str(ending.code)
    # Python's own message quotes the command line, so it is escaped; a message of the script goes as it is.
    sys.stderr.write(f"{visible_lines(told) if told.startswith(f'{sys.executable}: ') else told}\n")
    return 1


def forget_our_frames(error: BaseException) -> None:
    """Remove NetDebug's frames from the error and from those that led to it."""
    waiting: list[BaseException | None] = [error]
    seen: set[int] = set()
    while waiting:
        each = waiting.pop()
        if each is None or id(each) in seen:
            continue
        seen.add(id(each))
        each.__traceback__ = without_ours(each.__traceback__)
        waiting += [each.__cause__, each.__context__]


def without_ours(trace: TracebackType | None) -> TracebackType | None:
    kept = None
    for each in reversed(list(chain_of(trace))):
        if not is_ours(each.tb_frame.f_code):
            each.tb_next = kept
            kept = each
    return kept


def chain_of(trace: TracebackType | None) -> list[TracebackType]:
    found = []
    while trace is not None:
        found.append(trace)
        trace = trace.tb_next
    return found


def show(error: BaseException) -> int:
    """Show an error by the program's own hook, as at the end of any program; return the exit status."""
    sys.last_type, sys.last_value, sys.last_traceback = type(error), error, error.__traceback__
    if sys.version_info >= (3, 12):
        sys.last_exc = error
    try:
        sys.excepthook(type(error), error, error.__traceback__)
    except SystemExit as ending:
        return status_of(ending)
    except BaseException as second:
        forget_our_frames(second)
        sys.stderr.write("Error in sys.excepthook:\n")
        traceback.print_exception(second)
        sys.stderr.write("\nOriginal exception was:\n")
        traceback.print_exception(error)
    return 1
