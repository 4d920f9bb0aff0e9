"""Kinds that count their calls, or go on to the next of something, in places that only Python knows."""

from __future__ import annotations

import contextvars
import ctypes
import functools
import gc
import itertools
import mmap
import os
import signal
import tempfile
import threading
import weakref
from collections import Counter, deque
from collections.abc import Callable, Iterator
from multiprocessing import Value
from multiprocessing.shared_memory import SharedMemory
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch

from tests.matrix.subjects import HIDDEN, Net, drift, kind

TALLY = Counter[str]()
CONTEXT: contextvars.ContextVar[int] = contextvars.ContextVar("calls", default=0)
LOCAL = threading.local()


@kind
class AttributeCounter(Net):
    def middle(self, hidden: torch.Tensor) -> torch.Tensor:
        self.calls += 1
        return drift(hidden, self.calls)

    def outside(self) -> Any:
        return self.calls


@kind
class ClassCounter(Net):
    made = 0

    def middle(self, hidden: torch.Tensor) -> torch.Tensor:
        type(self).made += 1
        return drift(hidden, type(self).made)

    def outside(self) -> Any:
        return type(self).made


@kind
class GlobalCounter(Net):
    def middle(self, hidden: torch.Tensor) -> torch.Tensor:
        TALLY["forward"] += 1
        return drift(hidden, TALLY["forward"])

    def outside(self) -> Any:
        return dict(TALLY)


def counting() -> tuple[Callable[[], int], Callable[[], int]]:
    count = 0

    def add() -> int:
        nonlocal count
        count += 1
        return count

    return add, lambda: count


@kind
class ClosureCounter(Net):
    def __init__(self) -> None:
        super().__init__()
        self.add, self.outside = counting()  # type: ignore[method-assign]

    def middle(self, hidden: torch.Tensor) -> torch.Tensor:
        return drift(hidden, self.add())


@kind
class ContextVariable(Net):
    def middle(self, hidden: torch.Tensor) -> torch.Tensor:
        CONTEXT.set(CONTEXT.get() + 1)
        return drift(hidden, CONTEXT.get())

    def outside(self) -> Any:
        return CONTEXT.get()


@kind
class ThreadLocal(Net):
    def middle(self, hidden: torch.Tensor) -> torch.Tensor:
        LOCAL.calls = getattr(LOCAL, "calls", 0) + 1
        return drift(hidden, LOCAL.calls)

    def outside(self) -> Any:
        return vars(LOCAL)


@kind
class DefaultArgument(Net):
    def middle(self, hidden: torch.Tensor, seen: list[float] = []) -> torch.Tensor:  # noqa: B006
        seen.append(float(hidden.detach().sum()))
        return drift(hidden, len(seen))

    def outside(self) -> Any:
        return type(self).middle.__defaults__


@kind
class Iterated(Net):
    """Takes the next of a list, a cycle and a count."""

    def __init__(self) -> None:
        super().__init__()
        self.scales = iter([0.1 * number for number in range(100)])
        self.cycle, self.count = itertools.cycle([1.0, -1.0, 0.5]), itertools.count()

    def middle(self, hidden: torch.Tensor) -> torch.Tensor:
        return drift(hidden, next(self.scales) + next(self.cycle) + next(self.count))

    def outside(self) -> Any:
        return next(self.scales), next(self.cycle), next(self.count)


def sums() -> Iterator[float]:
    total = 0.0
    while True:
        total += 1.0
        yield total


@kind
class PythonGenerator(Net):
    def __init__(self) -> None:
        super().__init__()
        self.sums = sums()

    def middle(self, hidden: torch.Tensor) -> torch.Tensor:
        return drift(hidden, next(self.sums))

    def outside(self) -> Any:
        return next(self.sums)


@kind
class GrowingDeque(Net):
    def __init__(self) -> None:
        super().__init__()
        self.seen: deque[torch.Tensor] = deque(maxlen=5)

    def middle(self, hidden: torch.Tensor) -> torch.Tensor:
        self.seen.append(hidden.detach().clone())
        return hidden + 0.1 * torch.stack(list(self.seen)).mean()

    def outside(self) -> Any:
        return list(self.seen)


@functools.lru_cache(maxsize=3)
def scale_of(call: int) -> float:
    return 0.1 * call


