"""`nd.LightningCallback`: trainings are recorded like loops of one's own, and go on unchanged."""

from __future__ import annotations

import json
import math
import pickle
import runpy
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import lightning as L  # noqa: N812 (everybody calls it so)
import pytest
import torch
from lightning.pytorch.callbacks import Callback, ModelCheckpoint
from torch import nn

import tb_netdebug as nd
from tb_netdebug.checks.finding_error import FindingError
from tb_netdebug.core.records.step import Kind
from tb_netdebug.recording.settings import Settings
from tb_netdebug.training.zero_code.driver import ZeroCode
from tests.support.lightning_modules import (
    BATCHES,
    KINDS,
    Holder,
    Itself,
    Remembering,
    batches,
    fit,
    trained,
)
from tests.support.loops import OF_PARAMETERS, ROOT, Recorded, assert_equal, our_warnings, run_script

STEPS = list(range(2 * BATCHES))
NAMES = {
    "Holder": {"0.weight", "0.bias", "3.weight", "3.bias"},
    "Itself": {"first.weight", "first.bias", "last.weight", "last.bias"},
    "Autoencoder": {"encoder/0.weight", "encoder/0.bias", "decoder/weight", "decoder/bias"},
    "Adversaries": {
        "generator/weight",
        "generator/bias",
        *(f"critic/{n}.{p}" for n in (0, 2) for p in ("weight", "bias")),
    },
}
HARDER = {
    "bfloat16": {"precision": "bf16-mixed"},
    "clipped": {"gradient_clip_val": 0.1},
    "accumulated": {"accumulate_grad_batches": 3},
    "evaluated often": {"val_check_interval": 2},
}


def steps_of(found: Recorded) -> list[int]:
    return sorted(set(found.steps))


# ---- what is recorded ------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
def test_every_batch_is_a_step(kind: str, logdir: Path) -> None:
    """Whatever a module calls: the losses, and all statistics of what is trained, from the first batch on."""
    after, callback = trained(kind, logdir, is_watched=True)
    found = Recorded(callback.run_dir)
    assert STEPS == steps_of(found)
    assert after.losses == pytest.approx(found.series("loss"), rel=1e-6)
    assert [8.0] * len(STEPS) == found.series("batch_size")
    for of_parameter in OF_PARAMETERS:
        assert NAMES[kind] == found.names(of_parameter)
        for name in NAMES[kind]:
            assert STEPS == sorted(found.samples(of_parameter, name))
    assert {"time/data", "time/forward", "time/backward", "time/optimizer"} <= found.scalars.keys()


@pytest.mark.parametrize("kind", KINDS)
def test_a_training_is_the_same_without(kind: str, logdir: Path) -> None:
    """Bit for bit: losses, weights, gradients and random numbers."""
    plain, _ = trained(kind, logdir, is_watched=False)
    watched, _ = trained(kind, logdir, is_watched=True)
    assert_equal(plain, watched)


@pytest.mark.parametrize("options", HARDER.values(), ids=HARDER)
def test_options_of_the_trainer(options: dict[str, Any], logdir: Path) -> None:
    """They change neither what is recorded nor, with it, what is computed."""
    plain, _ = trained("Holder", logdir, is_watched=False, **options)
    watched, callback = trained("Holder", logdir, is_watched=True, **options)
    assert_equal(plain, watched)
    found = Recorded(callback.run_dir)
    assert STEPS == steps_of(found)
    assert watched.losses == pytest.approx(found.series("loss"), rel=1e-6)


def test_accumulated_batches_are_steps(logdir: Path) -> None:
    """With their own losses, not divided; the optimizer's steps are counted beside them."""
    _, callback = trained("Holder", logdir, is_watched=True, accumulate_grad_batches=3)
    found = Recorded(callback.run_dir)
    assert [0, 0, 1, 1, 2, 2, 2, 3, 3, 4] == found.series("scalar/global_step")
    assert [2, 4, 7, 9] == sorted(found.samples(Kind.UPDATE, "0.weight"))


def test_clipped_gradients_are_recorded_as_the_optimizer_sees_them(logdir: Path) -> None:
    _, callback = trained("Holder", logdir, is_watched=True, gradient_clip_val=0.1)
    assert max(Recorded(callback.run_dir).series("gradient_norm")) == pytest.approx(0.1, rel=1e-3)


