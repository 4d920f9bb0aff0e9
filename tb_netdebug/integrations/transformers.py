"""`nd.TransformersCallback`: records what the Trainer of transformers trains."""

from __future__ import annotations

import os
import weakref
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import torch

from tb_netdebug.frameworks.torch.adapter import unwrapped
from tb_netdebug.frameworks.torch.taps import Handle, listen
from tb_netdebug.integrations.folders import folder_for
from tb_netdebug.integrations.recording import CallbackRecording, Recorder
from tb_netdebug.integrations.requirement import library

transformers = library("transformers", wanted_by="TransformersCallback", extra="transformers")
Callback: Any = transformers.TrainerCallback

# What the Trainer logs by itself: recorded better elsewhere, for each batch, or no number of the training.
ITS_OWN = frozenset(
    (
        "loss",
        "grad_norm",
        "learning_rate",
        "epoch",
        "step",
        "total_flos",
        "num_input_tokens_seen",
        "train_loss",
    )
)
OF_SPEED = ("_runtime", "_per_second", "_time")


class TransformersCallback(Recorder, Callback):
    """Records a training run, with one line in the Trainer of transformers:

        Trainer(callbacks=[nd.TransformersCallback("runs")])

    It takes the options of `nd.watch`. Without `logdir` the recording is in the folder `runs` of
    `TrainingArguments.output_dir`. Each batch is a step, as in a custom loop: with
    `gradient_accumulation_steps=4` there are four steps to one of the optimizer, and the Trainer's count is
    recorded as `global_step`. A resumed run continues counting.
    """

    def __init__(self, logdir: str | Path | None = None, **options: Any) -> None:
        self._recording = CallbackRecording("TransformersCallback", {"logdir": logdir, **options})
        self._recording.close_with(self)
        self._handles: list[Handle] = []
        self._loss: Any = None
        self._is_part = False  # the loss is a share of that of all accumulated batches

    # ---- a run -------------------------------------------------------------------------------------------

    def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Open a recording, and close that of a run that failed: the Trainer does not report that."""
        self._close()
        with self._recording.quietly("setting itself up for the Trainer"):
            self._recording.announce()
            first_step = batches_so_far(args, state, kwargs.get("train_dataloader"))
            self._recording.open(
                kwargs["model"],
                watchable(kwargs.get("optimizer")),
                run_dir=folder_for(
                    self._recording,
                    first_step,
                    beside=None,
                    otherwise=Path(args.output_dir or "") / "runs",
                    environment=os.environ,
                ),
                rank=int(args.process_index),
                first_step=first_step,
            )
            self._listen()

    def on_substep_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """End a batch whose gradients are accumulated."""
        self._end_step(state)

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        self._end_step(state)

    def on_evaluate(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        with self._recording.quietly("reading the evaluation"):
            self._recording.log(told_by_users(kwargs.get("metrics")))

    def on_log(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Record what the user's own code has logged; `on_evaluate` records the evaluations."""
        with self._recording.quietly("reading what was logged"):
            logs = told_by_users(kwargs.get("logs"))
            self._recording.log({name: each for name, each in logs.items() if not name.startswith("eval_")})

    def on_train_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        self._close()

    # ---- parts -------------------------------------------------------------------------------------------

    def _end_step(self, state: Any) -> None:
        loss, self._loss = self._loss, None
        scalars = {}
        with self._recording.quietly("reading the Trainer's state"):
            # Recorded only where it differs from our own count.
            if state.global_step != self._recording.next_step + 1:
                scalars["global_step"] = state.global_step
        self._recording.step(loss, scalars)

    def _listen(self) -> None:
        """Hook the functions that know the loss of each batch: callbacks only get the mean of many batches.

        For a Trainer with a `training_step` of its own, the loss is taken from backward.
        """
        with suppress(TypeError):
            step = transformers.Trainer.training_step
            self._handles.append(listen(step, after=weakly(self._trained)))
        with suppress(TypeError, AttributeError):
            counted = transformers.loss.loss_utils.fixed_cross_entropy
            self._handles.append(listen(counted, before=weakly(self._computed)))

    def _computed(self, args: tuple[Any, ...]) -> None:
        """Note whether the loss of a language model is divided by the tokens of all accumulated batches."""
        with self._recording.quietly("reading a loss"):
            self._is_part = args[2] is not None

    def _trained(self, args: tuple[Any, ...], loss: Any) -> None:
        # Older versions pass no number of items.
        trainer, _, _, items = (*args, None)[:4]
        with self._recording.quietly("reading the loss"):
            # The hook is on the class: another Trainer of the program calls it, too.
            if isinstance(loss, torch.Tensor) and self in trainer.callback_handler.callbacks:
                is_part = self._is_part or divides(trainer, items)
                parts = accumulated(trainer) if is_part else 1
                self._loss = loss if parts == 1 else loss.detach() * parts
        self._is_part = False

    def _close(self) -> None:
        for handle in self._handles:
            handle.close()
        self._handles.clear()
        self._loss = None
        self._recording.close()


def weakly(method: Callable[..., None]) -> Callable[..., None]:
    """Return a function that calls the method while its object lives, without keeping it alive."""
    reference = weakref.WeakMethod(method)

    def told(*args: Any) -> None:
        still = reference()
        if still is not None:
            still(*args)

    return told


def batches_so_far(args: Any, state: Any, loader: Any) -> int:
    """Return the batches before the checkpoint; the Trainer counts only steps of the optimizer."""
    if not state.global_step:
        return 0
    try:
        return round((state.epoch or 0.0) * len(loader))
    except TypeError:  # the loader has no length
        return int(state.global_step * args.gradient_accumulation_steps)


def accumulated(trainer: Any) -> int:
    """Return how many batches make this step of the optimizer; the last one of an epoch may have fewer."""
    parts = getattr(trainer, "current_gradient_accumulation_steps", None)
    return int(parts or trainer.args.gradient_accumulation_steps)


def divides(trainer: Any, items: Any) -> bool:
    """Return whether the Trainer itself divides the loss by the number of accumulated batches.

    It assumes of many models that they have divided the loss already, even where they have not.
    """
    believes = getattr(trainer, "loss_is_scaled_for_ga", None)
    if believes is None:
        accepts = getattr(trainer, "model_accepts_loss_kwargs", False)
        believes = (accepts and items is not None) or getattr(trainer, "compute_loss_func", None) is not None
    return not believes


def watchable(optimizer: Any) -> Any:
    """Return an optimizer of torch, or None for other libraries.

    With None, the optimizer is found when it steps.
    """
    own = unwrapped(optimizer)
    return own if isinstance(own, torch.optim.Optimizer) else None


def told_by_users(values: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return the numbers that do not come from the Trainer itself."""
    return {
        name: value
        for name, value in (values or {}).items()
        if isinstance(value, int | float) and name not in ITS_OWN and not name.endswith(OF_SPEED)
    }
