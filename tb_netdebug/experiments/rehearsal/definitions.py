"""Takes a name from a user's file or module, which runs no further than to its first optimizer step.

The code is imported, not run as a program, so what `if __name__ == "__main__"` guards does not run. A script
that already runs as the program is not run again.
"""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType
from typing import Any

from tb_netdebug.experiments.rehearsal.stop import Stopped, stop_before_step
from tb_netdebug.training.zero_code.script import ScriptEnding, status_of


@dataclass(frozen=True, slots=True)
class NamedDefinition:
    """A name in a module, or in a file that ends in .py: MODULE:NAME."""

    module: str
    attribute: str

    @property
    def is_file(self) -> bool:
        return self.module.endswith(".py")


@dataclass(frozen=True, slots=True)
class Definition:
    """What a module had when it ended or was stopped; `value` counts only if `is_there`."""

    stopped: Stopped
    is_there: bool = False
    value: Any = None


class Definitions:
    """Runs each module once, however many names are taken from it; `program` is what already ran."""

    def __init__(self, program: Stopped | None = None) -> None:
        self._stops = {} if program is None else {id(sys.modules["__main__"]): program}

    def take(self, named: NamedDefinition, use: Callable[[Definition], int]) -> int:
        """Return what `use` makes of the definition. Call it as `stop_before_step` has to be called."""
        loading = Loading(named)

        def found(stopped: Stopped) -> int:
            known_stop = self._stops.setdefault(id(loading.module), stopped)
            return use(loading.definition(known_stop))

        return stop_before_step(named.module, partial(ending_of, loading.begin), found)


class Loading:
    """The import of one module. It may be stopped midway; what the module has by then is kept."""

    def __init__(self, named: NamedDefinition) -> None:
        self._named = named
        self.module: ModuleType | None = None

    def begin(self) -> None:
        """Import the module, unless it is imported already or runs as the program."""
        spec = self._spec()
        self.module = known(spec)
        if self.module is not None or spec.loader is None:
            return
        self.module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(self.module)
        bind_to_package(self.module, spec)

    def definition(self, stopped: Stopped) -> Definition:
        attribute = self._named.attribute
        if not hasattr(self.module, attribute):
            return Definition(stopped)
        return Definition(stopped, is_there=True, value=getattr(self.module, attribute))

    def _spec(self) -> ModuleSpec:
        name = self._named.module
        if not self._named.is_file:
            # As for `python -m MODULE`.
            sys.path.insert(0, "")
            spec = running_spec(name) or importlib.util.find_spec(name)
        elif Path(name).is_file():
            # As for `python FILE`.
            sys.path.insert(0, str(Path(name).parent))
            spec = importlib.util.spec_from_file_location(Path(name).stem, name)
        else:
            raise FileNotFoundError(f"there is no file {name}")
        if spec is None:
            raise ModuleNotFoundError(f"No module named {name!r}")
        return spec


def ending_of(program: Callable[[], object]) -> ScriptEnding:
    """Return how a part of a user's program ended, as a `ScriptEnding` like that of a whole script."""
    try:
        program()
    except SystemExit as ending:
        return ScriptEnding(status_of(ending))
    except BaseException as error:
        return ScriptEnding(1, error)
    return ScriptEnding(0)


def running_spec(name: str) -> ModuleSpec | None:
    """Return the spec of the program if it runs as `-m name`: its package is not imported again."""
    spec: ModuleSpec | None = getattr(sys.modules["__main__"], "__spec__", None)
    return spec if spec is not None and spec.name == name else None


def known(spec: ModuleSpec) -> ModuleType | None:
    """Return the module if it was imported already, or runs as the program."""
    for each in (sys.modules["__main__"], sys.modules.get(spec.name)):
        file = getattr(each, "__file__", None)
        if file and spec.origin and Path(file).resolve() == Path(spec.origin).resolve():
            return each
    loaded = sys.modules.get(spec.name)
    return loaded if loaded is not None and loaded.__spec__ is spec else None


def bind_to_package(module: ModuleType, spec: ModuleSpec) -> None:
    """Set the module as an attribute of its package, as an ordinary import does."""
    package, _, name = spec.name.rpartition(".")
    if package:
        setattr(sys.modules[package], name, module)
