"""Verdicts on runs that nobody judged while they trained: old, killed, or of other programs."""

from __future__ import annotations

import logging
import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tb_netdebug.core.records.verdict import verdict
from tb_netdebug.judging import foreign, recorded
from tb_netdebug.viewer.plugin.background_judge import BackgroundJudge

if TYPE_CHECKING:
    from tb_netdebug.core.eventlog.reader.followed_run import FollowedRun
    from tb_netdebug.viewer.plugin.workers import Workers

logger = logging.getLogger(__name__)

# Judging a bigger run would keep a request waiting for seconds, so it is done in the background.
MOST_BYTES = 16 << 20
# How often a growing run is judged anew. In the background judging takes at most a small part of the time.
SECS_BETWEEN = 10.0
REST_PER_WORK = 10.0
MOST_KEPT = 64
IN_BACKGROUND = "It is long, so it is now judged in the background."

Judged = dict[str, Any]


@dataclass(frozen=True, slots=True)
class KnownVerdict:
    """The verdict on a version of a run, which also holds for later versions until the time `until`.

    `judged` is None if judging failed.
    """

    version: int
    until: float
    judged: Judged | None


class Verdicts:
    """Judges a run when its details are asked for, and keeps the result while the run does not change.

    `told` is called with the folder of a run that was judged, on any thread.
    """

    def __init__(self, workers: Workers, told: Callable[[str], None] = lambda folder: None) -> None:
        self._workers = workers
        self._told = told
        self._lock = threading.Lock()
        self._known: OrderedDict[str, KnownVerdict] = OrderedDict()
        self._background = BackgroundJudge(self._take)

    def added(self, run: FollowedRun, details: dict[str, Any]) -> dict[str, Any]:
        """Return the details with a verdict, unless the trainer gave one.

        A long run is judged in the background, and has no verdict until that is done.
        """
        # The judge reads local files; a run in an object store stays without a verdict.
        if details["verdict"] is not None or "://" in run.path:
            return details
        version = int(details["version"])
        if not self._is_known(run.path, version):
            if details["size_bytes"] > MOST_BYTES:
                self._background.want(run.path, version)
                details = {**details, "reason": f"{details['reason']} {IN_BACKGROUND}"}
            else:
                self._judge(run, version)
        return self.known(run, details)

    def known(self, run: FollowedRun, details: dict[str, Any]) -> dict[str, Any]:
        """Return the details with the last verdict found, if any; nothing is judged for it."""
        with self._lock:
            known = self._known.get(run.path)
        if details["verdict"] is not None or known is None or known.judged is None:
            return details
        return {**details, **known.judged}

    def close(self) -> None:
        self._background.close()

    def _is_known(self, folder: str, version: int) -> bool:
        with self._lock:
            known = self._known.get(folder)
        return known is not None and (known.version == version or time.monotonic() < known.until)

    def _judge(self, run: FollowedRun, version: int) -> None:
        judged = None
        try:
            judged = self._workers.run(partial(judge, run))
        except Exception:  # the page shows the run without a verdict
            logger.exception("NetDebug could not judge the run %r", run.name)
        self._keep(run.path, KnownVerdict(version, time.monotonic() + SECS_BETWEEN, judged))

    def _take(self, folder: str, version: int, report: Judged | None, took_secs: float) -> None:
        """Keep a report of the background judge, on its thread."""
        judged = report and {name: report[name] for name in ("verdict", "reason", "findings")}
        rest = max(SECS_BETWEEN, REST_PER_WORK * took_secs)
        self._keep(folder, KnownVerdict(version, time.monotonic() + rest, judged))

    def _keep(self, folder: str, known: KnownVerdict) -> None:
        with self._lock:
            self._known[folder] = known
            self._known.move_to_end(folder)
            while len(self._known) > MOST_KEPT:
                self._known.popitem(last=False)
        self._told(folder)


def judge(run: FollowedRun) -> Judged:
    kind, damage = str(run.details()["kind"]), [""]
    if kind == "netdebug":
        engine, damage = recorded.judged(Path(run.path))
    else:
        engine = foreign.judged(run)
    findings = engine.findings
    found = verdict(
        [each.severity.text for each in findings],
        steps=engine.history.steps,
        evidence=engine.history.evidence if kind == "netdebug" else None,
        info=engine.history.info,
        damage=next(iter(damage), ""),
        kind=kind,
    )
    return {
        "verdict": found.word,
        "reason": found.reason,
        "findings": [finding.as_dict() for finding in findings],
    }
