"""What is told of optimizers, gradients, and outputs that nobody uses."""

from __future__ import annotations

import copy
import gc
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional

import tb_netdebug as nd
from tests.support.loops import hooks_of, mlp, vectors
from tests.support.probed import Probed, learn, probed, sgd

BODY = ["0.weight", "0.bias", "2.weight", "2.bias"]
HEAD = ["4.weight", "4.bias"]


def backward(model: nn.Module) -> torch.Tensor:
    inputs, labels = vectors()
    loss = functional.cross_entropy(model(inputs), labels)
    loss.backward()  # type: ignore[no-untyped-call]
    return loss


def learned(logdir: Path, model: nn.Module, optimizer: Any, **options: Any) -> Probed:
    return probed(logdir, model, optimizer, lambda step: learn(model, optimizer, *vectors()), **options)


# ---- what optimizers hold ----------------------------------------------------------------------


def test_an_optimizer_of_all_parameters(logdir: Path) -> None:
    """Told once, when it first steps."""
    model = mlp()
    optimizer = torch.optim.AdamW(
        [{"params": model[:2].parameters()}, {"params": model[2:].parameters(), "lr": 0.5}],  # type: ignore[index]
        lr=torch.tensor(0.25),
        weight_decay=0.1,
    )
    found = learned(logdir, model, optimizer)
    assert [0] == [step for step, _ in found.facts["optimizer"]]
    told = found.last("optimizer")
    assert (0, "AdamW", 6) == (told["id"], told["class"], told["parameters"])
    assert ([], 0, False) == (told["missing"], told["strangers"], told["alike"])
    groups = [(each["lr"], each["weight_decay"], each["parameters"]) for each in told["groups"]]
    assert [(0.25, 0.1, 2), (0.5, 0.1, 4)] == groups


@pytest.mark.parametrize("is_given", [True, False])
def test_parameters_in_no_optimizer(is_given: bool, logdir: Path) -> None:
    """Only the last layer was handed over; the others get gradients for nothing."""
    model = mlp()
    optimizer = sgd(model[4])  # type: ignore[index]
    found = probed(
        logdir, model, optimizer if is_given else None, lambda step: learn(model, optimizer, *vectors())
    )
    assert [(0, []), (1, BODY)] == [(step, told["missing"]) for step, told in found.facts["optimizer"]]
    assert 4 == found.last("optimizer")["missing_with_gradient"]
    assert not found.last("optimizer")["alike"]


@pytest.mark.parametrize("is_given", [True, False])
def test_a_model_that_was_copied_after_the_optimizer_was_made(is_given: bool, logdir: Path) -> None:
    """The optimizer moves another model."""
    original = mlp()
    optimizer = sgd(original)
    model = copy.deepcopy(original)
    found = probed(
        logdir, model, optimizer if is_given else None, lambda step: learn(model, optimizer, *vectors())
    )
    told = found.last("optimizer")
    assert 1 == found.facts["optimizer"][-1][0]
    assert (BODY + HEAD, 6, True) == (told["missing"], told["strangers"], told["alike"])


def test_a_head_that_was_replaced(logdir: Path) -> None:
    """The optimizer goes on with the old one."""
    model = mlp()
    optimizer = sgd(model)

    def body(step: int) -> torch.Tensor:
        if step == 3:
            model[4] = nn.Linear(16, 3)  # type: ignore[index]
        return learn(model, optimizer, *vectors())

    found = probed(logdir, model, optimizer, body)
    assert [(0, [], False), (3, HEAD, True)] == [
        (step, told["missing"], told["alike"]) for step, told in found.facts["optimizer"]
    ]


def test_frozen_parameters_are_not_missing(logdir: Path) -> None:
    """Fine-tuning; they are told as frozen."""
    model = mlp()
    model[:4].requires_grad_(False)  # type: ignore[index]
    optimizer = sgd(model[4])  # type: ignore[index]
    found = learned(logdir, model, optimizer)
    assert [[]] == [told["missing"] for _, told in found.facts["optimizer"]]
    assert [(BODY, [])] == [(told["frozen"], told["none"]) for _, told in found.facts["gradients"]]


