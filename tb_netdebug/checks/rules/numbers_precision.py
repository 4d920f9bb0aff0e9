"""Rules over 16-bit numbers: values near the end of float16, gradients below it, and the loss scale."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from tb_netdebug.checks.evidence.parameters import parameters_of
from tb_netdebug.checks.finding import Evidence, Severity, Sign
from tb_netdebug.checks.history import History
from tb_netdebug.checks.rule import Rule, When
from tb_netdebug.checks.tensors import Flags, TensorTable
from tb_netdebug.checks.wording.phrases import counted, named, number, percent
from tb_netdebug.core.records.scalar_names import LOSS_SCALE, LOSS_SCALE_SKIPPED
from tb_netdebug.core.records.step import Kind
from tb_netdebug.core.stats.sketch import LOWER, UPPER

# The largest and the smallest positive number of float16.
LARGEST = 65504.0
SMALLEST = 2.0**-24
LOOKS = 3  # samples in a row with such gradients


@dataclass(frozen=True, slots=True)
class HeadroomLimits:
    used: float = 0.5  # of 65504: one more doubling and it is infinite
    lost: float = 0.5  # share of zeros in a gradient whose other values are close to the smallest float16
    near: float = 64.0  # times the smallest float16: six doublings above it


class PrecisionHeadroom(Rule):
    """Activations or gradients come close to what float16 can hold.

    float16 holds no more than 65504, which limits activations, and no less than 6e-8, which limits gradients.
    """

    slug = "precision-headroom"
    when = When.SAMPLES
    needs = ("activations",)
    limits = HeadroomLimits()

    def __init__(self) -> None:
        self._known: tuple[object, int] = (None, -1)
        self._half: Flags = np.zeros(0, bool)
        self._looks = 0

    def update(self, history: History) -> Sign | None:
        return self._high(history) or self._low(history)

    def _high(self, history: History) -> Sign | None:
        seen = history.activations
        if seen.now is None:
            return None
        half = self._halves(history, seen)
        if not half.any():
            return None
        largest = np.where(half, np.nan_to_num(seen.now.abs_max), 0.0)
        near = largest >= self.limits.used * LARGEST
        if not near.any():
            return None
        most = float(largest.max())
        return Sign(
            Severity.WARNING,
            f"The largest output of {named(seen.names[int(largest.argmax())])} is {most:.0f}. It is computed "
            f"in float16, where everything above 65504 is infinite (more than {percent(self.limits.used)} of "
            "that is too close).",
            "Use bfloat16, which holds numbers as large as float32 does: torch.autocast(device_type, "
            "dtype=torch.bfloat16). Or make the values smaller: a normalisation before this layer, smaller "
            "weights, scaled inputs.",
            {"largest value": Evidence(most, self.limits.used * LARGEST)},
            tuple(seen.names[place] for place in np.flatnonzero(near)),
            sureness=0.9,
        )

    def _low(self, history: History) -> Sign | None:
        """Judge gradients of layers that compute in float16, most of which have become zero."""
        known = parameters_of(history)
        if history.gradients.now is None or not self._any_half(history):
            return None
        rms = known.column(history, Kind.GRADIENT, "rms")
        zeros = known.column(history, Kind.GRADIENT, "zero_share")
        half = [is_half(history, name, known.dtype[place]) for place, name in enumerate(known.names)]
        tiny = np.array(half, bool) & known.matrix & (zeros >= self.limits.lost)
        tiny &= (rms > 0) & (rms < self.limits.near * SMALLEST)
        names = [name for name in known.chosen(tiny) if self._is_underflow(history, name)]
        self._looks = self._looks + 1 if names else 0
        if self._looks < LOOKS:
            return None
        worst = float(np.nanmax(zeros[tiny]))
        return Sign(
            Severity.WARNING,
            f"{percent(worst)} of the gradient of {names[0]} are zero ({percent(self.limits.lost)} is too "
            f"much), and the rest is hardly above {number(SMALLEST, 1)}, the smallest number of float16: "
            "smaller gradients are lost.",
            "Multiply the loss before backward and divide the gradients after it: torch.amp.GradScaler() "
            "does both. Or use bfloat16, which goes down to 1e-38.",
            {"share of zeros": Evidence(worst, self.limits.lost)},
            tuple(names),
            sureness=0.85,
        )

    def _is_underflow(self, history: History, name: str) -> bool:
        """Return whether half of the non-zero values are close to the smallest number of float16."""
        summary = history.gradients.summary(name)
        if summary is None or not len(summary.bins):
            return False
        edges = np.maximum(np.abs(LOWER[summary.bins]), np.abs(UPPER[summary.bins]))
        counts = summary.counts.astype(float)
        low = float(counts[(edges > 0) & (edges <= self.limits.near * SMALLEST)].sum())
        return low >= 0.5 * max(summary.finite - summary.zeros, 1)

    def _any_half(self, history: History) -> bool:
        return bool(self._halves(history, history.activations).any())

    def _halves(self, history: History, seen: TensorTable) -> Flags:
        if self._known != (history.layers, len(seen.names)):
            self._known = (history.layers, len(seen.names))
            self._half = np.array([is_half(history, name, "") for name in seen.names], bool)
        return self._half


@dataclass(frozen=True, slots=True)
class LossScaleLimits:
    share: float = 0.25  # of the last steps; a scaler that grows every 2000 steps leaves out one of them
    steps: float = 32  # how many steps back the share is taken over
    in_a_row: float = 24  # the usual first scale of 65536 is down to 1 after 16 halvings
    scale: float = 1.0  # below it the loss is made smaller, not larger: the overflow is in the network itself


class LossScaleOverflow(Rule):
    """The gradient scaler leaves out step after step, because gradients overflow at any scale."""

    slug = "loss-scale-overflow"
    when = When.STEPS
    needs = ("loss-scale",)
    limits = LossScaleLimits()

    def update(self, history: History) -> Sign | None:
        skipped, scale = history.curve(LOSS_SCALE_SKIPPED), history.curve(LOSS_SCALE)
        if skipped is None or not skipped.count or not any(skipped.tail(int(self.limits.steps))):
            return None
        values = list(skipped.values)
        row = trailing(values)
        # While the scale comes down from its first value, leaving out steps is intended.
        settled = values[leading(values) :] if skipped.count < len(values) + 1 else values
        recent = settled[-int(self.limits.steps) :]
        share = sum(recent) / len(recent) if len(recent) >= self.limits.steps / 2 else 0.0
        now = scale.last if scale is not None else math.nan
        if row and (row >= self.limits.in_a_row or now < self.limits.scale):
            return self._sign(
                Severity.ERROR, f"the last {counted(row, 'step')} in a row", share, now, skipped.steps[-row]
            )
        if share >= self.limits.share:
            since = skipped.steps[-len(recent)]
            return self._sign(
                Severity.WARNING, f"{percent(share)} of the last {len(recent)} steps", share, now, since
            )
        return None

    def _sign(self, severity: Severity, what: str, share: float, scale: float, since: int) -> Sign:
        at = "" if math.isnan(scale) else f" The scale has come down to {number(scale)}."
        return Sign(
            severity,
            f"The gradient scaler left out {what}, because gradients were infinite or NaN (more than "
            f"{percent(self.limits.share)} is too many): the weights do not change in such steps.{at}",
            "Run a few steps without autocast. If the gradients are NaN there as well, fix that first; if "
            "not, keep the layers with large values in float32, or use bfloat16, which needs no scaler.",
            {
                "share of steps left out": Evidence(share, self.limits.share),
                "scale of the loss": Evidence(scale, self.limits.scale),
            },
            since=since,
            sureness=0.95,
            refreshes=True,
        )


def leading(values: list[float]) -> int:
    """Return how many steps were left out at the start."""
    return next((place for place, value in enumerate(values) if not value), len(values))


def trailing(values: list[float]) -> int:
    return leading(values[::-1])


def is_half(history: History, name: str, dtype: str) -> bool:
    """Return whether the parameter is float16, or its layer computes in it."""
    if dtype == "float16":
        return True
    module = history.layers.module(name)
    return module is not None and any(each.dtype == "float16" for each in module.outputs)
