"""The interface through which the debugger reads a Keras backend's tensors and current step."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from typing import Any

import keras
from numpy.typing import NDArray

from tb_netdebug.debugger.workbench import WorkbenchError
from tb_netdebug.frameworks.keras.coverage import rate_of
from tb_netdebug.frameworks.keras.layers import WatchedWeight

Array = NDArray[Any]
# Kind, name, layer and tensor of each value that a step has returned.
Shown = Iterator[tuple[str, str, str | None, Any]]


class TensorSource(ABC):
    """One per backend; all its methods are called on the training thread."""

    @property
    @abstractmethod
    def can(self) -> tuple[str, ...]: ...

    @property
    @abstractmethod
    def cannot(self) -> list[str]: ...

    # ---- tensors -----------------------------------------------------------------------------------------

    @abstractmethod
    def tensors_in(self, value: Any, name: str = "") -> Iterator[tuple[str, Any]]:
        """Yield the tensors that hold numbers, each with its place."""

    @abstractmethod
    def array(self, tensor: Any) -> Array:
        """Return its values, not copied if they lie in host memory."""

    def device(self, tensor: Any) -> str:
        return "cpu"

    @abstractmethod
    def present(self, variable: Any) -> Any:
        """Return the current tensor of a Keras variable."""

    @abstractmethod
    def held(self, watched: WatchedWeight) -> Any:
        """Return the values of a weight, safe from changes by later steps."""

    def value_of(self, watched: WatchedWeight) -> Any:
        """Return the current tensor of a weight."""
        return self.present(watched.variable)

    # ---- steps -------------------------------------------------------------------------------------------

    def is_training(self) -> bool:
        """Return whether a call made now is one of the training, with values."""
        return False

    def follow_backward(self, begins: Callable[[], None] | None) -> None:  # noqa: B027  # a backend may have nothing to do
        """Call `begins` when backward starts, if `calls.CallListener` cannot tell; None stops that."""

    def show_all(self, wanted: bool) -> None:  # noqa: B027  # a backend may have nothing to do
        """Make the next steps return all that they can, or no more than usual."""

    def shown(self) -> Shown:
        """Yield what the step that has just run has returned."""
        return iter(())

    def end_batch(self) -> None:  # noqa: B027  # a backend may have nothing to do
        """Release what was returned."""

    # ---- optimizers --------------------------------------------------------------------------------------

    @abstractmethod
    def optimizers(self) -> list[Any]: ...

    def rate_of(self, optimizer: Any) -> float | None:
        return rate_of(optimizer)

    def set_rate(self, optimizer: Any, value: float) -> None:
        """Set the learning rate; raise WorkbenchError if a schedule determines it."""
        rate = rate_variable(optimizer)
        if not isinstance(rate, keras.Variable):
            raise WorkbenchError(
                f"the learning rate of {type(optimizer).__name__} follows {type(rate).__name__}, which sets "
                "it again in every step"
            )
        rate.assign(value)


def inner(optimizer: Any) -> Any:
    """Return the optimizer without the loss-scaling one around it."""
    return getattr(optimizer, "inner_optimizer", optimizer)


def rate_variable(optimizer: Any) -> Any:
    return getattr(inner(optimizer), "_learning_rate", None)
