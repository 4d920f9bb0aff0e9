"""The debugger's access to a torch run (see `debugger.workbench.Workbench`)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from threading import get_ident
from typing import Any

from torch import Tensor, nn

from tb_netdebug.core.records.scalar_names import LOSS, OWN
from tb_netdebug.core.stats.packed import Summary
from tb_netdebug.debugger.workbench import NOTHING, Needs, Readable, Stops, TensorEntry
from tb_netdebug.frameworks.torch.graph import GraphTracer, code_of
from tb_netdebug.frameworks.torch.optimizers import OptimizerHooks
from tb_netdebug.frameworks.torch.parameters import Parameters
from tb_netdebug.frameworks.torch.stepping import rates
from tb_netdebug.frameworks.torch.stepping.backward_stops import BackwardBegins, BackwardStops
from tb_netdebug.frameworks.torch.stepping.history import ValueHistory
from tb_netdebug.frameworks.torch.stepping.kept import KeptTensors
from tb_netdebug.frameworks.torch.stepping.layer_stops import LayerStops
from tb_netdebug.frameworks.torch.stepping.layers import COMPILED, SteppedLayer, SteppedLayers
from tb_netdebug.frameworks.torch.stepping.losses import Losses
from tb_netdebug.frameworks.torch.stepping.op_stops import OpStops
from tb_netdebug.frameworks.torch.stepping.optimizer_stops import OptimizerStops
from tb_netdebug.frameworks.torch.stepping.phase_stops import PhaseStops, given_by_name
from tb_netdebug.frameworks.torch.stepping.previous import PreviousValues
from tb_netdebug.frameworks.torch.stepping.quiet import reading
from tb_netdebug.frameworks.torch.stepping.spans import Spans
from tb_netdebug.frameworks.torch.stepping.summaries import changes_of, summaries_of
from tb_netdebug.frameworks.torch.stepping.tensors import ReachableTensors
from tb_netdebug.frameworks.torch.stepping.visits import Visits
from tb_netdebug.frameworks.torch.values import tensors_in
from tb_netdebug.recording.collector import StepCollector
from tb_netdebug.recording.guard import Guard


class TorchWorkbench:
    """The workbench for torch. It registers only the hooks that the session needs, and none before that."""

    def __init__(
        self,
        models: Mapping[str, nn.Module],
        parameters: Parameters,
        optimizers: OptimizerHooks,
        graph: GraphTracer,
        *,
        stops: Stops,
        collector: StepCollector,
        guard: Guard,
    ) -> None:
        self._guard = guard
        self._collector = collector
        self._optimizers = optimizers
        self._graph = graph
        self._needs = NOTHING
        self._layers = SteppedLayers(models, parameters)
        self._kept = KeptTensors()
        self._previous = PreviousValues()
        self._tensors = ReachableTensors(self._layers, self._kept, self._previous, optimizers.known)
        self._history = ValueHistory(self._layers, self._tensors, self._previous, optimizers)
        self._spans = Spans(self._layers)
        # The two need each other, so the visits are looked up when an operation is reported.
        self._ops = OpStops(self._layers, self._spans, lambda: self._visits)
        self._visits = Visits(stops, guard, self._ops.settle)
        self._losses = Losses(self._visits, self._kept)
        self._backward = BackwardStops(self._layers, self._visits, self._kept)
        self._begins = BackwardBegins(self._visits, begin=self._begin_backward, end=self._end_backward)
        self._steps = OptimizerStops(self._layers, self._visits, settle=self._settle)
        self._phases = PhaseStops(
            models, self._visits, begin=self._begin_forward, settle=self._settle, leave=self._ops.settle
        )
        self._calls = LayerStops(
            self._layers,
            self._visits,
            self._kept,
            is_in_training_call=lambda: self._phases.is_in_training_call,
            goes_in=self._spans.enter,
            came_out=self._came_out,
        )

    # ---- stops -------------------------------------------------------------------------------------------

    @property
    def can(self) -> tuple[str, ...]:
        layers = self._layers.all()
        has_open = any(layer.obstacle is None for layer in layers)
        is_compiled = any(layer.obstacle == COMPILED for layer in layers)
        return (
            "batch",
            *(("layer", "backward") if has_open else ()),
            "optimizer",
            *(() if is_compiled else ("op",)),
        )

    @property
    def cannot(self) -> list[str]:
        """The obstacles: one sentence per part of a model, not per layer."""
        shut = {layer.name: layer for layer in self._layers.all() if layer.obstacle is not None}
        return [f"{layer.name}: {layer.obstacle}." for layer in shut.values() if layer.parent not in shut]

    def need(self, needs: Needs) -> None:
        self._note_thread()
        if needs == self._needs:
            return
        self._needs = needs
        self._kept.keep(needs.keep)
        self._history.want(needs.previous)
        self._put_on()
        self._settle()

    def end_batch(self) -> None:
        self._note_thread()
        try:
            self._history.end_batch()
        except Exception as error:
            self._guard.fault("keeping the values of a batch", error)
        for part in (self._phases, self._losses, self._backward, self._ops):
            part.end_batch()
        self._kept.clear()
        self._spans.clear()
        self._settle()

    def close(self) -> None:
        self.need(NOTHING)
        self._ops.end_batch()
        self._settle()
        self._phases.take_off()

    def _put_on(self) -> None:
        """Put on the hooks that the needs ask for, and take off the rest."""
        needs = self._needs
        self._phases.tells = self._begins.tells = self._steps.tells = needs.phases
        self._calls.tells = needs.layers
        self._ops.want(needs.ops and "op" in self.can)
        any_of_it = any((needs.phases, needs.layers, needs.backward, needs.ops, needs.keep))
        if not any_of_it:
            self._kept.clear()
            self._spans.clear()
        for part, is_needed in (
            (self._phases, any_of_it or self._ops.is_put),
            (self._calls, needs.layers or needs.backward or needs.ops or needs.keep),
            (self._backward, needs.backward),
            (self._begins, needs.phases or needs.backward or needs.ops or needs.keep),
            (self._steps, needs.phases or needs.ops),
            (self._losses, needs.keep),
        ):
            part.put_on() if is_needed else part.take_off()

    def _settle(self) -> None:
        """Settle the operation mode; take off the last hooks once it has gone.

        The mode cannot be removed from within an operation, so the phase hooks wait for it.
        """
        had_mode = self._ops.is_put
        self._ops.settle()
        if had_mode and not self._ops.is_put and self._needs == NOTHING:
            self._phases.take_off()

    def _note_thread(self) -> None:
        if not self._visits.is_paused:  # while paused, the thread may be one of autograd's
            self._visits.thread = get_ident()

    def _begin_forward(self, prefix: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        if self._layers.look():
            self._put_on()
        for name, value in given_by_name(prefix, args, kwargs).items():
            for place, tensor in tensors_in(value, name):
                self._kept.put("batch", place, tensor)

    def _came_out(self, layer: SteppedLayer, output: Any) -> None:
        self._spans.leave(layer)
        self._backward.came_out(layer, output)

    def _begin_backward(self, roots: Any) -> None:
        self._settle()
        self._losses.differentiated(roots)
        self._backward.begin()

    def _end_backward(self) -> None:
        self._ops.end_batch()
        self._backward.end()
        self._settle()

    # ---- tensors -----------------------------------------------------------------------------------------

    def keep_user(self, name: str, value: Any) -> None:
        if self._needs.keep and isinstance(value, Tensor):
            self._kept.put("user", name, value)

    def entries(self, kind: str | None = None) -> Iterator[TensorEntry]:
        return (found.entry() for found in self._tensors.all(kind))

    def tensor(self, name: str) -> Readable:
        return self._tensors.readable(name)

    def summaries(self, names: Sequence[str]) -> Mapping[str, Summary]:
        """Return summaries of these tensors, mostly without bins."""
        return summaries_of(self._tensors, names)

    def changes(self, names: Sequence[str]) -> Mapping[str, float]:
        return changes_of(self._tensors, self._previous, names)

    # ---- what else is known ------------------------------------------------------------------------------

    def modules(self) -> list[dict[str, Any]]:
        return [self._described(layer) for layer in self._layers.all()]

    def _described(self, layer: SteppedLayer) -> dict[str, Any]:
        code = code_of(layer.module)
        return {
            "name": layer.name,
            "class_name": layer.class_name,
            "parent": layer.parent,
            "parameters": layer.size(),
            "file": None if code is None else absolute(code.co_filename),
            "line": 0 if code is None else code.co_firstlineno,
            "order": self._graph.order_of(layer.module),
        }

    def scalars(self) -> Mapping[str, float]:
        """Return the values that the user passed to `step`, under the user's names, and "loss"."""
        known = self._collector.scalars
        found = {
            name.removeprefix(OWN): float(value)
            for name, value in known.items()
            if name == LOSS or name.startswith(OWN)
        }
        if "loss" not in found and (loss := self._present_loss()) is not None:
            found["loss"] = loss
        return found

    def _present_loss(self) -> float | None:
        """Return the newest loss, before the step is reported."""
        losses = [found.tensor for found in self._tensors.all("loss") if found.tensor.numel() == 1]
        if not losses or not losses[-1].is_cpu:
            return None
        with reading():
            return float(losses[-1])

    def learning_rates(self) -> list[dict[str, Any]]:
        return rates.learning_rates(self._optimizers.known(), may_wait=self._visits.is_paused)

    def set_learning_rate(self, optimizer: int, group: int | None, value: float) -> None:
        """Set a learning rate, which a scheduler may overwrite at its next step."""
        rates.set_learning_rate(self._optimizers.known(), optimizer, group, value)


def absolute(file: str) -> str:
    """Return the absolute path; generated code keeps its name, such as "<stdin>"."""
    return file if file.startswith("<") else str(Path(file).absolute())
