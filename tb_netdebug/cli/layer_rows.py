"""The layers of a network as rows of a table, ordered by how much they need attention.

Used by `netdebug watch`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tb_netdebug.core.records.step import Kind

if TYPE_CHECKING:
    from tb_netdebug.cli.watched_source import WatchedRun

# The usual ratio of update to weight in networks that learn well; a ratio decades away from it is a bad sign.
GOOD_RATIO = 1e-3
# A layer without any update counts as this many decades away.
MOST_DECADES = 12.0
# Count inactive units only above this share: in a healthy ReLU layer, many are inactive at any one time.
MANY_INACTIVE = 0.5


@dataclass(slots=True)
class LayerRow:
    """The norms over all parameters of a layer; NaN for what it does not have or what was not sampled."""

    name: str
    step: int = -1
    weight: float = math.nan
    gradient: float = math.nan
    update: float = math.nan
    inactive: float = math.nan
    nonfinite: set[str] = field(default_factory=set)  # the kinds of tensors that had NaN or Inf

    @property
    def ratio(self) -> float:
        """The norm of the update divided by the norm of the weights."""
        return self.update / self.weight if self.weight > 0 else math.nan

    @property
    def concern(self) -> float:
        """The sort key: non-finite values first, then unusual updates or many inactive units."""
        if self.nonfinite:
            return 2 * MOST_DECADES
        decades = 0.0
        if not math.isnan(self.ratio):
            decades = abs(math.log10(self.ratio / GOOD_RATIO)) if self.ratio > 0 else MOST_DECADES
        inactive = 0.0 if math.isnan(self.inactive) else max(self.inactive - MANY_INACTIVE, 0.0)
        # A layer with nothing but inactive units counts as much as one without any update.
        return min(max(decades, 2 * MOST_DECADES * inactive), MOST_DECADES)


def worst_first(run: WatchedRun) -> list[LayerRow]:
    """Return the layers, each with the last sample of each of its tensors, in order of concern."""
    found: dict[str, LayerRow] = {}
    for kind in (Kind.WEIGHT, Kind.GRADIENT, Kind.UPDATE, Kind.ACTIVATION):
        view = run.statistics_at(kind)
        for row, name in enumerate(view.names):
            layer = layer_of(found, kind, name)
            layer.step = max(layer.step, int(view.steps[row]))
            add(layer, kind, {key: float(column[row]) for key, column in view.statistics.items()})
    shown = [layer for layer in found.values() if says_something(layer)]
    return sorted(shown, key=lambda layer: -layer.concern)  # stable: equals keep the order of execution


def layer_of(found: dict[str, LayerRow], kind: Kind, name: str) -> LayerRow:
    """Return the row of the layer that a tensor belongs to, creating it if needed.

    An activation has the name of its layer; a parameter has it as a prefix.
    """
    layer = name if kind is Kind.ACTIVATION else name.rpartition(".")[0] or name
    return found.setdefault(layer, LayerRow(layer))


def add(layer: LayerRow, kind: Kind, statistics: Mapping[str, float]) -> None:
    """Add the statistics of one tensor to its layer."""
    label = kind.name.lower()
    if statistics["nonfinite"] > 0:
        layer.nonfinite.add(label)
    if kind is Kind.ACTIVATION:
        layer.inactive = statistics["inactive_units"]
        return
    norm = statistics["norm"]
    if not math.isnan(norm):
        before = getattr(layer, label)
        # The norm over several parameters is the root of the sum of their squares.
        setattr(layer, label, norm if math.isnan(before) else math.hypot(before, norm))


def says_something(layer: LayerRow) -> bool:
    """Return whether a layer has more to show than that all its units are active."""
    has_norms = not (math.isnan(layer.weight) and math.isnan(layer.gradient))
    return has_norms or bool(layer.nonfinite) or layer.inactive > 0
