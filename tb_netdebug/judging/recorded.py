"""Judges runs that NetDebug itself recorded, from their event files."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from tb_netdebug.checks.engine import Engine
from tb_netdebug.core.eventlog.reader.payloads import payload_at
from tb_netdebug.core.eventlog.reader.run import run_files
from tb_netdebug.core.records.block import decode_block
from tb_netdebug.core.records.errors import DamagedBlock
from tb_netdebug.core.records.step import StepRecord
from tb_netdebug.core.records.step_ranges import StepRanges
from tb_netdebug.judging.survey import Survey, survey_of

Ranked = tuple[int, StepRecord]


def judged(
    path: Path, checks: Mapping[str, Any] | None = None, steps: StepRanges | None = None
) -> tuple[Engine, list[str]]:
    """Return an engine that has judged all records of a run, and complaints about what could not be read.

    `steps` collects the steps of rank 0, each once, however often it was recorded.

    Raise OSError, and UnsupportedVersion for files of a newer NetDebug.
    """
    engine = Engine(checks)
    complaints: list[str] = []
    by_rank: dict[bool, list[Path]] = {False: [], True: []}
    for file in run_files(path):
        by_rank[file.parent != path].append(file)  # other ranks' files lie in the side folder
    main = ranked(described(engine, by_rank[False], complaints), complaints)
    others = [records_in([file], complaints) for file in by_rank[True]]
    # Merged by step, because a rule over ranks compares the same steps of all of them.
    for rank, record in heapq.merge(main, *others, key=lambda each: each[1].step) if others else main:
        engine.feed((record,), rank=rank)
        if steps is not None and rank == 0 and record.scalars:
            steps.add(record.step, record.step)
    engine.finish()
    return engine, complaints


def described(engine: Engine, files: Iterable[Path], complaints: list[str]) -> list[Survey]:
    """Survey the files; give the engine the newest graph and description before its first step."""
    surveys = [survey_of(file, complaints) for file in files]
    graphs = [survey.graph for survey in surveys if survey.graph is not None]
    infos = [survey.info for survey in surveys if survey.info is not None]
    engine.describe(graph=graphs[-1] if graphs else None, info=infos[-1] if infos else None)
    return surveys


def records_in(files: Iterable[Path], complaints: list[str]) -> Iterator[Ranked]:
    """Yield all records of some files with their ranks."""
    return ranked((survey_of(file, complaints) for file in files), complaints)


def ranked(surveys: Iterable[Survey], complaints: list[str]) -> Iterator[Ranked]:
    """Yield all records of surveyed files with their ranks, with one block at a time in memory."""
    for survey in surveys:
        for place in survey.blocks:
            try:
                block = decode_block(payload_at(survey.file, place.offset, place.number))
                records = block.records()
            except DamagedBlock as damage:
                complaints.append(f"{survey.file.name}: {damage}")
            else:
                yield from ((block.rank, record) for record in records)