@kind
class LruCache(Net):
    def middle(self, hidden: torch.Tensor) -> torch.Tensor:
        self.calls += 1
        return drift(hidden, scale_of(self.calls // 2))

    def outside(self) -> Any:
        return list(scale_of.cache_info())


class Memo:
    """Something that can be referred to weakly."""


@kind
class WeakCache(Net):
    def __init__(self) -> None:
        super().__init__()
        self.kept = [Memo() for _ in range(40)]
        self.cache: weakref.WeakKeyDictionary[Memo, float] = weakref.WeakKeyDictionary()

    def middle(self, hidden: torch.Tensor) -> torch.Tensor:
        self.cache[self.kept[len(self.cache)]] = float(hidden.detach().sum())
        return drift(hidden, len(self.cache))

    def outside(self) -> Any:
        return list(self.cache.values())


@kind
class DictCache(Net):
    def middle(self, hidden: torch.Tensor) -> torch.Tensor:
        cache = self.__dict__.setdefault("_cache", {})
        cache[len(cache)] = hidden.detach().mean()
        return hidden + 0.1 * cache[len(cache) // 2]

    def outside(self) -> Any:
        return self.__dict__.get("_cache")


@kind
class SlottedState(Net):
    def __init__(self) -> None:
        super().__init__()
        self.state = SimpleNamespace(calls=0, history=())

    def middle(self, hidden: torch.Tensor) -> torch.Tensor:
        self.state.calls += 1
        self.state.history = (*self.state.history, self.state.calls)
        return drift(hidden, len(self.state.history))

    def outside(self) -> Any:
        return vars(self.state)


@kind
class Environment(Net):
    def middle(self, hidden: torch.Tensor) -> torch.Tensor:
        calls = int(os.environ.get("MATRIX_CALLS", "0")) + 1
        os.environ["MATRIX_CALLS"] = str(calls)
        return drift(hidden, calls)

    def outside(self) -> Any:
        return os.environ.get("MATRIX_CALLS")


@kind
class SignalHandler(Net):
    def __init__(self) -> None:
        super().__init__()
        signal.signal(signal.SIGUSR1, self.count)

    def count(self, *_: Any) -> None:
        self.calls += 1

    def middle(self, hidden: torch.Tensor) -> torch.Tensor:
        signal.raise_signal(signal.SIGUSR1)
        return drift(hidden, self.calls)

    def outside(self) -> Any:
        return self.calls, signal.getsignal(signal.SIGUSR1) == self.count


@kind
class GcCallback(Net):
    """Counts the collections that it asks for itself."""

    def __init__(self) -> None:
        super().__init__()
        self.is_asking = False
        gc.callbacks.append(self.count)

    def count(self, phase: str, _: dict[str, int]) -> None:
        self.calls += self.is_asking and phase == "stop"

    def middle(self, hidden: torch.Tensor) -> torch.Tensor:
        self.is_asking = True
        gc.collect(0)
        self.is_asking = False
        return drift(hidden, self.calls)

    def outside(self) -> Any:
        return self.calls

    def end(self) -> None:
        gc.callbacks.remove(self.count)


@kind
class Finalizer(Net):
    """What it made in one call is gone in the next one."""

    def middle(self, hidden: torch.Tensor) -> torch.Tensor:
        self.made = Memo()
        weakref.finalize(self.made, TALLY.update, ["gone"])
        return drift(hidden, TALLY["gone"])

    def outside(self) -> Any:
        return TALLY["gone"]


@kind
class CtypesBuffer(Net):
    def __init__(self) -> None:
        super().__init__()
        self.numbers = (ctypes.c_int * 4)()

    def middle(self, hidden: torch.Tensor) -> torch.Tensor:
        self.numbers[0] += 1
        return drift(hidden, self.numbers[0])

    def outside(self) -> Any:
        return list(self.numbers)


@kind
class NumpyMemmap(Net):
    def __init__(self) -> None:
        super().__init__()
        self.table = np.memmap("table.bin", np.float32, "w+", shape=(HIDDEN,))

    def middle(self, hidden: torch.Tensor) -> torch.Tensor:
        self.table += 0.5
        return hidden + 0.01 * torch.from_numpy(self.table)

    def outside(self) -> Any:
        return np.array(self.table)


@kind
class AnonymousMmap(Net):
    def __init__(self) -> None:
        super().__init__()
        self.memory = mmap.mmap(-1, 16)

    def middle(self, hidden: torch.Tensor) -> torch.Tensor:
        self.memory[0] += 1
        return drift(hidden, self.memory[0])

    def outside(self) -> Any:
        return bytes(self.memory)


@kind
class SharedTensor(Net):
    def __init__(self) -> None:
        super().__init__()
        self.table = torch.zeros(HIDDEN).share_memory_()

    def middle(self, hidden: torch.Tensor) -> torch.Tensor:
        self.table += 1.0
        return hidden + 0.01 * self.table

    def outside(self) -> Any:
        return self.table


@kind
class SharedParameters(Net):
    """As for Hogwild: all weights in shared memory, one of them moved in the forward pass."""

    def __init__(self) -> None:
        super().__init__()
        self.share_memory()

    def middle(self, hidden: torch.Tensor) -> torch.Tensor:
        self.last.bias.data += 0.001
        return hidden


@kind
class SharedValue(Net):
    def __init__(self) -> None:
        super().__init__()
        self.value, self.memory = Value("i", 0), SharedMemory(create=True, size=8)

    def middle(self, hidden: torch.Tensor) -> torch.Tensor:
        with self.value.get_lock():
            self.value.value += 1
        self.memory.buf[0] += 1
        return drift(hidden, self.value.value + self.memory.buf[0])

    def outside(self) -> Any:
        return self.value.value, bytes(self.memory.buf[:8])

    def end(self) -> None:
        found = self.outside()
        self.outside = lambda: found  # type: ignore[method-assign]
        self.memory.close()
        self.memory.unlink()


@kind
class TemporaryFiles(Net):
    """Positions in an open file, which a fork shares."""

    def __init__(self) -> None:
        super().__init__()
        self.file = tempfile.TemporaryFile("w+b", buffering=0)  # noqa: SIM115
        self.file.write(bytes(range(200)))
        self.file.seek(0)

    def middle(self, hidden: torch.Tensor) -> torch.Tensor:
        return drift(hidden, self.file.read(1)[0])

    def outside(self) -> Any:
        return self.file.tell()
