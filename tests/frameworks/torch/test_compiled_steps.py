"""torch.compile compiles the program's code alone: as many graphs, and no frame of NetDebug."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch._dynamo.utils import counters, get_compilation_metrics
from torch.nn import functional

import tb_netdebug as nd
from tests.support.loops import our_warnings
from tests.support.zero_code import zero_code

BACKEND = "aot_eager"
STEPS = 6
OURS = str(Path(nd.__file__).parent)
LossOf = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]


@pytest.fixture(autouse=True)
def _fresh_compiler() -> Iterator[None]:
    torch._dynamo.reset()
    counters.clear()
    yield
    torch._dynamo.reset()


def training(what: str, model: Any, optimizer: torch.optim.Optimizer) -> Callable[..., torch.Tensor]:
    """Return a step of a training of which one part is compiled: the step itself, the model or the loss."""

    def compiled(part: str, function: Any) -> Any:
        return torch.compile(function, backend=BACKEND) if part == what else function

    loss_of: LossOf = compiled("loss", lambda outputs, labels: functional.cross_entropy(outputs, labels))
    called = compiled("model", model)

    def step(inputs: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        optimizer.zero_grad()
        loss = loss_of(called(inputs), labels)
        loss.backward()  # type: ignore[no-untyped-call]
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        return loss

    result: Callable[..., torch.Tensor] = compiled("step", step)
    return result


def train(what: str, *, logdir: Path | None = None) -> list[float]:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    monitor = None
    if logdir is not None:
        monitor = nd.watch(model, optimizer, logdir=logdir, every=2, strict=True, memory=False)
    step = training(what, model, optimizer)
    inputs, labels = torch.randn(16, 8), torch.randint(0, 4, (16,))
    losses = []
    for _ in range(STEPS):
        loss = step(inputs, labels)
        losses.append(loss.item())
        if monitor is not None:
            monitor.step(loss=loss)
    if monitor is not None:
        monitor.close()
    return losses


def compiled_by(run: Callable[[], list[float]]) -> tuple[list[float], dict[str, int], list[str]]:
    """Return the losses, how much was compiled, and what of it is ours. Compiling anything again fails."""
    torch._dynamo.reset()
    counters.clear()
    before = len(get_compilation_metrics())
    with our_warnings(), torch._dynamo.config.patch(error_on_recompile=True):
        losses = run()
    files = [each.co_filename or "" for each in get_compilation_metrics()[before:]]
    return losses, dict(counters["stats"]), [each for each in files if each.startswith(OURS)]


@pytest.mark.parametrize("what", ["step", "model", "loss"])
@pytest.mark.parametrize("how", ["watch", "run"])
def test_nothing_of_ours_is_compiled(how: str, what: str, logdir: Path) -> None:
    """Whichever part of a training is compiled, and whether the program names NetDebug or not."""
    expected = compiled_by(lambda: train(what))
    around: AbstractContextManager[Any] = zero_code(logdir) if how == "run" else nullcontext()
    with around:
        found = compiled_by(lambda: train(what, logdir=logdir if how == "watch" else None))
    assert expected == found
    assert expected[2] == []
