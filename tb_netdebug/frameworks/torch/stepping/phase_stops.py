"""Stops before and after the forward pass of a model."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import torch
from torch import nn

from tb_netdebug.debugger.place import AFTER, BEFORE, FORWARD, Place
from tb_netdebug.frameworks.torch.hooks import after_forward, before_forward
from tb_netdebug.frameworks.torch.phases import entries_of
from tb_netdebug.frameworks.torch.stepping.layers import joined
from tb_netdebug.frameworks.torch.stepping.visits import Visits, current_backward, is_compiling

is_grad_enabled = torch.is_grad_enabled

# Called with the model's prefix, its positional arguments and its keyword arguments.
Given = Callable[[str, tuple[Any, ...], dict[str, Any]], None]


class PhaseStops:
    """Hooks on the outermost callable modules, for calls that record gradients.

    They stay on as long as anything is needed, because the other stops depend on them. `tells` says whether
    the session hears of them. A module compiled in place gets no hooks, which would make it compile again.
    `settle` is called before a pass, `leave` after one, even if it failed. `leave` must not touch the hooks.
    """

    def __init__(
        self,
        models: Mapping[str, nn.Module],
        visits: Visits,
        *,
        begin: Given,
        settle: Callable[[], None],
        leave: Callable[[], None],
    ) -> None:
        self._models = models
        self._visits = visits
        self._begin = begin
        self._settle = settle
        self._leave = leave
        self._hooks: dict[nn.Module, tuple[Any, ...]] = {}
        self._running: nn.Module | None = None
        self.tells = False

    @property
    def is_in_training_call(self) -> bool:
        return self._running is not None

    def put_on(self) -> None:
        """Register hooks on all entry modules, including those that came after the last call."""
        for prefix, model in self._models.items():
            for entry in entries_of(model):
                if entry not in self._hooks and entry._compiled_call_impl is None:
                    self._hooks[entry] = (
                        before_forward(entry, partial(self._before, prefix), with_kwargs=True),
                        after_forward(entry, self._after, always_call=True),
                    )

    def take_off(self) -> None:
        for hooks in self._hooks.values():
            for hook in hooks:
                hook.remove()
        self._hooks = {}
        self._running = None

    def end_batch(self) -> None:
        self._running = None

    def _before(self, prefix: str, module: nn.Module, args: Any, kwargs: Any = None) -> None:
        # kwargs are missing when an earlier hook has removed this one: torch iterates over a copy of its list
        # but looks up afresh which hooks take kwargs.
        if is_compiling() or not self._hooks:
            return
        self._settle()
        if not self._visits.are_wanted or not is_grad_enabled() or current_backward() != -1:
            return
        if self._running is not None and self._running is not module:
            return  # part of the current pass
        self._running = module
        try:
            self._begin(prefix, args, kwargs or {})
        except Exception as error:
            self._visits.guard.fault("looking at the batch", error)
        if self.tells:
            self._visits.visit(Place(FORWARD, class_name=type(module).__name__, edge=BEFORE))

    def _after(self, module: nn.Module, args: Any, output: Any) -> None:
        if is_compiling() or self._running is not module:
            return
        self._running = None
        self._leave()
        has_failed = output is None and sys.exc_info()[0] is not None
        if self.tells and not has_failed and self._visits.are_wanted and current_backward() == -1:
            self._visits.visit(Place(FORWARD, class_name=type(module).__name__, edge=AFTER))


def given_by_name(prefix: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
    """Return a model's arguments by name: "0", "1", "mask"; with several models "G/0"."""
    found = {str(place): value for place, value in enumerate(args)} | kwargs
    return {joined(prefix, name): value for name, value in found.items()}
