"""Replaces `nd.watch` in a rehearsal, where nothing is to be recorded."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from tb_netdebug.training import watch as place

if TYPE_CHECKING:
    from tb_netdebug.experiments.rehearsal.stop import StepGate


class InertMonitor:
    """Accepts every call of a Monitor. Its `step` counts as an optimizer step, so it can end the script."""

    findings: tuple[()] = ()
    path = None
    overhead = 0.0

    def __init__(self, gate: StepGate) -> None:
        self._gate = gate

    def __enter__(self) -> InertMonitor:
        return self

    def __exit__(self, *_: object) -> None:
        return None

    def __getattr__(self, name: str) -> Any:
        # Private names stay missing, so that copy and pickle do not take the lambda for their protocol.
        if name.startswith("_"):
            raise AttributeError(name)
        return lambda *_, **__: None

    def step(self, *_: Any, **__: Any) -> None:
        self._gate.reached("monitor.step")


@contextmanager
def watching_nothing(gate: StepGate) -> Iterator[None]:
    """Replace `nd.watch` within the block by a function that only notes its models and optimizers."""
    from tb_netdebug.experiments.rehearsal.stop import Subject

    def watch(model: Any, optimizer: Any = None, **_: Any) -> InertMonitor:
        models = dict(model) if isinstance(model, Mapping) else {"": model}
        several = optimizer.values() if isinstance(optimizer, Mapping) else optimizer
        optimizers = [optimizer] if not isinstance(several, list | tuple) else list(several)
        known = [each for each in optimizers if each is not None]
        gate.watched.append(Subject(models, known, is_watched=True))
        return InertMonitor(gate)

    real, place.watch = place.watch, watch  # type: ignore[assignment]  # replaced on purpose
    try:
        yield
    finally:
        place.watch = real
