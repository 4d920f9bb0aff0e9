"""What is told of loss functions in a training: where they are called, with what, and evaluations."""

from __future__ import annotations

import inspect
import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.checkpoint import checkpoint

import tb_netdebug as nd
from tb_netdebug.core.records.step import Kind
from tests.support.loops import Recorded, mlp
from tests.support.probed import Probed, learn, probed, sgd


class Ending(nn.Module):
    """An MLP with something at its end."""

    def __init__(self, end: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.body = mlp()
        self.end = end

    def forward(self, x: Tensor) -> Tensor:
        return self.end(self.body(x))


def trained(
    logdir: Path, end: Callable[[Tensor], Tensor], loss: Callable[[Tensor], Tensor], **options: Any
) -> Probed:
    """Six steps; `loss` is given the output."""
    torch.manual_seed(0)
    model = Ending(end)
    optimizer = sgd(model)

    def body(step: int) -> Tensor:
        optimizer.zero_grad()
        value = loss(model(torch.randn(8, 6)))
        value.backward()
        optimizer.step()
        return value

    return probed(logdir, model, optimizer, body, **options)


def test_a_call_is_told_once(logdir: Path) -> None:
    """What, where and of which shapes; again only when something else than the size of the batch changes."""
    torch.manual_seed(0)
    model = mlp()
    optimizer = sgd(model)
    criterion = nn.CrossEntropyLoss(weight=torch.ones(3))

    def body(step: int) -> Tensor:
        optimizer.zero_grad()
        output = model(torch.randn(4 + step, 6))
        target = torch.zeros(4 + step, dtype=torch.long)
        if step >= 4:
            target = functional.one_hot(target, 3).float()
        loss: Tensor = criterion(output, target)
        loss.backward()
        optimizer.step()
        return loss

    found = probed(logdir, model, optimizer, body)
    assert [0, 4] == [step for step, _ in found.facts["loss-call"]]
    line = criterion_line(body)
    assert {
        "id": 0, "function": "cross_entropy", "module": "CrossEntropyLoss",
        "input_shape": [4, 3], "input_dtype": "float32", "target_shape": [4], "target_dtype": "int64",
        "reduction": "mean", "num_classes": 3, "broadcasts": False, "ignored_share": 0.0, "weighted": True,
        "with_logits": True, "last_layer": "Linear", "site": f"test_probe_losses.py:{line}",
        "target_learns": False,
    } == found.facts["loss-call"][0][1]  # fmt: skip
    assert found.last("loss-call")["ignored_share"] is None
    assert found.last("loss-call")["target_shape"] == [8, 3]
    assert list(found.scalar("loss").values()) == pytest.approx(
        list(found.scalar("probe/loss/0/value").values())
    )


def criterion_line(function: Any) -> int:
    """Where the loss is computed in the source of a function."""
    lines, first = inspect.getsourcelines(function)
    return first + next(number for number, line in enumerate(lines) if "criterion(" in line)


ENDS: dict[str, Callable[[Tensor], Tensor]] = {
    "Linear": lambda x: x,
    "Softmax": lambda x: x.softmax(-1),
    "LogSoftmax": lambda x: functional.log_softmax(x, -1),
    "Sigmoid": lambda x: x.sigmoid().view(2, -1).view(-1, 3),
    "ReLU": nn.ReLU(),
    "ReLU6": nn.ReLU6(),
    "Hardtanh": nn.Hardtanh(),
    "Tanh": torch.tanh,
}


@pytest.mark.parametrize("name", ENDS)
def test_the_last_layer(name: str, logdir: Path) -> None:
    """By the graph of autograd: modules and functions alike, through reshaping."""
    found = trained(
        logdir, ENDS[name], lambda out: functional.cross_entropy(out, torch.zeros(8).long()), steps=1
    )
    assert name == found.last("loss-call")["last_layer"]


@pytest.mark.filterwarnings("ignore:Using a target size")
def test_shapes_that_are_broadcast(logdir: Path) -> None:
    """The classical mistake: (N, 1) minus (N,) is (N, N)."""
    model = nn.Linear(6, 1)
    with nd.watch(model, logdir=logdir, run="run", memory=False, on_finding="ignore") as monitor:
        loss = functional.mse_loss(model(torch.randn(8, 6)), torch.randn(8))
        loss.backward()
        monitor.step(loss=loss)
    found = Probed(logdir / "run", Recorded(logdir / "run"))
    told = found.last("loss-call")
    assert (True, [8, 1], [8]) == (told["broadcasts"], told["input_shape"], told["target_shape"])


def test_places_are_numbered(logdir: Path) -> None:
    """In the order in which they come first; a place that is passed twice in a step is measured once."""

    def loss(output: Tensor) -> Tensor:
        first = sum(functional.mse_loss(output, torch.full((8, 3), float(at))) for at in range(3))
        second = functional.l1_loss(output, torch.zeros(8, 3))
        third: Tensor = nn.MSELoss()(output, output.detach())
        return first + second + third

    found = trained(logdir, nn.Identity(), loss)
    calls = [data for _, data in found.facts["loss-call"]]
    assert [(0, "mse_loss", None), (1, "l1_loss", None), (2, "mse_loss", "MSELoss")] == [
        (each["id"], each["function"], each["module"]) for each in calls
    ]
    assert {0.0} == set(found.scalar("probe/loss/0/target_max").values())
    assert {0.0} == set(found.scalar("probe/loss/2/value").values())


def test_places_are_bounded(logdir: Path) -> None:
    """A program that is made of loss calls fills no more than 32 numbers."""
    source = (
        "def loss(f, out, t):\n    total = 0\n"
        + "    total = total + f(out, t)\n" * 40
        + "    return total\n"
    )
    space: dict[str, Any] = {}
    exec(source, space)
    found = trained(
        logdir, nn.Identity(), lambda out: space["loss"](functional.mse_loss, out, torch.zeros(8, 3))
    )
    assert list(range(32)) == [data["id"] for _, data in found.facts["loss-call"]]


def test_labels_are_sampled(logdir: Path) -> None:
    """The targets of the first place, whole numbers or not."""
    found = trained(
        logdir, nn.Identity(), lambda out: functional.cross_entropy(out, torch.arange(8) % 3), every=2
    )
    samples = found.recorded.samples(Kind.TENSOR, "label/0")
    assert [0, 2, 4] == list(samples)
    assert (8, 0.0, 2.0) == (samples[0].count, samples[0].min, samples[0].max)
    assert list(range(6)) == list(found.scalar("probe/loss/0/accuracy"))


@pytest.mark.parametrize(("every", "later"), [(8, [32, 40, 48]), (12, [36, 48]), (1, [39, 47])])
def test_ordinary_steps_are_left_alone(logdir: Path, every: int, later: list[int]) -> None:
    """After the first 32 steps, numbers come with samples, and with every eighth step at the most."""
    found = trained(
        logdir,
        nn.Identity(),
        lambda out: functional.cross_entropy(out, torch.zeros(8).long()),
        every=every,
        steps=50,
    )
    assert [*range(32), *later] == list(found.scalar("probe/loss/0/value"))
    assert 1 == len(found.facts["loss-call"])


def test_evaluations(logdir: Path) -> None:
    """The mean of the calls without gradients, of the function that is trained; they are no loss calls."""
    torch.manual_seed(0)
    model = mlp()
    optimizer = sgd(model)
    labels = torch.zeros(8, dtype=torch.long)
    expected = {}

    def body(step: int) -> Tensor:
        loss = learn(model, optimizer, torch.randn(8, 6), labels)
        if step % 2:
            with torch.no_grad():
                first = functional.cross_entropy(model(torch.randn(8, 6)), labels)
                functional.mse_loss(first, first + 9)
            with torch.inference_mode():
                second = functional.cross_entropy(model(torch.randn(8, 6)), labels)
            expected[step] = (float(first) + float(second)) / 2
        return loss

    found = probed(logdir, model, optimizer, body, steps=40, every=100)
    assert expected == pytest.approx(found.scalar("scalar/eval_loss"))
    assert 1 == len(found.facts["loss-call"])


def test_evaluations_of_the_user_count_more(logdir: Path) -> None:
    """A scalar of the same name stays as it is."""
    model = mlp()
    optimizer = sgd(model)
    labels = torch.zeros(8, dtype=torch.long)
    with nd.watch(model, optimizer, logdir=logdir, run="run", memory=False, strict=True) as monitor:
        for step in range(3):
            loss = learn(model, optimizer, torch.randn(8, 6), labels)
            with torch.no_grad():
                functional.cross_entropy(model(torch.randn(8, 6)), labels)
            monitor.step(loss, eval_loss=float(step))
    assert [0.0, 1.0, 2.0] == Recorded(logdir / "run").series("scalar/eval_loss")


def test_two_monitors(logdir: Path) -> None:
    """Each is told of every call, until it closes."""
    torch.manual_seed(0)
    model = mlp()
    optimizer = sgd(model)
    options: dict[str, Any] = {"logdir": logdir, "memory": False, "strict": True, "on_finding": "ignore"}
    code = functional.cross_entropy.__code__
    with nd.watch(model, optimizer, run="long", **options) as long:
        with nd.watch(model, optimizer, run="short", **options) as short:
            for _ in range(2):
                loss = learn(model, optimizer, torch.randn(8, 6), torch.zeros(8).long())
                long.step(loss)
                short.step(loss)
        loss = learn(model, optimizer, torch.randn(8, 6), torch.zeros(8).long())
        long.step(loss)
        assert functional.cross_entropy.__code__ is not code
    assert functional.cross_entropy.__code__ is code
    both = [Recorded(logdir / run).series("probe/loss/0/value") for run in ("long", "short")]
    assert [3, 2] == [len(each) for each in both]
    assert both[0][:2] == both[1]


# ---- what is not looked at -----------------------------------------------------------------


def test_other_threads_and_children(logdir: Path) -> None:
    """Calls there are the business of somebody else."""
    labels = torch.zeros(8, dtype=torch.long)

    def loss(output: Tensor) -> Tensor:
        aside = threading.Thread(target=lambda: functional.l1_loss(torch.ones(2), torch.ones(2)))
        aside.start()
        aside.join()
        child = os.fork()
        if not child:
            functional.smooth_l1_loss(torch.ones(2), torch.ones(2))
            os._exit(0)
        assert (child, 0) == os.waitpid(child, 0)
        return functional.cross_entropy(output, labels)

    found = trained(logdir, nn.Identity(), loss, steps=2)
    assert ["cross_entropy"] == [data["function"] for _, data in found.facts["loss-call"]]


def test_transforms_and_recomputation(logdir: Path) -> None:
    """Inside torch.func nothing has values of its own; what backward computes again was seen before."""
    labels = torch.zeros(8, dtype=torch.long)

    def loss(output: Tensor) -> Tensor:
        torch.func.grad(lambda x: functional.mse_loss(x, torch.ones(3)))(torch.zeros(3))
        torch.vmap(functional.l1_loss)(torch.zeros(4, 3), torch.ones(4, 3))
        value = checkpoint(lambda x: functional.cross_entropy(x, labels), output, use_reentrant=False)
        assert isinstance(value, Tensor)
        return value

    found = trained(logdir, nn.Identity(), loss, steps=2)
    assert ["cross_entropy"] == [data["function"] for _, data in found.facts["loss-call"]]


def test_tensor_subclasses_are_read_once(logdir: Path) -> None:
    """Those that only carry something along are ordinary tensors for us."""

    class Carrying(torch.Tensor):
        pass

    labels = torch.zeros(8, dtype=torch.long).as_subclass(Carrying)
    found = trained(
        logdir, lambda x: x.as_subclass(Carrying), lambda out: functional.cross_entropy(out, labels), steps=2
    )
    assert 1 == len(found.facts["loss-call"])
    assert 2 == len(found.scalar("probe/loss/0/baseline"))


@pytest.mark.parametrize("kind", ["classes", "answers", "values"])
def test_on_a_device(kind: str, logdir: Path) -> None:
    """The same numbers on the way of tensors on an accelerator."""
    losses: dict[str, Callable[[Tensor], Tensor]] = {
        "classes": lambda out: functional.cross_entropy(out, torch.arange(8) % 3),
        "answers": lambda out: functional.binary_cross_entropy_with_logits(out, torch.ones(8, 3)),
        "values": lambda out: functional.huber_loss(out, torch.linspace(0, 1, 24).view(8, 3)),
    }
    found = []
    for way in ("host", "device"):
        torch.manual_seed(0)
        model = mlp()
        optimizer = sgd(model)
        with nd.watch(
            model, optimizer, logdir=logdir, run=way, every=1, memory=False, strict=True
        ) as monitor:
            if way == "device":
                monitor._adapter._reader.host_kinds = set()  # type: ignore[attr-defined]
            for _ in range(4):
                optimizer.zero_grad()
                losses[kind](model(torch.randn(8, 6))).backward()
                optimizer.step()
                with torch.no_grad():
                    losses[kind](model(torch.randn(8, 6)))
                monitor.step()
        found.append(Recorded(logdir / way))
    ours = [name for name in found[0].scalars if name.startswith(("probe/loss", "scalar/", "loss"))]
    assert len(ours) > 10
    assert "loss" in ours
    assert "scalar/eval_loss" in ours
    for name in ours:
        assert found[0].series(name) == pytest.approx(found[1].series(name), rel=1e-6, abs=1e-9), name
    assert found[0].samples(Kind.TENSOR, "label/0").keys() == found[1].samples(Kind.TENSOR, "label/0").keys()
