"""Trainings that are found by themselves: models, optimizers, losses and steps."""

from __future__ import annotations

import copy
import gc
import os
import runpy
import subprocess
import sys
import threading
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import tb_netdebug as nd
from tb_netdebug.capture.settings import Settings
from tb_netdebug.capture.zero_code.closing_words import closing_words
from tb_netdebug.capture.zero_code.driver import ZeroCode
from tb_netdebug.records.step import Kind
from tests.support.loops import Recorded, hooks_of

ROOT = Path(__file__).resolve().parent.parent
SCRIPTS = ROOT / "tests/support/scripts"


@contextmanager
def zero_code(logdir: Path, **options: Any) -> Iterator[ZeroCode]:
    """What is trained inside is watched as `netdebug run` does it; nothing may go wrong in that."""
    watched = ZeroCode(
        Settings(**{"logdir": logdir, "run": "run", "every": 1, "on_finding": "ignore", **options})
    )
    before, leave = hooks_of(), os._exit
    watched.install()
    try:
        yield watched
    finally:
        watched.close()
    assert 0 == watched.faults
    assert (before, leave) == (hooks_of(), os._exit)


def run(
    script: str, *arguments: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> str:
    """What a script prints, in this process."""
    monkeypatch.setattr(sys, "argv", [script, *arguments])
    capsys.readouterr()
    runpy.run_path(str(SCRIPTS / script), run_name="__main__")
    return capsys.readouterr().out


def step(model: nn.Module, optimizer: torch.optim.Optimizer, inputs: torch.Tensor | None = None) -> float:
    """One of training."""
    loss = model(torch.randn(6, 4) if inputs is None else inputs).square().mean()
    optimizer.zero_grad()
    loss.backward()  # type: ignore[no-untyped-call]
    optimizer.step()
    return loss.item()


def sgd(*models: nn.Module, lr: float = 0.01) -> torch.optim.SGD:
    return torch.optim.SGD([each for model in models for each in model.parameters()], lr=lr)


# ---- whole scripts ---------------------------------------------------------------------------------------

SAME = [
    "gan.py",
    "functions.py",
    "trainer.py",
    "folds.py",
    "lbfgs.py",
    "scaled.py",
    "tensors.py",
    "inference.py",
]


@pytest.mark.parametrize("script", SAME)
def test_a_watched_script_computes_the_same_bit_for_bit(
    script: str, logdir: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Losses, weights and random numbers."""
    expected = run(script, capsys=capsys, monkeypatch=monkeypatch)
    with zero_code(logdir):
        actual = run(script, capsys=capsys, monkeypatch=monkeypatch)
    assert expected == actual


@pytest.mark.parametrize("context", ["fork", "spawn"])
def test_workers_of_a_loader_are_left_alone(context: str, logdir: Path) -> None:
    """Even a worker that trains a network of its own writes nothing."""
    package = "" if sys.flags.isolated else str(ROOT)  # in an isolated run the installed wheel is tested
    environment = {**os.environ, "PYTHONPATH": package, "OMP_NUM_THREADS": "1"}
    ran = subprocess.run(
        [sys.executable, "-m", "tb_netdebug", "run", "--logdir", logdir, "workers.py", context],
        cwd=SCRIPTS,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (0, "True True") == (ran.returncode, ran.stdout.splitlines()[-1]), ran.stderr
    (recorded,) = logdir.iterdir()
    found = Recorded(recorded)
    assert [float(line) for line in ran.stdout.splitlines()[:-1]] == pytest.approx(found.series("loss"))
    assert 1 == len(found.run.files)
    assert 1 == ran.stderr.count("NetDebug: 6 steps recorded")


def test_a_gan_is_one_training_with_a_loss_for_each_network(
    logdir: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A step ends when both optimizers have stepped; the losses have the networks' names."""
    with zero_code(logdir):
        printed = run("gan.py", capsys=capsys, monkeypatch=monkeypatch)
    found = Recorded(logdir / "run")
    losses = [[float(word) for word in line.split()] for line in printed.splitlines()[:-1]]
    assert list(range(10)) == found.steps
    assert {"netD": "Sequential", "netG": "Sequential"} == found.info["models"]
    assert [of_d for of_d, _ in losses] == pytest.approx(found.series("scalar/loss_netD"))
    assert [of_g for _, of_g in losses] == pytest.approx(found.series("scalar/loss_netG"))
    assert [sum(both) for both in losses] == pytest.approx(found.series("loss"))
    assert {"netD/0.weight", "netG/2.bias"} <= found.names(Kind.WEIGHT)
    assert 10 == len(found.samples(Kind.GRADIENT, "netG/0.weight"))


def test_accumulated_batches_are_one_step(
    logdir: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was differentiated for it is added up: half of two batches' losses each."""
    with zero_code(logdir):
        printed = run("trainer.py", capsys=capsys, monkeypatch=monkeypatch)
    losses = [float(word.strip("'[], ")) for word in printed.splitlines()[0].split(", ")]
    found = Recorded(logdir / "run")
    assert [first + second for first, second in zip(losses[::2], losses[1::2], strict=True)] == pytest.approx(
        found.series("loss")
    )
    assert [8.0] * 6 == found.series("batch_size")


def test_each_fold_of_a_cross_validation_is_a_run_and_its_network_is_let_go(
    logdir: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A new network with a new optimizer, the old ones being gone: `run`, `run-2`, `run-3`."""
    with zero_code(logdir) as watched:
        printed = run("folds.py", capsys=capsys, monkeypatch=monkeypatch)
    assert "held: 0" in printed
    assert [4, 5, 6] == [len(Recorded(logdir / name).steps) for name in ("run", "run-2", "run-3")]
    told = closing_words(watched)
    assert "3 trainings with 15 steps recorded" in told
    assert "run-2: 5 steps" in told


def test_a_closure_that_is_called_again_and_again_has_one_loss(
    logdir: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """LBFGS: the loss of a step is the first that it evaluates, which is what `step` returns."""
    with zero_code(logdir):
        printed = run("lbfgs.py", capsys=capsys, monkeypatch=monkeypatch)
    expected = [float(line) for line in printed.splitlines()]
    assert expected == pytest.approx(Recorded(logdir / "run").series("loss"))


def test_a_skipped_step_of_a_scaler_is_a_step_and_losses_are_not_scaled(
    logdir: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """torch.amp.GradScaler: the infinite loss stands where it was."""
    with zero_code(logdir):
        printed = run("scaled.py", capsys=capsys, monkeypatch=monkeypatch)
    expected = [float(line) for line in printed.splitlines()[:-1]]
    assert float("inf") == expected[3]
    assert expected == pytest.approx(Recorded(logdir / "run").series("loss"))


def test_tensors_that_belong_to_no_module_are_watched(
    logdir: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Weights, gradients and the loss of a program that trains plain tensors."""
    with zero_code(logdir):
        printed = run("tensors.py", capsys=capsys, monkeypatch=monkeypatch)
    found = Recorded(logdir / "run")
    assert [float(line) for line in printed.splitlines()] == pytest.approx(found.series("loss"))
    assert {"tensor0", "tensor1"} == found.names(Kind.WEIGHT) == found.names(Kind.GRADIENT)


# ---- what belongs together -------------------------------------------------------------------------------


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


def test_a_model_is_not_kept_alive_when_its_training_is_over(logdir: Path) -> None:
    """The memory of a big network is wanted for the next one."""
    with zero_code(logdir):

        def train() -> weakref.ref[nn.Module]:
            model = nn.Linear(4, 1)
            optimizer = sgd(model)
            step(model, optimizer)
            return weakref.ref(model)

        gone = train()
        assert gone() is not None  # nothing has happened since
        nn.Linear(2, 2)
        assert gone() is None


def test_many_short_trainings_do_not_eat_up_the_time(logdir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Opening runs has a budget; what is passed over is told at the end."""
    monkeypatch.setattr("tb_netdebug.capture.zero_code.driver.GRACE_SECS", 0.0)
    with zero_code(logdir, overhead=1e-6) as watched:
        for _ in range(5):
            model = nn.Linear(4, 1)
            step(model, sgd(model))
    assert 2 == len(watched.trainings)
    assert 3 == watched.passed_over
    assert "3 more trainings were not recorded" in closing_words(watched)


def test_the_inner_loops_of_a_meta_learner_are_not_all_recorded(logdir: Path) -> None:
    """After some trainings that were over within a few steps no more are begun; the outer one is there."""
    with zero_code(logdir) as watched:
        outer = nn.Linear(4, 1)
        meta = sgd(outer)
        for _ in range(14):
            inner = copy.deepcopy(outer)
            step(inner, sgd(inner))
            for ours, theirs in zip(outer.parameters(), inner.parameters(), strict=True):
                ours.grad = ours.detach() - theirs.detach()
            meta.step()
    lengths = [training.steps for training in watched.trainings]
    assert 8 <= lengths.count(1) <= 9
    assert 10 <= max(lengths)
    assert "more trainings were not recorded" in closing_words(watched)


def test_trainings_in_threads_keep_their_losses_apart(logdir: Path) -> None:
    """Each has its run, and what it differentiates itself."""
    losses: dict[float, list[float]] = {}

    def train(factor: float) -> None:
        model = nn.Linear(4, 1)
        optimizer = sgd(model)
        losses[factor] = [step(model, optimizer, torch.full((6, 4), factor)) for _ in range(20)]

    with zero_code(logdir) as watched:
        threads = [threading.Thread(target=train, args=(factor,)) for factor in (0.1, 0.2, 0.3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    found = [Recorded(training.run_dir).series("loss") for training in watched.trainings]
    assert sorted(losses.values()) == [pytest.approx(each) for each in sorted(found)]
    assert ["run", "run-2", "run-3"] == sorted(path.name for path in logdir.iterdir())


def test_a_mistake_of_ours_is_one_sentence(
    logdir: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The training goes on, unrecorded."""

    def broken(*_: Any, **__: Any) -> None:
        raise LookupError("not today")

    monkeypatch.setattr("tb_netdebug.capture.pytorch.discovery.beginnings.find_owners", broken)
    watched = ZeroCode(Settings(logdir=logdir))
    watched.install()
    try:
        model = nn.Linear(4, 1)
        optimizer = sgd(model)
        assert 3 == len([step(model, optimizer) for _ in range(3)])
    finally:
        watched.close()
    told = capsys.readouterr().err
    assert "NetDebug failed while looking at a call: LookupError: not today. The script goes on" in told
    assert 1 == told.count("NetDebug failed")


@pytest.mark.filterwarnings("ignore:.*torch.jit.script:DeprecationWarning")
def test_torch_jit_script_finds_no_hooks_of_ours(logdir: Path) -> None:
    """A model can be compiled for export while it is watched, and is watched on."""
    with zero_code(logdir):
        model = nn.Sequential(nn.Linear(4, 3), nn.ReLU(), nn.Linear(3, 1))
        optimizer = sgd(model)
        step(model, optimizer)
        hooks = hooks_of(model)
        scripted = torch.jit.script(model)
        assert hooks == hooks_of(model)
        with pytest.raises(torch.jit.frontend.NotSupportedError):
            torch.jit.script(nn.Sequential(model, Unscriptable()))
        for _ in range(2):  # the first one puts back what a failure has left hidden
            step(model, optimizer)
        assert hooks == hooks_of(model)
        inputs = torch.randn(2, 4)
        assert torch.equal(model(inputs), scripted(inputs))
    assert {0, 2} == set(Recorded(logdir / "run").samples(Kind.ACTIVATION, "0"))


class Unscriptable(nn.Module):
    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        return inputs + sum(each.sum() for each in gc.get_objects() if isinstance(each, nn.Parameter))
