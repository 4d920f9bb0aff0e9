"""`nd.TransformersCallback`: what the Trainer trains is recorded batch by batch, and goes on unchanged."""

from __future__ import annotations

import runpy
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import Trainer, TrainerCallback

import tb_netdebug as nd
from tb_netdebug.checks.finding_error import FindingError
from tb_netdebug.core.records.step import Kind
from tests.support.language_models import BATCHES, trained, trainer
from tests.support.loops import OF_PARAMETERS, ROOT, Recorded, assert_equal

STEPS = list(range(2 * BATCHES))
OPTIONS: dict[str, dict[str, Any]] = {
    "plain": {},
    "bfloat16": {"bf16": True},
    "accumulated": {"gradient_accumulation_steps": 3},
    "evaluated often": {"eval_strategy": "steps", "eval_steps": 2},
    "logged often": {"logging_strategy": "steps", "logging_steps": 1},
}
# The loss of a language model is divided by the tokens of all batches that accumulate: 3, or what is left.
OF_THREE = [3, 3, 3, 2, 2] * 2


def steps_of(found: Recorded) -> list[int]:
    return sorted(set(found.steps))


# ---- what is recorded ------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["writer", "reader"])
@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS)
def test_every_batch_is_a_step(kind: str, options: dict[str, Any], logdir: Path) -> None:
    """With its loss; and all of the training is bit for bit what it is without."""
    plain, _ = trained(kind, logdir, is_watched=False, **options)
    watched, callback = trained(kind, logdir, is_watched=True, **options)
    assert_equal(plain, watched)
    found = Recorded(callback.run_dir)
    assert STEPS == steps_of(found)
    is_part = kind == "writer" and "gradient_accumulation_steps" in options
    parts = OF_THREE if is_part else [1] * len(STEPS)
    losses = [loss * part for loss, part in zip(watched.losses, parts, strict=True)]
    assert losses == pytest.approx(found.series("loss"), rel=1e-5)
    assert [4.0] * len(STEPS) == found.series("batch_size")


def test_all_statistics_from_the_first_batch_on(logdir: Path) -> None:
    """Of every parameter, of which the output and the embedding share one."""
    _, callback = trained("writer", logdir, is_watched=True)
    found = Recorded(callback.run_dir)
    names = found.names(Kind.WEIGHT)
    assert {"transformer.wte.weight", "transformer.h.1.mlp.c_fc.weight"} <= names
    for of_parameter in OF_PARAMETERS:
        assert names == found.names(of_parameter)
        assert STEPS == sorted(found.samples(of_parameter, "transformer.wte.weight"))
    assert "transformer.h.0.attn.c_attn" in found.names(Kind.ACTIVATION)
    assert {"time/data", "time/forward", "time/backward", "time/optimizer"} <= found.scalars.keys()


def test_the_optimizers_steps_are_counted_beside_the_batches(logdir: Path) -> None:
    """Four of them for ten batches, three at a time, and what is left of each epoch."""
    _, callback = trained("writer", logdir, is_watched=True, gradient_accumulation_steps=3)
    found = Recorded(callback.run_dir)
    assert [0, 0, 1, 1, 2, 2, 2, 3, 3, 4] == found.series("scalar/global_step")
    assert [2, 4, 7, 9] == sorted(found.samples(Kind.UPDATE, "transformer.wte.weight"))


def test_the_schedule_of_the_learning_rate(logdir: Path) -> None:
    """It falls to nothing in even steps."""
    _, callback = trained("writer", logdir, is_watched=True)
    rates = Recorded(callback.run_dir).series("lr/0")
    assert [1e-3 * (9 - step) / 10 for step in STEPS] == pytest.approx(rates, abs=1e-9)


def test_evaluations_are_recorded(logdir: Path) -> None:
    """The loss as the Trainer tells it, with the next batch or the last one; not how fast it was."""
    _, callback = trained("reader", logdir, is_watched=True)
    found = Recorded(callback.run_dir)
    assert [BATCHES, 2 * BATCHES - 1] == sorted(found.scalars["scalar/eval_loss"])
    assert {"scalar/eval_loss"} == {name for name in found.scalars if name.startswith("scalar/")}


class Own(Trainer):
    """Computes its loss by itself, and logs more than others do."""

    losses: tuple[float, ...] = ()

    def training_step(self, model: Any, inputs: Any, num_items_in_batch: Any = None) -> torch.Tensor:
        model.train()
        loss = model(**self._prepare_inputs(inputs)).loss
        self.accelerator.backward(loss)
        self.losses = (*self.losses, loss.item())
        self.log({"twice_the_loss": 2 * loss.item()})
        return loss.detach()