def test_what_the_module_logs_is_recorded(logdir: Path) -> None:
    """Of training batches each value; of an evaluation the mean, with the next batch or the last one."""
    after, callback = trained("Holder", logdir, is_watched=True)
    found = Recorded(callback.run_dir)
    assert after.losses == pytest.approx(found.series("scalar/train_loss"), rel=1e-6)
    assert [3.0] * len(STEPS) == found.series("scalar/constant")
    assert len(STEPS) == len(found.series("scalar/accuracy"))
    assert [BATCHES, 2 * BATCHES - 1] == sorted(found.scalars["scalar/val_loss"])


def test_the_sanity_check_is_no_evaluation(logdir: Path) -> None:
    """It comes before the first batch, and of some batches only."""
    _, callback = trained("Holder", logdir, is_watched=True)
    found = Recorded(callback.run_dir)
    assert 0 not in found.scalars["scalar/eval_loss"]
    assert 0 not in found.scalars["scalar/val_loss"]


class Diverging(Remembering):
    """Its loss is no number from a batch on."""

    def __init__(self) -> None:
        super().__init__()
        self.model = nn.Sequential(nn.Linear(4, 3), nn.LogSoftmax(1))

    def training_step(self, batch: Any, batch_idx: int) -> torch.Tensor:
        inputs, labels = batch
        loss = nn.functional.nll_loss(self.model(inputs), labels)
        return self.remember(loss * math.nan if batch_idx == 2 else loss)


def test_findings_may_end_the_training(logdir: Path) -> None:
    """As with `nd.watch`; what was recorded is there, and nothing of ours is left on the model."""
    module = Diverging()
    callback = nd.LightningCallback(logdir, run="run", on_finding="raise")
    with pytest.raises(FindingError, match="nonfinite-loss"):
        fit(module, callback, folder=logdir, max_epochs=200)
    assert "nonfinite-loss" in {finding.rule for finding in callback.findings}
    assert None is callback.monitor
    assert [] == [each for each in module.modules() if each._forward_hooks or each._forward_pre_hooks]


# ---- where, and how often --------------------------------------------------------------------------------


def test_without_a_folder_it_is_beside_the_log_of_the_trainer(logdir: Path) -> None:
    callback = nd.LightningCallback(on_finding="ignore")
    made = fit(Holder(), callback, folder=logdir, max_epochs=1, logger=True)
    assert made.log_dir is not None
    assert Path(made.log_dir) / "netdebug" == callback.run_dir
    assert BATCHES == len(steps_of(Recorded(callback.run_dir)))


def test_without_a_logger_it_is_below_the_folder_of_the_trainer(logdir: Path) -> None:
    callback = nd.LightningCallback(on_finding="ignore")
    fit(Holder(), callback, folder=logdir, max_epochs=1)
    assert callback.run_dir is not None
    assert logdir / "runs" == callback.run_dir.parent


def test_a_second_fit_goes_on(logdir: Path) -> None:
    """In the same run when the trainer goes on, in another one when it begins anew."""
    module, callback = Holder(), nd.LightningCallback(logdir, run="run", on_finding="ignore")
    made = fit(module, callback, folder=logdir, max_epochs=1)
    made.fit_loop.max_epochs = 2
    made.fit(module, batches())
    assert STEPS == steps_of(Recorded(logdir / "run"))
    fit(Holder(), callback, folder=logdir, max_epochs=1)
    assert logdir / "run-2" == callback.run_dir
    assert STEPS[:BATCHES] == steps_of(Recorded(logdir / "run-2"))


def test_a_resumed_training_goes_on_counting(logdir: Path) -> None:
    """From the checkpoint, also when that was written without us."""
    for is_watched in (True, False):
        saving = ModelCheckpoint(logdir / f"saved-{is_watched}", every_n_train_steps=3, save_top_k=-1)
        first = nd.LightningCallback(logdir, run=f"first-{is_watched}", on_finding="ignore")
        watching = [saving, first] if is_watched else [saving]
        fit(Holder(), *watching, folder=logdir, max_epochs=1, enable_checkpointing=True)
        again = nd.LightningCallback(logdir, run=f"again-{is_watched}", on_finding="ignore")
        (saved,) = (logdir / f"saved-{is_watched}").iterdir()
        made = L.Trainer(
            max_epochs=2, callbacks=[again], logger=False, enable_checkpointing=False,
            enable_progress_bar=False, enable_model_summary=False, accelerator="cpu",
        )  # fmt: skip
        made.fit(Holder(), batches(), batches(1), ckpt_path=str(saved))
        assert STEPS[3:] == steps_of(Recorded(logdir / f"again-{is_watched}"))


