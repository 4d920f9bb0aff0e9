"""What is told of train and evaluation mode."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional

import tb_netdebug as nd
from tb_netdebug.core.records.step import Kind
from tb_netdebug.frameworks.torch.modes.switches import switches_of
from tests.support.loops import cnn, mlp, pictures, recorded, vectors
from tests.support.probed import Probed, learn, probed, sgd

EVAL, TOTAL = "probe/eval_modules", "probe/mode_modules"
EVALUATIONS, IN_TRAIN = "probe/evaluations", "probe/train_mode_evaluations"


def evaluate(model: nn.Module, calls: int = 3) -> None:
    with torch.no_grad():
        for _ in range(calls):
            model(pictures()[0])


def watched(logdir: Path, model: nn.Module, train: Any, **options: Any) -> Probed:
    """`train(monitor, optimizer)` under watch."""
    optimizer = sgd(model)
    found = recorded(
        logdir, model, optimizer, lambda monitor: train(monitor, optimizer), on_finding="ignore", **options
    )
    return Probed(logdir / "run", found)


# ---- training --------------------------------------------------------------------------------


def test_a_training_in_train_mode(logdir: Path) -> None:
    """Batch norm and dropout are counted, and none of them is in evaluation mode."""
    model = cnn()
    optimizer = sgd(model)
    found = probed(logdir, model, optimizer, lambda step: learn(model, optimizer, *pictures()))
    assert [2.0] * 6 == list(found.scalar(TOTAL).values())
    assert [0.0] * 6 == list(found.scalar(EVAL).values())
    assert 1 == len(found.facts["modes"])
    assert ([], 2, False) == tuple(found.last("modes")[key] for key in ("eval", "total", "root_eval"))


def test_a_training_in_evaluation_mode(logdir: Path) -> None:
    """`model.eval()` and never `model.train()` again."""
    model = cnn().eval()
    optimizer = sgd(model)
    found = probed(logdir, model, optimizer, lambda step: learn(model, optimizer, *pictures()))
    assert [2.0] * 6 == list(found.scalar(EVAL).values())
    assert (["1", "7"], 2, True) == tuple(found.last("modes")[key] for key in ("eval", "total", "root_eval"))


def test_a_change_is_seen_in_the_step_itself(logdir: Path) -> None:
    """Even if that step is not sampled: after an evaluation in step 40 `model.train()` was forgotten."""
    model = cnn()

    def train(monitor: nd.Monitor, optimizer: torch.optim.Optimizer) -> None:
        for step in range(50):
            monitor.step(learn(model, optimizer, *pictures()))
            if step == 40:
                model.eval()
                evaluate(model)

    found = watched(logdir, model, train, every=1000)
    assert [*range(32), 41] == list(found.scalar(EVAL))
    assert 2.0 == found.scalar(EVAL)[41]
    assert 41 == found.facts["modes"][-1][0]


def test_evaluations_with_gradients(logdir: Path) -> None:
    """Without `torch.no_grad()`, but with the right modes: neither before nor after the training call."""
    model = cnn()

    def train(monitor: nd.Monitor, optimizer: torch.optim.Optimizer) -> None:
        for step in range(50):
            loss = learn(model, optimizer, *pictures())
            if step % 2:
                monitor.step(loss)
            model.eval()
            model(pictures()[0])
            model.train()
            if not step % 2:
                monitor.step(loss)

    found = watched(logdir, model, train, every=7)
    assert {0.0} == set(found.scalar(EVAL).values())


def test_calls_without_backward_are_no_training(logdir: Path) -> None:
    """Predictions in evaluation mode, with gradients on by mistake."""
    model = cnn().eval()
    optimizer = sgd(model)
    found = probed(logdir, model, optimizer, lambda step: model(pictures()[0]).mean())
    assert {} == found.scalar(EVAL)


def test_gradients_that_are_cleared_at_the_end(logdir: Path) -> None:
    """Then the step of the optimizer tells that the model was trained."""
    model = cnn().eval()
    optimizer = sgd(model)

    def body(step: int) -> torch.Tensor:
        loss = learn(model, optimizer, *pictures())
        optimizer.zero_grad()
        return loss

    assert [2.0] * 6 == list(probed(logdir, model, optimizer, body).scalar(EVAL).values())


def test_frozen_parts_in_evaluation_mode(logdir: Path) -> None:
    """Fine-tuning: the batch norm of a frozen backbone, and its dropout, do not count."""
    backbone = nn.Sequential(nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.Dropout(0.2)).requires_grad_(False)
    head = nn.Sequential(nn.Flatten(), nn.Dropout(0.3), nn.Linear(4 * 36, 3))
    model = nn.Sequential(backbone, head)
    backbone.eval()
    optimizer = sgd(head)
    found = probed(logdir, model, optimizer, lambda step: learn(model, optimizer, *pictures()))
    assert {1.0} == set(found.scalar(TOTAL).values())
    assert {0.0} == set(found.scalar(EVAL).values())
    assert ["0.1", "0.2"] == found.last("modes")["frozen"]


def test_batch_norm_alone(logdir: Path) -> None:
    """Kept as it is though it could learn: its name tells, and that the model itself is in train mode."""
    model = cnn()
    model[1].eval()  # type: ignore[index]
    optimizer = sgd(model)
    found = probed(logdir, model, optimizer, lambda step: learn(model, optimizer, *pictures()))
    assert (["1"], False) == tuple(found.last("modes")[key] for key in ("eval", "root_eval"))


# ---- evaluations -----------------------------------------------------------------------------


def test_an_evaluation_in_train_mode(logdir: Path) -> None:
    """`model.eval()` was forgotten: calls are counted, and names told."""
    model = cnn()

    def train(monitor: nd.Monitor, optimizer: torch.optim.Optimizer) -> None:
        for step in range(40):
            monitor.step(learn(model, optimizer, *pictures()))
            if step == 35:
                evaluate(model, 5)

    found = watched(logdir, model, train, every=1000)
    assert {36: 5.0} == found.scalar(EVALUATIONS) == found.scalar(IN_TRAIN)
    told = found.last("modes")
    assert ["1", "7"] == told["evaluating_in_train"]
    assert 5 == told["evaluation_calls_in_a_row"]
    assert told["evaluating_root_train"]


def test_an_evaluation_in_evaluation_mode(logdir: Path) -> None:
    """As it should be."""
    model = cnn()

    def train(monitor: nd.Monitor, optimizer: torch.optim.Optimizer) -> None:
        for _ in range(4):
            model.train()
            monitor.step(learn(model, optimizer, *pictures()))
            model.eval()
            evaluate(model)

    found = watched(logdir, model, train)
    assert {1: 3.0, 2: 3.0, 3: 3.0} == found.scalar(EVALUATIONS)
    assert {0.0} == set(found.scalar(IN_TRAIN).values())
    assert {0.0} == set(found.scalar(EVAL).values())
    assert [] == found.last("modes")["evaluating_in_train"]


def test_dropout_at_evaluation_on_purpose(logdir: Path) -> None:
    """The model itself is in evaluation mode, and dropout alone is not: the fact says both."""
    model = cnn()

    def train(monitor: nd.Monitor, optimizer: torch.optim.Optimizer) -> None:
        for _ in range(3):
            model.train()
            monitor.step(learn(model, optimizer, *pictures()))
            model.eval()
            model[7].train()  # type: ignore[index]
            evaluate(model)

    told = watched(logdir, model, train).last("modes")
    assert (["7"], False) == (told["evaluating_in_train"], told["evaluating_root_train"])


def test_the_batch_of_the_training_is_no_evaluation(logdir: Path) -> None:
    """Accuracy on the batch that was just trained on, or on a view of it."""
    model = cnn()
    optimizer = sgd(model)

    def body(step: int) -> torch.Tensor:
        inputs, labels = pictures()
        loss = learn(model, optimizer, inputs, labels)
        with torch.no_grad():
            model(inputs)
            model(inputs.view(8, 1, 8, 8))
        return loss

    assert {} == probed(logdir, model, optimizer, body).scalar(EVALUATIONS)


def test_batch_norm_that_is_calibrated_again(logdir: Path) -> None:
    """`update_bn` runs the model in train mode without gradients, and means it."""
    model = nn.Sequential(nn.Linear(6, 4), nn.BatchNorm1d(4), nn.Linear(4, 3))
    loader = [vectors() for _ in range(4)]

    def train(monitor: nd.Monitor, optimizer: torch.optim.Optimizer) -> None:
        for _ in range(3):
            monitor.step(learn(model, optimizer, *vectors()))
            torch.optim.swa_utils.update_bn(loader, model)

    found = watched(logdir, model, train)
    assert {1: 4.0, 2: 4.0} == found.scalar(EVALUATIONS)
    assert {0.0} == set(found.scalar(IN_TRAIN).values())


def test_a_generator_asked_for_examples(logdir: Path) -> None:
    """In each step of a GAN once without gradients: never more than one call in a row."""
    generator = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.Linear(8, 6))
    judge = nn.Sequential(nn.Linear(6, 8), nn.Dropout(0.2), nn.Linear(8, 1))
    optimizers = [sgd(generator), sgd(judge)]

    def body(step: int) -> torch.Tensor:
        with torch.no_grad():
            examples = generator(torch.randn(8, 4))
        for optimizer in optimizers:
            optimizer.zero_grad()
        loss: torch.Tensor = judge(examples).mean() - judge(generator(torch.randn(8, 4))).mean()
        loss.backward()
        for optimizer in optimizers:
            optimizer.step()
        return loss

    found = probed(logdir, {"g": generator, "d": judge}, optimizers, body)
    assert 1 == found.last("modes")["evaluation_calls_in_a_row"]
    assert [1.0] * 6 == list(found.scalar(IN_TRAIN).values())
    assert {2.0} == set(found.scalar(TOTAL).values())


class Dropping(nn.Module):
    """Two of its calls know the mode, and one has forgotten it."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(6, 3)
        self.sample = nn.Dropout(0.5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = functional.dropout(x, 0.1, training=self.training)
        x = functional.dropout(x, 0.1, True)
        x = functional.dropout(
            self.sample(x),
            p=0.1,
        )
        scores: torch.Tensor = functional.dropout(self.layer(x), 0.0)
        return scores


def test_dropout_that_does_not_know_the_mode(logdir: Path) -> None:
    """Only the call that says nothing of `training`, only in evaluations; then all is as it was."""
    code = functional.dropout.__code__
    model = Dropping()

    def train(monitor: nd.Monitor, optimizer: torch.optim.Optimizer) -> None:
        for _ in range(3):
            model.train()
            monitor.step(learn(model, optimizer, *vectors()))
            model.eval()
            with torch.no_grad():
                model(vectors()[0])
            assert code is not functional.dropout.__code__
        monitor.step(learn(model, optimizer, *vectors()))
        assert code is functional.dropout.__code__

    found = watched(logdir, model, train)
    lines = Path(__file__).read_text().splitlines()
    (line,) = [number for number, text in enumerate(lines, 1) if text.endswith("functional.dropout(")]
    (place,) = found.last("modes")["functional_dropout"]
    assert place in (f"{Path(__file__).name}:{line}", f"{Path(__file__).name}:{line + 1}")


# ---- modules ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("module", "is_told"),
    [
        (nn.Dropout(0.1), True),
        (nn.Dropout(0.0), False),
        (nn.AlphaDropout(0.1), True),
        (nn.BatchNorm3d(3), True),
        (nn.BatchNorm1d(3, track_running_stats=False), False),
        (nn.InstanceNorm2d(3), False),
        (nn.InstanceNorm2d(3, track_running_stats=True), True),
        (nn.LSTM(3, 3, num_layers=2, dropout=0.2), True),
        (nn.GRU(3, 3), False),
        (nn.MultiheadAttention(4, 2, dropout=0.1), True),
        (nn.LayerNorm(3), False),
        (nn.Linear(3, 3), False),
    ],
)
def test_which_modules_count(module: nn.Module, is_told: bool) -> None:
    """Those that do something else in training than in evaluation."""
    assert is_told == bool(switches_of("", nn.Sequential(module), lambda _: True))


