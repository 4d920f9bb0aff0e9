"""Trains a model a little, and does with it what users do: `copying.py MODEL MODE FOLDER`.

Everything is done twice: while the model is watched, and after the monitor was closed (under `netdebug run`,
which ends with the script, while it is watched again).
"""

from __future__ import annotations

import sys
import warnings
from pathlib import Path
from typing import Any

import torch
from torch import nn

if __name__ == "__main__":
    sys.path.append(str(Path(__file__).resolve().parents[2]))

from tests.matrix import outcome
from tests.matrix.copied_models import MODELS
from tests.matrix.copy_operations import OPERATIONS, result_of
from tests.matrix.user_hooks import UserHooks

TIMES = ("watched", "closed")
# After this step a NaN has been seen, and NetDebug looks closer.
BAD_STEP = 2


def main(name: str, mode: str, folder: Path) -> None:
    warnings.simplefilter("ignore")
    torch.manual_seed(5)
    model, given = MODELS[name]()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    hooks = UserHooks(model)
    hooks.put_on("before")
    monitor = None
    if mode == "watch":
        import tb_netdebug as nd

        monitor = nd.watch(model, optimizer, logdir=folder / "logs", run="run")
    hooks.put_on("during")
    train(model, given, optimizer, monitor)
    hooks.take_off(every=2)
    train(model, given, optimizer, monitor)
    found: dict[str, Any] = {"hooks watched": hooks.told()}
    for time in TIMES:
        if time == "closed":
            hooks.take_off(every=3)
            if monitor is not None:
                monitor.close()
            hooks.put_on("after")
            train(model, given, optimizer, None)
            found["hooks closed"] = hooks.told()
        hooks.take_off()
        (folder / time).mkdir()
        for done, operation in OPERATIONS.items():
            found[f"{done} {time}"] = result_of(operation, model, given, folder / time)
        found[f"state {time}"] = outcome.of_model(model)
    outcome.write(folder / "outcome.json", found)


def train(model: nn.Module, given: tuple[Any, ...], optimizer: torch.optim.Optimizer, monitor: Any) -> None:
    """Four steps, one of them with a NaN and left out."""
    for step in range(4):
        optimizer.zero_grad()
        output = model(*given)
        several = output.values() if isinstance(output, dict) else output
        parts = [several] if isinstance(several, torch.Tensor) else list(several)
        loss = torch.stack([each.square().mean() for each in parts]).sum()
        if step == BAD_STEP:
            loss = loss * float("nan")
        loss.backward()  # type: ignore[no-untyped-call]
        if step != BAD_STEP:
            optimizer.step()
        if monitor is not None:
            monitor.step(loss=loss)


if __name__ == "__main__":
    main(*sys.argv[1:3], Path(sys.argv[3]))
