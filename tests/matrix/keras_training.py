"""Runs cells of Keras on the backend that KERAS_BACKEND names.

keras_training.py WAY FOLDER ONLY PLACES [--slice]

All in one process, as imports take longer than a cell. What becomes of each is a line of `found.jsonl`.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import re
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

if __name__ == "__main__":
    sys.path[:1] = []
    sys.path.append(str(Path(__file__).resolve().parents[2]))

PLACES = ("none", "input", "forward", "loss", "gradient")
STYLES = {"tensorflow": ("graph", "eager"), "torch": ("eager",), "jax": ("graph",)}
# On TensorFlow nothing is traced eagerly: two places will do there.
PLACES_EAGERLY = ("none", "forward")


@dataclass(frozen=True)
class Cell:
    kind: str
    place: str
    style: str

    @property
    def name(self) -> str:
        return f"{self.kind}/{self.place}/{self.style}"


def cells_of(backend: str, kinds: Iterable[str]) -> Iterator[Cell]:
    for kind in kinds:
        for style in STYLES[backend]:
            for place in PLACES_EAGERLY if (backend, style) == ("tensorflow", "eager") else PLACES:
                yield Cell(kind, place, style)


def sliced(backend: str, kinds: Iterable[str]) -> Iterator[Cell]:
    """Yield every third kind once, the places by turns; every fourth one of them eagerly."""
    for number, kind in enumerate(list(kinds)[::3]):
        styles = STYLES[backend]
        style = styles[-1] if number % 4 == 3 else styles[0]
        yield Cell(kind, PLACES[number % len(PLACES)] if style == "graph" else "forward", style)


def run(cell: Cell, way: str, folder: Path) -> dict[str, str]:
    """Return the fingerprints of what became of the cell, by part."""
    from tests.matrix.keras_kinds import Training

    try:
        training = Training(cell.kind, cell.place, eager=cell.style == "eager")
        state = training.run(way, folder)
    except Exception as error:
        return {"error": f"{type(error).__name__}: {error}"[:500]}
    found = {name: digest(value) for name, value in state.items()}
    return {**found, "recorded": str(has_recorded(folder / "log"))}


def has_recorded(folder: Path) -> bool:
    return any(each.stat().st_size > 500 for each in folder.glob("run/events.*"))


def digest(value: Any) -> str:
    """Return short numbers and words as they are."""
    text = fingerprint(value)
    return text if len(text) < 60 else hashlib.sha256(text.encode()).hexdigest()[:16]


def fingerprint(value: Any) -> str:
    if isinstance(value, dict):
        return "{" + ",".join(f"{key}:{fingerprint(each)}" for key, each in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ",".join(map(fingerprint, value)) + "]"
    if hasattr(value, "tobytes"):
        return f"{value.dtype}{value.shape}{value.tobytes().hex()}"
    return value.hex() if isinstance(value, float) else repr(value)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("way")
    parser.add_argument("folder", type=Path)
    parser.add_argument("only")
    parser.add_argument("places")
    parser.add_argument("--slice", action="store_true")
    options = parser.parse_args()
    from tests.matrix.keras_kinds import BACKEND, KINDS

    kinds = [name for name, kind in KINDS.items() if BACKEND in kind.backends]
    cells = [
        cell
        for cell in (sliced if options.slice else cells_of)(BACKEND, kinds)
        if re.search(options.only, cell.kind) and cell.place in options.places.split(",")
    ]
    (options.folder / "cells.json").write_text(json.dumps([cell.name for cell in cells]))
    with (options.folder / "found.jsonl").open("w", buffering=1) as file:
        for number, cell in enumerate(cells):
            found = run(cell, options.way, options.folder / "cells" / f"{number}")
            file.write(json.dumps([cell.name, found]) + "\n")


if __name__ == "__main__":
    main()
