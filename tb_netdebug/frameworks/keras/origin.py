"""Find the layer that produced the first non-finite value."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from tb_netdebug.core.records.facts import NonfiniteFact
from tb_netdebug.core.records.scalar_names import LOSS, NONFINITE_GRADIENTS
from tb_netdebug.frameworks.keras.operations import Counts, word_of
from tb_netdebug.frameworks.keras.values import Array, array_of, is_float
from tb_netdebug.recording.collector import StepCollector

if TYPE_CHECKING:
    from tb_netdebug.frameworks.keras.tap import LayerCall, StepTap
    from tb_netdebug.frameworks.keras.traced import Shown

MOST_TELLINGS = 4

FINE: Counts = (0, 0, 0)
WHICH_OPERATION = 'no operation was followed; check_numerics="ops" names it'
BETWEEN = (
    "its inputs held such values already, and no layer before it produced any: they come from code between "
    "layers"
)
NOT_LOOKED_AT = "the first layer seen with it is {} ({}), whose inputs were not checked"
NO_LAYER = "the layers were not checked in this step; every=1 checks them in every step"
BACKWARD = 'the backward pass was not followed; check_numerics="ops" follows it'

# In the order in which the layers were done.
Outputs = list[tuple["LayerCall", Counts]]
Gradients = Sequence[tuple[Any, int]]


class KerasOrigin:
    """Emits the fact `first-nonfinite` at the first step with a non-finite value after a step without one."""

    def __init__(self, collector: StepCollector) -> None:
        self._collector = collector
        self._told = 0
        self._last_told = -2

    def look(
        self,
        tap: StepTap,
        shown: Shown,
        outputs: Outputs,
        gradients: Gradients,
        scalars: Mapping[str, float],
        before: Callable[[Any], Array | None],
    ) -> None:
        """Emit the fact if this step is the first bad one.

        `outputs` and `gradients` carry their counts of non-finite values. An output whose only non-finite
        values are -infinity is not bad: scores are masked that way. `before` returns a weight as it was
        before the step, or None if no copy was kept.
        """
        is_loss_bad = not np.isfinite(scalars.get(LOSS, 0.0))
        is_bad = is_loss_bad or scalars.get(NONFINITE_GRADIENTS) or any(map(is_wrong, outputs))
        step = self._collector.step
        if not is_bad:
            return
        if self._last_told in (step - 1, step):  # still the same incident
            self._last_told = step
            return
        if self._told >= MOST_TELLINGS:
            return
        fact = of_state(tap, shown, before)
        following = getattr(tap, "following", None)
        if fact is None and following is not None:
            followed = following.blamed(tap, known_of(tap, shown, outputs, gradients, scalars))
            fact = None if followed is None else followed.as_fact()
        if fact is None:
            entries = shown.get("entries", [])
            fact = of_layers(tap, outputs, gradients, entries, is_loss_bad=is_loss_bad)
        if fact is not None:
            is_known = (following is not None and following.sees_all) or all(
                before(each) is not None for each in tap.network.weights.values()
            )
            self._told += 1
            self._last_told = step
            self._collector.fact(replace(fact, parameters_known=is_known))


def known_of(
    tap: StepTap, shown: Shown, outputs: Outputs, gradients: Gradients, scalars: Mapping[str, float]
) -> dict[int, Counts]:
    """Return the non-finite counts of the graph tensors that were read in this run, by tensor id."""
    known = {id(each): FINE for name in ("inputs", "labels") for each in tap.shown.get(name, [])}
    if LOSS in scalars:
        loss = np.float64(scalars[LOSS])
        counts = int(np.isneginf(loss)), int(np.isposinf(loss)), int(np.isnan(loss))
        known |= {id(each): counts for each in tap.shown.get("loss", [])}
    known |= zip(map(id, tap.shown.get("activations", [])), (counts for _, counts in outputs), strict=False)
    if gradients:
        known |= zip(
            map(id, tap.shown.get("gradients", [])), ((0, 0, bad) for _, bad in gradients), strict=False
        )
    return known


def of_state(tap: StepTap, shown: Shown, before: Callable[[Any], Array | None]) -> NonfiniteFact | None:
    """Return the fact for values that were bad before the step: its batch, or weights that were kept."""
    for name, part in (("input", "inputs"), ("label", "labels")):
        for number, tensor in enumerate(shown.get(part, [])):
            if is_float(tensor) and not is_finite(tensor):
                kind = kind_of(array_of(tensor))
                return fact_of(f"{name}/{number}", "", "input", kind, inputs_finite=False)
    for watched in tap.network.weights.values():
        values = before(watched)
        if values is not None and not np.isfinite(values).all():
            return fact_of(watched.name, "", "parameter", kind_of(values), parameters_finite=False)
    return None


def of_layers(
    tap: StepTap, outputs: Outputs, gradients: Gradients, entries: Sequence[bool | None], *, is_loss_bad: bool
) -> NonfiniteFact | None:
    """Return the fact that the layers alone support, used where no operations were followed."""
    unfollowed = getattr(tap, "unfollowed", "")
    bad = [each for each in outputs if is_wrong(each)]
    if is_loss_bad and not bad:
        # If the loss is bad and nothing else is, an output of -infinity is a suspect after all.
        bad = [each for each in outputs if any(each[1])]
    if bad:
        call, counts = bad[0]
        name, kind = call.layer.name, type(call.layer.layer).__name__
        inputs_finite = has_finite_inputs(call, outputs)
        if inputs_finite is None:  # None: the inputs of this call could not be inspected
            entry = dict(zip(map(id, tap.calls), entries, strict=False)).get(id(call))
            inputs_finite = None if entry is None else bool(entry)
        if inputs_finite is None:
            return fact_of("", "", "unknown", word_of(counts), why_not=NOT_LOOKED_AT.format(name, kind))
        why_not = (unfollowed or WHICH_OPERATION) if inputs_finite else BETWEEN
        return fact_of(name, kind, "output", word_of(counts), inputs_finite=inputs_finite, why_not=why_not)
    if is_loss_bad and not outputs:
        return fact_of("", "", "unknown", "NaN", why_not=NO_LAYER)
    if is_loss_bad:
        loss = tap.losses[0].loss if tap.losses else None
        name = type(loss).__name__ if loss is not None else ""
        return fact_of("loss", name, "loss", "NaN", why_not=unfollowed or WHICH_OPERATION)
    for watched, count in reversed(gradients):  # the backward pass runs from the last layer to the first
        if count:
            return fact_of(watched.name, "", "gradient", "NaN", why_not=unfollowed or BACKWARD)
    return None


def has_finite_inputs(call: LayerCall, outputs: Outputs) -> bool | None:
    """Return whether all inputs of a call were finite; None if they were not kept or have no values.

    Sampling a compiled step yields outputs only.
    """
    known = {id(tensor): counts for each, counts in outputs for _, tensor in each.outputs}
    inputs = [tensor for _, tensor in call.inputs if is_float(tensor) and not hasattr(tensor, "graph")]
    if not inputs:
        return None
    try:
        return not any(
            any(known[id(each)][1:]) if id(each) in known else not is_finite(each) for each in inputs
        )
    except TypeError:
        return None


def is_finite(tensor: Any) -> bool:
    return bool(np.isfinite(array_of(tensor).astype(np.float64)).all())


def fact_of(
    where: str,
    class_name: str,
    what: str,
    kind: str,
    *,
    inputs_finite: bool = True,
    parameters_finite: bool = True,
    why_not: str = "",
) -> NonfiniteFact:
    return NonfiniteFact(
        where=where,
        class_name=class_name,
        what=what,
        inputs_finite=inputs_finite,
        parameters_finite=parameters_finite,
        kind=kind,
        why_not=why_not,
    )


def is_wrong(output: tuple[LayerCall, Counts]) -> bool:
    _, positive, nan = output[1]
    return bool(positive or nan)


def kind_of(values: Array) -> str:
    return word_of((0, int(np.isposinf(values).any()), int(np.isnan(values).any())))
