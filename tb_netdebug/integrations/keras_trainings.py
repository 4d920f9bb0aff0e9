"""Finds Keras's training runs in a program that does not know it is watched, for `training.zero_code`."""

from __future__ import annotations

import functools
import gc
import inspect
import sys
import weakref
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import keras

from tb_netdebug.checks.finding_error import FindingError

if TYPE_CHECKING:
    from tb_netdebug.training.zero_code.driver import ZeroCode
    from tb_netdebug.training.zero_code.training import Training

# How often a model whose `fit` alternates with that of others is released and watched again.
MOST_REOPENINGS = 4


def discover(zero_code: ZeroCode) -> KerasDiscovery:
    """Start the discovery; called when keras is imported."""
    return KerasDiscovery(zero_code)


class KerasTraining:
    """A training run that was found, with weak references to its models."""

    def __init__(self, training: Training, adapter: Any, models: Mapping[str, Any]) -> None:
        self.training = training
        self.adapter = adapter
        self.models = [weakref.ref(each) for each in models.values()]
        self.is_by_fit = False
        self.reopenings = 0

    def is_of(self, model: Any) -> bool:
        return any(reference() is model for reference in self.models)

    def close(self) -> None:
        """Close the run and release the model."""
        self.adapter = None
        self.training.close()


class KerasDiscovery:
    """Wraps `fit` and `train_on_batch`; custom loops are found by `keras_loops` and `keras_tapes`."""

    def __init__(self, zero_code: ZeroCode) -> None:
        self._zero = zero_code
        self._originals: list[tuple[type, str, Any]] = []
        self._passed_over: list[weakref.ref[Any]] = []
        self.followed: list[KerasTraining] = []
        self.is_in_fit = False
        self._wrap("fit", self._in_fit)
        self._wrap("train_on_batch", self._on_batch)
        self._loops = self._make_loops()

    def _make_loops(self) -> Any:
        """Return the listener for custom loops, or None on JAX.

        On JAX an optimizer is a pure function of the state: when it is called, nothing is updated yet.
        """
        backend = keras.backend.backend()
        if backend == "tensorflow":
            from tb_netdebug.integrations.keras_tapes import TapeLoops

            return TapeLoops(self._zero, self)
        if backend == "torch":
            from tb_netdebug.integrations.keras_loops import Loops

            return Loops(self._zero, self)
        return None

    # ---- called by ZeroCode ------------------------------------------------------------------------------

    def interrupted(self) -> None:
        """Record the step in which the program failed."""
        for each in self.followed:
            if each.training.has_begun_a_step() or getattr(each.adapter, "has_batch", False):
                each.training.step(None, {})

    def close(self) -> None:
        """Remove the wrappers and forget the runs."""
        if self._loops is not None:
            self._loops.close()
        while self._originals:
            kind, name, original = self._originals.pop()
            setattr(kind, name, original)
        self.followed.clear()

    # ---- runs --------------------------------------------------------------------------------------------

    def training_of(self, models: Mapping[str, Any], optimizer: Any = None) -> KerasTraining | None:
        """Return the training run of these models, known or new; None when it is not to be recorded."""
        found: list[KerasTraining | None] = [None]
        self._zero.attempt(
            "setting itself up for a training", lambda: found.append(self._find(models, optimizer))
        )
        return found[-1]

    def _find(self, models: Mapping[str, Any], optimizer: Any) -> KerasTraining | None:
        model = next(iter(models.values()))
        if self._zero.is_off or any(reference() is model for reference in self._passed_over):
            return None
        known = next((each for each in self.followed if each.is_of(model)), None)
        if known is None:
            if watches_itself(self._zero):
                self._zero.stand_aside()
                return None
            self._let_go(but=None)
            known = self._open(models, optimizer)
            if known is None:
                self._passed_over.append(weakref.ref(model))
                return None
            self.followed.append(known)
        elif not known.training.is_open:
            self._let_go(but=known)
            known.reopenings += 1
            known.training.reopen(lambda *given: self._keep(known, made_for(models, optimizer)(*given)))
        return known

    def _open(self, models: Mapping[str, Any], optimizer: Any) -> KerasTraining | None:
        made: list[Any] = []

        def make(*given: Any) -> Any:
            made.append(made_for(models, optimizer)(*given))
            return made[0]

        training = self._zero.open(make)
        return None if training is None else KerasTraining(training, made[0], models)

    def _keep(self, followed: KerasTraining, adapter: Any) -> Any:
        followed.adapter = adapter
        return adapter

    def _let_go(self, *, but: KerasTraining | None) -> None:
        """Release the other models: the next `fit` needs the memory that we keep them in."""
        for each in self.followed:
            if each is not but and each.is_by_fit and each.reopenings < MOST_REOPENINGS:
                self._zero.attempt("closing a run", each.close)
        self.followed = [each for each in self.followed if any(model() is not None for model in each.models)]

    # ---- wrappers ----------------------------------------------------------------------------------------

    def _wrap(self, name: str, make: Callable[[Any], Any]) -> None:
        kind = next(each for each in keras.Model.__mro__ if name in vars(each))
        original = vars(kind)[name]
        self._originals.append((kind, name, original))
        setattr(kind, name, functools.wraps(original)(make(original)))

    def _in_fit(self, original: Any) -> Any:
        def fit(model: Any, *args: Any, **kwargs: Any) -> Any:
            if self._zero.is_off or self.is_in_fit:
                return original(model, *args, **kwargs)
            # By name, because `callbacks` may have been passed by position.
            bound = arguments_of(original, model, args, kwargs)
            callback = None if bound is None else self._callback(model, bound)
            if bound is None or callback is None:
                return original(model, *args, **kwargs)
            bound.arguments["callbacks"] = with_one_more(bound.arguments.get("callbacks"), callback, model)
            self.is_in_fit = True
            try:
                return original(*bound.args, **bound.kwargs)
            finally:
                self.is_in_fit = False
                self._forget_losses()

        return fit

    def _on_batch(self, original: Any) -> Any:
        def train_on_batch(model: Any, *args: Any, **kwargs: Any) -> Any:
            followed = None if self._zero.is_off or self.is_in_fit else self.training_of({"": model})
            if followed is None:
                return original(model, *args, **kwargs)
            followed.is_by_fit = False
            self.is_in_fit = True
            try:
                told = original(model, *args, **kwargs)
            finally:
                self.is_in_fit = False
                self._forget_losses()
            self._end_batch(followed, told)
            return told

        return train_on_batch

    def _end_batch(self, followed: KerasTraining, told: Any) -> None:
        shown = dict(told) if isinstance(told, dict) else {}
        first = told[0] if isinstance(told, list | tuple) and told else told
        loss = shown.pop("loss", first if not isinstance(first, dict) else None)
        is_blind = getattr(followed.adapter, "is_blind", True)
        try:
            followed.training.step(loss if is_blind else None, shown)
        except FindingError:
            raise
        except Exception as error:
            self._zero.fault("ending a step", error)

    def _callback(self, model: Any, bound: inspect.BoundArguments) -> Any:
        """Return the callback to add to a `fit`, or None when it is not recorded and stays unchanged."""
        from tb_netdebug.integrations.keras_fit import FitCallback
        from tb_netdebug.integrations.recording import Recorder

        if any(isinstance(each, Recorder) for each in listed_in(bound.arguments.get("callbacks"))):
            self._zero.stand_aside()
            return None
        followed = self.training_of({"": model})
        if followed is None:
            return None
        followed.is_by_fit = True
        return FitCallback(followed, self._zero)

    def _forget_losses(self) -> None:
        """Drop losses that Keras differentiated through torch: they belong to no loop written in torch."""
        for each in self._zero.discoveries:
            forget = getattr(each, "forget_losses", None)
            if forget is not None:
                forget()


