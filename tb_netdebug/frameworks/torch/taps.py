"""Notifies listeners of the calls of torch functions, however the functions are reached.

A function is not replaced: while there are listeners, its code is exchanged for code that notifies them and
calls a twin of the original. So every way to it is covered: an attribute of torch, a name that was imported
or kept long before. And whatever goes by the identity of the function (pickle, torch.compile, the tables of
tensor subclasses) finds it unchanged.
"""

from __future__ import annotations

import ast
import itertools
import threading
from collections.abc import Callable
from types import CodeType, FunctionType
from typing import Any

import torch

from tb_netdebug.frameworks.torch.eager import never_compiled
from tb_netdebug.frameworks.torch.interception import (
    OVERRIDING,
    PLAIN,
    dispatch_modes,
    function_modes,
    uncompiled,
)

# `Before` gets the function's named arguments and then all others; `After` also what it has returned. A call
# that raises is reported to `Failed` instead of `After`. None of them may raise.
Before = Callable[[tuple[Any, ...]], None]
After = Callable[[tuple[Any, ...], Any], None]
Failed = Callable[[tuple[Any, ...]], None]

# AST nodes with a line number; alternatives of `match` do not occur in the template.
PLACED = (ast.stmt, ast.expr, ast.arg, ast.keyword, ast.excepthandler)
_VARARGS, _VARKEYWORDS = 0x04, 0x08
# The code that a function runs while it has listeners. Names begin with __netdebug, so that they cannot
# clash with its parameters. While torch.compile traces, only the twin runs.
_TEMPLATE = """
def {name}({parameters}):
    if {tap}.is_compiling():
        return {tap}.twin({arguments})
    if {tap}.function_modes() or {tap}.dispatch_modes() or {tap}.overriding.exist:
        __netdebug_before, __netdebug_after = {tap}.unintercepted
    else:
        __netdebug_before, __netdebug_after = {tap}.before, {tap}.after
        for __netdebug_value in ({looked_at}):
            if {tap}.type(__netdebug_value) not in {tap}.plain and {tap}.overriding.appear_in(({looked_at})):
                __netdebug_before, __netdebug_after = {tap}.unintercepted
                break
    for __netdebug_tell in __netdebug_before:
        __netdebug_tell(({named}))
    try:
        __netdebug_output = {tap}.twin({arguments})
    except Exception:
        {tap}.fail(({named}))
        raise
    if {tap}.type(__netdebug_output) not in {tap}.plain and {tap}.overriding.appear_in((__netdebug_output,)):
        __netdebug_after = {tap}.unintercepted[1]
    for __netdebug_tell in __netdebug_after:
        __netdebug_tell(({named}), __netdebug_output)
    return __netdebug_output
"""

_numbers = itertools.count()
_taps: dict[FunctionType, FunctionTap] = {}
_lock = threading.Lock()


class Handle:
    """One listener of a function, until `close`."""

    def __init__(
        self, tap: FunctionTap, before: Before | None, after: After | None, failed: Failed | None
    ) -> None:
        self._tap = tap
        self.before = before
        self.after = after
        self.failed = failed

    def close(self) -> None:
        """Stop listening; the last listener restores the function's code. Harmless when called again."""
        with _lock:
            self._tap.forget(self)

    def go_last(self) -> None:
        """Be called after all current listeners. Does nothing after `close`."""
        with _lock:
            self._tap.put_last(self)


def listen(
    function: Any,
    *,
    before: Before | None = None,
    after: After | None = None,
    failed: Failed | None = None,
) -> Handle:
    """Call `before` and `after` around each call of a plain Python function, until the handle is closed.

    When the call raises, `failed` is called in place of `after`.

    Calls that torch.compile traces are not reported. Raise TypeError for anything but a plain function.
    """
    if type(function) is not FunctionType or function.__closure__:
        raise TypeError(f"{function!r} is not a plain function")
    with _lock:
        tap = _taps.get(function)
        if tap is None or not tap.is_of(function):
            tap = _taps[function] = FunctionTap(function)
        return tap.add(before, after, failed)