class Failing(Callback):
    """Of the user's own."""

    def on_train_batch_start(self, trainer: Any, pl_module: Any, batch: Any, batch_idx: int) -> None:
        if batch_idx == 3:
            raise RuntimeError("the user's own")


def test_an_error_ends_the_recording(logdir: Path) -> None:
    """It comes through, and what was recorded before it is there."""
    module, callback = Holder(), nd.LightningCallback(logdir, run="run", on_finding="ignore")
    with pytest.raises(RuntimeError, match="the user's own"):
        fit(module, callback, Failing(), folder=logdir)
    assert None is callback.monitor
    assert [0, 1, 2] == steps_of(Recorded(logdir / "run"))


def test_netdebug_run_leaves_it_to_the_callback(logdir: Path) -> None:
    """One recording of a training is enough."""
    watched = ZeroCode(Settings(logdir=logdir / "unwanted"))
    watched.install()
    try:
        fit(Holder(), nd.LightningCallback(logdir, run="run", on_finding="ignore"), folder=logdir)
    finally:
        watched.close()
    assert watched.stands_aside
    assert not (logdir / "unwanted").exists()
    assert STEPS == steps_of(Recorded(logdir / "run"))


def test_it_can_be_sent_to_other_processes() -> None:
    """As strategies that start them by `multiprocessing` do."""
    sent = pickle.loads(pickle.dumps(nd.LightningCallback("runs", run="run")))
    assert isinstance(sent, nd.LightningCallback)


class Compiled(Itself):
    """Counts nothing: what is compiled would be compiled again for each number."""

    def remember(self, loss: torch.Tensor) -> torch.Tensor:
        return loss


def test_a_compiled_module_is_recorded_as_a_whole(logdir: Path) -> None:
    """Its inside cannot be seen, which is said; the rest is as ever."""
    callback = nd.LightningCallback(logdir, run="run", on_finding="ignore", every=1)
    with our_warnings() as told:
        fit(torch.compile(Compiled(), backend="eager"), callback, folder=logdir)
    found = Recorded(logdir / "run")
    assert {"": "Compiled"} == found.info["models"]
    assert len(STEPS) == len(found.series("loss"))
    assert NAMES["Itself"] == found.names(Kind.UPDATE)
    assert 1 == len(told)
    assert "torch.compile" in told[0]


def test_a_wrong_option_is_refused_at_once() -> None:
    with pytest.raises(TypeError, match=r"LightningCallback.*unexpected keyword argument 'evry'"):
        nd.LightningCallback("runs", evry=1)
    with pytest.raises(ValueError, match="every=0"):
        nd.LightningCallback("runs", every=0)


# ---- several processes, and the other name ---------------------------------------------------------------

TWO = """
import json
import logging
import warnings
from pathlib import Path

import lightning
import torch
from torch import nn
from torch.nn import functional
from torch.utils.data import DataLoader, TensorDataset

import tb_netdebug as nd

for name in ("pytorch", "fabric"):
    logging.getLogger(f"lightning.{name}").setLevel(logging.ERROR)


class Itself(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.first, self.last = nn.Linear(4, 8), nn.Linear(8, 3)
        self.losses = []

    def forward(self, inputs):
        return self.last(functional.relu(self.first(inputs)))

    def training_step(self, batch, batch_idx):
        inputs, labels = batch
        loss = functional.cross_entropy(self(inputs), labels)
        self.losses.append(loss.item())
        return loss

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=0.01)


class Holder(Itself):
    def __init__(self):
        super().__init__()
        self.model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Dropout(0.1), nn.Linear(8, 3))
        del self.first, self.last

    def training_step(self, batch, batch_idx):
        inputs, labels = batch
        loss = functional.cross_entropy(self.model(inputs), labels)
        self.losses.append(loss.item())
        return loss


def train(kind, callbacks):
    torch.manual_seed(3)
    module = kind()
    data = TensorDataset(torch.randn(40, 4), torch.randint(3, (40,)))
    trainer = lightning.Trainer(
        callbacks=callbacks, strategy="ddp", devices=2, max_epochs=1, accelerator="cpu", logger=False,
        enable_checkpointing=False, enable_progress_bar=False, enable_model_summary=False,
    )
    trainer.fit(module, DataLoader(data, batch_size=8))
    return module.losses, trainer.global_rank


if __name__ == "__main__":
    for kind in (Holder, Itself):
        plain, rank = train(kind, [])
        callback = nd.LightningCallback("logs", every=1, on_finding="ignore")
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            watched, rank = train(kind, [callback])
        told = [str(each.message) for each in caught if "NetDebug" in str(each.message)]
        result = {"run": str(callback.run_dir), "losses": [plain, watched], "told": told}
        Path(f"{kind.__name__}-{rank}.json").write_text(json.dumps(result))
"""