def made_for(models: Mapping[str, Any], optimizer: Any) -> Any:
    from tb_netdebug.training.watch import adapter_for

    return adapter_for(models, optimizer)


def watches_itself(zero_code: ZeroCode) -> bool:
    """Return whether the program has an open monitor of its own."""
    module = sys.modules.get("tb_netdebug.training.monitor")
    monitor_class = getattr(module, "Monitor", None)
    if monitor_class is None:
        return False
    monitors = [each for each in gc.get_objects() if type(each) is monitor_class]
    return any(
        each._is_open() and not any(training.owns(each) for training in zero_code.trainings)
        for each in monitors
    )


def arguments_of(original: Any, model: Any, args: Any, kwargs: Any) -> inspect.BoundArguments | None:
    """Return the arguments of a call by name, or None when it is wrong, which Keras itself will report."""
    try:
        bound = inspect.signature(original).bind(model, *args, **kwargs)
    except (TypeError, ValueError):
        return None
    return bound if "callbacks" in bound.signature.parameters else None


def listed_in(callbacks: Any) -> list[Any]:
    """Return the callbacks in what `fit` accepts: a callback, nested lists, a CallbackList, or None."""
    if isinstance(callbacks, keras.callbacks.CallbackList):
        return list(callbacks.callbacks)
    return [] if callbacks is None else list(keras.tree.flatten(callbacks))


def with_one_more(callbacks: Any, callback: Any, model: Any) -> Any:
    """Return the callbacks of `fit` with ours added."""
    if isinstance(callbacks, keras.callbacks.CallbackList):
        callback.set_model(model)
        callbacks.callbacks.append(callback)
        return callbacks
    return [*listed_in(callbacks), callback]
