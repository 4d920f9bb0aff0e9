"""The verbs that look: stack, source, tensors, expressions."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from tb_netdebug.debugger.tensors.expression import evaluate
from tb_netdebug.debugger.tensors.name_pattern import NamePattern
from tb_netdebug.debugger.tensors.npy import piece_of
from tb_netdebug.debugger.trainer.stack import Sources, stack_of
from tb_netdebug.debugger.trainer.tensor_view import view
from tb_netdebug.debugger.workbench import KINDS, TensorEntry, WorkbenchError

if TYPE_CHECKING:
    from tb_netdebug.debugger.trainer.session import Session

MOST_TENSORS = 2000
# An answer must fit into the header of a frame; each module takes this much besides its names.
MOST_LETTERS_OF_MODULES, LETTERS_OF_A_MODULE = 900_000, 120
# The previous values are kept for this many tensors that somebody has asked to compare.
MOST_FOLLOWED = 8


class Inspection:
    """The verbs that only look; each is called with its checked arguments, on the training thread."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._sources = Sources()
        self._asked: dict[str, None] = {}  # the names of `followed`, the newest last

    @property
    def verbs(self) -> Mapping[str, Callable[..., Any]]:
        return {
            "modules": self._modules,
            "stack": self._stack,
            "source": lambda *, file: self._sources.read(file),
            "tensors": self._tensors,
            "tensor": self._tensor,
            "evaluate": self._evaluate,
            "batch": self._batch,
            "bytes": self._bytes,
        }

    def _modules(self) -> Any:
        all_of_them = self._session.bench.modules()
        found = outermost(all_of_them)
        if len(found) < len(all_of_them):
            self._session.note = f"The outermost {len(found)} of {len(all_of_them)} layers are listed."
            self._session.tell_state()
        self._sources.name(each.get("file") for each in found)
        return found

    def _stack(self) -> Any:
        frame = self._session.frame
        found = stack_of(frame) if frame is not None else []
        self._sources.name(each["file"] for each in found)
        return found

    def _tensors(self, *, kind: str | None, match: str | None, most: int) -> Any:
        if kind is not None and kind not in KINDS:
            raise WorkbenchError(f"The kinds of tensors are: {', '.join(KINDS)}.")
        pattern = NamePattern(match) if match else None
        found = []
        for each in self._session.bench.entries(kind):
            if pattern is None or pattern.finds(each.name):
                found.append(told(each))
            if len(found) >= min(most, MOST_TENSORS):
                break
        return found

    def _tensor(self, *, name: str, slice: str | None, previous: bool, cells: int) -> Any:
        readable = self._session.bench.tensor(name)
        if previous:
            self._follow(name)
        return view(readable, slice=slice, cells=cells, previous=previous)

    def _evaluate(self, *, text: str, cells: int) -> Any:
        return view(evaluate(text, self._session.bench), cells=cells)

    def _batch(self) -> Any:
        bench = self._session.bench
        return [
            {**told(each), "role": role}
            for kind, role in (("batch", "input"), ("label", "label"))
            for each in bench.entries(kind)
        ]

    def _bytes(self, *, name: str, slice: str | None, offset: int, most: int) -> Any:
        return piece_of(self._session.bench.tensor(name), slice=slice, offset=offset, most=most)

    def _follow(self, name: str) -> None:
        """Keep the tensor's values, so that from the next batch on there is one before it."""
        is_new = name not in self._asked
        self._asked.pop(name, None)
        self._asked[name] = None
        if is_new:
            while len(self._asked) > MOST_FOLLOWED:
                del self._asked[next(iter(self._asked))]  # the one that was asked for longest ago
            self._session.adjust()

    @property
    def followed(self) -> frozenset[str]:
        """The tensors whose values are kept from batch to batch."""
        return frozenset(self._asked)


def outermost(modules: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return as many modules as an answer has room for: the deepest are left out."""
    found = modules
    while len(found) > 1 and letters_of(found) > MOST_LETTERS_OF_MODULES:
        deepest = max(each["name"].count(".") for each in found)
        shallower = [each for each in found if each["name"].count(".") < deepest]
        found = shallower or found[: len(found) // 2]
    return found


def letters_of(modules: list[dict[str, Any]]) -> int:
    names = ("name", "parent", "class_name", "file")
    return sum(LETTERS_OF_A_MODULE + sum(len(each[name] or "") for name in names) for each in modules)


def told(entry: TensorEntry) -> dict[str, Any]:
    return {**asdict(entry), "shape": list(entry.shape)}
