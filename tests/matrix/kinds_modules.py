"""Kinds whose modules, optimizers and hooks behave oddly, or notice that they are looked at."""

from __future__ import annotations

from typing import Any, NoReturn

import torch
from torch import nn

from tests.matrix.subjects import HIDDEN, Net, drift, kind


class Odd(nn.Linear):
    """A layer with state beside its weights, to be made odd."""

    def __init__(self) -> None:
        super().__init__(HIDDEN, HIDDEN)
        self.calls = 0

    def forward(self, hidden: torch.Tensor) -> torch.Tensor:
        self.calls += 1
        return drift(super().forward(hidden), self.calls)


class WithOdd(Net):
    layer: type[Odd] = Odd

    def __init__(self) -> None:
        super().__init__()
        self.inner = self.layer()

    def middle(self, hidden: torch.Tensor) -> torch.Tensor:
        return self.inner(hidden)  # type: ignore[no-any-return]

    def outside(self) -> Any:
        return self.inner.calls


class NoEquality(Odd):
    __hash__ = nn.Module.__hash__

    def __eq__(self, other: object) -> NoReturn:
        raise RuntimeError("not to be compared")


class NoHash(Odd):
    def __hash__(self) -> NoReturn:
        raise TypeError("not to be hashed")


class NoTruth(Odd):
    def __bool__(self) -> NoReturn:
        raise RuntimeError("neither true nor false")


class NoLength(Odd):
    def __len__(self) -> NoReturn:
        raise RuntimeError("has no length")


class StrangeAttributes(Odd):
    """Raises anything but AttributeError for what it does not have."""

    def __getattr__(self, name: str) -> Any:
        if name in ("weight", "bias"):
            return super().__getattr__(name)
        raise KeyError(name)


class NoWords(Odd):
    def __repr__(self) -> NoReturn:
        raise RuntimeError("has no words")

    __str__ = __repr__


@kind
class EqualityRaises(WithOdd):
    layer = NoEquality


@kind
class TruthRaises(WithOdd):
    layer = NoTruth


@kind
class LengthRaises(WithOdd):
    layer = NoLength


@kind
class ReprRaises(WithOdd):
    layer = NoWords


class Unhashed(nn.Module):
    """torch itself hashes modules where it lists them, so this one is kept from the list."""

    def __init__(self) -> None:
        super().__init__()
        self.odd = [NoHash()]


@kind
class HashRaises(Net):
    def __init__(self) -> None:
        super().__init__()
        self.inner = Unhashed()

    def middle(self, hidden: torch.Tensor) -> torch.Tensor:
        return self.inner.odd[0](hidden)  # type: ignore[no-any-return]

    def outside(self) -> Any:
        return self.inner.odd[0].calls


@kind
class AttributesRaise(Net):
    """A root with an attribute that counts who asks for what is not there."""

    asked: tuple[str, ...] = ()

    def __getattr__(self, name: str) -> Any:
        if name == "secret":
            type(self).asked += (name,)
            return 0.5
        try:
            return super().__getattr__(name)
        except AttributeError as error:
            raise AttributeError(f"nothing called {name} here") from error

    def middle(self, hidden: torch.Tensor) -> torch.Tensor:
        return drift(hidden, self.secret)

    def outside(self) -> Any:
        return type(self).asked


@kind
class PropertyRaises(WithOdd):
    """A property that raises, and one that counts."""

    def __init__(self) -> None:
        super().__init__()
        self.asked = 0

    @property
    def broken(self) -> NoReturn:
        raise RuntimeError("not now")

    @property
    def counted(self) -> int:
        self.asked += 1
        return self.asked

    def outside(self) -> Any:
        return self.inner.calls, self.asked


@kind
class StateDictCounted(WithOdd):
    """Counts who takes its state; nobody but the user may."""

    def __init__(self) -> None:
        super().__init__()
        self.taken = 0

    def state_dict(self, *args: Any, **kwargs: Any) -> Any:
        self.taken += 1
        return super().state_dict(*args, **kwargs)

    def outside(self) -> Any:
        return self.inner.calls, self.taken


@kind
class ExtraState(Net):
    def __init__(self) -> None:
        super().__init__()
        self.given = 0
        self._register_state_dict_hook(self.count)

    @staticmethod
    def count(module: Any, *_: Any) -> None:
        module.given += 100

    def get_extra_state(self) -> Any:
        self.given += 1
        return {"given": self.given}

    def set_extra_state(self, state: Any) -> None:
        self.given = state["given"]

    def middle(self, hidden: torch.Tensor) -> torch.Tensor:
        self.calls += 1
        return drift(hidden, self.calls + self.given)

    def outside(self) -> Any:
        return self.calls, self.given


@kind
class CopiesCounted(Net):
    """Counts who copies or pickles it."""

    copies = 0

    def __deepcopy__(self, memory: dict[int, Any]) -> Any:
        type(self).copies += 1
        return self

    def __reduce_ex__(self, protocol: Any) -> Any:
        type(self).copies += 1
        return super().__reduce_ex__(protocol)

    def middle(self, hidden: torch.Tensor) -> torch.Tensor:
        return drift(hidden, self.copies)

    def outside(self) -> Any:
        return self.copies
