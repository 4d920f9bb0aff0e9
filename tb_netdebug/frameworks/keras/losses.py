"""Report how each loss function is called, once, and measure its inputs in NumPy."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tb_netdebug.core.records.facts import LossCallFact
from tb_netdebug.core.records.scalar_names import of_loss
from tb_netdebug.frameworks.keras.loss_calls import LossSeen
from tb_netdebug.frameworks.keras.squashing import squashing
from tb_netdebug.frameworks.keras.values import Array, array_of
from tb_netdebug.recording.collector import StepCollector

Floats = NDArray[np.float64]

# Keras names of loss functions, and the names by which the checks know torch's equivalents.
SPARSE, ONE_HOT, BINARY = (
    "sparse_categorical_crossentropy",
    "categorical_crossentropy",
    "binary_crossentropy",
)
VALUES = {
    "mean_squared_error": "mse_loss",
    "mean_absolute_error": "l1_loss",
    "huber": "huber_loss",
    "poisson": "poisson_nll_loss",
}
# More rows and values than these add nothing about a batch.
MOST_ROWS = 1 << 14
MOST_VALUES = 1 << 18
LEAST_ROWS_FOR_COLUMNS = 8
LEAST_SHARE = 1e-7
ROUNDING = 1e-6
# A loss whose facts keep changing (sequences of all lengths) is reported this often, then no more.
MOST_TELLINGS = 16


class KerasLosses:
    """Emits the fact `loss-call` and the scalars `probe/loss/N/…` of the losses of a step."""

    def __init__(self, collector: StepCollector) -> None:
        self._collector = collector
        self._told: list[list[LossCallFact]] = []
        self._functions: dict[int, str] = {}
        self._squashings: dict[int, str | None] = {}

    def look(self, number: int, seen: LossSeen, given: Any, target: Any, value: Any, behind: Any) -> None:
        """Measure one loss of a step, with the values of this run."""
        scores, answers = floats_of(array_of(given)), array_of(target)
        function = self._function(number, seen, scores)
        if function == "cross_entropy" and not seen.with_logits:
            # Logarithms of probabilities serve as logits.
            total = scores.sum(-1, keepdims=True)
            scores = np.log(np.clip(scores / np.where(total == 0, 1.0, total), LEAST_SHARE, 1.0))
        seen.last_layer = seen.last_layer or self._squashing(number, array_of(given), array_of(behind))
        self._tell(number, seen, function, array_of(given), answers)
        found = {"value": float(np.mean(array_of(value), dtype=np.float64)), **of_values(scores, "input")}
        found["outside_01"] = float(np.mean((scores < -ROUNDING) | (scores > 1.0 + ROUNDING)))
        if function in ("cross_entropy", "nll_loss"):
            found |= of_classes(seen, scores, answers)
        elif function.startswith("binary"):
            found |= of_answers(scores, floats_of(answers), with_logits=seen.with_logits)
        elif answers.size:
            found |= of_numbers(function, floats_of(answers))
        for name, number_found in found.items():
            self._collector.scalars[of_loss(number, name)] = float(number_found)

    def _function(self, number: int, seen: LossSeen, scores: Floats) -> str:
        """Return the torch name of the function, decided once.

        A loss that expects probabilities is judged by their logarithms.
        """
        known = self._functions.get(number)
        if known is None:
            known = self._functions[number] = function_of(seen, scores)
        return known

    def _squashing(self, number: int, given: Array, behind: Array) -> str | None:
        """Return which function outside of all layers was applied to a layer's output; detected once."""
        if number not in self._squashings:
            self._squashings[number] = squashing(behind, given)
        return self._squashings[number]

    def _tell(self, number: int, seen: LossSeen, function: str, given: Array, target: Array) -> None:
        is_class = function in ("cross_entropy", "nll_loss")
        fact = LossCallFact(
            id=number,
            function=function,
            module=type(seen.loss).__name__,
            input_shape=given.shape,
            input_dtype=given.dtype.name,
            target_shape=target.shape,
            target_dtype=target.dtype.name,
            reduction="sum" if getattr(seen.loss, "reduction", None) == "sum" else "mean",
            num_classes=given.shape[-1] if is_class else 2 if function.startswith("binary") else None,
            broadcasts=not is_class and is_broadcast(given.shape, target.shape),
            ignored_share=None,
            weighted=False,
            with_logits=seen.with_logits if is_class or function.startswith("binary") else None,
            last_layer=seen.last_layer,
            softmax_of_one=seen.softmax_of_one,
            site=getattr(seen.loss, "name", None) or type(seen.loss).__name__,
        )
        while len(self._told) <= number:
            self._told.append([])
        # The batch size may change from step to step; that makes no new fact.
        known = replace(fact, input_shape=given.shape[1:], target_shape=target.shape[1:])
        told = self._told[number]
        if (not told or told[-1] != known) and len(told) < MOST_TELLINGS:
            told.append(known)
            self._collector.fact(fact)


def function_of(seen: LossSeen, scores: Floats) -> str:
    name = getattr(getattr(seen.loss, "fn", None), "__name__", "") or str(
        getattr(seen.loss, "name", None) or type(seen.loss).__name__
    )
    if name in (SPARSE, ONE_HOT):
        return "cross_entropy" if seen.with_logits or are_shares(scores) else "nll_loss"
    if name == BINARY:
        return "binary_cross_entropy_with_logits" if seen.with_logits else "binary_cross_entropy"
    return VALUES.get(name, name)


