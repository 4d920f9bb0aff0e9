"""The torch implementation of `recording.adapter.Adapter`: it owns the hooks and finishes each step."""

from __future__ import annotations

import platform
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn
from torch._dynamo.eval_frame import OptimizedModule
from torch.optim import Optimizer

from tb_netdebug.core.machine.free_memory import copies_limit
from tb_netdebug.core.records.scalar_names import LOSS, NONFINITE_GRADIENTS, name_of_own
from tb_netdebug.core.records.step import Kind, Sample, Series, Units
from tb_netdebug.core.stats import kernel
from tb_netdebug.debugger.workbench import Stops
from tb_netdebug.frameworks.torch.activations import ActivationHooks
from tb_netdebug.frameworks.torch.arrivals import DeviceArrivals
from tb_netdebug.frameworks.torch.backward import BackwardListeners
from tb_netdebug.frameworks.torch.call_hooks import CallHooks
from tb_netdebug.frameworks.torch.coverage.members import state_of
from tb_netdebug.frameworks.torch.graph import GraphTracer
from tb_netdebug.frameworks.torch.host_arrays import values_over
from tb_netdebug.frameworks.torch.interception import OVERRIDING, PLAIN, unintercepted
from tb_netdebug.frameworks.torch.memory import torch_allocator
from tb_netdebug.frameworks.torch.optimizers import OptimizerHooks
from tb_netdebug.frameworks.torch.parameters import WRAPPERS, Parameters, WatchedParameter, clean
from tb_netdebug.frameworks.torch.phases import PhaseHooks
from tb_netdebug.frameworks.torch.probe import ProbeContext
from tb_netdebug.frameworks.torch.probes import Probes
from tb_netdebug.frameworks.torch.ranks.merging import Merging
from tb_netdebug.frameworks.torch.reader import (
    NO_OPTIMIZER,
    SKIPPED,
    Layout,
    TensorReader,
    host_item,
)
from tb_netdebug.frameworks.torch.stepping.workbench import TorchWorkbench
from tb_netdebug.frameworks.torch.values import is_functorch_wrapped
from tb_netdebug.frameworks.torch.weights import Weights
from tb_netdebug.recording.adapter import MakeAdapter, listed
from tb_netdebug.recording.clock import now
from tb_netdebug.recording.collector import StepCollector
from tb_netdebug.recording.guard import Guard
from tb_netdebug.recording.refusals import Refusals
from tb_netdebug.recording.settings import Settings

# The library that torch's threads run in; the kernel borrows them from it.
COMPUTING = Path(torch.__file__).parent / "lib/libtorch_cpu.so"

COMPILED = "torch.compile allows no hooks; weights, gradients, updates and the loss are recorded"

UNSEEN = f"no call of a layer was seen, as when {COMPILED}"

Late = list[tuple[int, dict[str, float], list[Sample]]]


