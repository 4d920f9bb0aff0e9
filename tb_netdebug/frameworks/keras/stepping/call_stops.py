"""Stop at layer calls, at backward and at optimizer steps, and keep the tensors that the calls show."""

from __future__ import annotations

from threading import get_ident
from typing import Any

from tb_netdebug.checks.finding_error import FindingError
from tb_netdebug.debugger.place import AFTER, BACKWARD, BEFORE, FORWARD, OPTIMIZER, Place
from tb_netdebug.debugger.workbench import NOTHING, Needs, Stops
from tb_netdebug.frameworks.keras.calls import leave, listen
from tb_netdebug.frameworks.keras.layers import WHOLE, KerasLayer, Network
from tb_netdebug.frameworks.keras.stepping.source import TensorSource
from tb_netdebug.frameworks.keras.stepping.visible_tensors import VisibleTensors
from tb_netdebug.recording.guard import Guard


class CallStops:
    """Listens to Keras's calls while anything is needed (see `calls.CallListener`).

    It handles only the eager calls of the training thread. It reports nothing inside a layer that loops, such
    as the cell of an LSTM.
    """

    def __init__(
        self, network: Network, source: TensorSource, reach: VisibleTensors, stops: Stops, guard: Guard
    ) -> None:
        self._network = network
        self._source = source
        self._reach = reach
        self._stops = stops
        self._guard = guard
        self._roots = {id(model): prefix for prefix, model in network.models.items()}
        self._needs = NOTHING
        self._visiting = False
        self._applying = 0
        self._losses = 0
        self.has_applied = False
        self.order: dict[int, int] = {}
        self.thread = get_ident()

    def need(self, needs: Needs) -> None:
        if self._needs == NOTHING and needs != NOTHING:
            listen(self)
            self._source.follow_backward(self._begins_backward)
        elif self._needs != NOTHING and needs == NOTHING:
            leave(self)
            self._source.follow_backward(None)
        self._needs = needs
        self.thread = get_ident()

    def end_batch(self) -> None:
        self._losses = self._applying = 0
        self.has_applied = False
        self.thread = get_ident()

    # ---- Keras's calls -----------------------------------------------------------------------------------

    def entered(self, layer: Any, args: Any, kwargs: Any) -> None:
        if not self._is_told_of((args, kwargs)):
            return
        prefix = self._roots.get(id(layer))
        if prefix is not None:
            self._put_batch(prefix, args, kwargs)
            self._visit_phase(FORWARD, layer, BEFORE)
        known = self._layer_of(layer)
        if known is not None:
            self.order.setdefault(id(layer), len(self.order))
            given = [each for each in (*args, *kwargs.values()) if any(self._source.tensors_in(each))]
            self._put("input", known.name, given[0] if len(given) == 1 else given, module=known.name)
            if self._needs.layers:
                self._visit(Place(FORWARD, known.name, type(layer).__name__, BEFORE))

    def left(self, layer: Any, args: Any, kwargs: Any, output: Any) -> None:
        if not self._is_told_of(output):
            return
        known = self._layer_of(layer)
        if known is not None:
            self._put("output", known.name, output, module=known.name)
            if self._needs.layers:
                self._visit(Place(FORWARD, known.name, type(layer).__name__, AFTER))
        if id(layer) in self._roots:
            self._visit_phase(FORWARD, layer, AFTER)

    def lost(self, loss: Any, target: Any, given: Any, output: Any) -> None:
        if self._is_told_of(output):
            number, self._losses = self._losses, self._losses + 1
            self._put("label", str(number), target)
            self._put("loss", str(number), output)

    def descends(self, target: Any, sources: Any) -> None:
        if self._is_told_of(target, on_tape=False):
            self._begins_backward()

    def applies(self, optimizer: Any, gradients: Any, variables: Any) -> None:
        if not self._is_told_of(gradients, on_tape=False):
            return
        if variables is None:
            variables = getattr(optimizer, "_trainable_variables", [])
        # The optimizer inside a loss-scaling one is called second, with unscaled gradients, which then
        # replace these.
        for variable, gradient in zip(variables, gradients, strict=False):
            watched = self._network.weight_of(variable)
            if watched is not None and gradient is not None:
                self._put("gradient", watched.name, gradient, module=watched.name.rpartition(".")[0] or None)
        self._applying += 1
        if self._applying == 1:
            self._visit_phase(OPTIMIZER, optimizer, BEFORE)
            self.has_applied = True

    def applied(self, optimizer: Any, variables: Any) -> None:
        if self._applying and get_ident() == self.thread:
            self._applying -= 1
            if not self._applying and self._stops.is_alert:
                self._visit_phase(OPTIMIZER, optimizer, AFTER)

    def _begins_backward(self) -> None:
        if self._is_here():
            self._visit_phase(BACKWARD, None, BEFORE)

    # ---- parts -------------------------------------------------------------------------------------------

    def _is_here(self) -> bool:
        return (
            self._stops.is_alert
            and not self._visiting
            and get_ident() == self.thread
            and not self._guard.is_off
        )

    def _is_told_of(self, value: Any, *, on_tape: bool = True) -> bool:
        """Return whether a call is reported; not when Keras infers shapes by calls without values."""
        if not self._is_here() or (on_tape and not self._source.is_training()):
            return False
        return any(True for _ in self._source.tensors_in(value))

    def _layer_of(self, layer: Any) -> KerasLayer | None:
        known = self._network.layers.get(id(layer))
        if known is None or (known.parent is not None and isinstance(known.parent.layer, WHOLE)):
            return None
        return known

    def _put_batch(self, prefix: str, args: Any, kwargs: Any) -> None:
        given = {str(number): each for number, each in enumerate(args)} | kwargs
        for name, value in given.items():
            self._put("batch", f"{prefix}/{name}" if prefix else name, value)

    def _put(self, kind: str, of: str, value: Any, *, module: str | None = None) -> None:
        try:
            self._reach.put(kind, of, value, module=module)
        except Exception as error:
            self._guard.fault(f"looking at {kind}:{of}", error)

    def _visit_phase(self, phase: str, who: Any, edge: str) -> None:
        if self._needs.phases:
            self._visit(Place(phase, class_name=None if who is None else type(who).__name__, edge=edge))

    def _visit(self, place: Place) -> None:
        """Let the session stop here; what it raises on purpose goes on into the training."""
        self._visiting = True
        try:
            self._stops.visit(place)
        except FindingError:
            raise
        except Exception as error:
            self._guard.fault("stopping the training", error)
        finally:
            self._visiting = False
