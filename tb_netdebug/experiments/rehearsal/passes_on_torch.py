"""Every run of torch's autograd engine from Python, whoever calls it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

import torch
from torch.autograd import Variable

from tb_netdebug.frameworks.torch.eager import never_compiled
from tb_netdebug.frameworks.torch.interception import is_compiling, is_traced, unintercepted
from tb_netdebug.recording.signal_handlers import is_from_a_handler

Tell = Callable[[Iterable[Any]], None]
Fault = Callable[[str, Exception], None]


class Engine(torch._C._ImperativeEngine):
    """Stands where torch and its users look for the engine; it is one for whoever asks by class."""

    inner: Any
    before: Tell
    after: Tell

    def run_backward(self, *args: Any, **kwargs: Any) -> Any:
        if is_part_of_another() or is_compiling() or is_traced():
            return self.inner.run_backward(*args, **kwargs)
        roots = tuple(args[0] if args else kwargs.get("tensors", ()))
        self.before(roots)
        found = self.inner.run_backward(*args, **kwargs)
        self.after(roots)
        return found


def listen_to_passes(before: Tell, after: Tell, fault: Fault) -> None:
    """`before(roots)` and `after(roots)` of each pass that is no part of another one, until the process ends.

    Not of those in which a compiler writes down what is to be done later. `fault` is told what they raise.
    """
    engine = Engine()
    engine.inner = Variable._execution_engine
    engine.before, engine.after = (unintercepted(partial(tried, each, fault)) for each in (before, after))
    never_compiled(Engine.run_backward)
    Variable._execution_engine = engine


def tried(tell: Tell, fault: Fault, roots: Iterable[Any]) -> None:
    try:
        tell(roots)
    except Exception as error:
        if is_from_a_handler(error):
            raise
        fault("looking at a backward pass", error)


def is_part_of_another() -> bool:
    """As when a checkpoint computes a piece of the network again."""
    return torch._C._current_graph_task_id() != -1