def test_two_processes(tmp_path: Path) -> None:
    """Started by Lightning itself: one run with a file for each, and the losses that there are without us."""
    script = tmp_path / "train.py"
    script.write_text(TWO)
    run_script(script)
    for kind, names in (
        ("Holder", NAMES["Holder"]),
        ("Itself", {f.replace(".", "/") for f in NAMES["Itself"]}),
    ):
        ranks = [json.loads((tmp_path / f"{kind}-{rank}.json").read_text()) for rank in range(2)]
        assert ranks[0]["run"] == ranks[1]["run"]
        for rank, told in enumerate(ranks):
            plain, watched = told["losses"]
            found = Recorded(tmp_path / told["run"], rank)
            assert [] == told["told"]
            assert plain == watched
            assert watched == pytest.approx(found.series("loss"), rel=1e-6)
            assert [8.0, 8.0, 4.0] == found.series("batch_size")
            assert names == found.names(Kind.UPDATE)


OTHER_NAME = """
import logging
import pytorch_lightning as pl
import torch
from torch.utils.data import DataLoader
import tb_netdebug as nd
import sys

logging.getLogger("pytorch_lightning").setLevel(logging.ERROR)

class Module(pl.LightningModule):
    def __init__(self):
        super().__init__()
        self.model = torch.nn.Linear(2, 1)
    def training_step(self, batch, batch_idx):
        return self.model(batch).square().mean()
    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.1)

callback = nd.LightningCallback("logs", run="run", on_finding="ignore")
assert isinstance(callback, pl.Callback) and "lightning.pytorch" not in sys.modules
trainer = pl.Trainer(max_epochs=1, callbacks=[callback], logger=False, enable_checkpointing=False,
                     enable_progress_bar=False, enable_model_summary=False, accelerator="cpu")
trainer.fit(Module(), DataLoader(torch.randn(12, 2), batch_size=4))
"""


def test_its_other_name(tmp_path: Path) -> None:
    """`pytorch_lightning` is the same library once more."""
    script = tmp_path / "train.py"
    script.write_text(OTHER_NAME)
    run_script(script)
    assert [0, 1, 2] == Recorded(tmp_path / "logs/run").steps


def test_the_demo(logdir: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """Its network learns pictures by heart, and it says so."""
    monkeypatch.setattr(sys, "argv", ["lightning_run.py", "--logdir", str(logdir)])
    runpy.run_path(str(ROOT / "demo/lightning_run.py"), run_name="__main__")
    assert "NetDebug: WARNING overfitting" in capsys.readouterr().err
    assert {"overfitting"} <= {finding.rule for finding in nd.check(logdir).runs[0].findings}


ONE_LINE = """
import sys
import tb_netdebug as nd
{missing}
try:
    nd.{name}
except ImportError as error:
    print(error)
"""


@pytest.mark.parametrize(
    ("name", "missing", "extra"),
    [
        ("LightningCallback", ("lightning", "pytorch_lightning"), "lightning"),
        ("TransformersCallback", ("transformers",), "transformers"),
        ("OptunaPruning", ("optuna",), "optuna"),
    ],
)
def test_without_the_library_the_way_to_it_is_told(
    name: str, missing: tuple[str, ...], extra: str, run_python: Callable[..., str]
) -> None:
    """And nothing of it is imported before it is asked for."""
    hidden = f"assert not {{*{missing}}} & sys.modules.keys()\n" + "".join(
        f"sys.modules[{each!r}] = None\n" for each in missing
    )
    told = run_python(ONE_LINE.format(name=name, missing=hidden))
    assert f"pip install 'tb_netdebug[{extra}]'" in told
    assert name in told
