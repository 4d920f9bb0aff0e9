"""Hooks of ours on modules, which nobody but a call of the module itself gets to see.

torch keeps the hooks of a module in dictionaries that are copied, pickled, compiled and counted with it. A
model with hooks of a stranger can no longer be scripted, is evaluated on a slower path with other last bits,
and takes the hooks along into files. So a registry with hooks of ours is a view of the module's own: a call
of the module goes through `items` and finds ours, everything else finds what it would find without us. With
the last hook of ours the module gets its own registry back.
"""

from __future__ import annotations

import copy
import weakref
from collections import OrderedDict
from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from torch.utils.hooks import RemovableHandle

from tb_netdebug.frameworks.torch.interception import OVERRIDING, dispatch_modes, function_modes, untraced
from tb_netdebug.frameworks.torch.taps import Handle, listen

BEFORE, BEFORE_WITH_KWARGS = "_forward_pre_hooks", "_forward_pre_hooks_with_kwargs"
AFTER, AFTER_ALWAYS = "_forward_hooks", "_forward_hooks_always_called"
REGISTRIES = (BEFORE, BEFORE_WITH_KWARGS, AFTER, AFTER_ALWAYS)


# Torch calls a module that has hooks by way of one frame more, and Python allows 1000 frames at a time. Where
# modules are nested deeper than this, only those without parts have hooks.
MOST_NESTED = 32


def is_too_deep(name: str, module: nn.Module) -> bool:
    """Whether a module of this name in its model, with parts in it, goes without hooks of ours."""
    return name.count(".") >= MOST_NESTED and bool(module._modules)


class Key:
    """What one of our hooks is registered under; `moves_modes`: it has to find torch's modes as they are."""

    __slots__ = ("_untraced", "moves_modes")

    def __init__(self, *, moves_modes: bool = False) -> None:
        self.moves_modes = moves_modes
        self._untraced: Callable[..., None] | None = None

    def out_of_sight(self, hook: Callable[..., None]) -> Callable[..., None]:
        """Return the hook for a call that the user intercepts; made once, with the first of them."""
        if self.moves_modes:
            return hook
        if self._untraced is None:
            self._untraced = untraced(hook)
        return self._untraced