def test_more_parameters_later(logdir: Path) -> None:
    """`add_param_group` for a part that is thawed: told again."""
    model = mlp()
    model[:4].requires_grad_(False)  # type: ignore[index]
    optimizer = sgd(model[4])  # type: ignore[index]

    def body(step: int) -> torch.Tensor:
        if step == 3:
            model[:4].requires_grad_(True)  # type: ignore[index]
            optimizer.add_param_group({"params": model[:4].parameters()})  # type: ignore[index]
        return learn(model, optimizer, *vectors())

    found = probed(logdir, model, optimizer, body)
    assert [(0, 2, []), (3, 6, [])] == [
        (step, told["parameters"], told["missing"]) for step, told in found.facts["optimizer"]
    ]
    assert [BODY, []] == [told["frozen"] for _, told in found.facts["gradients"]]


@pytest.mark.parametrize("is_given", [True, False])
def test_a_generator_that_steps_rarely(is_given: bool, logdir: Path) -> None:
    """One in five: it is not called missing meanwhile."""
    generator, judge = nn.Linear(4, 6), nn.Linear(6, 1)
    optimizers = [sgd(generator), sgd(judge)]

    def body(step: int) -> torch.Tensor:
        loss = judge(generator(torch.randn(8, 4))).mean()
        loss.backward()
        optimizers[0 if step % 5 == 4 else 1].step()
        return loss

    models = {"g": generator, "d": judge}
    found = probed(logdir, models, optimizers if is_given else None, body, steps=12)
    assert [(0, 0, []), (4, 1, [])] == [
        (step, told["id"], told["missing"]) for step, told in found.facts["optimizer"]
    ]


def test_a_second_model_without_optimizer(logdir: Path) -> None:
    """Missing when gradients arrive, but not one that is only asked, as a teacher."""
    student, teacher, other = nn.Linear(6, 3), nn.Linear(6, 3), nn.Linear(3, 3)
    optimizer = sgd(student)

    def body(step: int) -> torch.Tensor:
        inputs, _ = vectors()
        with torch.no_grad():
            goal = teacher(inputs)
        loss = (other(student(inputs)) - goal).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss

    found = probed(logdir, {"s": student, "t": teacher, "o": other}, optimizer, body, steps=12)
    assert [(0, []), (1, ["o/weight", "o/bias"])] == [
        (step, told["missing"]) for step, told in found.facts["optimizer"]
    ]


def test_weights_that_are_moved_by_something_else(logdir: Path) -> None:
    """Master copies in the optimizer, an average of weights: a parameter that moves is not missing."""
    model = mlp()
    masters = [each.detach().clone().requires_grad_() for each in model.parameters()]
    optimizer = torch.optim.SGD(masters, lr=0.1)

    def body(step: int) -> torch.Tensor:
        model.zero_grad()
        loss = backward(model)
        for master, own in zip(masters, model.parameters(), strict=True):
            master.grad = own.grad
        optimizer.step()
        for master, own in zip(masters, model.parameters(), strict=True):
            own.data.copy_(master.data)
        return loss

    assert "optimizer" not in probed(logdir, model, optimizer, body).facts


def test_an_optimizer_for_every_step(logdir: Path) -> None:
    """It is the same one again."""
    model = mlp()

    def body(step: int) -> torch.Tensor:
        loss = learn(model, sgd(model), *vectors())
        gc.collect()
        return loss

    assert 1 == len(probed(logdir, model, None, body).facts["optimizer"])


