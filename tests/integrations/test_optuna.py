"""`nd.OptunaPruning`: trials whose networks are sick end early, and say why."""

from __future__ import annotations

import math
import runpy
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import optuna
import pytest
import torch
from torch import nn

import tb_netdebug as nd
from tests.support.language_models import trainer
from tests.support.lightning_modules import Holder, fit
from tests.support.loops import ROOT

STEPS = 60
optuna.logging.set_verbosity(optuna.logging.ERROR)


def study(objective: Callable[[Any], float], trials: int, **options: Any) -> Any:
    made = optuna.create_study(sampler=optuna.samplers.RandomSampler(seed=0), **options)
    made.optimize(objective, n_trials=trials)
    return made


def train(trial: Any, logdir: Path, *, is_sick: bool, rules: Any = None) -> float:
    """A loop of one's own; the sick one divides by nothing at step 10."""
    torch.manual_seed(trial.number)
    model = nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    pruning = nd.OptunaPruning(trial, rules=rules)
    value = math.nan
    with nd.watch(model, optimizer, logdir=logdir, run=f"{trial.number}", on_finding=pruning) as monitor:
        for step in range(STEPS):
            loss = model(torch.randn(8, 4)).square().mean()
            optimizer.zero_grad()
            (loss / (0.0 if is_sick and step == 10 else 1.0)).backward()
            optimizer.step()
            value = loss.item()
            trial.report(value, step)
            if trial.should_prune():
                raise optuna.TrialPruned("by Optuna's own pruner")
            monitor.step(loss=loss)
            assert monitor.flush()
    return value


def test_sick_trials_are_pruned(logdir: Path) -> None:
    """At the next step; healthy ones are completed. The trial keeps what was found."""
    found = study(lambda trial: train(trial, logdir, is_sick=trial.number == 1), 3)
    assert ["COMPLETE", "PRUNED", "COMPLETE"] == [trial.state.name for trial in found.trials]
    reason = found.trials[1].user_attrs["netdebug"]
    assert (10, "error") == (reason["first_step"], reason["severity"])
    assert 10 <= found.trials[1].last_step <= 12
    assert found.best_trial.number in (0, 2)


def test_the_pruners_of_optuna_work_beside_it(logdir: Path) -> None:
    """By what the loop reports."""
    pruner = optuna.pruners.ThresholdPruner(upper=-1.0)
    found = study(lambda trial: train(trial, logdir, is_sick=False), 1, pruner=pruner)
    assert ["PRUNED"] == [trial.state.name for trial in found.trials]
    assert {} == found.trials[0].user_attrs


def test_only_the_checks_that_are_listed(logdir: Path) -> None:
    """An error of another check is no reason, then; a warning of one of them is."""
    kept = study(lambda trial: train(trial, logdir / "kept", is_sick=True, rules=["dead-units"]), 1)
    assert [] == [trial for trial in kept.trials if trial.state.name == "PRUNED"]
    listed = ["nonfinite-loss", "nonfinite-gradient"]
    ended = study(lambda trial: train(trial, logdir / "ended", is_sick=True, rules=listed), 1)
    assert ended.trials[0].user_attrs["netdebug"]["rule"] in listed


@pytest.mark.parametrize("rules", [["dead-unit"], "dead-units"])
def test_unknown_checks_are_refused(rules: Any) -> None:
    """A list with a mistake in it would prune nothing for ever."""
    with pytest.raises(ValueError, match="dead-unit"):
        nd.OptunaPruning(None, rules=rules)


def test_trials_of_lightning_and_transformers(logdir: Path) -> None:
    """The same object goes into the callbacks; both trainers let the trial end, and let go of the network."""
    callbacks: list[Any] = []

    def objective(trial: Any) -> float:
        pruning = nd.OptunaPruning(trial)
        if trial.number == 0:
            callbacks.append(nd.LightningCallback(logdir, run="lightning", on_finding=pruning))
            module = Holder()
            nn.init.constant_(module.model[0].weight, math.nan)
            fit(module, callbacks[-1], folder=logdir, max_epochs=100)
        else:
            callbacks.append(nd.TransformersCallback(logdir, run="transformers", on_finding=pruning))
            made = trainer("reader", logdir, callbacks[-1], num_train_epochs=100)
            nn.init.constant_(made.model.classifier.weight, math.nan)
            made.train()
        return 0.0

    found = study(objective, 2)
    assert ["PRUNED", "PRUNED"] == [trial.state.name for trial in found.trials]
    assert [None, None] == [callback.monitor for callback in callbacks]
    assert all("netdebug" in trial.user_attrs for trial in found.trials)


def test_the_attribute_can_be_stored(logdir: Path) -> None:
    """As Optuna stores it: in a database, as JSON."""
    storage = f"sqlite:///{logdir / 'study.db'}"
    study(lambda trial: train(trial, logdir, is_sick=True), 1, storage=storage, study_name="one")
    loaded = optuna.load_study(study_name="one", storage=storage)
    assert "nonfinite" in loaded.trials[0].user_attrs["netdebug"]["rule"]


def test_the_demo(logdir: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """Some of its trials are sick, and it says why."""
    monkeypatch.setattr(sys, "argv", ["optuna_run.py", "--logdir", str(logdir)])
    runpy.run_path(str(ROOT / "demo/optuna_run.py"), run_name="__main__")
    lines = capsys.readouterr().out.splitlines()
    assert 8 == len(lines)
    assert {"COMPLETE", "PRUNED"} == {line.split()[4] for line in lines}
    assert all(line.endswith(".") for line in lines if "PRUNED" in line), lines
