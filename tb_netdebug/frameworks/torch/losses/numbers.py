"""Measures one call of a loss function."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from tb_netdebug.frameworks.torch.device.values import widest_float
from tb_netdebug.frameworks.torch.losses.classes import Numbers, class_numbers, neighbours, of_rows
from tb_netdebug.frameworks.torch.losses.functions import Family, LossCall
from tb_netdebug.frameworks.torch.losses.selection import strides_for, taken, thinned

# With fewer rows, the mean of a column says more about its rows than about what could be guessed.
LEAST_ROWS_FOR_COLUMNS = 8
# Rounding takes sums of probabilities this far from 1.
ROUNDING = 1e-6
# Guesses keep this distance from 0 and 1, where logarithms end.
LEAST_SHARE = 1e-7


def numbers_of(call: LossCall) -> Numbers:
    """Return the numbers of a call by name, as one-element tensors on its device. Nothing waits for one."""
    found: Numbers = {"value": call.output.detach().mean()}
    if call.input.is_floating_point() and call.input.numel():
        found |= _of_input(call.input)
    if call.target is None or not call.target.numel():
        return found
    family = call.function.family
    if call.target.is_floating_point() or family is not Family.CLASSES:
        found |= of_values(thinned(call.target), "target")
    if family is Family.CLASSES:
        found |= class_numbers(call)
    elif family is Family.BINARY and call.target.shape == call.input.shape:
        found |= _of_answers(call) | _guessing(call)
    elif family is Family.VALUES:
        found |= _guessing(call)
    elif family is Family.SHARES and call.input.dim():
        found |= of_rows(thinned(call.input).float()) | _guessing(call)
    return found


def of_values(values: Tensor, name: str) -> Numbers:
    plain = values if values.dtype in (torch.float32, torch.float64) else values.float()
    low, high = plain.aminmax()
    spread, mean = torch.std_mean(plain, correction=0)
    return {f"{name}_min": low, f"{name}_max": high, f"{name}_mean": mean, f"{name}_std": spread}


def _of_input(given: Tensor) -> Numbers:
    some = thinned(given)
    outside = (some < -ROUNDING) | (some > 1.0 + ROUNDING)
    return {**of_values(some, "input"), "outside_01": outside.float().mean()}


def _of_answers(call: LossCall) -> Numbers:
    """Return accuracy and label distribution of a binary loss."""
    assert call.target is not None
    # A score of 0 is a probability of one half.
    threshold = 0.0 if call.function.with_logits else 0.5
    yes = thinned(call.target) > 0.5
    share = yes.to(widest_float(yes.device)).mean()
    top = torch.maximum(share, 1.0 - share)
    found: Numbers = {
        "accuracy": ((thinned(call.input) > threshold) == yes).float().mean(),
        "top_share": top,
        "top_class": share > 0.5,
        "classes": (share > 0).int() + (share < 1).int(),
        "collision": share.square() + (1.0 - share).square(),
    }
    if call.target.dim() and 1 < call.target.numel() == call.target.shape[0]:
        first, second = neighbours((call.target > 0.5).reshape(-1))
        found["adjacent_equal"] = (first == second).float().mean()
    return found


def _guessing(call: LossCall) -> Numbers:
    """Return what the loss function gives for the best constant answer, and for one that favours nothing."""
    assert call.target is not None
    steps = strides_for(call.target.shape)
    target = thinned(call.target)
    target = target.detach() if target.dtype is torch.float64 else target.float()
    changed: dict[str, Any] = {
        name: taken(each.expand(call.target.shape), steps).to(target.dtype)
        for name in ("weight", "pos_weight")
        if isinstance(each := call.arguments.get(name), Tensor)
    }
    guess = _best_guess(call, target, changed)
    scale = _scale(call)
    if call.function.family is Family.SHARES:  # torch warns about "mean" for kl_div
        changed["reduction"] = "batchmean"
        scale /= target.numel() / target.shape[0]
    found: Numbers = {"baseline": call.repeated(guess.expand_as(target), target, **changed) * scale}
    if call.function.family is Family.BINARY:
        even = torch.zeros_like(target) if call.function.with_logits else torch.full_like(target, 0.5)
        found["uniform"] = call.repeated(even, target, **changed) * scale
    return found


def _scale(call: LossCall) -> float:
    """Return the factor from a mean to the reduction that the call asked for."""
    assert call.target is not None
    values, rows = call.target.numel(), call.target.shape[0] if call.target.dim() else 1
    if call.function.name == "multilabel_soft_margin_loss":  # already a mean over the classes of a row
        values = rows
    if call.reduction == "sum":
        return float(values)
    return values / rows if call.reduction == "batchmean" else 1.0


def _best_guess(call: LossCall, target: Tensor, weights: dict[str, Tensor]) -> Tensor:
    """Return the best constant for each column of the targets; with few rows, one for all values."""
    name = call.function.name
    by_column = target.dim() > 1 and target.shape[0] >= LEAST_ROWS_FOR_COLUMNS
    columns = target if by_column else target.reshape(-1, 1) if target.dim() else target.reshape(1, 1)
    if call.function.family is Family.BINARY:
        guess = _share_of_yes(columns, {key: each.reshape(columns.shape) for key, each in weights.items()})
        guess = guess.clamp(LEAST_SHARE, 1.0 - LEAST_SHARE)
        guess = guess.logit() if call.function.with_logits else guess
    elif call.function.family is Family.SHARES:
        shares = target.exp() if call.arguments.get("log_target") else target
        return (
            shares.reshape(-1, shares.shape[-1] if shares.dim() else 1).mean(0).clamp(min=LEAST_SHARE).log()
        )
    elif name == "poisson_nll_loss":
        guess = columns.mean(0).clamp(min=LEAST_SHARE)
        guess = guess.log() if call.arguments.get("log_input", True) else guess
    elif name == "mse_loss":
        guess = columns.mean(0)
    else:
        # The lower median, by sorting: torch.median is not always deterministic.
        guess = columns.sort(0).values.select(0, (len(columns) - 1) // 2)
    return guess if by_column else guess.reshape(())


def _share_of_yes(columns: Tensor, weights: dict[str, Tensor]) -> Tensor:
    weight = weights.get("weight", torch.ones_like(columns))
    yes = weight * columns * weights.get("pos_weight", torch.ones_like(columns))
    no = weight * (1.0 - columns)
    return yes.sum(0) / (yes.sum(0) + no.sum(0))