def test_optimizers_of_something_else(logdir: Path) -> None:
    """Adversarial examples are made with an optimizer of their own in every step: it is none of ours."""
    model = mlp()
    optimizer = sgd(model)

    def body(step: int) -> torch.Tensor:
        inputs, labels = vectors()
        noise = torch.zeros_like(inputs, requires_grad=True)
        attack = torch.optim.SGD([noise], lr=0.1)
        (-functional.cross_entropy(model(inputs + noise), labels)).backward()  # type: ignore[no-untyped-call]
        attack.step()
        return learn(model, optimizer, inputs + noise.detach(), labels)

    found = probed(logdir, model, optimizer, body, steps=12)
    assert [(0, 0, [])] == [
        (step, told["strangers"], told["missing"]) for step, told in found.facts["optimizer"]
    ]


class PlainList(nn.Module):
    """Its first layers are no part of it, as far as torch knows."""

    def __init__(self, teacher: nn.Module) -> None:
        super().__init__()
        self.layers = [nn.Linear(6, 6), nn.Sequential(nn.Linear(6, 4))]
        self.teacher = {"kept out": teacher}
        self.head = nn.Linear(4, 3)

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        with torch.no_grad():
            self.teacher["kept out"](inputs)
        for layer in self.layers:
            inputs = layer(inputs).relu()
        scores: torch.Tensor = self.head(inputs)
        return scores


def test_layers_in_a_plain_list(logdir: Path) -> None:
    """They get gradients, and no optimizer; a teacher that gets none is kept there on purpose."""
    model = PlainList(nn.Linear(6, 3))
    found = learned(logdir, model, sgd(model))
    ((step, told),) = found.facts["unowned"]
    names = ["layers[0].bias", "layers[0].weight", "layers[1].0.bias", "layers[1].0.weight"]
    assert (1, "inside", 4, 70, 15) == (
        step, told["id"], told["tensors"], told["values"], told["values_of_models"]
    )  # fmt: skip
    assert (names, True) == (told["names"], told["fresh"])
    assert [] == found.last("optimizer")["missing"]
    assert [] == found.last("gradients")["frozen"]


def test_layers_in_a_plain_list_in_the_optimizer(logdir: Path) -> None:
    """Handed over by hand, they are trained."""
    model = PlainList(nn.Linear(6, 3))
    parameters = [*model.parameters(), *nn.ModuleList(model.layers).parameters()]
    found = learned(logdir, model, torch.optim.SGD(parameters, lr=0.1))
    assert [(0, [])] == [(told["strangers"], told["missing"]) for _, told in found.facts["optimizer"]]
    assert "unowned" not in found.facts


def test_excluded_names(logdir: Path) -> None:
    """They are not called missing, and not strangers either."""
    model = mlp()
    optimizer = sgd(model[4])  # type: ignore[index]
    found = learned(logdir, model, optimizer, exclude=r"^[04]")
    assert ["2.weight", "2.bias"] == found.last("optimizer")["missing"]
    assert 0 == found.last("optimizer")["strangers"]


# ---- gradients -------------------------------------------------------------------------------


class WithSpare(nn.Module):
    """`spare` is computed and thrown away, `never` is not even called, `quiet` runs without gradients."""

    def __init__(self) -> None:
        super().__init__()
        self.quiet = nn.Linear(6, 6)
        self.spare = nn.Linear(6, 3)
        self.head = nn.Linear(6, 3)
        self.never = nn.Linear(2, 2)

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        with torch.no_grad():
            hidden = self.quiet(inputs)
        self.spare(hidden)
        scores: torch.Tensor = self.head(hidden)
        return scores


def test_healthy_gradients(logdir: Path) -> None:
    """Told once, and never again."""
    model = mlp()
    (told,) = learned(logdir, model, sgd(model)).facts["gradients"]
    assert (0, [], False) == (told[0], told[1]["none"], told[1]["detached"])


def test_outputs_that_nobody_uses(logdir: Path) -> None:
    """Names of parameters without gradients, and why."""
    model = WithSpare()
    found = learned(logdir, model, sgd(model))
    without = [f"{name}.{own}" for name in ("quiet", "spare", "never") for own in ("weight", "bias")]
    first = next((step, told) for step, told in found.facts["gradients"] if told["none"])
    assert (1, without, 2) == (first[0], first[1]["none"], first[1]["steps"])
    told = first[1]
    assert (["spare"], ["quiet"], ["never"]) == (
        told["called"],
        told["called_without_grad"],
        told["uncalled"],
    )
    assert not told["detached"]
    assert [(1, {"names": ["spare"]})] == found.facts["ignored-outputs"]
    assert [0] * 4 == [hooks_of(each)[0] for each in model.children()]


