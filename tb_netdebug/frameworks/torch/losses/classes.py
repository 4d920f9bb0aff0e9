"""Numbers of a classification loss: its rows, the accuracy, the labels, and what guessing would cost."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from tb_netdebug.frameworks.torch.device.values import widest_float
from tb_netdebug.frameworks.torch.losses.functions import LossCall
from tb_netdebug.frameworks.torch.losses.selection import class_rows, strides_for, taken

MOST_LABELS = 1 << 17  # that are read of one batch

Numbers = dict[str, Tensor | float]


def class_numbers(call: LossCall) -> Numbers:
    """Return the numbers by name, as one-element tensors; nothing waits for a device."""
    assert call.target is not None
    rows = class_rows(call.input)
    steps = strides_for(rows.shape[:-1], values_per_row=rows.shape[-1])
    some = taken(rows, steps).reshape(-1, rows.shape[-1])
    some = some if some.dtype is torch.float64 else some.float()
    found = of_rows(some)
    if call.has_shares:
        targets = taken(class_rows(call.target), steps).reshape(some.shape)
        answers = targets.argmax(-1)
        counted = torch.ones_like(answers, dtype=widest_float(answers.device))
        found |= of_labels(answers, counted, some.shape[-1], in_order=call.input.dim() == 2)
        found |= _guessing_shares(call, targets)
    else:
        answers = taken(call.target.expand(rows.shape[:-1]), steps).reshape(-1)
        counted = _counted(call, answers)
        found |= _of_targets(call, some.shape[-1])
    right = (some.argmax(-1) == answers).to(counted.dtype) * counted
    found["accuracy"] = right.sum() / counted.sum()
    return found


def of_rows(rows: Tensor) -> Numbers:
    """Return how far rows are from probabilities, and how far from log-probabilities."""
    return {
        "row_sum_error": (rows.sum(-1) - 1.0).abs().mean(),
        "row_logsumexp_error": rows.logsumexp(-1).abs().mean(),
    }


def of_labels(labels: Tensor, counted: Tensor, classes: int, *, in_order: bool) -> Numbers:
    """Return how labels are distributed; `counted` is 0.0 for ignored ones."""
    counts = class_counts(labels, counted, classes)
    shares = counts / counts.sum()
    found: Numbers = {
        "top_share": shares.max(),
        "top_class": counts.argmax(),
        "classes": (counts > 0).sum(),
        "collision": shares.square().sum(),
    }
    # Sorted data shows in neighbours that are equal more often than chance (`collision`) has it.
    if in_order and labels.numel() > 1:
        (left, right), (first, second) = neighbours(counted), neighbours(labels)
        found["adjacent_equal"] = ((first == second) * left * right).sum() / (left * right).sum()
    return found


def neighbours(values: Tensor) -> tuple[Tensor, Tensor]:
    """Return each value but the last, and the value that follows each."""
    pairs = values.numel() - 1
    return values.narrow(0, 0, pairs), values.narrow(0, 1, pairs)


def class_counts(labels: Tensor, counted: Tensor, classes: int) -> Tensor:
    counts = torch.zeros(classes, dtype=counted.dtype, device=counted.device)
    # Ignored labels may be any number, such as -100; clamped, they add 0.0 to some class.
    return counts.scatter_add(0, labels.long().clamp(0, classes - 1), counted)


def some_labels(target: Tensor) -> Tensor:
    """Return pixels at equal distances of a picture, or the first labels of a flat target, in order."""
    if target.dim() > 1:
        target = taken(target, strides_for(target.shape, most=MOST_LABELS))
    return target.reshape(-1).narrow(0, 0, min(target.numel(), MOST_LABELS))


def _counted(call: LossCall, labels: Tensor) -> Tensor:
    index = call.arguments.get("ignore_index")
    kept = torch.ones_like(labels, dtype=torch.bool) if index is None else labels != index
    return kept.to(widest_float(labels.device))


def _of_targets(call: LossCall, classes: int) -> Numbers:
    """Describe all labels in their order, not only those whose rows are read."""
    assert call.target is not None
    labels = some_labels(call.target)
    counted = _counted(call, labels)
    found = of_labels(labels, counted, classes, in_order=call.target.dim() == 1)
    total, kept = counted.sum(), counted > 0
    mean = (labels * counted).sum() / total
    found |= {
        # Ignored labels are moved beyond the other end, where no minimum or maximum finds them.
        "target_min": torch.where(kept, labels, classes).min(),
        "target_max": torch.where(kept, labels, -1).max(),
        "target_mean": mean,
        "target_std": ((labels - mean).square() * counted).sum().div(total).sqrt(),
    }
    if call.function.name == "multi_margin_loss":
        return found  # its best constant answer is not known in closed form
    counts = class_counts(labels, counted, classes)
    return found | _guessing(call, counts, total, labels.numel())


def _guessing(call: LossCall, counts: Tensor, counted: Tensor, labels: int) -> Numbers:
    """Return the loss of the best constant answer, and that of one that favours no class.

    With weights and smoothing, the loss of a constant answer q is the sum of costs[c] * -log(q[c]).
    """
    assert call.target is not None
    smoothing = float(call.arguments.get("label_smoothing", 0.0) or 0.0)
    classes = counts.numel()
    weights = torch.ones_like(counts) if call.weight is None else call.weight.to(counts.dtype)
    weighted = counts * weights
    # A smoothed label counts for its own class, and with an equal share for all classes.
    costs = (1.0 - smoothing) * weighted + smoothing / classes * counted * weights
    whole = costs.sum()
    scale: Tensor | float = 1.0 / weighted.sum()
    # The sums are over the labels read, which may be fewer than those of the call.
    if call.reduction == "none":
        scale = 1.0 / labels
    elif call.reduction == "sum":
        scale = call.target.numel() / labels
    return {
        "baseline": torch.special.entr(costs / whole).sum() * whole * scale,
        "uniform": math.log(classes) * whole * scale,
    }


def _guessing_shares(call: LossCall, targets: Tensor) -> Numbers:
    """Do the same for targets that are class probabilities; their mean is over rows, whatever the weights."""
    smoothing = float(call.arguments.get("label_smoothing", 0.0) or 0.0)
    classes = targets.shape[-1]
    costs = targets.to(widest_float(targets.device)).mean(0) * (1.0 - smoothing) + smoothing / classes
    if call.weight is not None:
        costs = costs * call.weight.to(costs.dtype)
    whole = costs.sum()
    scale = call.input.numel() / classes if call.reduction == "sum" else 1.0
    return {
        "baseline": torch.special.entr(costs / whole).sum() * whole * scale,
        "uniform": math.log(classes) * whole * scale,
    }
