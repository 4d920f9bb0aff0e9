"""What is told of optimizers: which parameters they have, and which nobody has."""

from __future__ import annotations

import copy
import gc
from pathlib import Path

import pytest
import torch
from torch import nn
from torch.nn import functional

from tests.support.loops import mlp, vectors
from tests.support.probed import BODY, HEAD, backward, learn, learned, probed, sgd


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


@pytest.mark.parametrize("is_added", [False, True])
def test_parameters_that_are_thawed_between_two_looks(is_added: bool, logdir: Path) -> None:
    """They are told in the very step, and as missing only where no optimizer has got them."""
    model = mlp()
    model[:4].requires_grad_(False)  # type: ignore[index]
    optimizer = sgd(model[4])  # type: ignore[index]

    def body(step: int) -> torch.Tensor:
        if step == 40:
            model[:4].requires_grad_(True)  # type: ignore[index]
            if is_added:
                optimizer.add_param_group({"params": model[:4].parameters()})  # type: ignore[index]
        return learn(model, optimizer, *vectors())

    found = probed(logdir, model, optimizer, body, steps=44, every=100)
    assert [(0, []), (40, [] if is_added else BODY)] == [
        (step, told["missing"]) for step, told in found.facts["optimizer"]
    ]


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
