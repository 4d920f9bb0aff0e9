"""The first NaN or infinity of a training: which module made it."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional

import tb_netdebug as nd
from tests.support.loops import run_script
from tests.support.numerics import (
    INF,
    NAN,
    AdditiveMask,
    Attention,
    Between,
    Dataclassed,
    Exp,
    Inside,
    Nested,
    facts_told,
    rows,
    sequences,
    train,
)

Loss = Callable[[Any, Any], torch.Tensor]
NETWORKS_ARE_IN = ("test_numerics.py", "numerics.py")


@pytest.fixture
def facts(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """What the probe tells, with the step in which it tells it."""
    return facts_told(monkeypatch)


# ---- networks that make one -------------------------------------------------------------------------------


def embedded() -> nn.Module:
    embedding = nn.Embedding(5, 4)
    embedding.weight.data[3] = NAN
    return nn.Sequential(embedding, nn.Linear(4, 2))


def broken_batch(step: int) -> tuple[torch.Tensor]:
    x = torch.randn(6, 4)
    if step == 1:
        x[2, 1] = NAN
    return (x,)


def halved(dtype: torch.dtype) -> nn.Module:
    model = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4)).to(dtype)
    model[1].weight.data.fill_(3e4 if dtype is torch.float16 else 3e38)
    model[0].weight.data.zero_()
    model[0].bias.data.fill_(1.0)
    return model


CASES: dict[str, tuple[Callable[[], nn.Module], Callable[[int], Any], dict[str, Any]]] = {
    "log of negative": (
        lambda: Between(torch.log),
        rows,
        {"where": "Between", "class_name": "Between (own code)", "operation": "log", "kind": "NaN"},
    ),
    "log deep inside": (
        lambda: Inside(torch.log),
        rows,
        {"where": "blocks.1", "class_name": "Between (own code)", "operation": "log", "kind": "NaN"},
    ),
    "division by zero": (
        lambda: Between(lambda x: x / (x - x)),
        rows,
        {"where": "Between", "operation": "div"},
    ),
    "log of zero reaches the loss": (
        lambda: Between(lambda x: torch.log(torch.relu(x - 1e6))),
        rows,
        {"where": "Between", "operation": "log", "kind": "-Inf"},
    ),
    "zero times log of zero": (
        lambda: Between(lambda x: torch.log(x * 0.0) * 0.0),
        rows,
        {"where": "Between", "operation": "log", "kind": "-Inf"},
    ),
    "in place": (
        lambda: Between(lambda x: x.clone().abs_().neg_().sqrt_()),
        rows,
        {"where": "Between", "operation": "sqrt", "kind": "NaN"},
    ),
    "exp overflow": (
        lambda: nn.Sequential(nn.Linear(4, 4), nn.ReLU(), Exp(), nn.Linear(4, 1)),
        rows,
        {"where": "2", "class_name": "Exp", "operation": "exp", "kind": "Inf"},
    ),
    "fully masked row": (
        Attention,
        sequences,
        {"step": 1, "where": "softmax", "class_name": "Softmax", "kind": "NaN", "masked_inputs": True},
    ),
    "embedding with a row of NaN": (
        embedded,
        lambda _: (torch.tensor([[0, 3], [1, 2]]),),
        {"what": "parameter", "where": "0", "tensor": "weight", "parameters_finite": False},
    ),
    "constant that is NaN": (
        lambda: Between(lambda x: x + torch.tensor(NAN)),
        rows,
        {"where": "Between", "class_name": "Between", "tensor": "operand", "inputs_finite": False},
    ),
    "NaN in the input": (
        lambda: nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 1)),
        broken_batch,
        {"step": 1, "what": "input", "where": "Sequential", "tensor": "input[0]", "inputs_finite": False},
    ),
    "float16": (
        lambda: halved(torch.float16),
        lambda _: (torch.ones(2, 4).half(),),
        {"where": "1", "kind": "Inf"},
    ),
    "bfloat16": (lambda: halved(torch.bfloat16), lambda _: (torch.ones(2, 4).bfloat16(),), {"where": "1"}),
    "shared module": (
        lambda: nn.Sequential(*[nn.Linear(4, 4), Exp(), nn.Tanh()], *[Exp()] * 2),
        rows,
        {"where": "3", "class_name": "Exp"},
    ),
}  # fmt: skip


@pytest.mark.parametrize("mode", ["sampled", "ops"])
@pytest.mark.parametrize("name", CASES)
def test_the_producer_is_named(name: str, mode: str, logdir: Path, facts: list[dict[str, Any]]) -> None:
    """Not those that pass it on, and not what is swallowed on the way."""
    torch.manual_seed(0)
    make, batches, expected = CASES[name]
    train(make(), batches, logdir, check_numerics=mode, capsules=False)
    expected = {"step": 0, "what": "output", "masked_only": False, **expected}
    assert facts
    assert expected == {key: facts[0][key] for key in expected}
    if expected["what"] == "output":
        assert facts[0]["site"].partition(":")[0] in NETWORKS_ARE_IN


@pytest.mark.parametrize("kind", [Nested, Dataclassed])
def test_nested_outputs(kind: type[nn.Module], logdir: Path, facts: list[dict[str, Any]]) -> None:
    """What is not finite may be anywhere in an output, and a batch may come by keywords."""
    torch.manual_seed(0)

    def loss_of(output: Any) -> torch.Tensor:
        return (output["both"][1] if isinstance(output, dict) else output.hidden).mean()

    train(kind(), lambda _: {"x": torch.randn(3, 4)}, logdir, loss_of=loss_of)
    assert ("bad", "Exp", "exp") == (facts[0]["where"], facts[0]["class_name"], facts[0]["operation"])


# ---- networks that are well -------------------------------------------------------------------------------


def sigmoid_by_hand(x: torch.Tensor) -> torch.Tensor:
    return 1.0 / (1.0 + torch.exp(-x * 1e4))


HEALTHY: dict[str, tuple[Callable[[], nn.Module], Callable[[int], Any]]] = {
    "masked attention": (Attention, lambda _: sequences(0)),
    "additive mask": (AdditiveMask, lambda _: (torch.randn(2, 3, 4), torch.zeros(3, 3))),
    "mask as an input": (
        AdditiveMask,
        lambda _: (torch.randn(2, 3, 4), torch.tensor([0.0, 0.0, -INF]).repeat(3, 1)),
    ),
    "swallowed infinity": (lambda: Between(sigmoid_by_hand), rows),
    "where": (lambda: Between(lambda x: torch.where(x > 0, x, torch.log(x)).nan_to_num()), rows),
}


@pytest.mark.parametrize("mode", ["sampled", "ops"])
@pytest.mark.parametrize("name", HEALTHY)
def test_what_is_meant_is_not_told(name: str, mode: str, logdir: Path, facts: list[dict[str, Any]]) -> None:
    """Masks of -inf and infinities that do no harm are part of healthy networks."""
    torch.manual_seed(0)
    make, batches = HEALTHY[name]
    model = make()
    if isinstance(model, Between):
        model.first.requires_grad_(False)  # its gradients would not be finite
    train(model, batches, logdir, check_numerics=mode)
    assert [] == facts
    assert not (logdir / "run/capsules").exists()


def test_a_mask_is_not_blamed_for_what_goes_wrong_later(logdir: Path, facts: list[dict[str, Any]]) -> None:
    """The masked attention comes first, the log that is to blame behind it."""
    torch.manual_seed(0)

    class Both(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.attention, self.tail = Attention(), Between(torch.log)

        def forward(self, x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
            result: torch.Tensor = self.tail(self.attention(x, mask))
            return result

    train(Both(), lambda _: sequences(0), logdir)
    assert ("tail", "log") == (facts[0]["where"], facts[0]["operation"])


# ---- loss and gradient ------------------------------------------------------------------------------------


def test_the_loss_itself(logdir: Path, facts: list[dict[str, Any]]) -> None:
    """Everything in the model is finite: what was computed after it is named."""
    torch.manual_seed(0)
    train(nn.Linear(4, 1), rows, logdir, loss_of=lambda output: torch.log(-output.abs()).mean())
    told = facts[0]
    assert ("loss", "", "NaN", True) == (told["what"], told["where"], told["kind"], told["inputs_finite"])
    assert ["Abs", "Neg", "Log", "Mean"] == told["operations"]
    assert "log" == told["operation"]


LOSSES: dict[str, tuple[Loss, str, str]] = {
    "log": (lambda output, _: torch.log(torch.softmax(output, 1) * 0.0).mean(), "log", ""),
    "div": (lambda output, _: (output / (output.detach() * 0.0)).mean(), "div", ""),
    "exp": (lambda output, _: torch.exp(output.abs() * 1e5).mean(), "exp", ""),
    "sqrt": (lambda output, _: torch.sqrt(-output.abs()).mean(), "sqrt", ""),
    "target": (functional.mse_loss, "mse_loss", "target"),
    "operand": (lambda output, _: (output * INF).mean(), "mul", "operand"),
    "too big": (lambda output, _: (output.abs() * 3e38 * 3e38 - 1.0).mean(), "", ""),
    "unknown": (lambda output, _: torch.lgamma(output * 0.0).mean(), "", ""),
}


@pytest.mark.parametrize("name", LOSSES)
def test_what_in_the_loss(name: str, logdir: Path, facts: list[dict[str, Any]]) -> None:
    """The operation is read off the graph, even when the output of the model is gone by then."""
    torch.manual_seed(0)
    loss, operation, tensor = LOSSES[name]
    target = torch.full((6, 2), NAN)
    train(nn.Linear(4, 2), rows, logdir, loss_of=lambda output: loss(output, target), steps=1)
    assert ("loss", operation, tensor) == tuple(facts[0][key] for key in ("what", "operation", "tensor"))
    assert "Addmm" not in facts[0]["operations"]


def line_of(code: str) -> str:
    """Return the place of the first line here that ends so."""
    lines = Path(__file__).read_text(encoding="utf-8").splitlines()
    number = next(number for number, line in enumerate(lines, 1) if line.endswith(code))
    return f"test_numerics.py:{number}"


def test_the_line_of_a_loss_function(logdir: Path, facts: list[dict[str, Any]]) -> None:
    """One that makes it itself, or that is given a target with it, is the operation: its line is known."""
    torch.manual_seed(0)

    def loss_of(output: torch.Tensor) -> torch.Tensor:
        return functional.poisson_nll_loss(output * 1e4, torch.ones(6, 2))  # overflows

    train(nn.Linear(4, 2), rows, logdir, loss_of=loss_of, steps=1)
    told = facts[0]
    assert ("loss", "poisson_nll_loss") == (told["what"], told["operation"])
    assert line_of("# overflows") == told["site"]
    assert "numerics.py" == told["backward"].partition(":")[0]


def test_the_line_of_backward_is_no_operation(logdir: Path, facts: list[dict[str, Any]]) -> None:
    """What the script computes before a loss function is named without a line of its own."""
    torch.manual_seed(0)

    def loss_of(output: torch.Tensor) -> torch.Tensor:
        shares = torch.log(torch.softmax(output, 1) * 0.0)
        return functional.nll_loss(shares, torch.ones(6, dtype=torch.long))  # is given it

    train(nn.Linear(4, 2), rows, logdir, loss_of=loss_of, steps=1)
    told = facts[0]
    assert ("loss", "log", "") == (told["what"], told["operation"], told["site"])
    assert f"nll_loss at {line_of('# is given it')}" == told["before"]
    (run,) = nd.check(logdir).runs
    evidence = {each.rule: each for each in run.findings}["nonfinite-loss"].evidence
    assert "line" not in evidence
    assert told["backward"] == evidence["backward"].value


def test_masked_logits_in_the_loss(logdir: Path, facts: list[dict[str, Any]]) -> None:
    """Of the model there was only its mask: it is the loss that has met it."""
    torch.manual_seed(0)
    mask = torch.tensor([False, True])
    model = Between(torch.relu)
    model.register_forward_hook(lambda _, __, output: output.masked_fill(mask, -INF))
    train(
        model,
        rows,
        logdir,
        loss_of=lambda output: functional.cross_entropy(output, torch.ones(6, dtype=torch.long)),
    )
    assert ("loss", True) == (facts[0]["what"], facts[0]["masked_only"])


def test_a_loss_put_aside_in_an_attribute(logdir: Path, facts: list[dict[str, Any]]) -> None:
    """Auxiliary losses travel in attributes, and are what they were after the search."""
    torch.manual_seed(0)

    class Auxiliary(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear, self.overflow = nn.Linear(4, 1), Exp()
            self.calls = 0
            self.kept: list[torch.Tensor] = []

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            self.calls += 1
            self.aside = self.overflow(self.linear(x).abs() + 1.0).mean()
            self.kept.append(self.aside)
            result: torch.Tensor = self.linear(x)
            return result

    model = Auxiliary()
    train(model, rows, logdir, loss_of=lambda output: output.mean() + model.aside, steps=3)
    assert ("overflow", "exp") == (facts[0]["where"], facts[0]["operation"])
    assert (3, 3) == (model.calls, len(model.kept))
    assert model.aside.requires_grad


@pytest.mark.parametrize("is_given", [True, False])
def test_a_gradient_goes_wrong_first(is_given: bool, logdir: Path, facts: list[dict[str, Any]]) -> None:
    """sqrt has an infinite slope at 0: the loss is fine, the gradient of the layer before it is not."""
    torch.manual_seed(0)
    body = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4), nn.ReLU())
    model = nn.Sequential(body, Between(lambda x: torch.sqrt(x * 0.0) * x))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    with nd.watch(
        model, optimizer if is_given else None, logdir=logdir, run="run", on_finding="ignore", strict=True
    ) as monitor:
        loss = model(torch.randn(6, 4)).mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        monitor.step(loss=loss)
    told = facts[0]
    assert ("gradient", "1.first", "Linear") == (told["what"], told["where"], told["class_name"])
    assert told["capsule"] is not None


def test_two_models(logdir: Path, facts: list[dict[str, Any]]) -> None:
    """A GAN whose generator fails is told by the name that the generator was given."""
    torch.manual_seed(0)
    models = {"G": nn.Sequential(nn.Linear(2, 4), Exp()), "D": nn.Sequential(nn.Linear(4, 1))}
    optimizers = [torch.optim.SGD(each.parameters(), lr=0.01) for each in models.values()]
    with nd.watch(models, optimizers, logdir=logdir, run="run", on_finding="ignore", strict=True) as monitor:
        fake = models["G"](torch.randn(3, 2))
        loss = models["D"](torch.randn(3, 4)).mean() - models["D"](fake.detach()).mean()
        loss.backward()
        monitor.step(loss=loss)
    assert ("G/1", "Exp") == (facts[0]["where"], facts[0]["class_name"])


def test_it_is_told_again_after_it_was_well(logdir: Path, facts: list[dict[str, Any]]) -> None:
    """Not in every step that follows, and four times at most."""
    torch.manual_seed(0)
    model = nn.Linear(4, 1)
    with nd.watch(model, logdir=logdir, run="run", on_finding="ignore", strict=True) as monitor:
        for bad in [True, True, False, True, False, True, False, True, False, True]:
            loss = model(torch.full((2, 4), NAN if bad else 1.0)).mean()
            loss.backward()
            monitor.step(loss=loss)
    assert [0, 3, 5, 7] == [told["step"] for told in facts]


# ---- every layer, every step ------------------------------------------------------------------------------


def test_every_layer_is_checked(logdir: Path, facts: list[dict[str, Any]]) -> None:
    """A NaN that the loss does not show is told with check_numerics="layers" only."""

    class Hiding(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear, self.overflow, self.tail = nn.Linear(4, 4), Exp(), nn.Linear(4, 1)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            hidden = self.linear(x)
            with torch.no_grad():
                pass
            self.overflow(hidden.abs() + 1.0)
            result: torch.Tensor = self.tail(hidden)
            return result

    for mode in ("sampled", "layers"):
        torch.manual_seed(0)
        train(Hiding(), rows, logdir, check_numerics=mode, run=mode)
        assert (mode == "layers") == bool(facts)
    assert ("overflow", "Exp", "Inf") == (facts[0]["where"], facts[0]["class_name"], facts[0]["kind"])


class Overlapping(nn.Module):
    """In its second call another thread's call begins before it, and ends inside of it."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = Between(torch.abs)
        self.is_ended, self.is_inside = threading.Event(), threading.Event()
        self.other = threading.Thread(target=self.call_aside)
        self.raised: list[BaseException] = []

    def call_aside(self) -> None:
        try:
            self(torch.rand(6, 4))
        except Exception as error:
            self.raised.append(error)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if threading.current_thread() is self.other:
            self.is_inside.set()
            assert self.is_ended.wait(60)
        elif self.other.ident is not None:
            self.is_ended.set()
            self.other.join(60)
        return self.inner(x)


