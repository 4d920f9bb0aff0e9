"""Kinds whose forward pass takes something that is given once a step: a second pass would wait for ever."""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import queue
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from typing import Any

import torch

from tests.matrix.subjects import HIDDEN, Net, drift, kind


@kind
class Queue(Net):
    def __init__(self) -> None:
        super().__init__()
        self.items: queue.Queue[int] = queue.Queue()

    def feed(self, step: int) -> None:
        self.items.put(step)

    def middle(self, hidden: torch.Tensor) -> torch.Tensor:
        return drift(hidden, self.items.get())

    def outside(self) -> Any:
        return self.items.qsize()


@kind
class QueueOfTensors(Net):
    """A producer is always a little ahead, so that nothing waits, and the order is what counts."""

    def __init__(self) -> None:
        super().__init__()
        self.items: queue.Queue[torch.Tensor] = queue.Queue()
        for number in range(50):
            self.items.put(torch.full((HIDDEN,), 0.01 * number))

    def middle(self, hidden: torch.Tensor) -> torch.Tensor:
        return hidden + self.items.get(timeout=1)

    def outside(self) -> Any:
        return self.items.qsize()


@kind
class Semaphore(Net):
    def __init__(self) -> None:
        super().__init__()
        self.permits = threading.Semaphore(0)

    def feed(self, step: int) -> None:
        self.permits.release()

    def middle(self, hidden: torch.Tensor) -> torch.Tensor:
        self.permits.acquire()
        self.calls += 1
        return drift(hidden, self.calls)

    def outside(self) -> Any:
        return self.calls, self.permits.acquire(blocking=False)


@kind
class LockUntilUpdate(Net):
    """Locked by the forward pass, and unlocked by the loop before the next one."""

    def __init__(self) -> None:
        super().__init__()
        self.lock = threading.Lock()

    def feed(self, step: int) -> None:
        if self.lock.locked():
            self.lock.release()

    def middle(self, hidden: torch.Tensor) -> torch.Tensor:
        self.lock.acquire()
        return hidden

    def outside(self) -> Any:
        return self.lock.locked()


@kind
class Pipe(Net):
    def __init__(self) -> None:
        super().__init__()
        self.reads, self.writes = os.pipe()

    def feed(self, step: int) -> None:
        os.write(self.writes, bytes([step]))

    def middle(self, hidden: torch.Tensor) -> torch.Tensor:
        return drift(hidden, os.read(self.reads, 1)[0])

    def outside(self) -> Any:
        os.set_blocking(self.reads, False)
        try:
            return os.read(self.reads, 100)
        except BlockingIOError:
            return b""


@kind
class FilledPipe(Net):
    """All is in the pipe before the first step: who reads twice takes what others need."""

    def __init__(self) -> None:
        super().__init__()
        self.reads, writes = os.pipe()
        os.write(writes, bytes(range(60)))

    def middle(self, hidden: torch.Tensor) -> torch.Tensor:
        return drift(hidden, os.read(self.reads, 1)[0])

    def outside(self) -> Any:
        return os.read(self.reads, 100)


@kind
class ProcessQueue(Net):
    def __init__(self) -> None:
        super().__init__()
        self.items = multiprocessing.get_context("fork").SimpleQueue()

    def feed(self, step: int) -> None:
        self.items.put(step)

    def middle(self, hidden: torch.Tensor) -> torch.Tensor:
        return drift(hidden, self.items.get())

    def outside(self) -> Any:
        return self.items.empty()


@kind
class SocketPair(Net):
    def __init__(self) -> None:
        super().__init__()
        self.near, self.far = socket.socketpair()

    def feed(self, step: int) -> None:
        self.far.send(bytes([step]))

    def middle(self, hidden: torch.Tensor) -> torch.Tensor:
        return drift(hidden, self.near.recv(1)[0])

    def outside(self) -> Any:
        self.near.setblocking(False)
        try:
            return self.near.recv(100)
        except BlockingIOError:
            return b""


@kind
class LoopbackServer(Net):
    """Asks a server of its own, which counts the questions."""

    def __init__(self) -> None:
        super().__init__()
        self.server = socket.create_server(("127.0.0.1", 0))
        self.near = socket.create_connection(self.server.getsockname())
        threading.Thread(target=self.answer, daemon=True).start()

    def answer(self) -> None:
        far, _ = self.server.accept()
        while far.recv(1):
            self.calls += 1
            far.send(bytes([self.calls]))

    def middle(self, hidden: torch.Tensor) -> torch.Tensor:
        self.near.send(b"?")
        return drift(hidden, self.near.recv(1)[0])

    def outside(self) -> Any:
        return self.calls


@kind
class CountingProcess(Net):
    """Asks a program beside it through its standard input and output."""

    def __init__(self) -> None:
        super().__init__()
        program = "import sys\nfor number, _ in enumerate(sys.stdin): print(number, flush=True)"
        self.other = subprocess.Popen(
            [sys.executable, "-I", "-S", "-c", program],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, bufsize=1,
        )  # fmt: skip

    def ask(self) -> int:
        assert self.other.stdin is not None
        assert self.other.stdout is not None
        self.other.stdin.write("?\n")
        return int(self.other.stdout.readline())

    def middle(self, hidden: torch.Tensor) -> torch.Tensor:
        return drift(hidden, self.ask())

    def outside(self) -> Any:
        return self.ask()

    def end(self) -> None:
        found = self.outside()
        self.outside = lambda: found  # type: ignore[method-assign]
        self.other.communicate()


@kind
class ThreadInForward(Net):
    def middle(self, hidden: torch.Tensor) -> torch.Tensor:
        thread = threading.Thread(target=self.count)
        thread.start()
        thread.join()
        return drift(hidden, self.calls)

    def count(self) -> None:
        self.calls += 1

    def outside(self) -> Any:
        return self.calls


@kind
class WorkerThread(Net):
    """Meets a thread of its own at a barrier, twice in each pass."""

    def __init__(self) -> None:
        super().__init__()
        self.barrier = threading.Barrier(2)
        threading.Thread(target=self.work, daemon=True).start()

    def work(self) -> None:
        while True:
            self.barrier.wait()
            self.calls += 1
            self.barrier.wait()

    def middle(self, hidden: torch.Tensor) -> torch.Tensor:
        self.barrier.wait()
        self.barrier.wait()
        return drift(hidden, self.calls)

    def outside(self) -> Any:
        return self.calls


@kind
class Coroutine(Net):
    def __init__(self) -> None:
        super().__init__()
        self.numbers = self.count()

    async def count(self) -> Any:
        while True:
            await asyncio.sleep(0)
            self.calls += 1
            yield self.calls

    def middle(self, hidden: torch.Tensor) -> torch.Tensor:
        return drift(hidden, asyncio.run(anext(self.numbers)))

    def outside(self) -> Any:
        return self.calls


def batches() -> Iterator[torch.Tensor]:
    data = torch.arange(60.0).reshape(60, 1).expand(60, HIDDEN)
    loader = torch.utils.data.DataLoader(data, batch_size=1)  # type: ignore[arg-type]
    yield from loader


@kind
class LoaderInForward(Net):
    def __init__(self) -> None:
        super().__init__()
        self.batches = batches()

    def middle(self, hidden: torch.Tensor) -> torch.Tensor:
        return hidden + 0.01 * next(self.batches)

    def outside(self) -> Any:
        return next(self.batches)
