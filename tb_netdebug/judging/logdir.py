"""Judges a whole logdir: `nd.check`, and the same for `netdebug check`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from tb_netdebug.checks.engine import Engine
from tb_netdebug.core.eventlog.reader.errors import ReaderError
from tb_netdebug.core.eventlog.reader.logdir import LogDir, RunListing
from tb_netdebug.core.records.errors import UnsupportedVersion
from tb_netdebug.core.records.step_ranges import StepRanges
from tb_netdebug.core.records.verdict import ending, verdict
from tb_netdebug.judging import foreign, recorded
from tb_netdebug.judging.configuration import checks_of
from tb_netdebug.judging.report import Report, RunReport


class CheckError(ValueError):
    """A logdir that cannot be judged; the sentence says why, and what to do."""


def check(logdir: Path | str, *, checks: Mapping[str, Any] | None = None) -> Report:
    """Judge all runs below a folder anew, whatever was reported while they trained.

    `checks` switches checks off or sets their thresholds, as for `nd.watch`. A `netdebug.toml` in the current
    folder may set what it leaves open. Raise CheckError when there is nothing to judge, and ValueError for
    checks that do not exist.
    """
    return judged(Path(logdir), checks_of(checks, Path()), tell=lambda run: None)


def judged(path: Path, checks: Mapping[str, Any], *, tell: Callable[[str], None]) -> Report:
    """Judge all runs below a folder; call `tell` with the name of each one before it is judged."""
    if path.is_file():
        raise CheckError(f"{path} is a file. Give the folder that it is in: {path.parent}")
    if not path.is_dir():
        raise CheckError(f"there is no folder {path}. Give the logdir of a training, such as `runs`.")
    places = LogDir([("", str(path.absolute()))])
    places.refresh()
    if places.complaints:
        raise CheckError(places.complaints[0])
    if not places.runs:
        raise CheckError(
            f"{path} holds no run: there is no event file in it or below. Give the folder that the training "
            "wrote to, or record one first with `netdebug run SCRIPT`."
        )
    runs = []
    for name, place in places.runs.items():
        tell(name)
        runs.append(report_of(name, place, places, checks))
    return Report(str(path), runs)


def report_of(name: str, place: RunListing, places: LogDir, checks: Mapping[str, Any]) -> RunReport:
    """Judge one run and return its report, with complaints about what could not be read."""
    told = StepRanges()
    remarks: list[str] = []
    try:
        if place.kind == "netdebug":
            engine, damage = recorded.judged(Path(place.path), checks, told)
        else:
            run = places.open(name)
            run.refresh()
            engine, damage, remarks = foreign.judged(run, checks), [], [foreign.RECORDED_BY_OTHERS]
    except (OSError, ReaderError, UnsupportedVersion) as error:
        engine, damage = Engine(checks), [str(error)]
    # `told` counts a step once even if a resumed run recorded it twice; it is empty for other writers.
    steps = told.count or engine.history.steps
    return report_from(name, engine, steps, damage, [*remarks, *damage], place.kind)


def report_from(
    name: str, engine: Engine, steps: int, damage: list[str], complaints: list[str], kind: str
) -> RunReport:
    """Return a report with the findings of the engine and the verdict that they lead to."""
    findings = engine.findings
    found = verdict(
        [each.severity.text for each in findings],
        steps=steps,
        evidence=engine.history.evidence if kind == "netdebug" else None,
        has_loss=kind == "netdebug" or foreign.tells_of_training(engine.history),
        info=engine.history.info,
        damage=damage[0] if damage else "",
        kind=kind,
    )
    not_judged = engine.not_judged if found.is_readable else {}
    told = ending(engine.history.info) if steps else None
    complaints = [*complaints, told] if told else complaints
    return RunReport(
        name, steps, found.word, findings, not_judged, complaints, found.reason, found.is_readable
    )
