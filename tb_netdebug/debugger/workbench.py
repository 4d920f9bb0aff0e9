"""The seam between the debugger and a framework.

A workbench is made for a training that is armed, and costs nothing until the session needs something of
it. It tells the session where the training is (`Stops.visit`), which may not return for a while, and lets it
look at tensors. All methods are called on the thread that trains, and only while that is within `visit` or
between two steps.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from numpy.typing import NDArray

from tb_netdebug.core.stats.packed import Summary
from tb_netdebug.debugger.place import Place

# Kinds of tensors, in the order in which a batch makes them.
KINDS = (
    "batch", "input", "output", "label", "loss", "output_gradient", "gradient", "weight", "update", "state",
    "user",
)  # fmt: skip
Index = tuple[int | slice, ...]


class WorkbenchError(Exception):
    """What was asked for is not there, or cannot be done; a sentence for the person who asked."""


@dataclass(frozen=True, slots=True)
class Needs:
    """Of which places the session wants to hear, and what it wants kept.

    `phases`: begin and end of a model's forward pass, begin of backward, before and after an optimizer's
    step. `layers`: before and after each layer's call. `backward`: when the gradient of a layer's output is
    there, and when those of its parameters are. `ops`: before each operation. `keep`: tensors of this batch
    stay within reach until its end. `previous`: names of tensors of which the values of the batch before are
    kept, too.
    """

    phases: bool = False
    layers: bool = False
    backward: bool = False
    ops: bool = False
    keep: bool = False
    previous: frozenset[str] = frozenset()


NOTHING = Needs()


@dataclass(frozen=True, slots=True)
class TensorEntry:
    """`of` is the name of the layer, parameter or argument; `module` the layer that it belongs to, if any."""

    name: str
    kind: str
    of: str
    shape: tuple[int, ...]
    dtype: str
    device: str
    bytes: int
    module: str | None = None


class Readable(Protocol):
    """A tensor within reach, to be read before the training goes on."""

    @property
    def entry(self) -> TensorEntry: ...

    def summary(self) -> Summary:
        """In one pass over the values where they are, without a copy. Raises WorkbenchError."""

    def part(self, index: Index) -> NDArray[Any]:
        """A copy of these values alone, in a type that NumPy has. Raises WorkbenchError."""

    def previous(self) -> Readable | None:
        """The same of the batch before, when it was kept."""


class Stops(Protocol):
    """The session, as a workbench sees it."""

    @property
    def is_alert(self) -> bool:
        """False as long as a visit would do nothing: hooks look at it first."""

    def visit(self, place: Place) -> None:
        """The training is here. Returns when it may go on."""


class Workbench(Protocol):
    @property
    def can(self) -> tuple[str, ...]:
        """Which steps work here, of "batch", "layer", "backward", "optimizer" and "op"."""

    @property
    def cannot(self) -> list[str]:
        """Why the others do not, and what of the model stays unseen: sentences."""

    def need(self, needs: Needs) -> None:
        """From now on. What was put on for other needs is taken off as soon as that is safe."""

    def end_batch(self) -> None:
        """What was kept of it is let go of; of some the values stay as those of the batch before."""

    def keep_user(self, name: str, value: Any) -> None:
        """What the program has given to `monitor.tensor`; it stays within reach while tensors are kept."""

    def modules(self) -> list[dict[str, Any]]:
        """As the verb `modules` answers."""

    def entries(self, kind: str | None = None) -> Iterator[TensorEntry]:
        """All tensors within reach, in the order in which the batch makes them."""

    def tensor(self, name: str) -> Readable:
        """By the name of its entry. Raises WorkbenchError with what to do instead."""

    def summaries(self, names: Sequence[str]) -> Mapping[str, Summary]:
        """Of many at once; those that are not within reach are left out."""

    def changes(self, names: Sequence[str]) -> Mapping[str, float]:
        """By how much each differs from the batch before: the norm of the difference by the norm before.
        Those whose values were not kept (`Needs.previous`) are left out."""

    def scalars(self) -> Mapping[str, float]:
        """Numbers of the batch that is going on, as far as they are known: loss, what `step` was given."""

    def learning_rates(self) -> list[dict[str, Any]]:
        """As `learning_rates` of the state."""

    def set_learning_rate(self, optimizer: int, group: int | None, value: float) -> None:
        """Raises WorkbenchError."""

    def close(self) -> None:
        """Takes everything off."""
