"""What the backend of Keras says of its tensors, and of the step that is going on."""

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
# Kind, name, layer and tensor of what a step has given back.
Shown = Iterator[tuple[str, str, str | None, Any]]


class TensorSource(ABC):
    """One for each backend; all methods are for the thread that trains."""

    @property
    @abstractmethod
    def can(self) -> tuple[str, ...]: ...

    @property
    @abstractmethod
    def cannot(self) -> list[str]: ...

    # ---- tensors -----------------------------------------------------------------------------------------

    @abstractmethod
    def tensors_in(self, value: Any, name: str = "") -> Iterator[tuple[str, Any]]:
        """Those with numbers in them, each with its place."""

    @abstractmethod
    def array(self, tensor: Any) -> Array:
        """Its values, not copied where they lie in host memory."""

    def device(self, tensor: Any) -> str:
        return "cpu"

    @abstractmethod
    def present(self, variable: Any) -> Any:
        """The tensor that a variable of Keras has now."""

    @abstractmethod
    def held(self, watched: WatchedWeight) -> Any:
        """The values of a weight, which no step changes."""

    def value_of(self, watched: WatchedWeight) -> Any:
        """The tensor that a weight has now."""
        return self.present(watched.variable)

    # ---- steps -------------------------------------------------------------------------------------------

    def is_training(self) -> bool:
        """Whether a call that is made now is one of the training, with values."""
        return False

    def follow_backward(self, begins: Callable[[], None] | None) -> None:  # noqa: B027  # a backend may have nothing to do
        """Calls it where a backward pass begins, if calls do not tell (`calls.Listener`); None ends that."""

    def show_all(self, wanted: bool) -> None:  # noqa: B027  # a backend may have nothing to do
        """From the next step on it is to give back all that it can."""

    def shown(self) -> Shown:
        """What the step that has just run has given back."""
        return iter(())

    def end_batch(self) -> None:  # noqa: B027  # a backend may have nothing to do
        """Lets go of what was given back."""

    # ---- optimizers --------------------------------------------------------------------------------------

    @abstractmethod
    def optimizers(self) -> list[Any]: ...

    def rate_of(self, optimizer: Any) -> float | None:
        return rate_of(optimizer)

    def set_rate(self, optimizer: Any, value: float) -> None:
        """Raises WorkbenchError."""
        rate = rate_variable(optimizer)
        if not isinstance(rate, keras.Variable):
            raise WorkbenchError(
                f"the learning rate of {type(optimizer).__name__} follows {type(rate).__name__}, which says "
                "it anew in every step"
            )
        rate.assign(value)


def inner(optimizer: Any) -> Any:
    """Without the optimizer around it that scales the loss."""
    return getattr(optimizer, "inner_optimizer", optimizer)


def rate_variable(optimizer: Any) -> Any:
    return getattr(inner(optimizer), "_learning_rate", None)