class TorchAdapter:
    """Fills the collector from hooks on modules and optimizers (see `recording.adapter.Adapter`)."""

    @unintercepted
    def __init__(
        self,
        models: Mapping[str, nn.Module],
        optimizers: Sequence[Optimizer],
        collector: StepCollector,
        guard: Guard,
        settings: Settings,
    ) -> None:
        self._models = dict(models)
        self._collector = collector
        self._guard = guard
        self._settings = settings
        self._refusals = Refusals(guard)
        self._optimizer_names: list[str] = []
        kernel.borrow_threads(COMPUTING)
        self._parameters = Parameters(models, settings.wants)
        self._reader = TensorReader(collector, self._refusals.refuse)
        self._arrivals = DeviceArrivals(self._reader)
        self._weights = self._make_weights()
        self._optimizers = OptimizerHooks(
            optimizers,
            self._parameters,
            collector,
            self._reader,
            guard,
            weights=self._weights,
            gradients=settings.gradients,
        )
        self._graph = GraphTracer(self._models, guard)
        self._calls = CallHooks(collector, guard)
        self._backward = BackwardListeners(guard)
        self._phases = PhaseHooks(models, self._calls, collector, guard, batches=settings.batches)
        self._activations = ActivationHooks(models, collector, self._reader, guard, settings.wants)
        self._probes = Probes(
            ProbeContext(
                models,
                self._parameters,
                self._optimizers,
                self._calls,
                self._backward,
                collector,
                self._reader,
                guard,
                settings,
            )
        )
        self._merging = Merging(collector, self._refusals, self._parameters.current().values())
        self._workbench: TorchWorkbench | None = None
        self._generation = -1
        self._states: list[tuple[int, bytes] | None] | None = None  # before a sampled step, see `_has_moved`
        self._saw_gradients = False
        self._follow_growth()
        self._explain_compiled()

    # ---- the seam ----------------------------------------------------------------------------------------

    def end_step(self, loss: Any, scalars: dict[str, Any]) -> bool:
        if scalars or type(loss) not in PLAIN:
            OVERRIDING.appear_in((loss, *scalars.values()))
        return self._end_step(loss, scalars)

    @unintercepted
    def _end_step(self, loss: Any, scalars: dict[str, Any]) -> bool:
        if not self._optimizers.stepped:
            self._look_without_optimizer()
        if self._collector.step == 0:
            self._explain_compiled()
        self._optimizers.end_step()
        if self._collector.sampling and self._weights is not None:
            self._weights.look_at_rest(list(self._parameters.current().values()))
        self._phases.saw_forward = self._saw_gradients = False
        if loss is not None:
            self._put_scalar(LOSS, loss)
            self._probes.told_loss(loss)
        if scalars:
            for name, value in scalars.items():
                self._put_scalar(name_of_own(name), value)
        self._optimizers.put_rates()
        self._probes.end_step()
        # Layers may have been added, or lazy ones have got their parameters.
        if self._parameters.is_stale or self._generation != self._parameters.changes:
            self._follow_growth()
        return self._merging.end_step(is_late=self._arrivals.end_step(self._collector.step))

    @unintercepted
    def late(self, *, wait: bool) -> Late:
        return self._merging.through(self._arrivals.take(wait=wait), wait=wait)

    @unintercepted
    def prepare(self, *, sampling: bool) -> None:
        self._activations.arm(sampling)
        if not sampling:
            return
        OVERRIDING.look()
        # With no optimizer to hook, nothing announces the update: copy the weights before the step.
        if self._weights is not None and not self._optimizers.known():
            watched = list(self._parameters.current().values())
            self._weights.keep(watched)
            self._states = states_of(watched)

    def summary_of(self, value: Any) -> tuple[bytes, Units | None] | None:
        OVERRIDING.appear_in((value,))
        return self._summary_of(value)

    @unintercepted
    def _summary_of(self, value: Any) -> tuple[bytes, Units | None] | None:
        tensor = (
            value if isinstance(value, torch.Tensor) else torch.as_tensor(np.asarray(value), device="cpu")
        )
        readable = None if is_functorch_wrapped(tensor) else self._reader.readable("a tensor", tensor)
        if readable is None:
            return None
        if not self._reader.is_on_host(readable):
            readable = readable.cpu()  # the user asked for this tensor now
        (summary,) = kernel.summarize([host_item(readable)], torch.get_num_threads())
        layout = Layout(Series(Kind.TENSOR, ""), readable, nn.Identity())
        return summary, layout.active_units(readable.data_ptr())

    def pixels_of(self, value: Any) -> Any:
        OVERRIDING.appear_in((value,))
        return self._pixels_of(value)

    @unintercepted
    def _pixels_of(self, value: Any) -> Any:
        if isinstance(value, torch.Tensor):
            return values_over(value.float() if value.is_floating_point() else value)
        return np.asarray(value)

    def memory(self) -> dict[str, float]:
        return torch_allocator(torch)

    @unintercepted
    def describe(self) -> dict[str, Any]:
        known = self._optimizers.known()
        if known:  # the optimizers of a finished run may have been collected
            self._optimizer_names = [type(optimizer).__name__ for optimizer in known]
        return {
            "framework": f"torch {torch.__version__}",
            "python": platform.python_version(),
            "models": {name: type(model).__name__ for name, model in self._models.items()},
            "optimizers": self._optimizer_names,
            "parameters": len(self._parameters),
            "layers": len(self._activations),
            "threads": torch.get_num_threads(),
            "processes": self._merging.processes,
            "in_parts": self._merging.parts,
            "not_watched": self._refusals.sentences(),
        }

    def graph(self) -> bytes | None:
        return None if self._graph.is_taken else self._take_graph()

    @unintercepted
    def _take_graph(self) -> bytes | None:
        return self._graph.take()

    def join(self, optimizer: Optimizer) -> bool:
        """Watch one more optimizer if it moves watched parameters, and return whether it does."""
        return self._optimizers.add(optimizer)

    @unintercepted
    def differentiated(self) -> None:
        """Look at the gradients now: a hand-written update may clear them before the step is known to end."""
        started = now()
        if self._settings.gradients and not self._saw_gradients:
            self._saw_gradients = True
            self._optimizers.look_at_gradients(NO_OPTIMIZER, list(self._parameters.current().values()))
        self._collector.charge(started)

    def workbench(self, stops: Stops) -> TorchWorkbench:
        """Return the debugger's workbench, which reports stops of this run to `stops`.

        The adapter closes it.
        """
        self._workbench = TorchWorkbench(
            self._models,
            self._parameters,
            self._optimizers,
            self._graph,
            stops=stops,
            collector=self._collector,
            guard=self._guard,
        )
        return self._workbench

    @unintercepted
    def close(self) -> None:
        if self._workbench is not None:
            self._workbench.close()
        for part in (
            self._probes,
            self._optimizers,
            self._calls,
            self._backward,
            self._activations,
            self._graph,
            self._parameters,
        ):
            part.close()

    @property
    def is_in_forward(self) -> bool:
        """Whether a forward pass has begun and not ended."""
        return self._phases.is_in_forward

    # ---- parts -------------------------------------------------------------------------------------------

    def _make_weights(self) -> Weights | None:
        if not (self._settings.weights or self._settings.updates):
            return None
        return Weights(
            self._collector,
            self._reader,
            self._refusals.refuse,
            weights=self._settings.weights,
            updates=self._settings.updates,
            most_bytes=copies_limit(),
        )

    def _look_without_optimizer(self) -> None:
        """Look at a step in which no torch optimizer has stepped, but which may have left gradients.

        Such a step updates the weights by other means, is skipped (GradScaler found an overflow), or only
        accumulates gradients.
        """
        watched = list(self._parameters.current().values())
        if not (self._saw_gradients or self._has_trained(watched)):
            return
        if not self._optimizers.known():
            self._optimizers.stepped = True
            if self._settings.gradients and not self._saw_gradients:
                self._optimizers.look_at_gradients(NO_OPTIMIZER, watched)
            if self._weights is not None:
                self._weights.count_step()
                if self._collector.sampling and self._has_moved(watched):
                    self._weights.look(watched)
            return
        gradients = [each.tensor.grad for each in watched if each.tensor.grad is not None]
        is_wanted = self._collector.wants_norm or self._collector.sampling
        if gradients and self._settings.gradients and is_wanted:
            squares = self._reader.squares(gradients, SKIPPED)
            if squares is not None:
                self._collector.scalars[NONFINITE_GRADIENTS] = float(squares[1])
                if squares[1] and self._collector.sampling:
                    self._optimizers.sample_gradients(SKIPPED, watched)  # shows which parameters

    def _has_moved(self, watched: Sequence[WatchedParameter]) -> bool:
        """Return whether weights have moved in this sampled step; True if that cannot be known.

        Batches that are accumulated before the first step of an optimizer are no updates.
        """
        states = states_of(watched)
        return self._states is None or None in states or states != self._states

    def _has_trained(self, watched: Sequence[WatchedParameter]) -> bool:
        """Return whether this step has trained. Calls of a compiled model cannot be seen; gradients can."""
        if self._phases.sees_calls:
            return self._phases.saw_forward
        return any(each.tensor.grad is not None for each in watched)

    def _put_scalar(self, name: str, value: Any) -> None:
        """Record a number or a one-element tensor; of several values, the mean. Never wait for a device."""
        if value is None:
            return
        try:
            if type(value) is torch.Tensor or isinstance(value, torch.Tensor):
                self._put_tensor(name, value)
            else:
                self._collector.scalars[name] = float(value if np.ndim(value) == 0 else np.mean(value))
        except (TypeError, ValueError, RuntimeError) as error:
            self._refusals.refuse(name, f"a {type(value).__name__} is not a number ({error})")

    def _put_tensor(self, name: str, given: torch.Tensor) -> None:
        if type(given) is torch.Tensor and given.numel() == 1 and self._reader.is_on_host(given):
            self._collector.scalars[name] = float(given.item())
            return
        value = self._reader.readable(name, given)
        if value is None:
            return
        # float(), because torch refuses the mean of integers.
        value = value.detach() if value.numel() == 1 else value.detach().float().mean()
        if self._reader.is_on_host(value):
            self._collector.scalars[name] = float(value)
            return
        self._reader.uses_device = True
        self._collector.awaited.add(name)
        refusal = self._reader.device.scalar(value, (self._collector.step, name))
        if refusal is not None:
            self._refusals.refuse(name, f"it {refusal.reason}")

    def _follow_growth(self) -> None:
        """Put hooks on layers that were added since the last step."""
        watched = self._parameters.current().values()
        if self._generation != self._parameters.changes:
            self._generation = self._parameters.changes
            self._merging.follow(watched)
            if self._settings.activations:
                self._activations.find()

    def _explain_compiled(self) -> None:
        """Report modules whose inside cannot be watched because they are compiled.

        Called again at the end of the first step, for models that were compiled in place or after watching
        began.
        """
        if not self._settings.activations:
            return
        for prefix, model in self._models.items():
            for name, module in model.named_modules():
                if isinstance(module, OptimizedModule) or module._compiled_call_impl is not None:
                    full = "/".join(part for part in (prefix, clean(name, WRAPPERS)) if part) or "the model"
                    self._refusals.refuse(f"the inside of {full}", COMPILED)
        # A model that is called from a compiled function bears no mark; only its layers are never called.
        if self._optimizers.stepped and len(self._activations) and not self._activations.were_called:
            self._refusals.refuse("the inside of the model", UNSEEN)


def adapter_of(models: dict[str, nn.Module], optimizer: Any) -> MakeAdapter:
    """Return a factory for an adapter of one optimizer, of several in a list or by name, or of None.

    Raise TypeError for anything that is no torch optimizer.
    """
    OVERRIDING.look()
    optimizers = [unwrapped(each) for each in listed(optimizer)]
    for each in optimizers:
        if not isinstance(each, Optimizer):
            raise TypeError(
                f"optimizer is a {type(each).__name__}, not a torch.optim.Optimizer; leave it out, and "
                "gradients and updates are read at the end of each step"
            )
    return lambda collector, guard, settings: TorchAdapter(models, optimizers, collector, guard, settings)


def unwrapped(optimizer: Any) -> Any:
    """Return the real optimizer inside a wrapper that only poses as a torch Optimizer, as Accelerate's."""
    while isinstance(optimizer, Optimizer) and not hasattr(optimizer, "_optimizer_step_pre_hooks"):
        optimizer = getattr(optimizer, "optimizer", None)
    return optimizer


def states_of(watched: Sequence[WatchedParameter]) -> list[tuple[int, bytes] | None]:
    """Return values that change with those of the parameters."""
    return [state_of(each.tensor) for each in watched]
