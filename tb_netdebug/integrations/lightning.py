"""`nd.LightningCallback`: records what Lightning's Trainer trains."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import torch
from torch import nn

from tb_netdebug.frameworks.torch.taps import Handle, listen
from tb_netdebug.integrations.first_call import FirstCall, StepGoingOn
from tb_netdebug.integrations.folders import folder_for
from tb_netdebug.integrations.networks import networks_of
from tb_netdebug.integrations.recording import CallbackRecording, Recorder
from tb_netdebug.integrations.requirement import library

# The same library under two names; a program uses one of them.
NAMES = ("lightning.pytorch", "pytorch_lightning")


def bases() -> tuple[Any, ...]:
    """Return the Callback class of each name that the program has imported, else of the installed one."""
    imported = [sys.modules[name] for name in NAMES if sys.modules.get(name) is not None]
    found = imported or [library(*NAMES, wanted_by="LightningCallback", extra="lightning")]
    return tuple(each.Callback for each in found)


Callback: Any = type("Callback", bases(), {})


class LightningCallback(Recorder, Callback):
    """Records a training run, with one line in Lightning's Trainer:

        Trainer(callbacks=[nd.LightningCallback("runs")])

    It takes the options of `nd.watch`. Without `logdir` the recording is the folder `netdebug` beside what
    the trainer's own logger writes. Each training batch is a step, as in a custom loop: with
    `accumulate_grad_batches=4` there are four steps to one of the optimizer, and Lightning's count is
    recorded as `global_step`. A resumed run, and a second `fit`, continue counting.
    """

    def __init__(self, logdir: str | Path | None = None, **options: Any) -> None:
        super().__init__()
        self._recording = CallbackRecording("LightningCallback", {"logdir": logdir, **options})
        self._recording.close_with(self)
        self._resumed_at: int | None = None
        self._first_call: FirstCall | None = None
        self._step_going_on: StepGoingOn | None = None
        self._log: Handle | None = None
        self._target: tuple[Path, int, int] = (Path(), 0, 0)
        self._is_in_batch = False
        self._evaluated: set[str] = set()

    # ---- checkpoints -------------------------------------------------------------------------------------

    def state_dict(self) -> dict[str, Any]:
        return {"steps": self._recording.next_step}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        self._resumed_at = int(state_dict.get("steps", 0))

    # ---- a run -------------------------------------------------------------------------------------------

    def on_train_start(self, trainer: Any, pl_module: Any) -> None:
        """Choose the folder and wait for the first call of the model.

        Lightning calls this after the sanity check, and after a checkpoint is loaded.
        """
        with self._recording.quietly("setting itself up for Lightning"):
            self._recording.close()
            self._recording.announce()
            first_step = batches_so_far(trainer) if self._resumed_at is None else self._resumed_at
            self._resumed_at = None
            self._target = (self._folder(trainer, first_step), trainer.global_rank, first_step)
            self._listen(trainer, pl_module)

    def on_train_batch_start(self, trainer: Any, pl_module: Any, batch: Any, batch_idx: int) -> None:
        self._is_in_batch = True

    def on_before_optimizer_step(self, trainer: Any, pl_module: Any, optimizer: Any) -> None:
        """Begin the optimizer phase.

        Lightning calls model and backward inside the optimizer's step; the rest of the step begins here.
        """
        self._begin(trainer, pl_module, None)  # if no call was seen, as when everything is compiled
        self._recording.enter("time/optimizer")

    def on_train_batch_end(
        self, trainer: Any, pl_module: Any, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        self._is_in_batch = False
        loss, scalars = None, {}
        with self._recording.quietly("reading the loss"):
            loss = loss_of(outputs, accumulated(trainer, pl_module))
            # Recorded only where it differs from our own count.
            if trainer.global_step != self._recording.next_step + 1:
                scalars["global_step"] = trainer.global_step
        self._recording.step(loss, scalars)

    def on_validation_start(self, trainer: Any, pl_module: Any) -> None:
        self._evaluated.clear()

    def on_validation_end(self, trainer: Any, pl_module: Any) -> None:
        """Record what was logged in the evaluation, averaged over its batches; skip the sanity check."""
        if trainer.sanity_checking or self.monitor is None:
            return
        with self._recording.quietly("reading the evaluation"):
            self._recording.log(
                {
                    name: value
                    for name, value in trainer.callback_metrics.items()
                    if name.partition("/dataloader_idx_")[0] in self._evaluated
                }
            )

    def on_train_end(self, trainer: Any, pl_module: Any) -> None:
        self._close()

    def on_exception(self, trainer: Any, pl_module: Any, exception: BaseException) -> None:
        with suppress(Exception):  # the user's error must not be hidden
            self._close()

    # ---- parts -------------------------------------------------------------------------------------------

    def _folder(self, trainer: Any, first_step: int) -> Path:
        """Return the folder, chosen by the first process for all of them."""
        log_dir = trainer.log_dir  # a collective call: every rank has to make it
        has_own = bool(trainer.loggers) and hasattr(trainer.loggers[0], "log_dir")
        chosen = ""
        if trainer.is_global_zero:
            otherwise = Path(log_dir or trainer.default_root_dir) / "runs"
            beside = log_dir if has_own else None
            chosen = str(
                folder_for(self._recording, first_step, beside=beside, otherwise=otherwise, environment={})
            )
        return Path(trainer.strategy.broadcast(chosen))

    def _listen(self, trainer: Any, pl_module: Any) -> None:
        self._stop_listening()
        wrapper = trainer.strategy.model
        # A strategy's wrapper, as for DDP, calls the LightningModule, which calls the network.
        passed_over = () if wrapper is pl_module or wrapper is None else (wrapper, pl_module)
        self._first_call = FirstCall(
            trainer.optimizers,
            lambda called: self._begin(trainer, pl_module, called),
            passed_over=passed_over,
        )
        self._step_going_on = StepGoingOn()
        with suppress(TypeError):  # the user's own `log` may be any object
            self._log = listen(type(pl_module).log, before=self._logged)

    def _stop_listening(self) -> None:
        for each in (self._first_call, self._step_going_on, self._log):
            if each is not None:
                each.close()
        self._first_call = self._step_going_on = self._log = None

    def _close(self) -> None:
        self._stop_listening()
        self._recording.close()

    def _begin(self, trainer: Any, pl_module: Any, called: nn.Module | None) -> None:
        """Open the recording just before the first call: by then wrappers and optimizers exist."""
        waiting, going_on = self._first_call, self._step_going_on
        if waiting is None or going_on is None:
            return
        self._first_call = self._step_going_on = None
        waiting.close()
        folder, rank, first_step = self._target
        with self._recording.quietly("beginning the recording"):
            going_on.remember_hooks()
            self._recording.open(
                networks_of(pl_module, called, trainer.optimizers),
                list(trainer.optimizers),
                run_dir=folder,
                rank=rank,
                first_step=first_step,
            )
            going_on.catch_up()
        going_on.close()

    def _logged(self, args: tuple[Any, ...]) -> None:
        """Record a call of `self.log(name, value)`; values of an evaluation are read at its end."""
        pl_module, name, value = args[:3]
        with self._recording.quietly("reading what was logged"):
            trainer = pl_module.trainer
            if trainer.validating:
                self._evaluated.add(name)
            elif self._is_in_batch and trainer.training:
                number = number_of(value)
                if number is not None:
                    self._recording.log({name: number})


def batches_so_far(trainer: Any) -> int:
    """Return the number of batches of earlier calls of `fit` and of the run that was resumed."""
    return int(trainer.fit_loop.epoch_loop.total_batch_idx) + 1


def accumulated(trainer: Any, pl_module: Any) -> int:
    """Return the number by which Lightning divides the loss before it passes it on."""
    return int(trainer.accumulate_grad_batches) if pl_module.automatic_optimization else 1


def loss_of(outputs: Any, divided_by: int) -> Any:
    """Return the loss as `training_step` returned it, or None if it returned none."""
    loss = outputs.get("loss") if isinstance(outputs, Mapping) else outputs
    if not isinstance(loss, torch.Tensor):
        return None
    return loss if divided_by == 1 else loss.detach() * divided_by


def number_of(value: Any) -> Any:
    """Return a number, or a one-element tensor without waiting for its device; else None.

    A metric of torchmetrics keeps the value of this batch in `_forward_cache`.
    """
    if not isinstance(value, torch.Tensor):
        value = getattr(value, "_forward_cache", value)
    if isinstance(value, torch.Tensor):
        return value.detach() if value.numel() == 1 else None
    return value if isinstance(value, int | float) else None
