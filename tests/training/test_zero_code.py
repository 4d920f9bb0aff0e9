"""Trainings that are found by themselves: models, optimizers, losses and steps."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

import tb_netdebug as nd
from tb_netdebug.core.records.step import Kind
from tb_netdebug.recording.settings import Settings
from tb_netdebug.training.zero_code.driver import ZeroCode
from tests.support.loops import Recorded
from tests.support.zero_code import sgd, step, zero_code


class Pair(nn.Module):
    """Two networks inside a third one."""

    def __init__(self) -> None:
        super().__init__()
        self.actor = nn.Linear(4, 2)
        self.critic = nn.Linear(4, 1)

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        return self.actor(inputs).sum() + self.critic(inputs).sum()


def test_optimizers_of_parts_of_one_model(logdir: Path) -> None:
    """The model is watched as a whole; the losses have the names of its parts."""
    with zero_code(logdir):
        pair = Pair()
        actor, critic = sgd(pair.actor), sgd(pair.critic)
        for _ in range(4):
            inputs = torch.randn(5, 4)
            actor.zero_grad()
            critic.zero_grad()
            pair.actor(inputs).square().mean().backward()
            actor.step()
            pair.critic(inputs).square().mean().backward()
            critic.step()
    found = Recorded(logdir / "run")
    assert {"": "Pair"} == found.info["models"]
    assert [0, 1, 2, 3] == found.steps
    assert {"scalar/loss_actor", "scalar/loss_critic"} <= found.scalars.keys()


class Harness(nn.Module):
    """Holds a network and much else, as a LightningModule does; is never called itself."""

    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Sequential(nn.Linear(4, 3), nn.Linear(3, 1))


def test_the_model_is_what_is_called(logdir: Path) -> None:
    """A module around it that nobody calls is no model."""
    with zero_code(logdir):
        harness = Harness()
        optimizer = sgd(harness.net)
        for _ in range(3):
            step(harness.net, optimizer)
    found = Recorded(logdir / "run")
    assert {"": "Sequential"} == found.info["models"]
    assert [6.0] * 3 == found.series("batch_size")


def test_wrappers_made_after_the_optimizer_are_watched_as_a_whole(logdir: Path) -> None:
    """DataParallel around a model whose optimizer is older."""
    with zero_code(logdir):
        model = nn.Linear(4, 1)
        optimizer = sgd(model)
        wrapped = nn.DataParallel(model)
        for _ in range(3):
            step(wrapped, optimizer)
    found = Recorded(logdir / "run")
    assert {"": "DataParallel"} == found.info["models"]
    assert {"weight", "bias"} == found.names(Kind.WEIGHT)


def test_an_evaluation_before_the_training_begins_nothing(logdir: Path) -> None:
    """Calls without gradients, and calls of a frozen network, come before the first step."""
    with zero_code(logdir):
        model, frozen = nn.Linear(4, 1), nn.Linear(4, 4).requires_grad_(False)
        optimizer = sgd(model)
        with torch.no_grad():
            model(torch.randn(2, 4))
        assert not logdir.joinpath("run").exists()
        for _ in range(3):
            step(model, optimizer, frozen(torch.randn(6, 4)))
    found = Recorded(logdir / "run")
    assert {"": "Linear"} == found.info["models"]
    assert [0, 1, 2] == found.steps
    assert [6.0] * 3 == found.series("batch_size")


def test_a_second_optimizer_of_the_same_model_goes_on_with_its_run(logdir: Path) -> None:
    """The next phase of a training: steps are numbered on, the gradients are there."""
    with zero_code(logdir):
        model = nn.Linear(4, 1)
        first = sgd(model)
        for _ in range(3):
            step(model, first)
        second = torch.optim.Adam(model.parameters(), lr=0.5)
        for _ in range(3):
            step(model, second)
    found = Recorded(logdir / "run")
    assert list(range(6)) == found.steps
    assert list(range(6)) == sorted(found.samples(Kind.GRADIENT, "weight"))
    assert 0.5 in found.series("lr/1")
    assert ["run"] == [path.name for path in logdir.iterdir()]


def test_copies_of_a_network_made_beforehand_are_trainings_of_their_own(logdir: Path) -> None:
    """An ensemble: a run for each, although all optimizers were there from the beginning."""
    with zero_code(logdir) as watched:
        models = [nn.Linear(4, 1) for _ in range(3)]
        optimizers = [sgd(model) for model in models]
        losses = [
            [step(model, optimizer) for _ in range(3)]
            for model, optimizer in zip(models, optimizers, strict=True)
        ]
    assert ["run", "run-2", "run-3"] == [training.run_dir.name for training in watched.trainings]
    assert losses == [
        pytest.approx(Recorded(training.run_dir).series("loss")) for training in watched.trainings
    ]


def test_trainings_that_take_turns_keep_their_losses_apart(logdir: Path) -> None:
    """Two runs are open at the same time; each has its own steps."""
    with zero_code(logdir) as watched:
        models = [nn.Linear(4, 1) for _ in range(2)]
        optimizers = [sgd(model) for model in models]
        losses = [
            [step(model, optimizer) for model, optimizer in zip(models, optimizers, strict=True)]
            for _ in range(4)
        ]
    for place, training in enumerate(watched.trainings):
        assert [both[place] for both in losses] == pytest.approx(Recorded(training.run_dir).series("loss"))


class Checkpointed(nn.Module):
    """Recomputes its middle in the backward pass."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.middle, self.last = nn.Linear(4, 4), nn.Linear(4, 4), nn.Linear(4, 1)

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        inner = checkpoint(self.middle, self.first(inputs), use_reentrant=True)
        return self.last(checkpoint(self.middle, inner, use_reentrant=True))


