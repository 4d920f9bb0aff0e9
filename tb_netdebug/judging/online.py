"""Judges a run while it trains: feeds the checks on the writer's thread, and reports what they find."""

from __future__ import annotations

import sys
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from tb_netdebug.checks.engine import Engine
from tb_netdebug.checks.finding import Finding, Severity
from tb_netdebug.checks.finding_error import FindingError
from tb_netdebug.checks.wording.words import paragraph
from tb_netdebug.core.eventlog.writer.spool import shown
from tb_netdebug.core.records.findings import encode_findings
from tb_netdebug.core.records.graph import decode_graph
from tb_netdebug.core.records.step import StepRecord
from tb_netdebug.core.records.visible import visible_lines

# Known findings that only continue are written again this often; new ones at once.
SECS_BETWEEN = 10.0


# How many messages of other ranks may wait until this process reaches their steps; the oldest are dropped.
MOST_HEARD = 4096


class Judge:
    """The checks on a run in progress.

    `judge` and `finish` are called on the writer's thread, `hear` on any, everything else on the training
    thread. Findings are printed at once, on the writer's thread. Callbacks, `pause` and errors wait for
    `act`.

    `sent_to` is the collector's address when the run's records go there instead of staying here.
    """

    def __init__(
        self,
        checks: Mapping[str, Any] | None,
        on_finding: str | Callable[[Any], object],
        run_dir: Path,
        *,
        sent_to: str | None = None,
        pause: Callable[[Finding], None] | None = None,
    ) -> None:
        self._engine = Engine(checks)
        self._checks = dict(checks or {})
        self._on_finding = on_finding
        self._run_dir = run_dir
        self._sent_to = sent_to
        self._pause = pause
        self._graph: bytes | None = None  # encoded: decoded on the writer's thread, not in the loop
        self._heard: deque[tuple[int, Sequence[StepRecord]]] = deque(maxlen=MOST_HEARD)
        self._waiting: deque[Finding] = deque()
        self._written_secs = 0.0
        self._written_steps = 0
        self._has_told_where = False
        # The last printed finding of each rule, so that the same advice is not printed twice.
        self._told: dict[str, Finding] = {}
        self.findings: tuple[Finding, ...] = ()

    def describe(self, *, graph: bytes | None = None, info: dict[str, Any] | None = None) -> None:
        if graph is not None:
            self._graph = graph
        if info is not None:
            self._engine.describe(info=info)

    def hear(self, rank: int, records: Sequence[StepRecord]) -> None:
        """Queue steps of another rank, from any thread."""
        self._heard.append((rank, records))

    def judge(self, records: Sequence[StepRecord]) -> bytes | None:
        """Judge new steps; return the findings, encoded for storage, when they are to be written now."""
        if self._graph is not None:
            graph, self._graph = self._graph, None
            self._engine.describe(graph=decode_graph(graph))
        news = self._engine.feed(records)
        self._listen(self._engine.history.step)
        is_due = time.monotonic() - self._written_secs >= SECS_BETWEEN
        return self._tell(news) if news or (is_due and self.findings) else None

    def finish(self) -> bytes | None:
        """Judge the end of the run; return the findings when the stored ones are not up to date."""
        self._listen(None)
        news = self._engine.finish()
        if news or self._written_steps != self._engine.history.steps or self._written_secs == 0.0:
            return self._tell(news)
        return None

    def _listen(self, last: int | None) -> None:
        """Feed the queued steps of other ranks, up to the step `last` of this one (all of them with None).

        Rules over ranks compare the same steps.
        """
        waiting = []
        while self._heard:
            rank, records = self._heard.popleft()
            # Records come in the order of their steps, so the rest begins behind the known ones.
            known = [each for each in records if last is None or each.step <= last]
            self._engine.feed(known, rank=rank)
            if len(known) < len(records):
                waiting.append((rank, records[len(known) :]))
        self._heard.extendleft(reversed(waiting))

    def act(self) -> None:
        """Do what the user wants done about findings. Raise FindingError if that is wanted."""
        while self._waiting:
            finding = self._waiting.popleft()
            if callable(self._on_finding):
                self._on_finding(finding)
            elif self._pause is not None:
                self._pause(finding)
            elif finding.severity is Severity.ERROR:
                self._waiting.clear()
                raise FindingError(finding)

    def _tell(self, news: Sequence[Finding]) -> bytes:
        self.findings = tuple(self._engine.findings)
        self._written_secs = time.monotonic()
        self._written_steps = self._engine.history.steps
        if callable(self._on_finding) or self._on_finding in ("raise", "pause"):
            self._waiting.extend(news)
        if self._on_finding in ("print", "pause"):
            self._print([each for each in news if each.severity > Severity.INFO and each.cause is None])
        return encode_findings(
            [each.as_dict() for each in self.findings], steps=self._written_steps, checks=self._checks
        )

    def _where(self) -> str:
        if self._sent_to is not None:
            return f"in the TensorBoard that collects at {self._sent_to}   (the NetDebug tab)"
        return f"tensorboard --logdir {shown(self._run_dir.parent)}   (the NetDebug tab)"

    def _print(self, news: Sequence[Finding]) -> None:
        if not news:
            return
        lines = [f"NetDebug: {paragraph(each, told=self._told.get(each.rule))}" for each in news]
        self._told.update((each.rule, each) for each in news)
        if not self._has_told_where:
            self._has_told_where = True
            lines.append(f"  More: {self._where()}")
        with suppress(OSError, ValueError, AttributeError):  # the terminal may be gone
            sys.stderr.write(visible_lines("\n".join([*lines, ""])))
            sys.stderr.flush()
