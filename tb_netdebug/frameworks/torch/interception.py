"""Interception of torch's operations by the user, from which what NetDebug does itself is kept out.

A TorchFunctionMode, a TorchDispatchMode and a `__torch_function__` of a tensor's class are told of every
operation while they are active. Many count, draw random numbers or change results, so an operation of ours
would change the training. Where our code is entered (hooks on modules, listeners of functions and optimizers,
the adapter), two lengths that torch keeps in C tell whether anybody listens; only then is the operation made
`Unintercepted`.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Any, ParamSpec, TypeVar

import torch
from torch.utils._python_dispatch import _pop_mode, _push_mode

P = ParamSpec("P")
R = TypeVar("R")

is_compiling = torch.compiler.is_compiling
function_modes = torch._C._len_torch_function_stack
dispatch_modes = torch._C._len_torch_dispatch_stack
_mode_of = torch._C._get_dispatch_mode
_KEYS = torch._C._TorchDispatchModeKey


class OverridingClasses:
    """Whether a class of tensors outside of torch has its own `__torch_function__`.

    To look for one among the arguments of each call would cost more: a tensor may lie anywhere in them.
    `look` is called when a training is found and when a step ends.
    """

    def __init__(self) -> None:
        self.exist = False
        self._seen = -1

    def look(self) -> None:
        if self.exist:
            return
        families = torch.Tensor.__subclasses__()
        seen = sum([len(family.__subclasses__()) for family in families], len(families))
        if seen != self._seen:
            self._seen = seen
            self.exist = any(map(overrides, subclasses_of(torch.Tensor)))


def subclasses_of(parent: type) -> Iterator[type]:
    child: type
    for child in parent.__subclasses__():
        yield child
        yield from subclasses_of(child)


def overrides(tensor_class: Any) -> bool:
    """Whether it has a `__torch_function__` that is not torch's own."""
    function = tensor_class.__torch_function__
    owner = getattr(getattr(function, "__func__", function), "__module__", None) or "torch"
    return owner.partition(".")[0] != "torch"


OVERRIDING = OverridingClasses()


class DisabledModes(threading.local):
    """The dispatch modes of a thread that are off for the moment, the innermost first; None: none are."""

    modes: list[Any] | None = None


_held = DisabledModes()


class Unintercepted:
    """A context in which no mode and no class of tensors of the user's is told of operations.

    A `__torch_dispatch__` of a class is left on: without it, tensors that wrap others have no values.
    """

    __slots__ = ("_functions", "_inner")

    def __enter__(self) -> None:
        self._functions = torch._C.DisableTorchFunction()  # of modes and of classes
        self._functions.__enter__()
        modes = taken_off_stack()
        if _held.modes is None:
            _held.modes, self._inner = modes, None
        else:
            self._inner = modes

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        modes = self._inner
        if modes is None:
            modes, _held.modes = _held.modes, None
        put_on_stack(modes or [])
        self._functions.__exit__(kind, error, trace)


def is_intercepted() -> bool:
    """Whether a mode is active, or would be if its operations were not kept from it now."""
    return bool(function_modes() or dispatch_modes() or _held.modes)


def unintercepted(function: Callable[P, R]) -> Callable[P, R]:
    """Return a function, entered from the user's program, that does the same without being intercepted."""

    @functools.wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        if is_compiling():  # the compiler cannot trace what follows, and would split its graph
            return function(*args, **kwargs)
        if function_modes() or dispatch_modes():
            with Unintercepted():
                return function(*args, **kwargs)
        if OVERRIDING.exist:
            with torch._C.DisableTorchFunction():
                return function(*args, **kwargs)
        return function(*args, **kwargs)

    return call


def untraced(hook: Callable[..., None]) -> Callable[..., None]:
    """Return a hook that does the same without being intercepted, and nothing while operations are traced."""
    call = unintercepted(hook)
    return lambda *args: None if is_compiling() or is_traced() else call(*args)


def is_traced() -> bool:
    """Whether a mode of torch's writes down the operations, as for make_fx and torch.export."""
    return bool(dispatch_modes() or function_modes()) and (
        _mode_of(_KEYS.PROXY) is not None
        or _mode_of(_KEYS.FUNCTIONAL) is not None
        or bool(torch._ops._len_torch_dispatch_stack_pre_dispatch())
    )


@contextmanager
def intercepted() -> Iterator[None]:
    """Put what is held back on again: for code of the user's, which runs in a copy of the process."""
    modes, _held.modes = _held.modes, None
    put_on_stack(modes or [])
    try:
        with torch._C._EnableTorchFunction():
            yield
    finally:
        _held.modes = None if modes is None else taken_off_stack()


def popped() -> list[Any]:
    """Take all dispatch modes of this thread off, the innermost first, until `pushed`."""
    if _held.modes is None:
        return taken_off_stack()
    modes, _held.modes = _held.modes, []
    return modes


def pushed(modes: list[Any]) -> None:
    """Put them on again; where they are held back, when that ends."""
    if _held.modes is None:
        put_on_stack(modes)
    else:
        _held.modes = modes


def taken_off_stack() -> list[Any]:
    return [_pop_mode() for _ in range(dispatch_modes())]


def put_on_stack(modes: list[Any]) -> None:
    for mode in reversed(modes):
        _push_mode(mode)
