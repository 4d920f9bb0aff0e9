"""The workspace of a debugging user: the hub, the chosen training, and its last known state."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from tb_netdebug.cli.debugging.output import DebuggerOutput
from tb_netdebug.cli.debugging.words import CommandError
from tb_netdebug.cli.harmless import harmless
from tb_netdebug.debugger.client.attendance import Attendance
from tb_netdebug.debugger.client.client import (
    Client,
    ClientError,
    ListedTraining,
    TrainingGoneError,
    UnreachableError,
)

LOOK_SECS = 0.1
RETRY_SECS = 1.0
MOST_NAMES = 2000
# The answer to these verbs is the new state of the training.
STEERING = frozenset({"pause", "continue", "step", "run_to", "detach"})


class InterruptedWaitError(Exception):
    """Ctrl-C came twice: the training was asked to pause, and has not paused yet."""


class Workspace:
    """The state that commands work on; used by one thread.

    `is_interactive`: a person types, and can be asked.
    """

    def __init__(
        self, client: Client, attendance: Attendance, output: DebuggerOutput, *, is_interactive: bool
    ) -> None:
        self.client = client
        self.output = output
        self.is_interactive = is_interactive
        self.is_done = False
        # Set in `netdebug replay` only: abandons the current run of the step, so that it can begin again.
        self.restart: Callable[[], None] | None = None
        self.told_hits = 0
        self.named_files: set[str] = set()
        self._attendance = attendance
        self._training: ListedTraining | None = None
        self._layers: list[Mapping[str, Any]] | None = None
        self._epoch = ""
        self._is_attending = False

    # ---- the training --------------------------------------------------------------------------------------

    @property
    def has_training(self) -> bool:
        return self._training is not None

    @property
    def training(self) -> ListedTraining:
        if self._training is None:
            raise CommandError("No run is chosen. `sessions` lists the runs, `use` chooses one.")
        return self._training

    @property
    def state(self) -> Mapping[str, Any]:
        return self.training.state

    def choose(self, training: ListedTraining) -> None:
        self._layers = None
        self.named_files.clear()
        self._training = training
        self._attend()
        # Hits from before are no news.
        self.told_hits = int(self.state.get("hits") or 0)

    def _attend(self) -> None:
        self._remember(self._attendance.attend([self.training.key]))
        self._is_attending = True

    def detach(self) -> None:
        """Let the training run on unattended; the next call attends to it again."""
        self.call("detach")
        self._attendance.attend(())
        self._is_attending = False

    def take(self, *, release: bool = False) -> None:
        """Take the controls, or with `release` let go of them."""
        key = self.training.key
        self._remember(
            self._attendance.attend([key], take=None if release else key, release=key if release else None)
        )

    def refresh(self) -> None:
        """Fetch the newest state of the training.

        A run that is missing from the list is over, unless the hub has restarted: then UnreachableError
        is raised, because the run has yet to reconnect to it.
        """
        if self._remember(self.client.sessions()):
            return
        # Each start of TensorBoard has an epoch of its own.
        if self.client.epoch != self._epoch:
            raise UnreachableError(
                "TensorBoard was restarted, and the run has not connected to it again yet."
            )
        self._training = replace(self.training, state={**self.state, "status": "over"})

    def _remember(self, trainings: Sequence[ListedTraining]) -> bool:
        """Store the newest state and return whether the training is in the list.

        A run that was restarted has another key, but the same run and rank.
        """
        own = self.training
        found = next((each for each in trainings if each.key == own.key), None) or next(
            (each for each in trainings if (each.run, each.rank) == (own.run, own.rank)), None
        )
        if found is None:
            return False
        if found.key != own.key:
            self._attendance.attend([found.key])
        elif int(found.state.get("version", 0)) <= int(own.state.get("version", 0)):
            found = replace(found, state=own.state)  # the list is older than the last answer
        self._training, self._epoch = found, self.client.epoch
        return True

    # ---- requests ------------------------------------------------------------------------------------------

    def call(self, verb: str, **arguments: Any) -> Any:
        """Send a verb to the training and return the answer. Raise ClientError."""
        if not self._is_attending:
            self._attend()
        try:
            value = self.client.call(self.training.key, verb, **arguments)
        except TrainingGoneError:
            self.refresh()
            # The refresh may have found the training under a new key, if it was restarted: try once more with
            # that.
            if self.training.is_over:
                raise TrainingGoneError(f"The training {harmless(self.training.run)} is over.") from None
            value = self.client.call(self.training.key, verb, **arguments)
        if verb in STEERING and isinstance(value, dict):
            self._training = replace(self.training, state=value)
        return value

    def layers(self) -> list[Mapping[str, Any]]:
        """Return the layers of the model, fetched once: they seldom change."""
        if self._layers is None:
            self._layers = self.call("modules")
        return self._layers

    def exactly(self, text: str) -> str:
        """Return a regular expression for `text`; the whole name of a layer matches that layer alone."""
        is_layer = any(layer.get("name") == text for layer in self.layers())
        return f"^{re.escape(text)}$" if is_layer else text

    def tensor_names(self) -> list[str]:
        return [str(entry["name"]) for entry in self.call("tensors", most=MOST_NAMES)]

    # ---- waiting -------------------------------------------------------------------------------------------

    def go(self, verb: str, **arguments: Any) -> None:
        """Send a verb that resumes the training, then wait until it stops, as `wait_for_stop` does."""
        try:
            self.call(verb, **arguments)
        except KeyboardInterrupt:
            self._ask_to_pause()
        self.wait_for_stop()

    def wait_for_stop(self) -> None:
        """Wait until the training is paused or over.

        Ctrl-C pauses it; a second Ctrl-C raises InterruptedWaitError.
        """
        has_asked = False
        with self.output.status("Running. Ctrl-C pauses the run.") as status:
            while self.state.get("status") == "running":
                try:
                    status.update(self._look())
                except KeyboardInterrupt:
                    if has_asked:
                        raise InterruptedWaitError from None
                    has_asked = True
                    self._ask_to_pause()

    def _look(self) -> str:
        time.sleep(LOOK_SECS)
        try:
            self.refresh()
        except UnreachableError:
            if not self.is_interactive:
                raise
            time.sleep(RETRY_SECS)
            return "TensorBoard does not answer. Waiting for it."
        loss = self.state.get("loss")
        told = f", loss {float(loss):.6g}" if loss is not None else ""
        return f"Running, step {self.state.get('step')}{told}. Ctrl-C pauses the run."

    def _ask_to_pause(self) -> None:
        """Pause the training after Ctrl-C; if not interactive, end the program instead."""
        if not self.is_interactive:
            raise KeyboardInterrupt
        try:
            self.call("pause", wait=1.0)
        except KeyboardInterrupt:
            raise InterruptedWaitError from None


def text_of(error: Exception) -> str:
    """Return an error as text for the terminal, escaped if it may quote names that others chose."""
    return harmless(str(error)) if isinstance(error, ClientError) else str(error)