@pytest.mark.parametrize("mode", ["sampled", "layers", "ops"])
def test_other_threads_call_the_model(mode: str, logdir: Path, facts: list[dict[str, Any]]) -> None:
    """Nothing is raised, and what the training's own thread computes is still followed."""
    model = Overlapping()

    def batches(step: int) -> tuple[torch.Tensor]:
        if step == 1:
            model.other.start()
            assert model.is_inside.wait(60)
            model.inner.function = torch.log
        return rows(step)

    train(model, batches, logdir, check_numerics=mode)
    assert [] == model.raised
    assert [(1, "inner")] == [(each["step"], each["where"]) for each in facts]


class Swallowing(nn.Module):
    """Makes a NaN between its layers, or in front of a block of them, and lets nobody see it."""

    def __init__(self, place: str) -> None:
        super().__init__()
        self.place = place
        self.first, self.block = nn.Linear(4, 4), Between(torch.log if place == "block" else torch.relu)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        hidden = -self.first(x).abs() - 1.0
        if self.place == "Swallowing":
            hidden = torch.sqrt(hidden)
        return self.block(hidden).nan_to_num()  # type: ignore[no-any-return]


@pytest.mark.parametrize(
    ("place", "line"),
    [
        ("block", "block.last at numerics.py"),
        ("Swallowing", "block.first at numerics.py"),
        ("input", ""),
    ],
)
def test_what_layers_are_given(place: str, line: str, logdir: Path, facts: list[dict[str, Any]]) -> None:
    """The layer behind a NaN is not blamed, but the module whose code has made it, or the batch."""
    torch.manual_seed(0)
    model = Swallowing(place)
    if place == "block":
        nn.init.eye_(model.block.first.weight)
        nn.init.zeros_(model.block.first.bias)
    x = torch.full((6, 4), NAN if place == "input" else 1.0)
    train(model, lambda _: (x,), logdir, check_numerics="layers", steps=1)
    told = facts[0]
    if place == "input":
        assert ("input", "Swallowing", False) == (told["what"], told["where"], told["inputs_finite"])
        return
    expected = ("output", place, True)
    assert expected == (told["what"], told["where"], told["inputs_finite"])
    assert told["class_name"].endswith("(own code)")
    assert line == told["before"].rpartition(":")[0]


