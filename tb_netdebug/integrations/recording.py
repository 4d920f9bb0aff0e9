"""The recording behind a trainer's callback: one monitor per training run."""

from __future__ import annotations

import os
import sys
import weakref
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import fields
from pathlib import Path
from typing import Any

from tb_netdebug.checks.finding import Finding
from tb_netdebug.judging.configuration import checks_of
from tb_netdebug.recording.collector import StepCollector
from tb_netdebug.recording.guard import Guard
from tb_netdebug.recording.remote import remote_of
from tb_netdebug.recording.settings import Settings
from tb_netdebug.training.monitor import Monitor
from tb_netdebug.training.watch import adapter_for

OPTIONS = frozenset(field.name for field in fields(Settings))


class CallbackRecording:
    """Keeps a monitor, and with it the model, from `open` to `close`; afterwards only the results.

    `asked_by` is the name of the callback. Errors of ours end in `quietly`; what the user has asked to be
    raised (`on_finding`, `strict`) comes out of `step` and `close`.
    """

    def __init__(self, asked_by: str, options: Mapping[str, Any]) -> None:
        unknown = sorted(options.keys() - OPTIONS)
        if unknown:
            raise TypeError(f"{asked_by}() got an unexpected keyword argument {unknown[0]!r}")
        checks = checks_of(options.get("checks"), Path())
        remote = remote_of(options.get("remote"), os.environ)
        self.settings = Settings(**{**options, "checks": checks, "remote": remote})
        self.monitor: Monitor | None = None
        self.findings: list[Finding] = []
        self.run_dir: Path | None = None
        self.next_step = 0
        self._guard = Guard(strict=self.settings.strict)
        self._collector: StepCollector | None = None

    # ---- one run -----------------------------------------------------------------------------------------

    def announce(self) -> None:
        """Make `netdebug run` leave the coming run to us."""
        driver = sys.modules.get("tb_netdebug.training.zero_code.driver")
        if driver is not None:
            driver.all_stand_aside()

    def open(self, models: Any, optimizers: Any, *, run_dir: Path, rank: int, first_step: int) -> None:
        """Open a recording that counts steps from `first_step`, which is not 0 for a resumed training."""
        self.close()
        make_adapter = adapter_for(models, optimizers)

        def make(collector: StepCollector, *others: Any) -> Any:
            collector.go_to(first_step)
            self._collector = collector
            return make_adapter(collector, *others)

        self.run_dir, self.next_step = run_dir, first_step
        self.monitor = Monitor(make, self.settings, run_dir=run_dir, rank=rank)

    def step(self, loss: Any, scalars: Mapping[str, Any]) -> None:
        """End a batch. An exception ends the training, and the recording with it."""
        if self.monitor is None:
            return
        self.next_step += 1
        try:
            self._guard.raise_pending()
            self.monitor.step(loss, **scalars)
        except BaseException:
            self.close()
            raise

    def log(self, scalars: Mapping[str, Any]) -> None:
        """Record numbers with the step that is in progress."""
        if self.monitor is not None:
            self.monitor.log(**scalars)

    def enter(self, phase: str) -> None:
        """Switch the clock to this phase, where hooks of the framework cannot see it begin."""
        if self._collector is not None:
            self._collector.clock.enter(phase)

    def close(self) -> None:
        """Close the monitor and keep its findings. May be called more than once."""
        if self.monitor is None:
            return
        monitor, self.monitor = self.monitor, None
        self._collector = None
        try:
            monitor.close()
        finally:
            self.findings = monitor.findings

    # ---- parts -------------------------------------------------------------------------------------------

    @contextmanager
    def quietly(self, doing: str) -> Iterator[None]:
        """Report an error of ours once, and keep it from the trainer."""
        try:
            yield
        except Exception as error:
            self._guard.fault(doing, error)

    def close_with(self, owner: object) -> None:
        """Close the recording when `owner` is collected, in case nobody reports the end of the training."""
        weakref.finalize(owner, self.close).atexit = False


class Recorder:
    """The base of our callbacks: what they show of their recording."""

    _recording: CallbackRecording

    @property
    def monitor(self) -> Monitor | None:
        """The monitor, as `nd.watch` returns it, during training: for `tensor`, `image`, `capsule`."""
        return self._recording.monitor

    @property
    def findings(self) -> list[Finding]:
        """The findings of the run in progress, or of the last one."""
        monitor = self.monitor
        return self._recording.findings if monitor is None else monitor.findings

    @property
    def run_dir(self) -> Path | None:
        return self._recording.run_dir