def test_excluded_names_and_later_modules(logdir: Path) -> None:
    """What is excluded is not counted; a module that is added later is."""
    model = nn.Sequential(nn.Linear(6, 6), nn.Dropout(0.1), nn.Linear(6, 3))
    optimizer = sgd(model)

    def body(step: int) -> torch.Tensor:
        if step == 3:
            model.append(nn.Dropout(0.2))
        return learn(model, optimizer, *vectors())

    found = probed(logdir, model, optimizer, body, exclude=r"^1$")
    assert [0.0] * 3 + [1.0] * 3 == list(found.scalar(TOTAL).values())


def test_a_list_of_modules(logdir: Path) -> None:
    """A `ModuleList` is never called itself: its first part tells, for all of it."""
    parts = nn.ModuleList([nn.Linear(6, 6), nn.Dropout(0.1), nn.Linear(6, 3)])
    optimizer = sgd(parts)

    def body(step: int) -> torch.Tensor:
        optimizer.zero_grad()
        hidden, _ = vectors()
        for part in parts:
            hidden = part(hidden)
        loss = hidden.square().mean()
        loss.backward()
        optimizer.step()
        return loss

    found = probed(logdir, parts.eval(), optimizer, body)
    assert [1.0] * 6 == list(found.scalar(EVAL).values())
    assert 6 == len(found.scalar("probe/batch_id"))
    assert {"input/0"} == found.recorded.names(Kind.TENSOR)


def test_a_model_without_such_modules(logdir: Path) -> None:
    """There is nothing to be wrong."""
    model = mlp().eval()
    optimizer = sgd(model)
    found = probed(logdir, model, optimizer, lambda step: learn(model, optimizer, *vectors()))
    assert {0.0} == set(found.scalar(TOTAL).values()) == set(found.scalar(EVAL).values())