@pytest.mark.parametrize("how", ["detached", "no backward"])
def test_no_gradient_anywhere(how: str, logdir: Path) -> None:
    """The loss does not lead back to the model, or `backward` is never called."""
    model = mlp()
    optimizer = sgd(model)

    def body(step: int) -> torch.Tensor:
        inputs, labels = vectors()
        loss = functional.cross_entropy(model(inputs).detach().requires_grad_(), labels)
        if how == "detached":
            loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        return loss

    found = probed(logdir, model, optimizer, body)
    assert [(1, True, 2), (3, True, 4)] == [
        (step, told["detached"], told["steps"]) for step, told in found.facts["gradients"]
    ]
    assert BODY + HEAD == found.last("gradients")["none"]
    assert "ignored-outputs" not in found.facts


class Skipping(nn.Module):
    """Its second block is left out in three steps of four."""

    def __init__(self) -> None:
        super().__init__()
        self.blocks = nn.ModuleList([nn.Linear(6, 6), nn.Linear(6, 6)])
        self.head = nn.Linear(6, 3)
        self.step = 0

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        self.step += 1
        for block in self.blocks[: 2 if self.step % 4 == 0 else 1]:
            inputs = block(inputs).relu()
        scores: torch.Tensor = self.head(inputs)
        return scores


def test_blocks_that_are_skipped(logdir: Path) -> None:
    """Without gradients because they were not called: the fact says so at once, and then no more."""
    model = Skipping()
    found = learned(logdir, model, sgd(model), steps=12)
    second = ["blocks.1.weight", "blocks.1.bias"]
    assert [(0, [], None), (1, second, ["blocks.1"]), (3, [], [])] == [
        (step, told["none"], told.get("uncalled")) for step, told in found.facts["gradients"]
    ]
    assert "ignored-outputs" not in found.facts


def test_parts_that_learn_now_and_then(logdir: Path) -> None:
    """A second head with a task that comes up in every fourth step: not told any more once it has."""
    body, heads = nn.Linear(6, 4), nn.ModuleList([nn.Linear(4, 3), nn.Linear(4, 3)])
    model = nn.ModuleDict({"body": body, "heads": heads})
    optimizer = sgd(model)

    def step_of(step: int) -> torch.Tensor:
        optimizer.zero_grad()
        loss = heads[step % 4 == 3](body(torch.randn(8, 6))).square().mean()
        loss.backward()
        optimizer.step()
        return loss

    found = probed(logdir, model, optimizer, step_of, steps=12)
    second = ["heads.1.weight", "heads.1.bias"]
    assert [(0, []), (1, second), (3, [])] == [
        (step, told["none"]) for step, told in found.facts["gradients"]
    ]


def test_gradients_made_by_a_closure(logdir: Path) -> None:
    """LBFGS computes them while it steps."""
    model = mlp()
    optimizer = torch.optim.LBFGS(model.parameters(), max_iter=3)

    def closure() -> torch.Tensor:
        optimizer.zero_grad()
        return backward(model).detach()

    found = probed(logdir, model, optimizer, lambda step: optimizer.step(closure))
    assert [[]] == [told["none"] for _, told in found.facts["gradients"]]


# ---- no optimizer steps ------------------------------------------------------------------------


def idle(found: Probed) -> list[tuple[int, dict[str, Any]]]:
    return [(step, told) for step, told in found.facts.get("optimizer", []) if told["id"] == "none"]