class FunctionTap:
    """A function whose code is exchanged for code that calls the listeners.

    That code is made once, because torch.compile compiles again whenever it finds other code.
    """

    is_compiling = staticmethod(torch.compiler.is_compiling)
    function_modes = staticmethod(function_modes)
    dispatch_modes = staticmethod(dispatch_modes)
    overriding = OVERRIDING
    plain = PLAIN
    type = type

    def __init__(self, function: FunctionType) -> None:
        self._function = function
        self._own_code = function.__code__
        self._name = f"__netdebug_{next(_numbers)}"
        self._handles: list[Handle] = []
        self.before: tuple[Before, ...] = ()
        self.after: tuple[After, ...] = ()
        self.unintercepted: tuple[tuple[Before, ...], tuple[After, ...]] = (), ()  # where users intercept
        self.twin = twin_of(function)
        self._code = telling(self._own_code, self._name)

    def is_of(self, function: FunctionType) -> bool:
        """Return whether the function's code is still its own or ours."""
        return function.__code__ in (self._code, self._own_code)

    def add(self, before: Before | None, after: After | None, failed: Failed | None = None) -> Handle:
        """Add a listener; the first one exchanges the function's code. The caller holds `_lock`."""
        handle = Handle(self, before, after, failed)
        for listener in (before, after, failed):
            if listener is not None:
                never_compiled(listener)
        if not self._handles:
            self._function.__globals__[self._name] = self  # stays: a call on another thread may need it
            self._function.__code__ = self._code
        self._handles.append(handle)
        self._share()
        return handle

    def forget(self, handle: Handle) -> None:
        if handle not in self._handles:
            return
        self._handles.remove(handle)
        self._share()
        # If other code was put in place after ours, it may build on ours: leave it.
        if not self._handles and self._function.__code__ is self._code:
            self._function.__code__ = self._own_code

    def put_last(self, handle: Handle) -> None:
        if handle in self._handles:
            self._handles.remove(handle)
            self._handles.append(handle)
            self._share()

    def fail(self, args: tuple[Any, ...]) -> None:
        """Notify the listeners of a call that is about to raise."""
        for handle in tuple(self._handles):
            if handle.failed is not None:
                uncompiled(handle.failed)(args)

    def _share(self) -> None:
        # Tuples, replaced as a whole: calls iterate over them without the lock.
        self.before = tuple(handle.before for handle in self._handles if handle.before is not None)
        self.after = tuple(handle.after for handle in self._handles if handle.after is not None)
        self.unintercepted = tuple(map(uncompiled, self.before)), tuple(map(uncompiled, self.after))


def twin_of(function: FunctionType) -> Callable[..., Any]:
    """Return a function that does the same, whatever becomes of the original's code."""
    twin = FunctionType(function.__code__, function.__globals__, function.__name__, function.__defaults__)
    twin.__kwdefaults__ = function.__kwdefaults__
    twin.__qualname__, twin.__doc__ = function.__qualname__, function.__doc__
    twin.__annotations__ = function.__annotations__
    return twin


def telling(code: CodeType, tap: str) -> CodeType:
    """Return code that notifies listeners, with the same parameters and the same place as `code`.

    torch's warnings name the second frame from where they arise, tracebacks quote its line, and
    torch.jit.script compiles the source text that it finds there.
    """
    source = _TEMPLATE.format(name=code.co_name, tap=tap, **parameters_of(code))
    tree = ast.parse(source)
    for node in ast.walk(tree):
        if isinstance(node, PLACED):
            node.lineno = node.end_lineno = code.co_firstlineno
            node.col_offset = node.end_col_offset = 0
    module = compile(tree, code.co_filename, "exec")
    return next(constant for constant in module.co_consts if isinstance(constant, CodeType))


def parameters_of(code: CodeType) -> dict[str, str]:
    """Return the texts for the template: `parameters` of a definition, `arguments` of a call, and `named`.

    `named` is the content of a tuple of all arguments, the named ones first; `looked_at` leaves out the
    object whose method it is.
    """
    plain, only = code.co_argcount, code.co_argcount + code.co_kwonlyargcount
    named = list(code.co_varnames[:only])
    rest = list(code.co_varnames[only:])
    parameters, arguments, others = named[:plain], named[:plain], list[str]()
    if code.co_posonlyargcount:
        parameters = [*parameters[: code.co_posonlyargcount], "/", *parameters[code.co_posonlyargcount :]]
    if code.co_flags & _VARARGS:
        star = f"*{rest.pop(0)}"
        parameters, arguments, others = [*parameters, star], [*arguments, star], [star]
    elif only > plain:
        parameters = [*parameters, "*"]
    parameters = [*parameters, *named[plain:]]
    arguments = [*arguments, *(f"{name}={name}" for name in named[plain:])]
    if code.co_flags & _VARKEYWORDS:
        options = f"**{rest.pop(0)}"
        parameters, arguments = [*parameters, options], [*arguments, options]
        others = [*others, f"{options[1:]}.values()"]
    return {
        "parameters": ", ".join(parameters),
        "arguments": ", ".join(arguments),
        "named": "".join(f"{name}, " for name in (*named, *others)),
        "looked_at": "".join(f"{name}, " for name in (*named, *others) if name not in ("self", "cls")),
    }
