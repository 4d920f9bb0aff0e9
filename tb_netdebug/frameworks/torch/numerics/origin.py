"""Traces where a NaN or an infinity comes from, operation by operation, through a forward pass.

A non-finite value that nobody uses does no harm, and −inf is what masks are made of. So the blame goes not to
the first operation that makes such a value, but to the one whose result reached the output.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from threading import get_ident
from typing import Any

import torch
from torch import nn
from torch.autograd import forward_ad
from torch.multiprocessing.reductions import StorageWeakRef
from torch.utils._python_dispatch import TorchDispatchMode

from tb_netdebug.frameworks.torch.hooks import after_forward, before_forward
from tb_netdebug.frameworks.torch.interception import Unintercepted
from tb_netdebug.frameworks.torch.numerics.flags import CLEAN, NonFiniteFlags, flags_of
from tb_netdebug.frameworks.torch.numerics.operations import (
    ASKED_FOR,
    SIGN_CHANGING,
    TALKING,
    UNINITIALISED,
    flat,
    is_all_of_it,
    is_infinite,
    key_of,
    site,
)
from tb_netdebug.frameworks.torch.numerics.origin_report import Origin, Place, names_of
from tb_netdebug.frameworks.torch.values import tensors_in

is_compiling = torch.compiler.is_compiling
next_operation = torch._C._autograd._get_sequence_nr
MOST_TRACKED = 4096
MOST_PLACES = 20_000
MOST_ATTRIBUTES = 32


class TalkingError(RuntimeError):
    """The forward pass communicates with other processes, so one process alone cannot repeat it."""


class OriginTracer(TorchDispatchMode):
    """A dispatch mode around forward passes of `models`; afterwards `origin_of` explains their outputs."""

    def __init__(self, models: Mapping[str, nn.Module]) -> None:
        super().__init__()  # type: ignore[no-untyped-call]  # torch gives it no types
        self._models = models
        self._names = names_of(models)
        self._running: list[nn.Module] = []
        self._thread = get_ident()  # that of the call that is explained
        self._origins: dict[StorageWeakRef, Origin] = {}
        self._count = 0
        self.on_fault: Callable[[Exception], None] | None = None
        self.keeps_places = False
        self.places: dict[int, Place] = {}  # by autograd's sequence number of the operation

    # ---- before and after --------------------------------------------------------------------------------

    def begin(self, model: nn.Module, args: Iterable[Any], kwargs: Mapping[str, Any]) -> None:
        """Note which weights, buffers and arguments are already non-finite before a call of `model`."""
        self._running = [model]
        self._thread = get_ident()
        self._origins.clear()
        for each in self._models.values():
            self._note_state(each)
        for place, given in [*enumerate(args), *kwargs.items()]:
            for inside, tensor in tensors_in(given):
                found = flags_of(tensor)
                if found.any and (key := key_of(tensor)):
                    self._origins[key] = Origin(
                        "input",
                        *self._names[id(model)],
                        found.kind,
                        self._next(),
                        inputs_finite=False,
                        masked_only=found.is_mask and not found.pos_inf,  # masks are made of -inf
                        tensor=f"input[{place}]{inside}",
                    )

    def origin_of(self, output: Any, model: nn.Module) -> Origin | None:
        """Return the earliest origin of the non-finite values in the output; a mask as a last resort."""
        found = []
        for _, tensor in tensors_in(output):
            if (flags := flags_of(tensor)).any:
                known = self._known(tensor)
                found.append(known or Origin("output", *self._names[id(model)], flags.kind, self._next()))
        return min(found, key=lambda origin: (origin.masked_only, origin.order), default=None)

    def origin_in_attributes(self, model: nn.Module) -> Origin | None:
        """Return the origin of non-finite values in module attributes, such as auxiliary losses."""
        kept = [
            value
            for each in self._models.values()
            for module in each.modules()
            for value in vars(module).values()
            if isinstance(value, torch.Tensor | list | tuple)
        ]
        origin = self.origin_of(kept[:MOST_ATTRIBUTES], model)
        return None if origin is None or origin.masked_only else origin

    @contextmanager
    def names(self) -> Iterator[None]:
        """Track which module is running while the context is open."""
        hooks = []
        for model in self._models.values():
            for module in model.modules():
                # A scripted module takes no hooks. What it does is attributed to the enclosing module.
                hooks.append(before_forward(module, self._enter))
                hooks.append(after_forward(module, self._leave, always_call=True))
        try:
            yield
        finally:
            for hook in hooks:
                hook.remove()

    # ---- during ------------------------------------------------------------------------------------------

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func.namespace in TALKING:
            self._refuse_to_talk()
        output = func(*args, **(kwargs or {}))
        if is_transformed():
            return output
        try:
            with Unintercepted():
                self._look(func, args, kwargs or {}, output)
        except Exception as error:
            if self.on_fault is None:
                raise
            self.on_fault(error)
        return output

    def _refuse_to_talk(self) -> None:
        if self.on_fault is None:  # this is a repeated pass, and the other processes repeat none
            raise TalkingError("its forward pass communicates with other processes")

    def _enter(self, module: nn.Module, *_: Any) -> None:
        if is_compiling() or get_ident() != self._thread:
            return
        self._running.append(module)

    def _leave(self, module: nn.Module, *_: Any) -> None:
        if is_compiling() or get_ident() != self._thread:
            return
        if any(each is module for each in self._running):  # by identity: == may be overridden
            while self._running.pop() is not module:
                pass

    def _look(self, func: Any, args: Any, kwargs: Any, output: Any) -> None:
        name = func._overloadpacket.__name__
        if name in UNINITIALISED:
            return
        if self.keeps_places and len(self.places) < MOST_PLACES:
            number = next_operation() - 1  # without a gradient: that of the one before it
            if number not in self.places:
                self.places[number] = Place(*self._around(), site())
        for tensor in [output] if isinstance(output, torch.Tensor) else list(flat(output)):
            found = flags_of(tensor)
            # While no origin is known there is none to forget, so finite results cost no key.
            key = key_of(tensor) if found.any or self._origins else None
            if key is None:
                continue
            if found.any:
                self._put(key, self._origin(func, name, args, kwargs, found))
            elif key in self._origins and is_all_of_it(tensor):
                del self._origins[key]  # overwritten with finite values

    def _origin(self, func: Any, name: str, args: Any, kwargs: Any, found: NonFiniteFlags) -> Origin:
        sources = list(self._sources(func, args, kwargs))
        # A real non-finite operand explains the result, whatever this operation is.
        real = [source for source in sources if not source.masked_only]
        if real:
            return min(real, key=lambda source: source.order)
        if sources and not found.nan:
            # Only masks came in and no NaN came out. The result is the mask passed on, unless a +inf is new
            # here.
            is_new = found.pos_inf and name not in SIGN_CHANGING
            if not is_new or any(source.kind == "Inf" for source in sources):
                return sources[0]
        was_asked = not found.nan and (name in ASKED_FOR or any(map(is_infinite, (*args, *kwargs.values()))))
        return Origin(
            "output",
            *self._around(),
            found.kind,
            self._next(),
            inputs_finite=not sources,
            masked_only=was_asked,
            masked_inputs=bool(sources),
            operation=name.strip("_"),
            site=site(),
        )

    def _around(self) -> tuple[str, str]:
        """Return the name and the class of the innermost running module."""
        if not self._running:
            return "", ""
        module = self._running[-1]
        full, class_name = self._names.get(id(module), ("", type(module).__name__))
        return full, class_name + (" (own code)" if next(module.children(), None) is not None else "")

    def _sources(self, func: Any, args: Any, kwargs: Any) -> Iterator[Origin]:
        """Yield the origins of an operation's operands.

        An operand that was written to holds the result by now, so only its recorded origin counts.
        """
        written = {
            number
            for number, argument in enumerate(func._schema.arguments)
            if argument.alias_info is not None and argument.alias_info.is_write
        }
        for number, given in enumerate(args):
            for tensor in flat(given):
                known = self._known(tensor)
                if number in written:
                    if known is not None:
                        yield known
                elif (found := flags_of(tensor)).any:
                    yield known or self._constant(tensor, found)
        for given in kwargs.values():
            for tensor in flat(given):
                if (known := self._known(tensor)) is not None:
                    yield known

    def _constant(self, tensor: torch.Tensor, found: NonFiniteFlags) -> Origin:
        """Return an origin for a tensor from elsewhere: an attribute, or one made before the call."""
        module = self._running[-1] if self._running else None
        full, class_name = self._names.get(id(module), ("", ""))
        origin = Origin(
            "output",
            full,
            class_name,
            found.kind,
            self._next(),
            inputs_finite=False,
            masked_only=found.is_mask,
            tensor="operand",
            site=site(),
        )
        if (key := key_of(tensor)) is not None:
            self._put(key, origin)
        return origin

    # ---- what is known -----------------------------------------------------------------------------------

    def _note_state(self, model: nn.Module) -> None:
        for module in model.modules():
            buffers = [(name, each, True) for name, each in module._buffers.items()]
            weights = [(name, each, False) for name, each in module._parameters.items()]
            for name, tensor, is_buffer in (*weights, *buffers):
                found = CLEAN if tensor is None else flags_of(tensor)
                if tensor is None or not found.any or (key := key_of(tensor)) is None:
                    continue
                self._origins[key] = Origin(
                    "parameter",
                    *self._names[id(module)],
                    found.kind,
                    self._next(),
                    parameters_finite=False,
                    masked_only=is_buffer and found.is_mask,
                    tensor=name,
                )

    def _known(self, tensor: torch.Tensor) -> Origin | None:
        key = key_of(tensor)
        return None if key is None else self._origins.get(key)

    def _put(self, key: StorageWeakRef, origin: Origin) -> None:
        if len(self._origins) >= MOST_TRACKED:
            # Make room: freed storage can no longer explain anything.
            for old in [old for old in self._origins if old.expired()]:
                del self._origins[old]
        self._origins[key] = origin

    def _next(self) -> int:
        self._count += 1
        return self._count


def is_transformed() -> bool:
    """Return whether a torch.func transform is active: reading the values of its tensors may crash."""
    return forward_ad._current_level >= 0 or torch._C._functorch.peek_interpreter_stack() is not None
