"""Calls a function as soon as a program has imported a module, and never imports it by itself."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from types import ModuleType


def when_imported(name: str, then: Callable[[], None]) -> FirstImport | None:
    """Call `then` after the first import of the module, or now if it is imported; it must not raise."""
    if name in sys.modules:
        then()
        return None
    waiting = FirstImport(name, then)
    sys.meta_path.insert(0, waiting)
    return waiting


class FirstImport(MetaPathFinder):
    """A finder in front of the others, which lets one of them find the module."""

    def __init__(self, name: str, then: Callable[[], None]) -> None:
        self._name = name
        self._then = then
        self._is_asking = False

    def close(self) -> None:
        """Stop waiting. May be repeated."""
        if self in sys.meta_path:
            sys.meta_path.remove(self)

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname != self._name or self._is_asking:
            return None
        self._is_asking = True
        try:
            # This asks all finders, including this one.
            spec = find_spec(fullname)
        finally:
            self._is_asking = False
        if spec is not None and hasattr(spec.loader, "__dict__"):
            self._follow(spec)
        return spec

    def _follow(self, spec: ModuleSpec) -> None:
        """Wrap the loader, which belongs to this one module; it is restored when it is done."""
        loader = spec.loader
        assert loader is not None
        execute = loader.exec_module

        def exec_module(module: ModuleType) -> None:
            vars(loader).pop("exec_module", None)
            execute(module)
            self.close()
            self._then()

        vars(loader)["exec_module"] = exec_module
