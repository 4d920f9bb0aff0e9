"""A training as a user writes it: `training.py KIND PLACE HANDLING MODE FOLDER`.

In the middle of it one batch brings a NaN, in the input, the forward pass, the loss or a gradient. The loop
trains on with it (`trained`), leaves out the optimizer's step (`skipped`), or the backward pass, too
(`dropped`).
"""

from __future__ import annotations

import random
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch

if __name__ == "__main__":
    sys.path.append(str(Path(__file__).resolve().parents[2]))

from tests.matrix import kinds, outcome
from tests.matrix.subjects import HOSTILE, ROWS, WIDTH, Net

STEPS = 12
BAD_STEP = 5
# By the name of the mode: what `nd.watch` is told. `run` and `alone` call nothing.
OPTIONS: dict[str, dict[str, Any]] = {
    "watch": {},
    "layers": {"check_numerics": "layers"},
    "ops": {"check_numerics": "ops"},
}


def main(name: str, place: str, handling: str, mode: str, folder: Path) -> None:
    torch.manual_seed(11)
    np.random.seed(12)
    random.seed(13)
    net = kinds.KINDS[name]()
    optimizers = net.optimizers()
    left: dict[str, Any] = {"losses": [], "error": "", "bad": []}
    monitor = watch(net, optimizers, mode, folder)
    try:
        for step in range(STEPS):
            loss, is_good = train(net, optimizers, step, place if step == BAD_STEP else "", handling)
            left["losses"].append(outcome.digest(loss))
            if not is_good:
                left["bad"].append(step)
            if monitor is not None:
                monitor.step(loss=loss)
            print(step, outcome.digest(loss))  # noqa: T201
    except Exception as error:
        left["error"] = f"{type(error).__name__}: {error}"
        raise
    finally:
        if monitor is not None:
            monitor.close()
        net.end()
        outcome.write(folder / "outcome.json", left | state_of(net, optimizers))


def train(net: Net, optimizers: list[Any], step: int, place: str, handling: str) -> tuple[torch.Tensor, bool]:
    """One step: its loss, and whether that and all gradients were finite. `place` is where a NaN comes."""
    net.feed(step)
    x = batch(place)
    for optimizer in optimizers:
        optimizer.zero_grad()
    loss = net.loss(x)
    if place == "loss":
        loss = loss + torch.log(-1.0 - loss.detach().abs())
    if place == "gradient":
        weight = next(each for each in weights_of(optimizers) if each.requires_grad)
        loss = loss + 0.0 * torch.sqrt(0.0 * weight.sum())  # finite, and its derivative is not
    is_good = bool(torch.isfinite(loss))
    if handling == "dropped" and not is_good:
        return loss, False
    net.backward(loss)
    is_good = is_good and are_finite(each.grad for each in weights_of(optimizers) if each.grad is not None)
    if handling == "trained" or is_good:
        net.advance(optimizers, x)
    return loss, is_good


def batch(place: str) -> torch.Tensor:
    x = torch.randn(ROWS, WIDTH)
    if place == "input":
        x[0, 0] = float("nan")
    if place == "forward":
        x[0, 0] = HOSTILE
    return x


def weights_of(optimizers: list[Any]) -> Iterator[torch.Tensor]:
    for optimizer in optimizers:
        for group in optimizer.param_groups:
            yield from group["params"]


def are_finite(tensors: Iterable[torch.Tensor]) -> bool:
    return all(bool(torch.isfinite(each.to_dense()).all()) for each in tensors)


def watch(net: Net, optimizers: list[Any], mode: str, folder: Path) -> Any:
    if mode not in OPTIONS:
        return None
    import tb_netdebug as nd

    given = optimizers if len(optimizers) > 1 else optimizers[0]
    return nd.watch(net.watched(), given, logdir=folder / "logs", run="run", **OPTIONS[mode])


def state_of(net: Net, optimizers: list[Any]) -> dict[str, Any]:
    return {
        "generators": outcome.of_generators(),
        "surroundings": outcome.of_surroundings(),
        "outside": outcome.digest(net.outside()),
        **outcome.of_model(net.trained()),
        "optimizers": [outcome.of_optimizer(each) for each in optimizers],
    }


if __name__ == "__main__":
    main(*sys.argv[1:5], Path(sys.argv[5]))
