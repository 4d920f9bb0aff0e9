"""Optuna and NetDebug: trials whose networks are sick end at once, and say why.

pip install 'tb_netdebug[optuna]' scikit-learn
python demo/optuna_run.py && tensorboard --logdir runs
"""

import argparse

import optuna
import torch
from sklearn.datasets import load_digits
from torch import nn
from torch.nn import functional

import tb_netdebug as nd

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("--logdir", default="runs")
parser.add_argument("--trials", type=int, default=8)
options = parser.parse_args()

torch.set_num_threads(1)
digits = load_digits()  # 1797 pictures of 8 x 8 pixels
pictures = torch.tensor(digits.images, dtype=torch.float32).flatten(1) / 16
labels = torch.tensor(digits.target)


def objective(trial: optuna.Trial) -> float:
    """The loss on pictures that it has not seen."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))
    rate = trial.suggest_float("lr", 1e-3, 1e2, log=True)
    optimizer = torch.optim.SGD(model.parameters(), lr=rate)
    pruning = nd.OptunaPruning(trial)
    with nd.watch(
        model, optimizer, logdir=options.logdir, run=f"trial-{trial.number}", on_finding=pruning
    ) as monitor:
        for _ in range(400):
            batch = torch.randint(1500, (64,))
            loss = functional.cross_entropy(model(pictures[batch]), labels[batch])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            monitor.step(loss=loss)
    with torch.no_grad():
        return functional.cross_entropy(model(pictures[1500:]), labels[1500:]).item()


optuna.logging.set_verbosity(optuna.logging.WARNING)
study = optuna.create_study(sampler=optuna.samplers.RandomSampler(seed=0))
study.optimize(objective, n_trials=options.trials)
for trial in study.trials:
    reason = trial.user_attrs.get("netdebug", {}).get("message", "")
    result = f"{trial.value:.3g}" if trial.value is not None else ""
    print(f"trial {trial.number}  lr {trial.params['lr']:<8.3g} {trial.state.name:<8} {result}{reason}")
