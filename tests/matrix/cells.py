"""The cells of the matrix: a kind of model, where its NaN comes, what the loop does, how it is watched."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from tests.matrix import programs
from tests.matrix.programs import AGAIN, ALONE

# Those that tell the most come first, for who does not wait for the end.
PLACES = ("loss", "forward", "input", "gradient", "none")
# What the loop does with a bad step.
HANDLINGS = ("trained", "skipped", "dropped")
MODES = ("watch", "layers", "ops", "run")
SCRIPT = Path(__file__).with_name("training.py")


@dataclass(frozen=True, slots=True)
class Cell:
    """One training in a process of its own."""

    kind: str
    place: str
    handling: str
    mode: str

    @property
    def name(self) -> str:
        return f"{self.kind}/{self.place}-{self.handling}/{self.mode}"

    def program(self, folder: Path, *, is_fresh: bool = False) -> Callable[[], int]:
        """Its script, which leaves its outcome in the folder."""
        words = [self.kind, self.place, self.handling, self.mode, str(folder)]
        start = programs.fresh if is_fresh else programs.forked
        return start(SCRIPT, words, mode=self.mode, folder=folder)


def cells_of(
    names: list[str],
    *,
    places: tuple[str, ...] = PLACES,
    handlings: tuple[str, ...] = HANDLINGS,
    modes: tuple[str, ...] = MODES,
) -> Iterator[list[Cell]]:
    """Groups of a training and its repetitions under watch; the first of each is alone."""
    for place in places:
        for number, name in enumerate(names):
            turn = number + PLACES.index(place)
            for handling, chosen in handlings_of(place, turn):
                if handling in handlings:
                    cell = Cell(name, place, handling, ALONE)
                    yield [cell, *(replace(cell, mode=mode) for mode in modes if mode in (AGAIN, *chosen))]


def handlings_of(place: str, turn: int) -> Iterator[tuple[str, tuple[str, ...]]]:
    """What the loop does with a bad step, and the modes in which that is tried.

    Each kind trains on with it in all modes, and leaves it out in one of two ways in half of them, by turns.
    """
    yield HANDLINGS[0], MODES
    if place != "none":
        yield HANDLINGS[1 + turn % 2], MODES[turn // 2 % 2 :: 2]
