"""Keeps what NetDebug does itself out of the user's interception of torch operations.

A TorchFunctionMode, a TorchDispatchMode and a `__torch_function__` of a tensor class see every operation
while they are active. Many count operations, draw random numbers or change results, so an operation of ours
would change the run. Where our code is entered (hooks on modules, callbacks on functions and optimizers, the
adapter), the lengths of two stacks that torch keeps in C show whether a mode is active. Only then do our
operations run inside `Unintercepted`.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Any, ParamSpec, TypeVar

import torch
from torch.utils._python_dispatch import _pop_mode, _push_mode

from tb_netdebug.frameworks.torch.eager import never_compiled

P = ParamSpec("P")
R = TypeVar("R")

is_compiling = torch.compiler.is_compiling
function_modes = torch._C._len_torch_function_stack
dispatch_modes = torch._C._len_torch_dispatch_stack
_mode_of = torch._C._get_dispatch_mode
_KEYS = torch._C._TorchDispatchModeKey


class OverridingClasses:
    """Knows whether a tensor class outside of torch overrides `__torch_function__`.

    `look` is called when a run is found and before a step is sampled. A class that is made in between is seen
    where its first instance comes from, before that is read (`appear_in`).
    """

    def __init__(self) -> None:
        self.exist = False
        self._seen = -1

    def look(self) -> None:
        """Update `exist`. It searches the classes only when their number has changed."""
        if self.exist:
            return
        families = torch.Tensor.__subclasses__()
        seen = sum([len(family.__subclasses__()) for family in families], len(families))
        if seen != self._seen:
            self._seen = seen
            self.exist = any(map(overrides, subclasses_of(torch.Tensor)))

    def appear_in(self, values: Collection[Any], depth: int = 0) -> bool:
        """Return `exist`, after a look at these values, one of which may be the first of its class.

        Whoever was called while nothing hid its operations goes on within `DisableTorchFunction` then.
        """
        if self.exist:
            return True
        for each in values:
            kind = type(each)
            if kind in PLAIN:
                continue
            if kind in NESTED and len(each) <= MOST_OPENED and depth < MOST_NESTED:
                self.appear_in(each.values() if kind is dict else each, depth + 1)
            elif issubclass(kind, torch.Tensor):
                self.exist = overrides(kind)
            else:
                self.look()  # it may hold tensors
            if self.exist:
                return True
        return False


def subclasses_of(parent: type) -> Iterator[type]:
    child: type
    for child in parent.__subclasses__():
        yield child
        yield from subclasses_of(child)


def overrides(tensor_class: Any) -> bool:
    """Return whether a tensor class has a `__torch_function__` that is not torch's own."""
    function = tensor_class.__torch_function__
    owner = getattr(getattr(function, "__func__", function), "__module__", None) or "torch"
    return owner.partition(".")[0] != "torch"


# Types of arguments that neither override functions nor hold tensors of other types.
PLAIN = frozenset({torch.Tensor, torch.nn.Parameter, torch.Size, type(None), bool, int, float, str})
NESTED = (tuple, list, dict)
MOST_OPENED, MOST_NESTED = 64, 4  # what is larger, or may hold itself, is not searched: all classes are
OVERRIDING = OverridingClasses()


class DisabledModes(threading.local):
    """The dispatch modes of a thread that are off at the moment, innermost first; None if none are."""

    modes: list[Any] | None = None


_held = DisabledModes()


class Unintercepted:
    """A context in which none of the user's modes and tensor classes sees operations.

    A `__torch_dispatch__` of a class stays on: tensors that wrap others have no values without it.
    """

    __slots__ = ("_functions", "_inner")

    def __enter__(self) -> None:
        self._functions = torch._C.DisableTorchFunction()  # of modes and of classes
        self._functions.__enter__()
        modes = taken_off_stack()
        # Only the outermost context publishes its modes in `_held`; a nested one keeps what it took itself.
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
    """Return whether a mode is active, or would be if it were not held back at the moment."""
    return bool(function_modes() or dispatch_modes() or _held.modes)


def unintercepted(function: Callable[P, R]) -> Callable[P, R]:
    """Return a wrapper, for calls from the user's program, that runs the function without interception."""

    @functools.wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        if is_compiling():  # torch.compile cannot trace what follows: a graph break
            return function(*args, **kwargs)
        if function_modes() or dispatch_modes():
            with Unintercepted():
                return function(*args, **kwargs)
        # Without a mode only `__torch_function__` is to be switched off, which is cheaper.
        if OVERRIDING.exist:
            with torch._C.DisableTorchFunction():
                return function(*args, **kwargs)
        return function(*args, **kwargs)

    return call


def uncompiled(function: Callable[P, R]) -> Callable[P, R]:
    """Return such a wrapper that torch.compile runs as it is, with all that it calls.

    For what torch calls between compiled graphs: hooks on optimizers, listeners of backward passes. Hooks on
    modules are traced with the module, and vanish from its graph.
    """
    call = unintercepted(function)
    call.__code__ = call.__code__.replace()  # the others share theirs
    never_compiled(call)
    return call


def untraced(hook: Callable[..., None]) -> Callable[..., None]:
    """Return a hook that runs without interception, and does nothing while operations are traced."""
    call = unintercepted(hook)
    return lambda *args: None if is_compiling() or is_traced() else call(*args)


def is_traced() -> bool:
    """Return whether a mode of torch's own records operations, as make_fx and torch.export do."""
    return bool(dispatch_modes() or function_modes()) and (
        _mode_of(_KEYS.PROXY) is not None
        or _mode_of(_KEYS.FUNCTIONAL) is not None
        or bool(torch._ops._len_torch_dispatch_stack_pre_dispatch())
    )


@contextmanager
def intercepted() -> Iterator[None]:
    """Restore the modes that are held back, for user code that runs in a copy of the process."""
    modes, _held.modes = _held.modes, None
    put_on_stack(modes or [])
    try:
        with torch._C._EnableTorchFunction():
            yield
    finally:
        _held.modes = None if modes is None else taken_off_stack()


def popped() -> list[Any]:
    """Take all dispatch modes of this thread off and return them, innermost first. `pushed` undoes it."""
    if _held.modes is None:
        return taken_off_stack()
    modes, _held.modes = _held.modes, []
    return modes


def pushed(modes: list[Any]) -> None:
    """Put dispatch modes back on, or, inside `Unintercepted`, leave that to its end."""
    if _held.modes is None:
        put_on_stack(modes)
    else:
        _held.modes = modes


def taken_off_stack() -> list[Any]:
    return [_pop_mode() for _ in range(dispatch_modes())]


def put_on_stack(modes: list[Any]) -> None:
    for mode in reversed(modes):
        _push_mode(mode)