def test_layers_pass_masks(logdir: Path, facts: list[dict[str, Any]]) -> None:
    """-inf alone is no alarm."""

    class Masking(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x.masked_fill(torch.eye(4, dtype=torch.bool), -INF)

    model = nn.Sequential(nn.Linear(4, 4), Masking(), nn.Softmax(dim=-1))
    train(model, lambda _: (torch.randn(4, 4),), logdir, check_numerics="layers")
    assert [] == facts


@pytest.mark.parametrize("where", ["0", ""])
def test_on_the_way_of_a_device(where: str, logdir: Path, facts: list[dict[str, Any]]) -> None:
    """A bad loss is known some steps later; the layers of the next bad step say where it comes from."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 1))
    nn.init.ones_(model[0].weight)
    with nd.watch(model, logdir=logdir, run="run", on_finding="ignore", strict=True) as monitor:
        monitor._adapter._reader.host_kinds = set()  # type: ignore[attr-defined]
        for step in range(8):
            is_bad = step in (1, 4)
            loss = model(torch.full((6, 4), 3e38 if is_bad and where else 1.0)).mean()
            if is_bad:
                loss = loss * INF
            loss.backward()
            model.zero_grad()
            monitor.step(loss=loss)
    assert [("output" if where else "loss", where)] == [(told["what"], told["where"]) for told in facts]
    assert 4 <= facts[0]["step"]


PROCESSES = """
import os, sys
import torch
from torch import distributed, multiprocessing, nn
import tb_netdebug as nd

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.norm, self.last = nn.Linear(4, 4), nn.BatchNorm1d(4), nn.Linear(4, 1)
        self.shift = 0.0

    def forward(self, x):
        return self.last(torch.log(self.norm(self.first(x)).abs() + self.shift))

def work(rank, folder):
    torch.set_num_threads(1)
    os.environ.update(RANK=str(rank), WORLD_SIZE="2")
    distributed.init_process_group("gloo", init_method=f"file://{folder}/meet", rank=rank, world_size=2)
    torch.manual_seed(0)
    net = Net()
    model = nn.parallel.DistributedDataParallel(net)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    with nd.watch(model, optimizer, logdir=folder, run="run", strict=True, on_finding="ignore") as monitor:
        for step in range(3):
            net.shift = -10.0 if (rank, step) == (1, 1) else 0.0
            optimizer.zero_grad()
            loss = model(torch.randn(6, 4)).mean()
            loss.backward()
            optimizer.step()
            monitor.step(loss=loss)
    distributed.destroy_process_group()

if __name__ == "__main__":
    multiprocessing.spawn(work, (sys.argv[1],), nprocs=2)
"""


def test_one_process_of_two(tmp_path: Path) -> None:
    """It repeats its pass alone, nobody waits for anybody, and the other one keeps no capsule."""
    script = tmp_path / "processes.py"
    script.write_text(PROCESSES)
    run_script(script, after=[str(tmp_path)])
    (path,) = (tmp_path / "run/capsules").iterdir()
    assert "step-1-rank1.pt" == path.name
    told = json.loads(torch.load(path, weights_only=True)["first_nonfinite"])
    assert ("output", "Net", "log") == (told["what"], told["where"], told["operation"])
