"""What the program raises in between reaches the program; what goes wrong in our own code does not."""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pytest

from tb_netdebug.recording.guard import Guard
from tb_netdebug.recording.signal_handlers import is_from_a_handler


class TimeUpError(Exception):
    """Of the program."""


class Alarm:
    """A handler that is an object."""

    def __call__(self, number: int, frame: Any) -> None:
        raise TimeUpError

    def method(self, *given: Any) -> None:
        raise TimeUpError


def once(before: Any, number: int, frame: Any) -> None:
    """As of a time limit: the handler before it is back when it raises."""
    signal.signal(signal.SIGALRM, before)
    deeper()


def deeper() -> None:
    raise TimeUpError


def ignoring_what_it_is_given(*_: object) -> None:
    raise TimeUpError


@pytest.fixture(autouse=True)
def handler_of_the_run() -> Iterator[None]:
    before = signal.getsignal(signal.SIGALRM)
    yield
    signal.signal(signal.SIGALRM, before)


@pytest.mark.parametrize(
    "handler", [Alarm(), Alarm().method, partial(once, signal.SIG_DFL), ignoring_what_it_is_given]
)
def test_a_signal_handler(handler: Callable[..., None]) -> None:
    """Whatever it is, and whatever has become of it."""
    signal.signal(signal.SIGALRM, handler)
    guard = Guard(strict=False)
    with pytest.raises(TimeUpError):
        guarded(guard, partial(signal.raise_signal, signal.SIGALRM))
    assert 0 == guard.faults


def test_a_trace_function() -> None:
    guard = Guard(strict=False)
    before = sys.gettrace()

    def trace(frame: Any, event: str, argument: object) -> Any:
        if event == "line":
            raise TimeUpError
        return trace

    try:
        with pytest.raises(TimeUpError):
            guarded(guard, partial(sys.settrace, trace), partial(traced, 1))
    finally:
        sys.settrace(before)
    assert 0 == guard.faults


def traced(value: int) -> int:
    return value + 1


@pytest.mark.filterwarnings("ignore:NetDebug failed")
def test_what_goes_wrong_in_ours() -> None:
    guard = Guard(strict=False)
    guarded(guard, deeper)
    assert 1 == guard.faults
    assert not is_from_a_handler(TimeUpError())


def guarded(guard: Guard, *doing: Callable[[], object]) -> None:
    """As code of ours looks at something."""
    try:
        for each in doing:
            each()
    except Exception as error:
        guard.fault("looking", error)
