"""Hooks every run of torch's autograd engine from Python, whoever calls it."""

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
    """A wrapper for the autograd engine where torch looks it up; also an instance of the real class."""

    inner: Any
    before: Tell
    after: Tell

    def run_backward(self, *args: Any, **kwargs: Any) -> Any:
        """Run a backward pass between the two callbacks, unless it is nested, compiled or traced."""
        if is_part_of_another() or is_compiling() or is_traced():
            return self.inner.run_backward(*args, **kwargs)
        roots = tuple(args[0] if args else kwargs.get("tensors", ()))
        self.before(roots)
        found = self.inner.run_backward(*args, **kwargs)
        self.after(roots)
        return found


def listen_to_passes(before: Tell, after: Tell, fault: Fault) -> None:
    """Call `before(roots)` and `after(roots)` around each outermost pass, until the process ends.

    Passes that a compiler only traces do not count. Exceptions of the callbacks go to `fault`.
    """
    engine = Engine()
    engine.inner = Variable._execution_engine
    engine.before, engine.after = (unintercepted(partial(tried, each, fault)) for each in (before, after))
    never_compiled(Engine.run_backward)
    # torch.autograd looks the engine up here at every call.
    Variable._execution_engine = engine


def tried(tell: Tell, fault: Fault, roots: Iterable[Any]) -> None:
    """Call a callback and report its exception, but let exceptions of signal handlers pass."""
    try:
        tell(roots)
    except Exception as error:
        if is_from_a_handler(error):
            raise
        fault("looking at a backward pass", error)


def is_part_of_another() -> bool:
    """Return whether this pass is nested in another, as when a checkpoint recomputes part of the network."""
    return torch._C._current_graph_task_id() != -1