def are_shares(scores: Floats) -> bool:
    """Return whether rows look like probabilities, as a loss without `from_logits` expects them."""
    if not scores.size or scores.min() < -ROUNDING or scores.max() > 1.0 + ROUNDING:
        # Non-finite scores prove nothing: assume that the loss is used as intended.
        return not np.isfinite(scores).all()
    return bool(np.mean(np.abs(scores.sum(-1) - 1.0)) < 1e-2)


def is_broadcast(given: tuple[int, ...], target: tuple[int, ...]) -> bool:
    """Return whether the shapes broadcast, beyond a last dimension of 1, which Keras adds or drops itself."""
    if len(given) == len(target) + 1 and given[-1] == 1:
        given = given[:-1]
    elif len(target) == len(given) + 1 and target[-1] == 1:
        target = target[:-1]
    return given != target


def floats_of(array: Array) -> Floats:
    return np.asarray(array, np.float64)


def of_values(values: Floats, name: str) -> dict[str, float]:
    if not values.size:
        return {}
    some = values.reshape(-1)[:: max(values.size // MOST_VALUES, 1)]
    found = {"min": some.min(), "max": some.max(), "mean": some.mean(), "std": some.std()}
    return {f"{name}_{key}": float(value) for key, value in found.items()}


def of_classes(seen: LossSeen, scores: Floats, target: Array) -> dict[str, float]:
    classes = scores.shape[-1]
    rows = scores.reshape(-1, classes)
    step = max(len(rows) // MOST_ROWS, 1)
    # Less the highest score, so that exp cannot overflow.
    highest = rows.max(-1, keepdims=True)
    sums = np.log(np.exp(rows - highest).sum(-1)) + highest[:, 0]
    found = {
        "row_sum_error": float(np.mean(np.abs(rows.sum(-1) - 1.0))),
        "row_logsumexp_error": float(np.mean(np.abs(sums))),
    }
    if target.size == rows.size and classes > 1:  # one share per class
        shares = floats_of(target).reshape(-1, classes)
        labels, costs = shares.argmax(-1), shares.mean(0)
        found |= of_values(shares, "target")
    elif target.size == len(rows):
        labels = target.reshape(-1).astype(np.int64)
        costs = np.bincount(np.clip(labels, 0, classes - 1), minlength=classes) / max(len(labels), 1)
        found |= of_values(labels.astype(np.float64), "target")
    else:
        return found
    counts = np.bincount(np.clip(labels, 0, classes - 1), minlength=classes)
    found |= of_labels(labels, counts)
    found["accuracy"] = float(np.mean(rows[::step].argmax(-1) == labels[::step]))
    return found | guessing(costs, whole_of(seen, len(rows)))


def of_labels(labels: NDArray[np.int64], counts: NDArray[np.int64]) -> dict[str, float]:
    shares = counts / max(counts.sum(), 1)
    found = {
        "top_share": float(shares.max()),
        "top_class": float(counts.argmax()),
        "classes": float(np.count_nonzero(counts)),
        "collision": float(np.square(shares).sum()),
    }
    if labels.size > 1:
        found["adjacent_equal"] = float(np.mean(labels[1:] == labels[:-1]))
    return found


def guessing(costs: Floats, scale: float) -> dict[str, float]:
    """Return the cost of the best constant prediction, and of one that favours no class."""
    shares = costs / max(costs.sum(), LEAST_SHARE)
    some = shares[shares > 0]
    return {
        "baseline": float(-(some * np.log(some)).sum()) * scale,
        "uniform": math.log(max(len(costs), 1)) * scale,
    }


def of_answers(scores: Floats, target: Floats, *, with_logits: bool) -> dict[str, float]:
    if scores.size != target.size or not target.size:
        return {}
    found = of_values(target, "target")
    yes = target.reshape(-1) > 0.5
    share = float(yes.mean())
    found |= {
        "accuracy": float(np.mean((scores.reshape(-1) > (0.0 if with_logits else 0.5)) == yes)),
        "top_share": max(share, 1.0 - share),
        "top_class": float(share > 0.5),
        "classes": float((share > 0) + (share < 1)),
        "collision": share * share + (1.0 - share) * (1.0 - share),
    }
    if target.ndim and 1 < target.size == len(target):
        found["adjacent_equal"] = float(np.mean(yes[1:] == yes[:-1]))
    mean = np.clip(columns_of(target).mean(0), LEAST_SHARE, 1.0 - LEAST_SHARE)
    entropy = -(mean * np.log(mean) + (1.0 - mean) * np.log(1.0 - mean))
    return found | {"baseline": float(entropy.mean()), "uniform": math.log(2.0)}


def of_numbers(function: str, target: Floats) -> dict[str, float]:
    found = of_values(target, "target")
    columns = columns_of(target)
    if function == "mse_loss":
        found["baseline"] = float(columns.var(0).mean())
    elif function in ("l1_loss", "huber_loss"):
        away = np.abs(columns - np.median(columns, 0))
        costs = away if function == "l1_loss" else np.where(away <= 1.0, away * away / 2, away - 0.5)
        found["baseline"] = float(costs.mean())
    return found


def columns_of(target: Floats) -> Floats:
    """Return the targets as columns with a guess each; as one column if there are few rows."""
    if target.ndim > 1 and len(target) >= LEAST_ROWS_FOR_COLUMNS:
        return target.reshape(len(target), -1)
    return target.reshape(-1, 1)


def whole_of(seen: LossSeen, rows: int) -> float:
    return float(rows) if getattr(seen.loss, "reduction", None) == "sum" else 1.0