@pytest.mark.parametrize("is_cleared_last", [False, True])
def test_no_optimizer_steps(is_cleared_last: bool, logdir: Path) -> None:
    """`optimizer.step()` was forgotten; gradients come and are cleared."""
    model = mlp()
    optimizer = sgd(model)

    def body(step: int) -> torch.Tensor:
        if not is_cleared_last:
            optimizer.zero_grad()
        loss = backward(model)
        if is_cleared_last:
            optimizer.zero_grad()
        return loss

    step, told = idle(probed(logdir, model, optimizer, body))[0]
    assert 2 + is_cleared_last == step
    assert (0, True, True, False) == tuple(told[key] for key in ("steps", "gradients", "cleared", "moved"))


def by_data(model: nn.Module) -> None:
    for each in model.parameters():
        assert each.grad is not None
        each.data -= 0.1 * each.grad


def in_place(model: nn.Module) -> None:
    with torch.no_grad():
        for each in model.parameters():
            assert each.grad is not None
            each.sub_(0.1 * each.grad)


@pytest.mark.parametrize("update", [by_data, in_place])
def test_updates_by_hand(update: Any, logdir: Path) -> None:
    """They are legitimate, however written."""
    model = mlp()

    def body(step: int) -> torch.Tensor:
        model.zero_grad()
        loss = backward(model)
        update(model)
        return loss

    assert [] == idle(probed(logdir, model, None, body, steps=20))


def test_accumulation(logdir: Path) -> None:
    """The optimizer steps after 16 batches for the first time."""
    model = mlp()
    optimizer = sgd(model)

    def body(step: int) -> torch.Tensor:
        loss = backward(model)
        if step % 16 == 15:
            optimizer.step()
            optimizer.zero_grad()
        return loss

    assert [] == idle(probed(logdir, model, optimizer, body, steps=40))


def test_steps_that_a_scaler_skips(logdir: Path) -> None:
    """Its first scale is too large: the gradients overflow, and are cleared unused."""
    model = mlp()
    optimizer = sgd(model)

    def body(step: int) -> torch.Tensor:
        optimizer.zero_grad()
        loss = backward(model)
        if step < 10:
            model[0].weight.grad.fill_(torch.inf)  # type: ignore[index]
        else:
            optimizer.step()
        return loss

    assert [] == idle(probed(logdir, model, optimizer, body, steps=20))


def test_what_was_said_is_taken_back(logdir: Path) -> None:
    """When an optimizer steps after all."""
    model = mlp()
    optimizer = sgd(model)

    def body(step: int) -> torch.Tensor:
        optimizer.zero_grad()
        loss = backward(model)
        if step == 4:
            optimizer.step()
        return loss

    told = [(step, told["steps"]) for step, told in idle(probed(logdir, model, optimizer, body, steps=8))]
    assert [(2, 0), (4, 1)] == told


def test_predictions_only(logdir: Path) -> None:
    """Nothing is trained, and nothing is said."""
    model = mlp()

    def body(step: int) -> torch.Tensor:
        with torch.no_grad():
            return model(vectors()[0]).mean()  # type: ignore[no-any-return]

    assert {} == probed(logdir, model, None, body, steps=40).facts.get("optimizer", {})


# ---- coming and going --------------------------------------------------------------------------


@pytest.fixture
def spare(logdir: Path) -> Iterator[WithSpare]:
    model = WithSpare()
    before = hooks_of(model)
    yield model
    assert before == hooks_of(model)


def test_nothing_is_left(spare: WithSpare, logdir: Path) -> None:
    """Closed in the one step in which calls are watched, and while gradients are waited for."""
    optimizer = sgd(spare)
    monitor = nd.watch(spare, optimizer, logdir=logdir, memory=False, strict=True, on_finding="ignore")
    for _ in range(2):
        monitor.step(learn(spare, optimizer, *vectors()))
    monitor.close()
    monitor = nd.watch(spare, logdir=logdir, run="idle", memory=False, strict=True, on_finding="ignore")
    for _ in range(3):
        monitor.step(backward(spare))
        spare.zero_grad()
    monitor.close()
    assert not any(each._post_accumulate_grad_hooks for each in spare.parameters())
