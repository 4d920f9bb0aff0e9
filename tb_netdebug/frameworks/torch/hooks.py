"""Module and optimizer hooks of NetDebug that nothing but a call of the module or the step can see.

torch keeps the hooks of a module in dictionaries that are copied, pickled, compiled and counted with it. A
model with foreign hooks can no longer be scripted, is evaluated on a slower path whose results differ in the
last bits, and takes the hooks along into files. So a registry that holds hooks of ours is replaced by a view
of the module's own: a call of the module goes through `items` and finds ours, everything else finds what it
would find without us. When the last of our hooks goes, the module gets its own registry back.
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
is_compiling = torch.compiler.is_compiling
REGISTRIES = (BEFORE, BEFORE_WITH_KWARGS, AFTER, AFTER_ALWAYS)


# torch adds a stack frame to each call of a module that has hooks, and Python allows 1000 frames at a time.
# Below this depth only modules without children get hooks.
MOST_NESTED = 32


def is_too_deep(name: str, module: nn.Module) -> bool:
    """Return whether a module lies so deep in its model that it gets no hooks. Leaves always get them."""
    return name.count(".") >= MOST_NESTED and bool(module._modules)


class Key:
    """The key of one of our hooks; with `moves_modes` the hook has to see torch's modes as they are."""

    __slots__ = ("_untraced", "moves_modes")

    def __init__(self, *, moves_modes: bool = False) -> None:
        self.moves_modes = moves_modes
        self._untraced: Callable[..., None] | None = None

    def out_of_sight(self, hook: Callable[..., None]) -> Callable[..., None]:
        """Return a form of the hook that the user's modes cannot see; it is made once, when first needed."""
        if self.moves_modes:
            return hook
        if self._untraced is None:
            self._untraced = untraced(hook)
        return self._untraced


class HookView(OrderedDict[Any, Any]):
    """The registry `original` plus our hooks, before and after its own, which only a call of the module sees.

    What is registered and removed through the view happens to the original. The view itself holds a copy of
    the original, without ours: torch.compile reads that one directly.
    """

    __slots__ = ("first", "last", "original", "ours")

    def __init__(self, original: dict[Any, Any]) -> None:
        super().__init__(original)
        self.original = original
        self.first: dict[Key, Any] = {}
        self.last: dict[Key, Any] = {}
        self.ours: tuple[tuple[Key, Any], ...] = ()  # first and last, built once: every call reads it

    def put(self, key: Key, hook: Any, *, is_first: bool) -> None:
        """Add a hook of ours, before the module's own ones or after them."""
        (self.first if is_first else self.last)[key] = hook
        self.ours = (*self.first.items(), *self.last.items())

    def take(self, key: Key) -> None:
        """Remove a hook of ours. Harmless if it is not there."""
        self.first.pop(key, None)
        self.last.pop(key, None)
        self.ours = (*self.first.items(), *self.last.items())

    # ---- what a call of the module reads -----------------------------------------------------------------

    def __bool__(self) -> bool:
        return True if self.ours else bool(self.original)

    def items(self) -> Any:
        if function_modes() or dispatch_modes() or OVERRIDING.exist:
            return self._items_out_of_sight()
        if not self.original:
            return self.ours
        return (*self.first.items(), *self.original.items(), *self.last.items())

    def _items_out_of_sight(self) -> Any:
        # A tuple and no generator: torch.compile traces this, and with fullgraph=True it fails at one.
        first = [(key, key.out_of_sight(hook)) for key, hook in self.first.items()]
        last = [(key, key.out_of_sight(hook)) for key, hook in self.last.items()]
        return (*first, *self.original.items(), *last)

    def __contains__(self, key: object) -> bool:
        return key in self.first or key in self.original or key in self.last

    # ---- what everything else reads ----------------------------------------------------------------------

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

    __hash__ = None  # type: ignore[assignment]  # unhashable, like every dict

    def __repr__(self) -> str:
        return repr(self.original)

    # ---- changes -----------------------------------------------------------------------------------------

    def __setitem__(self, key: Any, hook: Any) -> None:
        super().__setitem__(key, hook)
        original = getattr(self, "original", None)  # none yet while the view is being filled
        if original is not None:
            original[key] = hook

    def __delitem__(self, key: Any) -> None:
        if isinstance(key, Key):  # a program removes whatever `items` has shown
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
        # A loop that empties the registry sees our hooks in `bool`, so let them be popped, too.
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
        """Catch up with changes that were made to the original without going through the view."""
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
    """A handle on one hook of ours on one module; `remove` takes the hook off."""

    def __init__(self, module: nn.Module, key: Key, names: tuple[str, ...]) -> None:
        self._module: nn.Module | None = module
        self._key = key
        self._names = names

    def remove(self) -> None:
        """Remove the hook. Harmless when called again."""
        module, self._module = self._module, None
        if module is not None:
            for name in self._names:
                take_off(module, name, self._key)


class NoHandle:
    """The handle of a hook that was not put on."""

    def remove(self) -> None:
        """Do nothing: no hook was put on."""


class HookEntry:
    """A hook of ours in a torch registry that is shared with the user's hooks, until `remove`.

    It has a key of its own. A torch handle would take the next number, and the user's hooks would get other
    numbers than without us; these numbers get into files.
    """

    def __init__(self, registry: dict[Any, Any], hook: Callable[..., Any]) -> None:
        self._registry, self._key = registry, Key()
        registry[self._key] = hook

    def remove(self) -> None:
        """Remove the hook. Harmless when called again."""
        self._registry.pop(self._key, None)


