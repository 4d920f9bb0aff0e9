"""`nd.KerasCallback`: records what Keras's `fit` trains."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tb_netdebug.integrations.folders import folder_for
from tb_netdebug.integrations.recording import CallbackRecording, Recorder
from tb_netdebug.integrations.requirement import library
from tb_netdebug.recording.run_folder import rank

keras = library("keras", wanted_by="KerasCallback", extra="keras")
# Keras's own error for a missing backend asks for TensorFlow, even if another backend is configured.
if keras.backend.backend() == "tensorflow":
    library("tensorflow", wanted_by="KerasCallback", extra="keras")
Callback: Any = keras.callbacks.Callback


class KerasCallback(Recorder, Callback):
    """Records a training run, with one argument of `fit`:

        model.fit(x, y, callbacks=[nd.KerasCallback("runs")])

    It takes the options of `nd.watch`. Each batch is a step, with its own loss; other metrics are recorded as
    Keras shows them, as means since the epoch began; `val_loss` and the like are recorded with the next step.
    A second `fit` with the same callback continues in the same folder; another model gets one of its own.
    """

    def __init__(self, logdir: str | Path | None = None, **options: Any) -> None:
        super().__init__()
        self._recording = CallbackRecording("KerasCallback", {"logdir": logdir, **options})
        self._recording.close_with(self)
        self._trained: int | None = None
        self._is_in_batch = False
        # On JAX, Keras would otherwise wait for each batch before it calls us; `_batch_ran` is called anyway.
        self.async_safe = keras.backend.backend() == "jax"

    def close(self) -> None:
        """End the recording. May be called more than once.

        Call it when training has failed, since Keras does not report that; else the recording ends with the
        callback or the program.
        """
        self._recording.close()

    # ---- callbacks of Keras ------------------------------------------------------------------------------

    def on_train_begin(self, logs: Mapping[str, Any] | None = None) -> None:
        first_step = self._recording.next_step if self._trained == id(self.model) else 0
        self._trained = id(self.model)
        folder = folder_for(
            self._recording, first_step, beside=None, otherwise="runs", environment=os.environ
        )
        self._recording.open(self.model, None, run_dir=folder, rank=rank(os.environ), first_step=first_step)
        tell = getattr(self._adapter(), "tell", None)
        if tell is not None:
            tell(self._batch_ran)

    def on_train_batch_begin(self, batch: int, logs: Mapping[str, Any] | None = None) -> None:
        self._is_in_batch = True
        adapter = self._adapter()
        if adapter is not None:
            adapter.begin_batch()

    def on_train_batch_end(self, batch: int, logs: Mapping[str, Any] | None = None) -> None:
        if self._is_in_batch and not self.async_safe:  # not reported by the adapter
            self._is_in_batch = False
            self._end_batch(logs)

    def on_epoch_end(self, epoch: int, logs: Mapping[str, Any] | None = None) -> None:
        self._recording.log({name: value for name, value in (logs or {}).items() if name.startswith("val_")})

    def on_test_end(self, logs: Mapping[str, Any] | None = None) -> None:
        adapter = self._adapter()
        if adapter is not None:
            adapter.evaluated()

    def on_train_end(self, logs: Mapping[str, Any] | None = None) -> None:
        self._recording.close()

    # ---- parts -------------------------------------------------------------------------------------------

    def _batch_ran(self, results: Any) -> None:
        """End a batch; the adapter calls this at once.

        Keras converts the results before it calls `on_train_batch_end`, or calls it from a thread.
        """
        if self._is_in_batch:  # false in a run without this callback
            self._is_in_batch = False
            self._end_batch(results)

    def _end_batch(self, results: Any) -> None:
        adapter = self._adapter()
        if adapter is None:
            return
        shown = dict(results) if isinstance(results, Mapping) else {}
        running = shown.pop("loss", None)
        self._recording.step(running if adapter.is_blind else None, shown)

    def _adapter(self) -> Any:
        monitor = self._recording.monitor
        return None if monitor is None or not monitor._is_open() else monitor._adapter
