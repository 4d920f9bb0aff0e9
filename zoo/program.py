"""What a program of the zoo is, and the list of all."""

from __future__ import annotations

import pkgutil
import zlib
from collections.abc import Callable
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any

import tb_netdebug as nd

# Faults that a single step shows: they are to be named within one step. The others need a while to be seen.
AT_ONCE = frozenset(
    {
        "nonfinite-loss",
        "nonfinite-gradient",
        "nonfinite-weight",
        "nonfinite-activation",
        "nonfinite-input",
        "no-gradient",
        "not-optimized",
        "init-constant",
        "loss-input-softmaxed",
        "loss-input-logits",
        "loss-input-shape",
        "loss-input-range",
        "input-constant",
        "labels-single-class",
        "eval-mode-training",
        "train-mode-evaluating",
        "learning-rate-zero",
    }
)


class Zoo:
    """What a program gets: its seed, and a monitor that tells nobody. torch, NumPy and random are seeded."""

    def __init__(self, seed: int, folder: Path) -> None:
        self.seed = seed
        self.monitors: list[nd.Monitor] = []
        self._folder = folder

    def watch(self, model: Any, optimizer: Any = None, **options: Any) -> nd.Monitor:
        """Closed after the program, if the program does not."""
        run = f"run{len(self.monitors)}"
        monitor = nd.watch(model, optimizer, logdir=self._folder, run=run, on_finding="ignore", **options)
        self.monitors.append(monitor)
        return monitor


Body = Callable[[Zoo], None]


@dataclass(frozen=True)
class Program:
    """`slug` is the rule that has to speak, or "" if none may; `also` are others that are right as well.

    `from_step` is the first step in which the fault is there.
    """

    name: str
    body: Body = field(compare=False, repr=False)
    about: str = ""
    family: str = ""
    slug: str = ""
    also: tuple[str, ...] = ()
    from_step: int = 0

    @property
    def is_sick(self) -> bool:
        return bool(self.slug)

    @property
    def is_held_out(self) -> bool:
        """A third of all, which nobody who tunes the rules looks at."""
        return zlib.crc32(self.name.encode()) % 3 == 0

    @property
    def shows_at_once(self) -> bool:
        return self.slug in AT_ONCE

    @property
    def right(self) -> tuple[str, ...]:
        return (self.slug, *self.also)


_PROGRAMS: dict[str, Program] = {}


def sick(slug: str, *, also: tuple[str, ...] = (), from_step: int = 0) -> Callable[[Body], Body]:
    """A training with a fault that `slug` names; those in `also` are no mistake either."""

    def enlist(body: Body) -> Body:
        _add(body, slug, also, from_step)
        return body

    return enlist


def healthy(body: Body) -> Body:
    """A training that learns what it should, however odd it looks."""
    _add(body, "", (), 0)
    return body


def _add(body: Body, slug: str, also: tuple[str, ...], from_step: int) -> None:
    name = body.__name__
    if name in _PROGRAMS:
        raise ValueError(f"two programs of the zoo are called {name}")
    about = (body.__doc__ or "").strip().splitlines()[0] if body.__doc__ else ""
    family = body.__module__.rpartition(".")[2]
    _PROGRAMS[name] = Program(name, body, about, family, slug, also, from_step)


def all_programs() -> list[Program]:
    """Healthy ones first, then by family, in the order in which they are written down."""
    for part in ("healthy", "sick"):
        package = import_module(f"zoo.{part}")
        for module in sorted(pkgutil.iter_modules(package.__path__), key=lambda each: each.name):
            import_module(f"zoo.{part}.{module.name}")
    return list(_PROGRAMS.values())
