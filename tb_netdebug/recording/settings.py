"""The settings that the user asked for, validated once."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from numbers import Integral, Real
from pathlib import Path
from types import NoneType
from typing import Any

Kinds = tuple[type, ...]

SWITCH: Kinds = (bool,)
NUMBER: Kinds = (Integral,)
MAYBE_NUMBER: Kinds = (Integral, NoneType)
SHARE: Kinds = (Real,)
RATE: Kinds = (Integral, str)
PATTERN: Kinds = (str, re.Pattern, NoneType)
NAME: Kinds = (str, NoneType)
FOLDER: Kinds = (str, os.PathLike, NoneType)
MEANT = {
    SWITCH: "True or False",
    NUMBER: "a whole number",
    MAYBE_NUMBER: "a whole number, or None",
    SHARE: "a number",
    RATE: '"auto" or a number of steps',
    PATTERN: "a regular expression, or None",
    NAME: "a name, or None",
    FOLDER: "a folder, or None",
}
TYPES: dict[str, Kinds] = {
    **dict.fromkeys(("weights", "gradients", "updates", "activations", "memory", "batches"), SWITCH),
    **dict.fromkeys(("console", "capsules", "strict", "pause_at_start", "resume"), SWITCH),
    "logdir": FOLDER,
    "run": NAME,
    "every": RATE,
    "overhead": SHARE,
    "include": PATTERN,
    "exclude": PATTERN,
    "num_classes": MAYBE_NUMBER,
    "flight_recorder": NUMBER,
}

ON_FINDING = ("print", "raise", "pause", "ignore")
CHECK_NUMERICS = ("sampled", "layers", "ops")


@dataclass(frozen=True, slots=True)
class Settings:
    """The keyword arguments of `watch`; raises ValueError or TypeError for invalid ones."""

    logdir: str | Path | None = None
    run: str | None = None
    resume: bool = False
    every: int | str = "auto"
    overhead: float = 0.02
    include: str | None = None
    exclude: str | None = None
    weights: bool = True
    gradients: bool = True
    updates: bool = True
    activations: bool = True
    memory: bool = True
    batches: bool = True
    num_classes: int | None = None
    console: bool = False
    on_finding: str | Callable[[Any], object] = "print"
    debugger: bool | str | None = None
    pause_at_start: bool = False
    remote: str | None = None
    check_numerics: str = "sampled"
    flight_recorder: int = 64
    capsules: bool = True
    strict: bool = False
    checks: Mapping[str, Any] | None = None

    def __post_init__(self) -> None:
        self._check_types()
        self._check_rates()
        self._check_patterns()
        self._check_choices()
        self._check_addresses()
        self._check_debugger()
        self._check_resume()

    @property
    def period(self) -> int | None:
        """The number of steps between full samples; None lets the governor decide."""
        return None if self.every == "auto" else int(self.every)

    @property
    def is_spooled(self) -> bool:
        """Whether the records are for a collector only, and may be deleted once it has them."""
        return self.remote is not None and self.logdir is None

    @property
    def folder(self) -> str | Path | None:
        """The folder of the runs; None leaves the choice to the caller."""
        if not self.is_spooled:
            return self.logdir
        from tb_netdebug.recording.remote import waiting_room

        return waiting_room()

    @property
    def debugger_address(self) -> str | None:
        """The address of the debugger's other end; None stands for the TensorBoard of this machine."""
        return self.debugger if isinstance(self.debugger, str) else None

    def wants(self, name: str) -> bool:
        """Return whether a layer or parameter of this name is to be watched."""
        if self.include is not None and not re.search(self.include, name):
            return False
        return self.exclude is None or not re.search(self.exclude, name)

    def _check_types(self) -> None:
        for name, kinds in TYPES.items():
            value = getattr(self, name)
            # bool is a subclass of int: True must not pass for a number.
            is_switch = bool in kinds
            if isinstance(value, bool) != is_switch or not isinstance(value, kinds):
                raise TypeError(f"{name}={value!r} must be {MEANT[kinds]}")

    def _check_rates(self) -> None:
        if isinstance(self.every, str) and self.every != "auto":
            raise ValueError(f'every={self.every!r} must be "auto" or a number of steps')
        if not isinstance(self.every, str) and self.every < 1:
            raise ValueError(f"every={self.every}: take a full sample every this many steps; the least is 1")
        if not 0 < self.overhead < 1:
            raise ValueError(
                f"overhead={self.overhead} is a share of the step time between 0 and 1; 0.02 means 2 %"
            )
        if self.flight_recorder < 0:
            raise ValueError(
                f"flight_recorder={self.flight_recorder} must be the number of steps to keep; 0 keeps none"
            )
        if self.num_classes is not None and self.num_classes < 1:
            raise ValueError(
                f"num_classes={self.num_classes} must be the number of classes; leave it out if there are "
                "none"
            )

    def _check_patterns(self) -> None:
        for name, pattern in (("include", self.include), ("exclude", self.exclude)):
            try:
                re.compile(pattern or "")
            except re.error as error:
                raise ValueError(f"{name}={pattern!r} is not a regular expression: {error}") from None

    def _check_choices(self) -> None:
        if not callable(self.on_finding) and self.on_finding not in ON_FINDING:
            raise ValueError(f"on_finding={self.on_finding!r} must be a callable or one of {ON_FINDING}")
        if self.check_numerics not in CHECK_NUMERICS:
            raise ValueError(f"check_numerics={self.check_numerics!r} must be one of {CHECK_NUMERICS}")
        if self.run is not None and not is_below(self.run):
            raise ValueError(f"run={self.run!r} must be the name of a folder below logdir")

    def _check_addresses(self) -> None:
        for name, value in (("remote", self.remote), ("debugger", self.debugger)):
            if value is None or (name == "debugger" and isinstance(value, bool)):
                continue
            from tb_netdebug.transport.addresses import address_of

            if not isinstance(value, str):
                raise TypeError(f'{name}={value!r} must be the address of a collector, "host:port", or None')
            try:
                address_of(value)
            except ValueError as error:
                raise ValueError(f"{name}={value!r}: {error}") from None

    def _check_debugger(self) -> None:
        """Refuse wishes that need the debugger without it: better no run than one believed to be debugged."""
        if self.debugger:
            return
        for wish, is_asked in (
            ('on_finding="pause"', self.on_finding == "pause"),
            ("pause_at_start=True", self.pause_at_start),
        ):
            if is_asked:
                raise ValueError(f"{wish} needs the debugger: add debugger=True")

    def _check_resume(self) -> None:
        if not self.resume:
            return
        if self.run is None:
            raise ValueError("resume needs the name of the run to continue: add run=")
        if self.is_spooled:
            raise ValueError(
                "resume needs a logdir: a run that was only sent leaves nothing on this machine to "
                "continue from"
            )


def is_below(run: str) -> bool:
    """Return whether this names a folder inside another one, whatever that is."""
    parts = Path(run).parts
    return bool(parts) and not Path(run).is_absolute() and ".." not in parts
