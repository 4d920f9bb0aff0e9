"""A runtime with streams and events like `torch.cuda`, whose work is done when the test says so."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any


@dataclass
class PaperEvent:
    runtime: PaperRuntime
    stream: str = ""
    at: int = 0

    def record(self, stream: Any) -> None:
        self.runtime.clock += 1
        self.stream, self.at = stream, self.runtime.clock

    def query(self) -> bool:
        return self.at <= self.runtime.done

    def synchronize(self) -> None:
        self.runtime.done = max(self.runtime.done, self.at)

    def elapsed_time(self, other: PaperEvent) -> float:
        assert (True, True) == (self.query(), other.query()), "torch raises before both have passed"
        return float(other.at - self.at)


@dataclass
class PaperRuntime:
    """`finish` lets everything pass that was recorded so far."""

    current: str = "main"
    capturing: bool = False
    clock: int = 0
    done: int = 0
    entered: list[str] = field(default_factory=list)

    def current_stream(self, device: Any) -> str:
        return self.current

    @contextmanager
    def stream(self, stream: str) -> Iterator[None]:
        self.entered.append(stream)
        before, self.current = self.current, stream
        yield
        self.current = before

    def Event(self, enable_timing: bool) -> PaperEvent:  # noqa: N802
        return PaperEvent(self)

    def is_current_stream_capturing(self) -> bool:
        return self.capturing

    def finish(self) -> None:
        self.done = self.clock