class HookView(OrderedDict[Any, Any]):
    """The registry `original` and, for calls of the module alone, our hooks before and behind its own.

    What is registered and removed through it happens to the original. A copy of that, without ours, is what
    the view holds itself: torch.compile looks there.
    """

    __slots__ = ("first", "last", "original", "ours")

    def __init__(self, original: dict[Any, Any]) -> None:
        super().__init__(original)
        self.original = original
        self.first: dict[Key, Any] = {}
        self.last: dict[Key, Any] = {}
        self.ours: tuple[tuple[Key, Any], ...] = ()  # both, made once: every call of the module goes through

    def put(self, key: Key, hook: Any, *, is_first: bool) -> None:
        """Add a hook of ours."""
        (self.first if is_first else self.last)[key] = hook
        self.ours = (*self.first.items(), *self.last.items())

    def take(self, key: Key) -> None:
        """Remove a hook of ours. Harmless when it is not there."""
        self.first.pop(key, None)
        self.last.pop(key, None)
        self.ours = (*self.first.items(), *self.last.items())

    # ---- what a call of the module asks ------------------------------------------------------------------

    def __bool__(self) -> bool:
        return True if self.ours else bool(self.original)

    def items(self) -> Any:
        if function_modes() or dispatch_modes() or OVERRIDING.exist:
            return self._items_out_of_sight()
        if not self.original:
            return self.ours
        return (*self.first.items(), *self.original.items(), *self.last.items())

    def _items_out_of_sight(self) -> Any:
        # No generator: torch.compile comes by here, and with fullgraph=True it fails at one.
        first = [(key, key.out_of_sight(hook)) for key, hook in self.first.items()]
        last = [(key, key.out_of_sight(hook)) for key, hook in self.last.items()]
        return (*first, *self.original.items(), *last)

    def __contains__(self, key: object) -> bool:
        return key in self.first or key in self.original or key in self.last

    # ---- what everybody else asks ------------------------------------------------------------------------

    def __len__(self) -> int:
        return len(self.original)

    def __iter__(self) -> Any:
        return iter(self.original)

    def keys(self) -> Any:
        return self.original.keys()

    def values(self) -> Any:
        return self.original.values()

    def __getitem__(self, key: Any) -> Any:
        return self.original[key]

    def __eq__(self, other: object) -> bool:
        return bool(self.original == (other.original if isinstance(other, HookView) else other))

    def __ne__(self, other: object) -> bool:
        return not self == other

    __hash__ = None  # type: ignore[assignment]  # as of every dictionary

    def __repr__(self) -> str:
        return repr(self.original)

    # ---- changes -----------------------------------------------------------------------------------------

    def __setitem__(self, key: Any, hook: Any) -> None:
        super().__setitem__(key, hook)
        original = getattr(self, "original", None)  # none yet while the view is being filled
        if original is not None:
            original[key] = hook

    def __delitem__(self, key: Any) -> None:
        if isinstance(key, Key):  # somebody clears all that a call would find
            self.take(key)
            return
        del self.original[key]
        self.follow()

    def clear(self) -> None:
        super().clear()
        self.original.clear()

    def pop(self, key: Any, *default: Any) -> Any:
        if isinstance(key, Key):
            return self._taken(key)
        found = self.original.pop(key, *default)
        self.follow()
        return found

    def _taken(self, key: Key) -> Any:
        hook = self.first.get(key) or self.last.get(key)
        self.take(key)
        return hook

    def popitem(self, last: bool = True) -> tuple[Any, Any]:
        if not self.original and self.ours:
            key, _ = self.ours[-1]
            return key, self._taken(key)
        found = (
            self.original.popitem(last) if isinstance(self.original, OrderedDict) else self.original.popitem()
        )
        self.follow()
        return found

    def move_to_end(self, key: Any, last: bool = True) -> None:
        self.follow()
        super().move_to_end(key, last)
        if isinstance(self.original, OrderedDict):
            self.original.move_to_end(key, last)

    def follow(self) -> None:
        """Take over what has happened to the original without us."""
        if super().__len__() != len(self.original):
            super().clear()
            for key, hook in self.original.items():
                super().__setitem__(key, hook)

    # ---- copies hold nothing of ours ---------------------------------------------------------------------

    def copy(self) -> Any:
        return self.original.copy()

    def __copy__(self) -> Any:
        return copy.copy(self.original)

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        return copy.deepcopy(self.original, memo)

    def __reduce_ex__(self, protocol: Any) -> Any:
        return self.original.__reduce_ex__(protocol)


class HookHandle:
    """One hook of ours on one module, until `remove`."""

    def __init__(self, module: nn.Module, key: Key, names: tuple[str, ...]) -> None:
        self._module: nn.Module | None = module
        self._key = key
        self._names = names

    def remove(self) -> None:
        """Take the hook off. Harmless when called again."""
        module, self._module = self._module, None
        if module is not None:
            for name in self._names:
                take_off(module, name, self._key)


class NoHandle:
    """Of a hook that was not put on."""

    def remove(self) -> None:
        """There is nothing to take off."""


class HookEntry:
    """A hook of ours in a registry of torch's that is shared with the user's, until `remove`.

    The key is ours: a handle of torch's would take a number, and then hooks of the user's, whose numbers get
    into files, would have others than without us.
    """

    def __init__(self, registry: dict[Any, Any], hook: Callable[..., Any]) -> None:
        self._registry, self._key = registry, Key()
        registry[self._key] = hook

    def remove(self) -> None:
        """Take the hook out. Harmless when called again."""
        self._registry.pop(self._key, None)


