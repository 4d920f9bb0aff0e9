"""Follows every operation of every training call to name the first one that made a NaN or an infinity.

Every operation passes through Python and its result is read. A step takes several times as long, and on an
accelerator every operation is waited for.
"""

from __future__ import annotations

from contextlib import ExitStack
from threading import Lock, get_ident
from typing import Any

import torch
from torch import nn
from torch._dynamo.eval_frame import OptimizedModule

from tb_netdebug.frameworks.torch.coverage.calls import is_compiled
from tb_netdebug.frameworks.torch.hooks import after_forward, before_forward
from tb_netdebug.frameworks.torch.interception import Unintercepted, is_traced
from tb_netdebug.frameworks.torch.numerics.origin import OriginTracer
from tb_netdebug.frameworks.torch.numerics.origin_report import Origin, Place
from tb_netdebug.frameworks.torch.probe import ProbeContext

COMPILED = (
    "NetDebug: check_numerics='ops' cannot follow the operations of a model that torch.compile compiled, "
    "in whole or in part. Train it uncompiled to follow them."
)

is_compiling = torch.compiler.is_compiling
is_jit_traced = torch._C._is_tracing
is_grad_enabled = torch.is_grad_enabled


class OperationChecks:
    """Traces calls for `check_numerics="ops"`; `origin` is the first one found in this step.

    Only the calls of the training's thread are followed: torch's modes belong to a thread. It is the one that
    ends the steps; before the first end, the one that calls first.
    """

    def __init__(self, context: ProbeContext) -> None:
        self._guard = context.guard
        self.origin: Origin | None = None
        self._thread: int | None = None
        self._claim = Lock()
        self._calls: list[nn.Module] = []
        self._caller: int | None = None  # the thread that makes `_calls`
        self._stack = ExitStack()
        self._following = ExitStack()  # open while a call is being followed
        self._tracer = OriginTracer(context.models)
        self._tracer.keeps_places = True
        self._tracer.on_fault = lambda error: self._guard.fault("following operations", error)
        self._stack.enter_context(self._tracer.names())
        for model in context.models.values():
            if not isinstance(model, OptimizedModule):
                before = before_forward(model, self._before, with_kwargs=True, moves_modes=True)
                self._stack.callback(before.remove)
                after = after_forward(model, self._after, always_call=True, moves_modes=True)
                self._stack.callback(after.remove)

    def end_step(self) -> None:
        self._thread = get_ident()
        self.origin = None
        self._tracer.places.clear()

    def place_of(self, number: int) -> Place | None:
        """Return where in a model the operation with this number ran; None for one outside all models."""
        return self._tracer.places.get(number)

    def close(self) -> None:
        self._stack.close()

    def _before(self, module: nn.Module, args: Any, kwargs: Any) -> None:
        if is_compiling() or is_jit_traced() or is_traced() or not is_grad_enabled() or self._guard.is_off:
            return
        if not self._is_training_thread():
            return
        if not self._calls:  # an inner call is covered by the outermost one
            if is_compiled(module):  # an active dispatch mode would make it recompile in other pieces
                self._guard.say(COMPILED)
                return
            try:
                with Unintercepted():
                    self._tracer.begin(module, args, kwargs)
                self._following.enter_context(self._tracer)
            except Exception as error:
                self._guard.fault("following operations", error)
                return
            self._caller = get_ident()
        self._calls.append(module)

    def _is_training_thread(self) -> bool:
        """Return whether this thread's calls are followed; a call that is being followed keeps its thread."""
        thread = get_ident()
        if self._calls:
            return thread == self._caller
        if self._thread is None:
            with self._claim:
                self._thread = thread if self._thread is None else self._thread
        return thread == self._thread

    def _after(self, module: nn.Module, args: Any, output: Any) -> None:
        if self._caller != get_ident() or not self._calls or self._calls[-1] is not module:
            return
        self._calls.pop()
        if self._calls:
            return
        try:
            self._following.close()
            with Unintercepted():
                origin = self._tracer.origin_of(output, module) or self._tracer.origin_in_attributes(module)
        except Exception as error:
            self._guard.fault("following operations", error)
            return
        if self.origin is None:
            self.origin = origin
