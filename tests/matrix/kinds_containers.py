"""Kinds whose inputs and outputs notice that they are looked at, or whose batches do not last."""

from __future__ import annotations

import os
from collections import UserDict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from tests.matrix.subjects import ROWS, WIDTH, Net, kind


def noticed() -> None:
    """Draw a number: the next ones are others."""
    torch.rand(1)


class Lazy(Mapping[str, torch.Tensor]):
    """Computes its entry when it is asked for."""

    def __init__(self, hidden: torch.Tensor) -> None:
        self.hidden = hidden

    def __getitem__(self, key: str) -> torch.Tensor:
        return self.hidden + 0.1 * torch.rand(())

    def __iter__(self) -> Iterator[str]:
        noticed()
        return iter(["result"])

    def __len__(self) -> int:
        noticed()
        return 1


class NoticingUserDict(UserDict[str, torch.Tensor]):
    def items(self) -> Any:
        noticed()
        return super().items()


class NoticingDict(dict[str, torch.Tensor]):
    def items(self) -> Any:
        noticed()
        return super().items()

    def __iter__(self) -> Iterator[str]:
        noticed()
        return super().__iter__()

    def __getitem__(self, key: str) -> torch.Tensor:
        noticed()
        return super().__getitem__(key)


class NoticingList(list[torch.Tensor]):
    def __getitem__(self, place: Any) -> Any:
        noticed()
        return super().__getitem__(place)

    def __len__(self) -> int:
        noticed()
        return super().__len__()

    def __iter__(self) -> Iterator[torch.Tensor]:
        noticed()
        return super().__iter__()


@dataclass
class NoticingFields:
    result: torch.Tensor

    def __getattribute__(self, name: str) -> Any:
        noticed()
        return super().__getattribute__(name)


class NoticingFloat(float):
    def __float__(self) -> float:
        noticed()
        return 1.0


class PutsOut(Net):
    """Puts out what `wrapped` makes; the loss is of its entry."""

    def forward(self, x: torch.Tensor) -> Any:
        return self.wrapped(super().forward(x))

    def wrapped(self, result: torch.Tensor) -> Any:
        raise NotImplementedError

    def loss(self, x: torch.Tensor) -> torch.Tensor:
        output: torch.Tensor = self(x)["result"]
        return output.square().mean()


@kind
class LazyOutput(PutsOut):
    def wrapped(self, result: torch.Tensor) -> Any:
        return Lazy(result)


@kind
class UserDictOutput(PutsOut):
    def wrapped(self, result: torch.Tensor) -> Any:
        return NoticingUserDict(result=result)


@kind
class DictOutput(PutsOut):
    def wrapped(self, result: torch.Tensor) -> Any:
        return NoticingDict(result=result)


@kind
class ListOutput(PutsOut):
    def wrapped(self, result: torch.Tensor) -> Any:
        return NoticingList([result])

    def loss(self, x: torch.Tensor) -> torch.Tensor:
        output: torch.Tensor = self(x)[0]
        return output.square().mean()


@kind
class DataClassOutput(PutsOut):
    def wrapped(self, result: torch.Tensor) -> Any:
        return NoticingFields(result)

    def loss(self, x: torch.Tensor) -> torch.Tensor:
        output: torch.Tensor = self(x).result
        return output.square().mean()


class Takes(Net):
    """Is given what `wrapped` makes of a batch, and takes it out again by `opened`."""

    def forward(self, given: Any) -> torch.Tensor:
        return super().forward(self.opened(given))

    def loss(self, x: torch.Tensor) -> torch.Tensor:
        output: torch.Tensor = self(self.wrapped(x))
        return output.square().mean()

    def wrapped(self, x: torch.Tensor) -> Any:
        raise NotImplementedError

    def opened(self, given: Any) -> torch.Tensor:
        raise NotImplementedError


@kind
class LazyInput(Takes):
    def wrapped(self, x: torch.Tensor) -> Any:
        return Lazy(x)

    def opened(self, given: Any) -> torch.Tensor:
        return given["result"]  # type: ignore[no-any-return]


@kind
class ListInput(Takes):
    def wrapped(self, x: torch.Tensor) -> Any:
        return NoticingList([x])

    def opened(self, given: Any) -> torch.Tensor:
        return given[0]  # type: ignore[no-any-return]


@kind
class FloatInput(Takes):
    def wrapped(self, x: torch.Tensor) -> Any:
        return x, NoticingFloat(2.0)

    def opened(self, given: Any) -> torch.Tensor:
        return given[0] * float(given[1])  # type: ignore[no-any-return]


@kind
class ResizedBatch(Net):
    """Uses one buffer for its batches, which grows."""

    def __init__(self) -> None:
        super().__init__()
        self.buffer = torch.empty(ROWS, WIDTH)

    def loss(self, x: torch.Tensor) -> torch.Tensor:
        self.calls += 1
        rows = torch.cat([x, torch.ones(self.calls, WIDTH)])
        return super().loss(self.buffer.resize_(rows.shape).copy_(rows))

    def outside(self) -> Any:
        return self.buffer


@kind
class TruncatedBatch(Net):
    """Reads its batches from a mapped file, which is empty when the batch was used."""

    def loss(self, x: torch.Tensor) -> torch.Tensor:
        batch = np.memmap("batch.bin", np.float32, "w+", shape=(ROWS, WIDTH))
        batch[:] = x.numpy()
        loss = super().loss(torch.from_numpy(batch))
        os.truncate("batch.bin", 0)
        return loss
