"""What watching without a line must not do: keep models, eat up time, mix threads up, break a script."""

from __future__ import annotations

import copy
import gc
import threading
import weakref
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import tb_netdebug as nd
from tb_netdebug.core.records.step import Kind
from tb_netdebug.integrations.torch_scripts.owners import all_modules
from tb_netdebug.recording.settings import Settings
from tb_netdebug.training.zero_code.driver import ZeroCode
from tb_netdebug.training.zero_code.run_summary import closing_words
from tests.support.loops import Recorded, hooks_of
from tests.support.zero_code import sgd, step, zero_code


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
    monkeypatch.setattr("tb_netdebug.training.zero_code.driver.GRACE_SECS", 0.0)
    with zero_code(logdir, overhead=1e-6) as watched:
        for _ in range(5):
            model = nn.Linear(4, 1)
            step(model, sgd(model))
    assert 2 == len(watched.trainings)
    assert 3 == watched.passed_over
    assert "3 more runs were not recorded" in closing_words(watched)


def test_no_models_are_searched_for_when_no_more_runs_are_recorded(
    logdir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The search goes over all objects of the program: with many models it would cost more than they do."""
    searches = 0

    def counted() -> list[nn.Module]:
        nonlocal searches
        searches += 1
        return all_modules()

    monkeypatch.setattr("tb_netdebug.integrations.torch_scripts.owners.all_modules", counted)
    with zero_code(logdir) as watched:
        for _ in range(20):
            model = nn.Linear(4, 1)
            step(model, sgd(model))
    assert len(watched.trainings) == searches
    assert 8 <= searches <= 9
    assert 20 == searches + watched.passed_over


def test_copies_of_a_network_are_counted_when_no_more_runs_are_recorded(
    logdir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each would have been a run; two networks that train together would have been one."""
    monkeypatch.setattr("tb_netdebug.training.zero_code.driver.MOST_RUNS", 0)
    with zero_code(logdir) as watched:
        models = [nn.Linear(4, 1) for _ in range(3)]
        for model, optimizer in [(each, sgd(each)) for each in models]:
            step(model, optimizer)
        assert 3 == watched.passed_over
        first, second = nn.Linear(4, 2), nn.Linear(2, 1)
        optimizers = sgd(first), sgd(second)
        second(first(torch.randn(6, 4))).sum().backward()
        for optimizer in optimizers:
            optimizer.step()
    assert 4 == watched.passed_over


def test_a_watch_of_the_script_is_noticed_when_no_more_runs_are_recorded(
    logdir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The script's own call takes precedence at any time."""
    monkeypatch.setattr("tb_netdebug.training.zero_code.driver.MOST_RUNS", 0)
    with zero_code(logdir) as watched:
        model = nn.Linear(4, 1)
        optimizer = sgd(model)
        with nd.watch(model, optimizer, logdir=logdir, run="own", on_finding="ignore") as monitor:
            monitor.step(step(model, optimizer))
    assert watched.stands_aside


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
    assert "more runs were not recorded" in closing_words(watched)


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

    monkeypatch.setattr("tb_netdebug.integrations.torch_scripts.beginnings.find_owners", broken)
    watched = ZeroCode(Settings(logdir=logdir))
    watched.install()
    try:
        model = nn.Linear(4, 1)
        optimizer = sgd(model)
        assert 3 == len([step(model, optimizer) for _ in range(3)])
    finally:
        watched.close()
    told = capsys.readouterr().err
    assert "NetDebug failed while looking at a call: LookupError: not today. The script continues" in told
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
        for _ in range(2):
            step(model, optimizer)
        assert hooks == hooks_of(model)
        inputs = torch.randn(2, 4)
        assert torch.equal(model(inputs), scripted(inputs))
    assert {0, 1, 2} == set(Recorded(logdir / "run").samples(Kind.ACTIVATION, "0"))


class Unscriptable(nn.Module):
    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        return inputs + sum(each.sum() for each in gc.get_objects() if isinstance(each, nn.Parameter))
