"""Keras on PyTorch: everything runs eagerly, and hooks on Keras's calls see it."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from typing import Any

import keras
import ml_dtypes
import numpy as np
import torch

from tb_netdebug.core.records.scalar_names import (
    BATCH_SIZE,
    GRADIENT_NORM,
    LOSS,
    LOSS_SCALE,
    NONFINITE_GRADIENTS,
    TIME_BACKWARD,
    TIME_FORWARD,
    TIME_OPTIMIZER,
)
from tb_netdebug.core.stats import kernel
from tb_netdebug.frameworks.keras.backends.adapter import BackendAdapter, Run
from tb_netdebug.frameworks.keras.backends.standins import Array, Shown
from tb_netdebug.frameworks.keras.backends.stepping_on_torch import OnTorch
from tb_netdebug.frameworks.keras.backends.tap import EagerAppliedGradients, EagerTap
from tb_netdebug.frameworks.keras.calls import leave, listen
from tb_netdebug.frameworks.keras.values import array_of, item_of
from tb_netdebug.frameworks.torch.adapter import COMPUTING
from tb_netdebug.frameworks.torch.adapter import adapter_of as adapter_of_torch
from tb_netdebug.frameworks.torch.backward import watch_backward
from tb_netdebug.frameworks.torch.host_arrays import values_over
from tb_netdebug.frameworks.torch.memory import torch_allocator
from tb_netdebug.recording.adapter import MakeAdapter, listed
from tb_netdebug.recording.clock import now
from tb_netdebug.recording.collector import STEPS_ALL_PROBED, StepCollector
from tb_netdebug.recording.guard import Guard
from tb_netdebug.recording.settings import Settings

COMPILED = (
    "with jit_compile=True, Keras passes the training step to torch.compile, which allows no hooks; "
    "weights, updates and the running loss are recorded"
)
MOST_INPUTS = 4

is_grad_enabled = torch.is_grad_enabled
is_compiling = torch.compiler.is_compiling  # by dynamo, or for an export: the tensors have no values
is_traced = torch._C._is_tracing
current_backward = torch._C._current_graph_task_id


class KerasOnTorch(BackendAdapter):
    """Listens to Keras's layers, losses and optimizers (see `calls.CallListener`), and to backward."""

    framework = f"torch {torch.__version__}"

    def __init__(
        self,
        models: Mapping[str, Any],
        optimizers: Sequence[Any],
        collector: StepCollector,
        guard: Guard,
        settings: Settings,
    ) -> None:
        kernel.borrow_threads(COMPUTING)
        super().__init__(models, optimizers, collector, guard, settings, threads=torch.get_num_threads())
        self._roots = {id(model) for model in models.values()}
        self._tap = EagerTap(self._network, guard, self.read, has_values)
        self._is_compiled = any(getattr(model, "_jit_compile", None) is True for model in models.values())
        self._scale = 1.0
        self._begin(collector.step, sampling=False)
        self._backward: Any = None
        if self._is_compiled:
            self._refusals.refuse("the inside of the training step", COMPILED)
            return
        self._backward = watch_backward(self._differentiated, guard=guard)
        listen(self)

    def _begin(self, step: int, *, sampling: bool) -> None:
        self._thread = threading.get_ident()
        self._applying = 0
        self._inputs: list[Any] = []
        self._labels: list[Any] = []
        self._flow: list[tuple[Any, Any, Any]] = []
        self._squares: list[tuple[float, int]] = []
        self._loss: float | None = None
        self._tap.begin(
            wants_layers=sampling and self._settings.activations,
            wants_losses=sampling or step < STEPS_ALL_PROBED,
        )

    # ---- Adapter -----------------------------------------------------------------------------------------

    @property
    def is_blind(self) -> bool:
        return self._is_compiled

    def read(self, tensor: Any) -> Array:
        if isinstance(tensor, np.ndarray):  # from `train_on_batch`
            return tensor
        found = tensor.detach()
        found = (found.to_dense() if found.is_sparse else found).cpu().contiguous()
        # NumPy has no bfloat16: reinterpret the bits.
        if found.dtype == torch.bfloat16:
            return values_over(found.resolve_neg().view(torch.int16)).view(ml_dtypes.bfloat16)
        return values_over(found)

    def tensor_of(self, variable: Any) -> Any:
        return variable.value

    def prepare(self, *, sampling: bool) -> None:
        if sampling:
            self._network.refresh()
            if self._is_compiled:
                self._keep_weights()
        self._begin(self._collector.step, sampling=sampling)

    def end_step(self, loss: Any, scalars: dict[str, Any]) -> bool:
        started = now()
        is_late = super().end_step(loss, scalars)
        self._begin(self._collector.step + 1, sampling=False)
        self._collector.charge(started)
        return is_late

    def memory(self) -> dict[str, float]:
        return torch_allocator(torch)

    def _source(self) -> OnTorch:
        return OnTorch(self)

    def close(self) -> None:
        leave(self)
        if self._backward is not None:
            self._backward.close()
        self._begin(self._collector.step, sampling=False)
        super().close()

    # ---- Keras's calls -----------------------------------------------------------------------------------

    def entered(self, layer: Any, args: Any, kwargs: Any) -> None:
        if self._is_here():
            if id(layer) in self._roots:
                self._collector.clock.enter(TIME_FORWARD)
            self._tap.entered(layer, args, kwargs)

    def left(self, layer: Any, args: Any, kwargs: Any, output: Any) -> None:
        if not self._is_here():
            return
        self._tap.left(layer, args, kwargs, output)
        self._flow.append((layer, (args, kwargs), output))
        if id(layer) in self._roots:
            self._collector.clock.enter(TIME_BACKWARD)
            if not self._inputs:
                given = [each for each in keras.tree.flatten((args, kwargs)) if is_data(each)]
                self._inputs = given[:MOST_INPUTS]

    def lost(self, loss: Any, target: Any, given: Any, output: Any) -> None:
        if self._is_here():
            self._tap.lost(loss, target, given, output)
            if len(self._labels) < MOST_INPUTS and is_data(target):
                self._labels.append(target)

    def descends(self, target: Any, sources: Any) -> None:
        """Ignore it: only TensorFlow has tapes."""

    def applies(self, optimizer: Any, gradients: Any, variables: Any) -> None:
        if is_compiling() or threading.get_ident() != self._thread or self._guard.is_off:
            return
        self._applying += 1
        if self._applying > 1:  # the optimizer inside a loss-scaling one
            return
        started = now()
        try:
            self._look_before_update(optimizer, gradients, variables)
        except Exception as error:
            self._guard.fault("looking at gradients", error)
        self._collector.charge(started)
        self._collector.clock.enter(TIME_OPTIMIZER)

    def applied(self, optimizer: Any, variables: Any) -> None:
        if self._applying and threading.get_ident() == self._thread:
            self._applying -= 1
            if not self._applying:
                self._collector.clock.enter(None)
                if self._collector.first_step is not None:
                    self._collector.first_step.updated(id(optimizer), is_fit=self._is_in_fit())

    def _is_in_fit(self) -> bool:
        return any(getattr(each, "train_function", None) is not None for each in self._models.values())

    def _is_here(self) -> bool:
        """Return False on other threads, and in an evaluation, an export and a recomputation for backward."""
        return (
            is_grad_enabled()
            and not is_compiling()
            and not is_traced()
            and threading.get_ident() == self._thread
            and current_backward() == -1
            and not self._guard.is_off
        )

    # ---- a step ------------------------------------------------------------------------------------------

    def _differentiated(self, roots: Any) -> None:
        """Take the loss, which backward is called on; if it is not finite, take the layer calls, too."""
        flow, self._flow = self._flow, []
        if threading.get_ident() != self._thread:
            return
        root = roots if isinstance(roots, torch.Tensor) else roots[0]
        value = float(root.detach().float().mean())
        self._loss = value if self._loss is None else self._loss + value
        # A step that is not sampled has recorded no layers: take them from the calls kept for this.
        if not np.isfinite(value) and not self._tap.calls:
            self._tap.take_calls(flow)

    def _look_before_update(self, optimizer: Any, gradients: Any, variables: Any) -> None:
        collector = self._collector
        self._scale = scale_of(optimizer)
        if not self._network.is_complete():
            self._network.refresh()
        if collector.sampling:
            self._keep_weights()
        if variables is None:
            variables = optimizer._trainable_variables
        pairs = [
            (self._network.stand_in(variable), gradient)
            for variable, gradient in zip(variables, gradients, strict=False)
        ]
        others = 0
        if self._settings.gradients and not collector.sampling and collector.wants_norm:
            started = now()
            squares, others = self._squares_of([gradient for _, gradient in pairs if gradient is not None])
            self._squares.append((squares, others))
            collector.norm_secs += now() - started
        if collector.probing or others:
            self._tap.applied_to.append(EagerAppliedGradients(self._stand_in(optimizer), pairs))

    def _squares_of(self, gradients: Sequence[Any]) -> tuple[float, int]:
        arrays = [array_of(Shown(each, self.read)) for each in gradients]
        items = [item for array in arrays if (item := item_of(array)) is not None]
        total, others = kernel.sum_squares(items, self._threads)
        return total / self._scale**2, others

    def _runs(self) -> list[Run]:
        tap: Any = self._tap
        scalars = self._collector.scalars
        if self._loss is not None:
            scalars[LOSS] = self._loss / self._scale
        if self._scale != 1.0:
            scalars[LOSS_SCALE] = self._scale
        inputs = [Shown(each, self.read) for each in self._inputs]
        if inputs and inputs[0].shape.rank:
            scalars[BATCH_SIZE] = float(inputs[0].shape[0])
        if self._squares:
            scalars[GRADIENT_NORM] = sum(total for total, _ in self._squares) ** 0.5
            scalars[NONFINITE_GRADIENTS] = float(sum(others for _, others in self._squares))
        if self._collector.probing:
            self._coverage.look(tap)
        gradients = tap.gradients() if self._settings.gradients else []
        shown: dict[str, list[Any]] = {
            "inputs": inputs,
            "labels": [Shown(each, self.read) for each in self._labels],
            **tap.losses_shown(),
            "activations": [each for _, _, each in tap.activations()],
            "gradients": [self._unscaled(each) for _, each, _ in gradients],
        }
        return [(tap, shown)]

    def _unscaled(self, gradient: Any) -> Shown:
        return Shown(gradient if self._scale == 1.0 else gradient / self._scale, self.read)