@pytest.mark.parametrize("passes", [1, 2])
def test_backward_passes_inside_another_are_no_losses(passes: int, logdir: Path) -> None:
    """A reentrant checkpoint calls backward with a layer's output; accumulated losses are added up."""
    model = Checkpointed()
    losses = []
    with zero_code(logdir):
        optimizer = sgd(model)
        for _ in range(4):
            optimizer.zero_grad()
            parts = [model(torch.randn(6, 4)).square().mean() for _ in range(passes)]
            for part in parts:
                part.backward()
            optimizer.step()
            losses.append(sum(float(part.item()) for part in parts))
    assert pytest.approx(losses) == Recorded(logdir / "run").series("loss")


def test_an_optimizer_that_was_there_before_is_found_when_it_steps(logdir: Path) -> None:
    """One that was copied or read from a file was never made either; its first step passes unseen."""
    model = nn.Linear(4, 1)
    optimizer = sgd(model)
    with zero_code(logdir):
        losses = [step(model, optimizer) for _ in range(4)]
    assert losses[1:] == pytest.approx(Recorded(logdir / "run").series("loss"))


def test_a_model_that_the_optimizer_has_another_copy_of_is_watched(logdir: Path) -> None:
    """The classical mistake: the model was rebuilt after the optimizer was made."""
    with zero_code(logdir):
        optimizer = sgd(nn.Linear(4, 1))
        model = nn.Linear(4, 1)
        for _ in range(4):
            step(model, optimizer)
    found = Recorded(logdir / "run")
    assert {"": "Linear"} == found.info["models"]
    assert found.names(Kind.WEIGHT) >= {"weight", "bias"}
    assert 3 == len(found.series("loss"))


def test_the_scripts_own_watch_is_left_to_itself(logdir: Path) -> None:
    """Whoever calls nd.watch gets that, and nothing else is written or said."""
    with zero_code(logdir) as watched:
        model = nn.Linear(4, 1)
        optimizer = sgd(model)
        with nd.watch(model, optimizer, logdir=logdir, run="own", on_finding="ignore") as monitor:
            for _ in range(3):
                monitor.step(step(model, optimizer))
    assert watched.stands_aside
    assert ["own"] == [path.name for path in logdir.iterdir()]
    assert 3 == len(Recorded(logdir / "own").steps)


@pytest.mark.parametrize(
    ("options", "unused", "instead"),
    [
        ({"run": "mine", "every": 2}, "--run, --every", "run=, every="),
        ({"check_numerics": "layers", "checks": {"dead-units": False}},
         "--check-numerics, --set, --off or --config", "check_numerics=, checks="),
        ({}, "", ""),
    ],
)  # fmt: skip
def test_options_that_the_scripts_own_watch_replaces_are_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], options: dict[str, Any], unused: str, instead: str
) -> None:
    """Once, with what to write in the script; whoever gave none reads nothing of it."""
    watched = ZeroCode(Settings(**options))
    watched.install()
    model = nn.Linear(4, 1)
    optimizer = sgd(model)
    with nd.watch(model, optimizer, logdir=tmp_path, on_finding="ignore") as monitor:
        monitor.step(step(model, optimizer))
    watched.finish()
    assert watched.stands_aside
    said = capsys.readouterr().err
    expected = (
        "NetDebug: the script calls nd.watch itself, which replaces `netdebug run`. Ignored: "
        f"{unused}. Set them in the script: nd.watch(..., {instead}...).\n"
    )
    assert (expected if unused else "") == said
