"""A whole logdir, judged."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tb_netdebug.judging.recorded import judged
from tb_netdebug.judging.report import Report, RunReport
from tb_netdebug.reader.run import list_runs


def check(logdir: Path | str, *, checks: Mapping[str, Any] | None = None) -> Report:
    """Judges all runs below a folder anew, whatever was said while they trained.

    `checks` switches checks off or sets their thresholds, as for `nd.watch`. Raises OSError for what cannot
    be read, and ValueError for checks that do not exist.
    """
    runs = []
    for name, path in list_runs(Path(logdir)).items():
        engine, complaints = judged(path, checks)
        steps = engine.history.steps
        runs.append(RunReport(name, steps, engine.findings, engine.not_judged, complaints))
    return Report(str(logdir), runs)
