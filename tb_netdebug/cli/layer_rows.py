"""The layers of a network as rows of a table, those first that are most worth a look."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tb_netdebug.core.records.step import Kind

if TYPE_CHECKING:
    from tb_netdebug.cli.watched_source import WatchedRun

# An update of a thousandth of the weight is what networks learn well with; decades away is a bad sign.
GOOD_RATIO = 1e-3
# No update at all counts as so many decades away.
MOST_DECADES = 12.0
# Only more inactive units than this are worth a look: in a healthy ReLU layer many are inactive at a time.
MANY_INACTIVE = 0.5


@dataclass(slots=True)
class LayerRow:
    """Norms over all parameters of a layer; NaN where there is no such thing, or it was not sampled."""

    name: str
    step: int = -1
    weight: float = math.nan
    gradient: float = math.nan
    update: float = math.nan
    inactive: float = math.nan
    nonfinite: set[str] = field(default_factory=set)  # of what kinds there were NaN or Inf

    @property
    def ratio(self) -> float:
        """How far the weights move in a step, as a share of themselves."""
        return self.update / self.weight if self.weight > 0 else math.nan

    @property
    def concern(self) -> float:
        """What puts it before others: values that are not finite, then updates far from the usual size."""
        if self.nonfinite:
            return 2 * MOST_DECADES
        decades = 0.0
        if not math.isnan(self.ratio):
            decades = abs(math.log10(self.ratio / GOOD_RATIO)) if self.ratio > 0 else MOST_DECADES
        inactive = 0.0 if math.isnan(self.inactive) else max(self.inactive - MANY_INACTIVE, 0.0)
        return min(max(decades, 2 * MOST_DECADES * inactive), MOST_DECADES)


def worst_first(run: WatchedRun) -> list[LayerRow]:
    """The layers as the last sample of each of their tensors shows them."""
    found: dict[str, LayerRow] = {}
    for kind in (Kind.WEIGHT, Kind.GRADIENT, Kind.UPDATE, Kind.ACTIVATION):
        view = run.statistics_at(kind)
        for row, name in enumerate(view.names):
            layer = layer_of(found, kind, name)
            layer.step = max(layer.step, int(view.steps[row]))
            add(layer, kind, {key: float(column[row]) for key, column in view.statistics.items()})
    shown = [layer for layer in found.values() if says_something(layer)]
    return sorted(shown, key=lambda layer: -layer.concern)  # stable: equals stay in the order of execution


def layer_of(found: dict[str, LayerRow], kind: Kind, name: str) -> LayerRow:
    """Activations have the name of their layer; parameters have it before theirs."""
    layer = name if kind is Kind.ACTIVATION else name.rpartition(".")[0] or name
    return found.setdefault(layer, LayerRow(layer))


def add(layer: LayerRow, kind: Kind, statistics: Mapping[str, float]) -> None:
    label = kind.name.lower()
    if statistics["nonfinite"] > 0:
        layer.nonfinite.add(label)
    if kind is Kind.ACTIVATION:
        layer.inactive = statistics["inactive_units"]
        return
    norm = statistics["norm"]
    if not math.isnan(norm):
        before = getattr(layer, label)
        setattr(layer, label, norm if math.isnan(before) else math.hypot(before, norm))


def says_something(layer: LayerRow) -> bool:
    """Whether there is more to show than that all its units are active."""
    has_norms = not (math.isnan(layer.weight) and math.isnan(layer.gradient))
    return has_norms or bool(layer.nonfinite) or layer.inactive > 0
