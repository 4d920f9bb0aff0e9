"""One training that was found: its run, how many steps it had, and what was found in it."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tb_netdebug.core.records.scalar_names import LOSSES
from tb_netdebug.recording.clock import now
from tb_netdebug.recording.settings import Settings

if TYPE_CHECKING:  # what runs before the program imports a framework must import nothing heavy
    from tb_netdebug.checks.finding import Finding
    from tb_netdebug.recording.collector import StepCollector
    from tb_netdebug.training.monitor import Monitor


class Training:
    """One training of the program.

    It keeps a monitor, and with it the model, until `close`; then only the results.
    """

    def __init__(
        self,
        make_adapter: Any,
        settings: Settings,
        run_dir: Path,
        rank: int,
        *,
        first_step: int = 0,
        is_one_of_many: bool = False,
    ) -> None:
        from tb_netdebug.training.zero_code.run_summary import tell, tell_of

        if settings.on_finding == "print":
            told = partial(tell_of, run_dir.name) if is_one_of_many else tell
            settings = replace(settings, on_finding=told)
        self._first_step = first_step
        self._collector: StepCollector | None = None
        self._settings = settings
        self._rank = rank
        self.run_dir = run_dir
        self.steps = 0
        self.last_step_secs = now()
        self._findings: list[Finding] = []
        self.monitor: Monitor | None = None
        self.reopen(make_adapter)

    def reopen(self, make_adapter: Any) -> None:
        """Continue after `close` with the same model, run and step count."""
        from tb_netdebug.training.monitor import Monitor

        made = self._keeping_collector(make_adapter)
        self.monitor = Monitor(made, self._settings, run_dir=self.run_dir, rank=self._rank)

    @property
    def is_open(self) -> bool:
        return self.monitor is not None

    @property
    def findings(self) -> list[Finding]:
        newer = [] if self.monitor is None else self.monitor.findings
        known = {each.rule for each in self._findings}
        return self._findings + [each for each in newer if each.rule not in known]

    def owns(self, monitor: object) -> bool:
        return monitor is self.monitor

    def step(self, loss: Any, scalars: dict[str, Any]) -> None:
        """Record a step; raise FindingError where the user has asked for that."""
        if self.monitor is not None:
            self.steps += 1
            self.last_step_secs = now()
            self.monitor.step(loss, **scalars)

    def has_begun_a_step(self) -> bool:
        """Return whether a step has begun. Losses do not count: those of other trainings are seen, too."""
        seen = self._collector
        if self.monitor is None or seen is None:
            return False
        return bool(seen.samples) or any(not name.startswith(LOSSES) for name in seen.scalars)

    def flush(self, timeout_secs: float) -> None:
        if self.monitor is not None:
            self.monitor._writer.flush(timeout_secs=timeout_secs)

    def catch_up(self) -> None:
        """Wait until everything recorded so far is judged, too."""
        if self.monitor is not None:
            self.monitor.flush()

    def close(self) -> None:
        """Close the monitor and keep its results. May be repeated."""
        if self.monitor is None:
            return
        monitor = self.monitor
        self._collector = None
        try:
            monitor.close()
        finally:
            self._findings = self.findings
            self.monitor = None

    def _keeping_collector(self, make_adapter: Any) -> Any:
        def make(collector: StepCollector, *others: Any) -> Any:
            self._collector = collector
            collector.go_to(self._first_step + self.steps)
            return make_adapter(collector, *others)

        return make
