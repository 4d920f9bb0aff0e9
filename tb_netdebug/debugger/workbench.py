"""The seam between the debugger and a framework.

A workbench is made for a run that can be debugged, and costs nothing until the session needs something of it.
It reports to the session where the run is (`Stops.visit`), which may not return for a while, and gives it
access to tensors. All methods are called on the training thread, and only within `visit` or between two
steps.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from numpy.typing import NDArray

from tb_netdebug.core.stats.packed import Summary
from tb_netdebug.debugger.place import Place

# The kinds of tensors, in the order in which a batch makes them.
KINDS = (
    "batch", "input", "output", "label", "loss", "output_gradient", "gradient", "weight", "update", "state",
    "user",
)  # fmt: skip
Index = tuple[int | slice, ...]


class WorkbenchError(Exception):
    """The request cannot be met; the text is a sentence for the user who made it."""


@dataclass(frozen=True, slots=True)
class Needs:
    """The places that the session wants to hear of, and the tensors that it wants kept.

    `phases`: begin and end of a model's forward pass, begin of backward, before and after an optimizer's
    step. `layers`: before and after each layer's call. `backward`: when the gradient of a layer's output is
    there, and when those of its parameters are. `ops`: before each operation. `keep`: tensors of this batch
    stay within reach until its end. `previous`: names of tensors whose values of the batch before are kept,
    too.
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
    """A tensor within reach.

    `of` is the name of the layer, parameter or argument; `module` is the layer that it belongs to, if any.
    """

    name: str
    kind: str
    of: str
    shape: tuple[int, ...]
    dtype: str
    device: str
    bytes: int
    module: str | None = None


class Readable(Protocol):
    """A tensor within reach, to be read before the run goes on."""

    @property
    def entry(self) -> TensorEntry: ...

    def summary(self) -> Summary:
        """Return the summary, in one pass over the values in place, without a copy; raise WorkbenchError."""

    def part(self, index: Index) -> NDArray[Any]:
        """Return a copy of these values alone, in a type of NumPy; raise WorkbenchError."""

    def previous(self) -> Readable | None:
        """Return the same tensor of the batch before, if it was kept."""


class Stops(Protocol):
    """The session, as a workbench sees it."""

    @property
    def is_alert(self) -> bool:
        """False as long as a visit would do nothing: hooks check it first."""

    def visit(self, place: Place) -> None:
        """Report that the run is at this place; returns when it may go on."""


class Workbench(Protocol):
    @property
    def can(self) -> tuple[str, ...]:
        """The steps that work here, of "batch", "layer", "backward", "optimizer" and "op"."""

    @property
    def cannot(self) -> list[str]:
        """Sentences on why the others do not, and on which parts of the model stay unseen."""

    def need(self, needs: Needs) -> None:
        """Set the needs from now on. Hooks for other needs are removed as soon as that is safe."""

    def end_batch(self) -> None:
        """Release what was kept of the batch, except the values that stay as those of the batch before."""

    def keep_user(self, name: str, value: Any) -> None:
        """Keep what the program has given to `monitor.tensor` within reach, while tensors are kept."""

    def modules(self) -> list[dict[str, Any]]:
        """Return the answer of the verb `modules`."""

    def entries(self, kind: str | None = None) -> Iterator[TensorEntry]:
        """Yield all tensors within reach, in the order in which the batch makes them."""

    def tensor(self, name: str) -> Readable:
        """Return a tensor by the name of its entry; raise WorkbenchError with what to do instead."""

    def summaries(self, names: Sequence[str]) -> Mapping[str, Summary]:
        """Return the summaries of many tensors at once; those that are not within reach are left out."""

    def changes(self, names: Sequence[str]) -> Mapping[str, float]:
        """Return how far each tensor is from the batch before: norm of the difference over norm before.

        Those whose values were not kept (`Needs.previous`) are left out.
        """

    def scalars(self) -> Mapping[str, float]:
        """Return the numbers of the present batch that are known: loss, and what `step` was given."""

    def learning_rates(self) -> list[dict[str, Any]]:
        """Return `learning_rates` as in the state."""

    def set_learning_rate(self, optimizer: int, group: int | None, value: float) -> None:
        """Set the rate of a group, or of all groups if None; raise WorkbenchError."""

    def close(self) -> None:
        """Remove all hooks."""
