"""The whole of the demo: three trainings, a TensorBoard that shows them, and how they end."""

from __future__ import annotations

import itertools
import os
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import board
import browser
from board import Board, BoardError
from children import Child
from status import Status

HERE = Path(__file__).resolve().parent
TRAININGS = {
    "healthy": "healthy/digits.py",
    "learning-rate-too-high": "sick/learning_rate_high.py",
    "deep-sigmoid": "sick/vanishing_gradients.py",
}
REFRESH_SECS = 0.25


@dataclass(frozen=True, slots=True)
class Show:
    """What runs; whatever was started is in `children`, also when starting the next one failed."""

    folder: Path
    children: list[Child]

    def start(self, *, seconds: float, port: int) -> Board:
        """Raises BoardError when there will be nothing to look at."""
        output = self.folder / "output"
        tensorboard = board.start(self.folder, port=port, output=output / "tensorboard.txt")
        self.children.append(tensorboard)
        for name, script in TRAININGS.items():
            words: list[str | Path] = [HERE / script, "--logdir", self.folder, "--seconds", str(seconds)]
            self.children.append(Child.start(name, words, output=output / f"{name}.txt"))
        ready = board.wait_for(tensorboard, port=port)
        ready.check_page()
        return ready

    @property
    def trainings(self) -> Sequence[Child]:
        return [child for child in self.children if child.name in TRAININGS]

    def follow(self, ready: Board, *, seconds: float) -> None:
        """Until Ctrl-C; raises BoardError when nothing is left to look at."""
        with Status(self.folder, self.trainings, seconds=seconds) as status:
            while ready.child.is_running:
                status.update()
                if all(child.has_failed for child in self.trainings):
                    raise BoardError("No training is left, so the demo ends.")
                time.sleep(REFRESH_SECS)
        raise BoardError(ready.child.ending())


def open_browser(page: str) -> None:
    if browser.open_page(page):
        print("          opened in your browser", flush=True)


def new_folder(logdir: Path) -> Path:
    """A folder of its own for each demo; raises OSError."""
    logdir.mkdir(parents=True, exist_ok=True)
    name = time.strftime("%Y-%m-%d_%H-%M-%S")
    for number in itertools.count(1):
        folder = logdir / (name if number == 1 else f"{name}-{number}")
        try:
            folder.mkdir()
        except FileExistsError:
            continue
        return folder
    raise AssertionError("numbers do not end")


def shown(path: Path) -> str:
    """As short as it can be typed from here."""
    short = os.path.relpath(path)
    return str(path) if short.startswith("..") else short
