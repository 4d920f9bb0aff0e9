"""Detects the steps of a Keras script: in `fit`, in `train_on_batch`, and in custom loops."""

from __future__ import annotations

import sys
from functools import wraps
from typing import Any

from tb_netdebug.experiments.rehearsal.stop import StepGate, Subject


def listen_to(gate: StepGate) -> KerasSteps:
    return KerasSteps(gate, sys.modules["keras"])


class KerasSteps:
    """Stops before the n-th call of a train function, or of `Optimizer.apply` outside of one.

    In a user's `tf.function` an optimizer is seen only once, while it is traced: that is its first step.
    """

    def __init__(self, gate: StepGate, keras: Any) -> None:
        self._gate = gate
        self._models: dict[int, Any] = {}
        self._optimizers: dict[int, Any] = {}
        self._listen_to_models(keras.Model)
        self._listen_to_optimizers(keras.optimizers.Optimizer)

    def subjects(self) -> list[Subject]:
        found = [Subject({"": each}, [each.optimizer]) for each in self._models.values()]
        known = {id(subject.optimizers[0]) for subject in found}
        return found + [
            Subject({}, [each]) for number, each in self._optimizers.items() if number not in known
        ]

    def _listen_to_models(self, model_class: Any) -> None:
        real = model_class.make_train_function

        @wraps(real)
        def make_train_function(model: Any, *args: Any, **kwargs: Any) -> Any:
            self._models[id(model)] = model
            made = real(model, *args, **kwargs)
            function = model.train_function
            # make_train_function returns a cached function if there is one: do not wrap it twice.
            if function is not None and not hasattr(function, "netdebug_counts"):
                model.train_function = self._counting(model, function)
            return made if made is None else model.train_function

        model_class.make_train_function = make_train_function

    def _counting(self, model: Any, function: Any) -> Any:
        def train_function(*args: Any, **kwargs: Any) -> Any:
            self._gate.reached(id(model))
            with self._gate.step_of_framework():
                return function(*args, **kwargs)

        train_function.netdebug_counts = True  # type: ignore[attr-defined]  # our mark on a function
        return train_function

    def _listen_to_optimizers(self, optimizer_class: Any) -> None:
        real = optimizer_class.apply

        @wraps(real)
        def apply(optimizer: Any, *args: Any, **kwargs: Any) -> Any:
            self._optimizers[id(optimizer)] = optimizer
            # Within a train function the step is counted already.
            if not self._gate.is_inside_step:
                self._gate.reached(id(optimizer))
            return real(optimizer, *args, **kwargs)

        optimizer_class.apply = apply
