"""The first NaN or infinity of a training: which module made it, and that looking for it changes nothing."""

from __future__ import annotations

import itertools
import json
import random
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional

import tb_netdebug as nd
from tb_netdebug.capture.collector import Collector
from tests.support.loops import assert_equal, hooks_of, our_warnings, run_script, state_of

Loss = Callable[[Any, Any], torch.Tensor]
NAN, INF = float("nan"), float("inf")


@pytest.fixture
def facts(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """What the probe tells, with the step in which it tells it."""
    told: list[dict[str, Any]] = []
    original = Collector.fact

    def fact(self: Collector, kind: str, /, **data: Any) -> None:
        if kind == "first-nonfinite":
            told.append({"step": self.step, **data})
        original(self, kind, **data)

    monkeypatch.setattr(Collector, "fact", fact)
    return told


def mean(output: torch.Tensor) -> torch.Tensor:
    return output.mean()


def train(
    model: nn.Module,
    batches: Callable[[int], Any],
    logdir: Path,
    *,
    loss_of: Callable[[Any], torch.Tensor] = mean,
    steps: int = 2,
    **options: Any,
) -> None:
    """A plain loop, watched strictly."""
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    options = {"memory": False, "on_finding": "ignore", "strict": True, "run": "run", **options}
    with nd.watch(model, optimizer, logdir=logdir, **options) as monitor:
        for step in range(steps):
            batch = batches(step)
            optimizer.zero_grad()
            output = model(**batch) if isinstance(batch, dict) else model(*batch)
            loss = loss_of(output)
            loss.backward()  # type: ignore[no-untyped-call]
            optimizer.step()
            monitor.step(loss=loss)


# ---- networks that make one -------------------------------------------------------------------------------


class Between(nn.Module):
    """A function of torch between two layers."""

    def __init__(self, function: Callable[[torch.Tensor], torch.Tensor]) -> None:
        super().__init__()
        self.first, self.last = nn.Linear(4, 4), nn.Linear(4, 2)
        self.function = function

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        result: torch.Tensor = self.last(self.function(self.first(x)))
        return result


class Inside(nn.Module):
    """The same, some levels further down."""

    def __init__(self, function: Callable[[torch.Tensor], torch.Tensor]) -> None:
        super().__init__()
        self.blocks = nn.ModuleList([Between(torch.relu), Between(function)])
        self.blocks[0].last = nn.Linear(4, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for block in self.blocks:
            x = block(x)
        return x


class Exp(nn.Module):
    """A layer of its own that overflows."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.exp(x * 1e4)


class Attention(nn.Module):
    """Scores, a mask of -inf, a softmax."""

    def __init__(self) -> None:
        super().__init__()
        self.query, self.key, self.value = nn.Linear(4, 4), nn.Linear(4, 4), nn.Linear(4, 4)
        self.softmax = nn.Softmax(dim=-1)

    def forward(self, x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        scores = self.query(x) @ self.key(x).transpose(1, 2)
        result: torch.Tensor = self.softmax(scores.masked_fill(~mask, -INF)) @ self.value(x)
        return result


class AdditiveMask(Attention):
    """The mask is added, and kept as a buffer."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("causal", torch.full((3, 3), -INF).triu(1))

    def forward(self, x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        scores = self.query(x) @ self.key(x).transpose(1, 2) + self.causal + mask
        result: torch.Tensor = self.softmax(scores) @ self.value(x)
        return result


class Nested(nn.Module):
    """Outputs as a dictionary of tuples."""

    def __init__(self) -> None:
        super().__init__()
        self.body, self.good, self.bad = nn.Linear(4, 4), nn.Linear(4, 1), Exp()

    def forward(self, *, x: torch.Tensor) -> dict[str, Any]:
        hidden = self.body(x)
        return {"good": self.good(hidden), "both": (hidden, self.bad(hidden.abs() + 1.0))}


@dataclass
class Output:
    score: torch.Tensor
    hidden: torch.Tensor


class Dataclassed(Nested):
    """Outputs as a dataclass."""

    def forward(self, *, x: torch.Tensor) -> Any:
        given = super().forward(x=x)
        return Output(given["good"], given["both"][1])


def rows(step: int) -> tuple[torch.Tensor]:
    return (torch.randn(6, 4),)


def sequences(step: int) -> tuple[torch.Tensor, torch.Tensor]:
    """In the second step one row of the mask allows nothing."""
    mask = torch.ones(2, 3, 3, dtype=torch.bool).tril()
    if step == 1:
        mask[1, 2] = False
    return torch.randn(2, 3, 4), mask


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
        assert facts[0]["site"].startswith("test_numerics.py:")


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
    "target": (functional.mse_loss, "mseloss", "target"),
    "unknown": (lambda output, _: (output * INF).mean(), "", ""),
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


# ---- nothing changes --------------------------------------------------------------------------------------


class Eventful(nn.Module):
    """Everything that a forward pass can leave behind."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(7, 8, max_norm=0.5)
        self.norm, self.dropout = nn.BatchNorm1d(8), nn.Dropout(0.3)
        self.spectral = nn.utils.spectral_norm(nn.Linear(8, 8))
        self.modern = nn.utils.parametrizations.spectral_norm(nn.Linear(8, 8))
        self.head = nn.Linear(8, 2)
        self.register_buffer("calls", torch.zeros(()))
        self.state: torch.Tensor | None = None

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.calls += 1
        noise = random.random() + float(np.random.rand())
        hidden = self.dropout(self.norm(self.embedding(x))) + noise * torch.rand(8)
        hidden = self.modern(torch.relu(self.spectral(hidden)))
        self.state = hidden.detach()
        result: torch.Tensor = self.head(hidden)
        return result


@pytest.mark.parametrize("options", [None, {}, {"check_numerics": "layers"}, {"check_numerics": "ops"}])
@pytest.mark.parametrize("mode", [True, False])
def test_nothing_changes(options: dict[str, Any] | None, mode: bool, logdir: Path) -> None:
    """The loss of one step in three is NaN, its gradients are left out: weights and random numbers agree."""

    def run(options: dict[str, Any] | None) -> Any:
        torch.manual_seed(5)
        random.seed(5)
        np.random.seed(5)
        model = Eventful().train(mode)
        optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
        monitor = None
        if options is not None:
            monitor = nd.watch(
                model, optimizer, logdir=logdir, run="run", strict=True, on_finding="ignore", **options
            )
        losses = []
        for step in range(7):
            optimizer.zero_grad()
            output = model(torch.randint(7, (6,)))
            loss = functional.cross_entropy(output, torch.randint(2, (6,)))
            if step % 3 == 1:
                loss = loss + torch.log(-output.abs()).mean()
            losses.append(repr(loss.item()))
            loss.backward()  # type: ignore[no-untyped-call]
            if step % 3 != 1:
                optimizer.step()
            if monitor is not None:
                monitor.step(loss=loss)
        if monitor is not None:
            monitor.close()
        drawn = [repr(random.random()), repr(float(np.random.rand()))]
        assert model.state is not None
        return state_of(model, [*losses, *drawn, repr(model.state.sum().item())]), hooks_of(model)  # type: ignore[list-item]

    before, after = run(None), run(options)
    before[0].gradients, after[0].gradients = {}, {}
    assert_equal(before[0], after[0])
    assert before[1] == after[1]


def test_the_buffers_of_a_graph_may_not_be_touched(logdir: Path, facts: list[dict[str, Any]]) -> None:
    """A backward pass that needs a buffer as it was still runs after the search."""
    torch.manual_seed(0)

    class Scaled(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear = nn.Linear(4, 4)
            self.register_buffer("scale", torch.ones(4))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            self.scale.mul_(1.5)
            return torch.log(-(self.linear(x) * self.scale).abs())

    model = Scaled()
    with nd.watch(model, logdir=logdir, run="run", on_finding="ignore", strict=True) as monitor:
        loss = model(torch.randn(2, 4)).mean()
        loss.backward()
        monitor.step(loss=loss)
    assert "log" == facts[0]["operation"]
    assert torch.equal(torch.full((4,), 1.5), model.scale)


def test_the_batch_is_not_written_to_again(logdir: Path, facts: list[dict[str, Any]]) -> None:
    """A model that works in place gets copies."""
    x = torch.full((2, 4), 2.0)

    class Doubling(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear = nn.Linear(4, 1)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.log(-self.linear(x.mul_(2.0)).abs())

    train(Doubling(), lambda _: (x,), logdir, steps=1)
    assert "log" == facts[0]["operation"]
    assert torch.equal(torch.full((2, 4), 4.0), x)


COLLECTED: list[torch.Tensor] = []


def test_what_hooks_and_code_have_collected(logdir: Path, facts: list[dict[str, Any]]) -> None:
    """Lists and dictionaries that are filled by hooks or by `forward` get nothing from the search."""
    near: dict[str, list[torch.Tensor]] = {"outputs": []}

    class Store:
        def __init__(self) -> None:
            self.seen: list[Any] = []

        def hook(self, *given: Any) -> None:
            self.seen.append(given)

    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear = nn.Linear(4, 1)
            self.cache: dict[str, Any] = {"all": []}

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            COLLECTED.append(x)
            self.cache["all"].append(x)
            return torch.log(-self.linear(x).abs())

    COLLECTED.clear()
    model, store = Net(), Store()
    model.linear.register_forward_hook(lambda _, __, output: near["outputs"].append(output))
    model.linear.register_forward_pre_hook(store.hook)
    train(model, rows, logdir, steps=2)
    assert "log" == facts[0]["operation"]
    assert [2] * 4 == [len(COLLECTED), len(near["outputs"]), len(store.seen), len(model.cache["all"])]


def test_values_from_nowhere(logdir: Path, facts: list[dict[str, Any]]) -> None:
    """What torch does not see being made is at least said of the module that puts it out."""

    class Outside(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:  # type: ignore[override]
            result = x.clone()
            result.numpy()[:] = NAN
            return result

        @staticmethod
        def backward(ctx: Any, gradient: torch.Tensor) -> torch.Tensor:  # type: ignore[override]
            return gradient

    train(Between(Outside.apply), rows, logdir, steps=1)
    assert ("output", "NaN", "") == (facts[0]["what"], facts[0]["kind"], facts[0]["why_not"])


def test_evaluations_and_losses_of_the_search_are_not_counted(logdir: Path) -> None:
    """No probe takes the repeated forward pass for one of the user's."""
    model = nn.Sequential(nn.Linear(4, 4), nn.Dropout(0.5))
    seen: list[dict[str, float]] = []
    with nd.watch(model, logdir=logdir, run="run", on_finding="ignore", strict=True) as monitor:
        loss = torch.log(-model(torch.randn(2, 4)).abs()).mean()
        loss.backward()
        seen.append(dict(monitor._collector.scalars))
        monitor.step(loss=loss)
    assert not seen[0].get("probe/evaluations")


# ---- what cannot be repeated ------------------------------------------------------------------------------


def test_autocast_is_on_again_in_the_search(logdir: Path, facts: list[dict[str, Any]]) -> None:
    """An overflow of float16 does not happen in float32; the backward pass begins outside of autocast."""
    model = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 1))
    for layer in (model[0], model[1]):
        nn.init.constant_(layer.weight, 300.0)
        nn.init.zeros_(layer.bias)
    with nd.watch(model, logdir=logdir, run="run", on_finding="ignore", strict=True) as monitor:
        with torch.autocast("cpu", torch.float16):
            loss = model(torch.ones(2, 4)).float().mean()
        loss.backward()
        monitor.step(loss=loss)
    assert ("1", "Inf", "") == (facts[0]["where"], facts[0]["kind"], facts[0]["why_not"])


def test_a_model_that_differentiates(logdir: Path, facts: list[dict[str, Any]]) -> None:
    """Forces are gradients of an energy: such a pass is repeated with gradients, and leaves none."""
    torch.manual_seed(0)

    class Forces(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear = nn.Linear(4, 1)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            x = x.detach().requires_grad_()
            (force,) = torch.autograd.grad(self.linear(x).tanh().sum(), x, create_graph=True)
            return torch.log(-force.abs())

    train(Forces(), rows, logdir, steps=1, check_numerics="sampled")
    assert ("output", "log", "") == (facts[0]["what"], facts[0]["operation"], facts[0]["why_not"])


@pytest.mark.parametrize("is_reentrant", [True, False])
def test_activation_checkpointing(is_reentrant: bool, logdir: Path, facts: list[dict[str, Any]]) -> None:
    """Modules that are called again in backward are named like all others."""
    torch.manual_seed(0)

    class Checkpointed(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.block = nn.Linear(4, 4), Between(torch.log)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            result: torch.Tensor = torch.utils.checkpoint.checkpoint(
                self.block, self.first(x), use_reentrant=is_reentrant
            )
            return result

    train(Checkpointed(), rows, logdir, steps=1)
    assert ("block", "log", "") == (facts[0]["where"], facts[0]["operation"], facts[0]["why_not"])


def test_a_model_that_cannot_be_called_again(logdir: Path, facts: list[dict[str, Any]]) -> None:
    """The reason is told, and that its output was not finite."""

    class Once(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear = nn.Linear(4, 1)
            self.numbers = itertools.count()

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            if next(self.numbers):
                raise ValueError("only once")
            return torch.log(-self.linear(x).abs())

    train(Once(), rows, logdir, steps=1)
    assert ("output", "Once") == (facts[0]["what"], facts[0]["where"])
    assert "ValueError: only once" in facts[0]["why_not"]


def test_a_model_that_talks_to_others_is_not_called_again(logdir: Path, facts: list[dict[str, Any]]) -> None:
    """Other processes would not answer, and ours would wait for them."""

    class Talking(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear = nn.Linear(4, 1)
            self.calls = 0

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            y = self.linear(x)
            torch.distributed.all_reduce(y.detach())
            return torch.log(-y.abs())

    store = torch.distributed.HashStore()
    torch.distributed.init_process_group("gloo", store=store, rank=0, world_size=1)
    try:
        train(Talking(), rows, logdir, steps=1)
    finally:
        torch.distributed.destroy_process_group()
    assert "talks to other processes" in facts[0]["why_not"]


def test_a_compiled_model_is_followed_uncompiled(logdir: Path, facts: list[dict[str, Any]]) -> None:
    """And is not compiled again because of it."""
    torch._dynamo.reset()
    compilations: list[int] = []

    def count(graph: Any, _: Any) -> Any:
        compilations.append(1)
        return graph

    torch.manual_seed(0)
    model = torch.compile(Inside(torch.log), backend=count)
    with our_warnings():
        train(model, rows, logdir, steps=4, strict=False)  # type: ignore[arg-type]
    assert ("blocks.1", "log") == (facts[0]["where"], facts[0]["operation"])
    assert [1] == compilations


def test_a_model_compiled_in_place(logdir: Path, facts: list[dict[str, Any]]) -> None:
    """Nothing of it is seen, and that is said."""
    torch._dynamo.reset()
    model = Inside(torch.log)
    model.compile(backend="eager")
    with our_warnings():
        train(model, rows, logdir, steps=2, strict=False)
    assert "loss" == facts[0]["what"]
    assert "no call of the model was seen" == facts[0]["why_not"]


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
