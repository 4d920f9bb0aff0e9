"""The callback that `netdebug run` adds to a `fit` of the program."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from tb_netdebug.checks.finding_error import FindingError
from tb_netdebug.integrations.keras_callback import KerasCallback

if TYPE_CHECKING:
    from tb_netdebug.integrations.keras_trainings import KerasTraining
    from tb_netdebug.training.zero_code.driver import ZeroCode


class FitCallback(KerasCallback):
    """The KerasCallback without its beginning and end: this recording lasts as long as the program."""

    def __init__(self, followed: KerasTraining, zero_code: ZeroCode) -> None:
        super().__init__()
        # It has the part of CallbackRecording that the callback uses.
        self._recording = RecordingOfProgram(followed, zero_code)  # type: ignore[assignment]

    def on_train_begin(self, logs: Mapping[str, Any] | None = None) -> None:
        self._tell(self._batch_ran)

    def on_train_end(self, logs: Mapping[str, Any] | None = None) -> None:
        self._tell(None)

    def _tell(self, told: Callable[[Any], None] | None) -> None:
        tell = getattr(self._adapter(), "tell", None)
        if tell is not None:
            tell(told)


class RecordingOfProgram:
    """The part of `CallbackRecording` that the callback uses, over a run of `netdebug run`."""

    def __init__(self, followed: KerasTraining, zero_code: ZeroCode) -> None:
        self._followed = followed
        self._zero = zero_code

    @property
    def monitor(self) -> Any:
        return None if self._zero.is_off else self._followed.training.monitor

    def step(self, loss: Any, scalars: Mapping[str, Any]) -> None:
        try:
            self._followed.training.step(loss, dict(scalars))
        except FindingError:
            raise
        except Exception as error:
            self._zero.fault("ending a step", error)

    def log(self, scalars: Mapping[str, Any]) -> None:
        if self.monitor is not None:
            self.monitor.log(**scalars)

    def close(self) -> None:
        """Do nothing: the recording is closed at the end of the program."""
