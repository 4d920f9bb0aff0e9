"""Verdicts over runs that nobody judged while they trained: those of other writers, and old ones."""

from __future__ import annotations

import logging
import threading
import time
from collections import OrderedDict
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tb_netdebug.checks.finding import verdict
from tb_netdebug.judging import foreign, recorded

if TYPE_CHECKING:
    from tb_netdebug.plugin.workers import Workers
    from tb_netdebug.reader.followed_run import FollowedRun

logger = logging.getLogger(__name__)

# Judging more than this would keep whoever asked waiting for seconds; `netdebug check` has the time.
MOST_BYTES = 16 << 20
# A run that goes on is judged anew at most so often.
SECS_BETWEEN = 10.0
MOST_KEPT = 64

Judged = dict[str, Any]
UNJUDGED: Judged = {"verdict": None, "findings": []}


class Verdicts:
    """Judges a run when its details are asked for, and keeps what it said while the run stays as it is."""

    def __init__(self, workers: Workers) -> None:
        self._workers = workers
        self._lock = threading.Lock()
        self._known: OrderedDict[str, tuple[int, float, Judged]] = OrderedDict()

    def added(self, run: FollowedRun, details: dict[str, Any]) -> dict[str, Any]:
        """The details with a verdict, unless the trainer gave one or there is too much to read."""
        is_remote = "://" in run.path
        if details["verdict"] is not None or details["size_bytes"] > MOST_BYTES or is_remote:
            return details
        return {**details, **self._of(run, int(details["version"]))}

    def _of(self, run: FollowedRun, version: int) -> Judged:
        now = time.monotonic()
        with self._lock:
            known = self._known.get(run.path)
        if known is not None and (known[0] == version or now - known[1] < SECS_BETWEEN):
            return known[2]
        try:
            judged = self._workers.run(partial(judge, run))
        except Exception:  # the page shows the run without a verdict
            logger.exception("NetDebug could not judge the run %r", run.name)
            judged = UNJUDGED
        with self._lock:
            self._known[run.path] = version, now, judged
            self._known.move_to_end(run.path)
            while len(self._known) > MOST_KEPT:
                self._known.popitem(last=False)
        return judged


def judge(run: FollowedRun) -> Judged:
    if run.details()["kind"] == "netdebug":
        engine, _ = recorded.judged(Path(run.path))
    else:
        engine = foreign.judged(run)
    if not engine.history.steps:
        return UNJUDGED
    findings = engine.findings
    return {"verdict": verdict(findings), "findings": [finding.as_dict() for finding in findings]}