def test_a_trainer_with_a_step_of_its_own(logdir: Path) -> None:
    """Then backward tells the loss; and what it logs is recorded with the batch."""
    after, callback = trained("reader", logdir, is_watched=True, of=Own)
    found = Recorded(callback.run_dir)
    assert list(after.losses) == pytest.approx(found.series("loss"), rel=1e-6)
    assert [2 * loss for loss in after.losses] == pytest.approx(found.series("scalar/twice_the_loss"))


# ---- where, and how often --------------------------------------------------------------------------------


def test_without_a_folder_it_is_below_that_of_the_trainer(logdir: Path) -> None:
    callback = nd.TransformersCallback(on_finding="ignore")
    trainer("reader", logdir, callback, num_train_epochs=1).train()
    assert callback.run_dir is not None
    assert logdir / "runs" == callback.run_dir.parent
    assert STEPS[:BATCHES] == steps_of(Recorded(callback.run_dir))


def test_a_second_training_is_another_run(logdir: Path) -> None:
    """The Trainer begins anew, too."""
    callback = nd.TransformersCallback(logdir, run="run", on_finding="ignore")
    made = trainer("reader", logdir, callback, num_train_epochs=1)
    for name in ("run", "run-2"):
        made.train()
        assert logdir / name == callback.run_dir
        assert STEPS[:BATCHES] == steps_of(Recorded(logdir / name))


@pytest.mark.parametrize("parts", [1, 2])
def test_a_resumed_training_goes_on_counting(parts: int, logdir: Path) -> None:
    """From the checkpoint, which counts the steps of the optimizer."""
    saving = {"save_strategy": "epoch", "eval_strategy": "no", "gradient_accumulation_steps": parts}
    trainer("reader", logdir, num_train_epochs=1, **saving).train()
    (saved,) = logdir.glob("checkpoint-*")
    callback = nd.TransformersCallback(logdir, run="again", on_finding="ignore")
    trainer("reader", logdir, callback, **saving).train(resume_from_checkpoint=str(saved))
    assert STEPS[BATCHES:] == steps_of(Recorded(logdir / "again"))


class Breaking(TrainerCallback):
    """The weights are no numbers from a batch on, or the user's own code fails there."""

    def __init__(self, *, fails: bool) -> None:
        self.fails = fails

    def on_step_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        if state.global_step < 3:
            return
        if self.fails:
            raise RuntimeError("the user's own")
        with torch.no_grad():
            kwargs["model"].classifier.weight.mul_(float("nan"))


def test_findings_may_end_the_training(logdir: Path) -> None:
    """Although the Trainer hides losses that are no numbers; nothing of ours is left on the model."""
    callback = nd.TransformersCallback(logdir, run="run", on_finding="raise")
    made = trainer("reader", logdir, callback, Breaking(fails=False), num_train_epochs=100)
    with pytest.raises(FindingError, match="nonfinite") as raised:
        made.train()
    assert 3 == raised.value.finding.first_step
    assert None is callback.monitor
    assert [] == [each for each in made.model.modules() if each._forward_hooks or each._forward_pre_hooks]


def test_after_an_error_the_next_training_is_recorded(logdir: Path) -> None:
    """The Trainer tells nobody that it has failed: the recording ends when the next one begins."""
    callback = nd.TransformersCallback(logdir, run="run", on_finding="ignore")
    breaking = Breaking(fails=True)
    made = trainer("reader", logdir, callback, breaking, num_train_epochs=1)
    with pytest.raises(RuntimeError, match="the user's own"):
        made.train()
    made.remove_callback(breaking)
    made.train()
    assert [0, 1, 2] == steps_of(Recorded(logdir / "run"))
    assert STEPS[:BATCHES] == steps_of(Recorded(logdir / "run-2"))


def test_a_recording_ends_with_its_callback(logdir: Path) -> None:
    """When neither the Trainer nor anybody else has ended it."""
    callback = nd.TransformersCallback(logdir, run="run", on_finding="ignore")
    made = trainer("reader", logdir, callback, Breaking(fails=True), num_train_epochs=1)
    with pytest.raises(RuntimeError, match="the user's own"):
        made.train()
    monitor = callback.monitor
    assert monitor is not None
    assert monitor._is_open()
    made.remove_callback(callback)
    del callback
    assert not monitor._is_open()


def test_the_demo(logdir: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """Its learning rate is far too high, and it says so."""
    monkeypatch.setattr(sys, "argv", ["transformers_run.py", "--logdir", str(logdir)])
    runpy.run_path(str(ROOT / "demo/transformers_run.py"), run_name="__main__")
    assert "NetDebug: WARNING learning-rate-high" in capsys.readouterr().err
    assert 8 * 14 == len(steps_of(Recorded(logdir / "transformers")))
