"""The probes: they look at more than tensors and times, so that the checks can give reasons."""

from __future__ import annotations

from typing import Any, Protocol

from tb_netdebug.frameworks.torch.batches.probe import BatchProbe
from tb_netdebug.frameworks.torch.coverage.probe import CoverageProbe
from tb_netdebug.frameworks.torch.losses.clipping import ClippingProbe
from tb_netdebug.frameworks.torch.losses.probe import LossProbe
from tb_netdebug.frameworks.torch.modes.probe import ModeProbe
from tb_netdebug.frameworks.torch.numerics.probe import NumericsProbe
from tb_netdebug.frameworks.torch.probe import ProbeContext
from tb_netdebug.frameworks.torch.ranks.probe import RanksProbe


class Probe(Protocol):
    """An observer made when watching begins; its hooks put scalars, samples and facts into the collector.

    In ordinary steps (`collector.probing` is False) a probe costs next to nothing.
    """

    def __init__(self, context: ProbeContext) -> None: ...

    def end_step(self) -> None:
        """Record what is known only now that the step is about to be finished."""

    def close(self) -> None:
        """Remove all that the probe has installed."""


PROBES: tuple[type[Probe], ...] = (
    LossProbe,
    BatchProbe,
    ModeProbe,
    CoverageProbe,
    NumericsProbe,
    ClippingProbe,
    RanksProbe,
)


class Probes:
    """All probes. One that cannot be made, or fails, is reported once and does not disturb the others."""

    def __init__(self, context: ProbeContext) -> None:
        self._guard = context.guard
        self._probes: list[Probe] = []
        for kind in PROBES:
            try:
                self._probes.append(kind(context))
            except Exception as error:
                self._guard.fault(f"setting up {kind.__name__}", error)
        self._told = [each.told_loss for each in self._probes if isinstance(each, NumericsProbe)]

    def told_loss(self, loss: Any) -> None:
        """Pass on the loss that the user has reported. Called before `end_step`."""
        for tell in self._told:
            try:
                tell(loss)
            except Exception as error:
                self._guard.fault("looking at the loss", error)

    def end_step(self) -> None:
        for probe in self._probes:
            try:
                probe.end_step()
            except Exception as error:
                self._guard.fault(f"ending a step of {type(probe).__name__}", error)

    def close(self) -> None:
        for probe in self._probes:
            probe.close()