def has_values(tensor: torch.Tensor) -> bool:
    """Return whether a tensor has values; Keras infers shapes with tensors that have none."""
    return not tensor.is_meta


def is_data(value: Any) -> bool:
    return isinstance(value, np.ndarray) or (isinstance(value, torch.Tensor) and has_values(value))


def scale_of(optimizer: Any) -> float:
    """Return the factor by which the loss was scaled."""
    scale = getattr(optimizer, "dynamic_scale", None)
    if scale is None:
        scale = getattr(optimizer, "loss_scale_factor", None)
    if isinstance(scale, keras.Variable):
        scale = scale.value.item()
    return float(scale) if scale else 1.0


def adapter_of(models: dict[str, Any], optimizer: Any) -> MakeAdapter:
    """Return a factory for the adapter that fits: for an optimizer of Keras, or for one of torch.

    An optimizer of torch steps in a custom loop.
    """
    optimizers = listed(optimizer)
    of_models = [getattr(each, "optimizer", None) for each in models.values()]
    if not any(isinstance(each, keras.optimizers.Optimizer) for each in optimizers or of_models):
        return adapter_of_torch(models, optimizer)
    for each in optimizers:
        if not isinstance(each, keras.optimizers.Optimizer):
            raise TypeError(
                f"optimizer is a {type(each).__name__}, and another one is a Keras optimizer: watch() takes "
                "only one kind"
            )
    return lambda collector, guard, settings: KerasOnTorch(models, optimizers, collector, guard, settings)