def before_step(optimizer: torch.optim.Optimizer, hook: Callable[..., None]) -> HookEntry:
    """Call `hook(optimizer, args, kwargs)` before each step of one optimizer, after the user's own hooks.

    They may still change the gradients.
    """
    _later_hooks.listen()
    return HookEntry(optimizer._optimizer_step_pre_hooks, hook)


def after_step(optimizer: torch.optim.Optimizer, hook: Callable[..., None]) -> HookEntry:
    """Call `hook(optimizer, args, kwargs)` after each step of one optimizer."""
    return HookEntry(optimizer._optimizer_step_post_hooks, hook)


def on_sight(hook: Callable[..., None]) -> Callable[..., None]:
    """Return a form of the hook that looks for new tensor classes among what it is given, before it reads."""

    def call(module: nn.Module, *given: Any) -> None:
        if not is_compiling() and OVERRIDING.appear_in(given):
            with torch._C.DisableTorchFunction():
                hook(module, *given)
        else:
            hook(module, *given)

    return call


def before_forward(
    module: nn.Module,
    hook: Callable[..., None],
    *,
    with_kwargs: bool = False,
    moves_modes: bool = False,
    looks: bool = False,
) -> Any:
    """Call `hook(module, args)`, or `hook(module, args, kwargs)`, before the module's own hooks.

    The user's modes and tensor classes do not see what the hook does, unless `moves_modes` is set. A hook
    that `looks` for new classes itself is called directly. A module made by torch.jit.script takes no hooks;
    it can only be watched from outside.
    """
    if isinstance(module, torch.jit.ScriptModule):
        return NoHandle()
    key = Key(moves_modes=moves_modes)
    names = (BEFORE, BEFORE_WITH_KWARGS) if with_kwargs else (BEFORE,)
    if not (looks or moves_modes):
        hook = on_sight(hook)
    # The hook itself comes last: a call on another thread must not find it without its flag.
    for name in reversed(names):
        view_of(module, name).put(key, hook, is_first=True)
    return HookHandle(module, key, names)


def after_forward(
    module: nn.Module,
    hook: Callable[..., None],
    *,
    always_call: bool = False,
    moves_modes: bool = False,
    looks: bool = False,
) -> Any:
    """Call `hook(module, args, output)` after the module's own hooks.

    With `always_call` it is also called when the module raised.
    """
    if isinstance(module, torch.jit.ScriptModule):
        return NoHandle()
    key = Key(moves_modes=moves_modes)
    names = (AFTER, AFTER_ALWAYS) if always_call else (AFTER,)
    if not (looks or moves_modes):
        hook = on_sight(hook)
    for name in reversed(names):
        view_of(module, name).put(key, hook, is_first=False)
    return HookHandle(module, key, names)


def view_of(module: nn.Module, name: str) -> HookView:
    """Return the view that stands in for a registry of the module, and install it if need be."""
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
        return  # the module was given another registry since
    view.take(key)
    # A handle that the user got through the view refers to it, and needs it as long as the handle lives.
    if not view.ours and weakref.getweakrefcount(view) <= 1:  # that one is `Removals`' own
        vars(module)[name] = view.original


class PlainCopies:
    """Gives copies of modules the registries that the modules would have without us.

    `copy.copy` shares a module's registries, and pickle needs the originals because handles refer to them.
    """

    def __init__(self) -> None:
        self._handle: Handle | None = None

    def listen(self) -> None:
        """Start listening, with the first view. It costs nothing unless a module is copied."""
        if self._handle is None and hasattr(nn.Module, "__getstate__"):
            self._handle = listen(nn.Module.__getstate__, after=self._make_plain)

    def _make_plain(self, _: tuple[Any, ...], state: dict[str, Any]) -> None:
        for name in REGISTRIES:
            view = state.get(name)
            if type(view) is HookView:
                state[name] = view.original


class Removals:
    """Keeps views up to date when a handle from before the view removes its hook from the original."""

    def __init__(self) -> None:
        self._handle: Handle | None = None
        self._views: weakref.WeakValueDictionary[int, HookView] = weakref.WeakValueDictionary()

    def follow(self, view: HookView) -> None:
        """Update the view when a handle is removed. It costs nothing until then."""
        self._views[id(view.original)] = view  # the view keeps its original alive, so the id stays its own
        if self._handle is None:
            self._handle = listen(RemovableHandle.remove, after=self._removed)

    def _removed(self, given: tuple[Any, ...], _: object) -> None:
        (handle,) = given
        for reference in (handle.hooks_dict_ref, *handle.extra_dict_ref):
            registry = reference()
            view = self._views.get(id(registry))
            if view is not None and view.original is registry:
                view.follow()


class LaterHooks:
    """Keeps our hooks on optimizers behind those that the user registers later."""

    def __init__(self) -> None:
        self._handle: Handle | None = None

    def listen(self) -> None:
        """Start listening, with the first hook. It costs nothing until a hook is registered."""
        if self._handle is None:
            self._handle = listen(torch.optim.Optimizer.register_step_pre_hook, after=self._registered)

    def _registered(self, given: tuple[Any, ...], _: object) -> None:
        registry = given[0]._optimizer_step_pre_hooks
        for key in [each for each in registry if isinstance(each, Key)]:
            registry[key] = registry.pop(key)


_copies, _removals, _later_hooks = PlainCopies(), Removals(), LaterHooks()