def before_step(optimizer: torch.optim.Optimizer, hook: Callable[..., None]) -> HookEntry:
    return HookEntry(optimizer._optimizer_step_pre_hooks, hook)


def after_step(optimizer: torch.optim.Optimizer, hook: Callable[..., None]) -> HookEntry:
    return HookEntry(optimizer._optimizer_step_post_hooks, hook)


def before_forward(
    module: nn.Module, hook: Callable[..., None], *, with_kwargs: bool = False, moves_modes: bool = False
) -> Any:
    """Call `hook(module, args)`, or `hook(module, args, kwargs)`, before the module's own hooks.

    No mode of the user's sees what it does, unless it `moves_modes`. What torch.jit.script has made takes no
    hooks, and is watched from outside alone.
    """
    if isinstance(module, torch.jit.ScriptModule):
        return NoHandle()
    key = Key(moves_modes=moves_modes)
    names = (BEFORE, BEFORE_WITH_KWARGS) if with_kwargs else (BEFORE,)
    for name in reversed(names):
        view_of(module, name).put(key, hook, is_first=True)
    return HookHandle(module, key, names)


def after_forward(
    module: nn.Module, hook: Callable[..., None], *, always_call: bool = False, moves_modes: bool = False
) -> Any:
    """Call `hook(module, args, output)` behind the module's own hooks; `always_call`: also when it raised."""
    if isinstance(module, torch.jit.ScriptModule):
        return NoHandle()
    key = Key(moves_modes=moves_modes)
    names = (AFTER, AFTER_ALWAYS) if always_call else (AFTER,)
    for name in reversed(names):
        view_of(module, name).put(key, hook, is_first=False)
    return HookHandle(module, key, names)


def view_of(module: nn.Module, name: str) -> HookView:
    """Return the view in place of the module's registry, put there if need be."""
    registry = vars(module)[name]
    if type(registry) is HookView:
        return registry
    _copies.listen()
    view = vars(module)[name] = HookView(registry)
    _removals.follow(view)
    return view


def take_off(module: nn.Module, name: str, key: Key) -> None:
    view = vars(module).get(name)
    if type(view) is not HookView:
        return  # somebody has given the module another registry
    view.take(key)
    # A handle that the user got through the view needs it as long as it lives.
    if not view.ours and weakref.getweakrefcount(view) <= 1:  # the one of `Removals`
        vars(module)[name] = view.original


class PlainCopies:
    """Gives copies of modules the registries that the modules would have without us.

    `copy.copy` shares the registries of a module; pickling needs them as they are, for handles refer to them.
    """

    def __init__(self) -> None:
        self._handle: Handle | None = None

    def listen(self) -> None:
        """From the first view on; it costs nothing but when a module is copied."""
        if self._handle is None and hasattr(nn.Module, "__getstate__"):
            self._handle = listen(nn.Module.__getstate__, after=self._make_plain)

    def _make_plain(self, _: tuple[Any, ...], state: dict[str, Any]) -> None:
        for name in REGISTRIES:
            view = state.get(name)
            if type(view) is HookView:
                state[name] = view.original


class Removals:
    """Tells views of hooks that are removed from the original: a handle from before the view knows that."""

    def __init__(self) -> None:
        self._handle: Handle | None = None
        self._views: weakref.WeakValueDictionary[int, HookView] = weakref.WeakValueDictionary()

    def follow(self, view: HookView) -> None:
        """Costs nothing but when a handle is removed."""
        self._views[id(view.original)] = view  # which keeps it alive
        if self._handle is None:
            self._handle = listen(RemovableHandle.remove, after=self._removed)

    def _removed(self, given: tuple[Any, ...], _: object) -> None:
        (handle,) = given
        for reference in (handle.hooks_dict_ref, *handle.extra_dict_ref):
            registry = reference()
            view = self._views.get(id(registry))
            if view is not None and view.original is registry:
                view.follow()


_copies, _removals = PlainCopies(), Removals()
