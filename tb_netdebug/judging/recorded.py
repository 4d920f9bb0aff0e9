"""A run that NetDebug recorded, judged from its files."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from tb_netdebug.checks.engine import Engine
from tb_netdebug.reader.frames import Gap
from tb_netdebug.reader.payloads import Payload, read_in_turns, read_payloads
from tb_netdebug.reader.run import run_files
from tb_netdebug.records.block import decode_block
from tb_netdebug.records.errors import DamagedBlock
from tb_netdebug.records.graph import decode_graph
from tb_netdebug.records.run_info import decode_run_info
from tb_netdebug.records.step import StepRecord

Ranked = tuple[int, StepRecord]
Reading = Callable[[Path], Iterable[Payload | Gap]]

# Files of other ranks that are open side by side; a process may often have no more than 1024.
MOST_OPEN = 256


def judged(path: Path, checks: Mapping[str, Any] | None = None) -> tuple[Engine, list[str]]:
    """The engine after all records of a run, and what could not be read.

    Raises OSError, and UnsupportedVersion for what a newer NetDebug wrote.
    """
    engine = Engine(checks)
    complaints: list[str] = []
    by_rank: dict[bool, list[Path]] = {False: [], True: []}
    for file in run_files(path):
        by_rank[file.parent != path].append(file)
    describe(engine, by_rank[False], complaints)
    main = ranked(by_rank[False], complaints)
    read = read_payloads if len(by_rank[True]) <= MOST_OPEN else read_in_turns
    others = [ranked([file], complaints, read) for file in by_rank[True]]
    # Ranks side by side: a rule over ranks compares the same steps of all.
    for rank, record in heapq.merge(main, *others, key=lambda each: each[1].step) if others else main:
        engine.feed((record,), rank=rank)
    engine.finish()
    return engine, complaints


def describe(engine: Engine, files: Iterable[Path], complaints: list[str]) -> None:
    """The newest graph and description, known before the first step is judged."""
    graph = info = None
    for file in files:
        for found in read_payloads(file):
            if isinstance(found, Gap) or found.name not in ("graph", "run"):
                continue
            try:
                if found.name == "graph":
                    graph = decode_graph(found.data)
                else:
                    info = decode_run_info(found.data)
            except DamagedBlock as damage:
                complaints.append(f"{file.name}: {damage}")
    engine.describe(graph=graph, info=info)


def ranked(files: Iterable[Path], complaints: list[str], read: Reading = read_payloads) -> Iterator[Ranked]:
    """All records of some files with their ranks, one block at a time in memory."""
    for file in files:
        for found in read(file):
            if isinstance(found, Gap):
                complaints.append(f"{file.name}: {found.size} bytes hold no whole record ({found.reason})")
            elif found.name == "steps":
                try:
                    block = decode_block(found.data)
                    records = block.records()
                except DamagedBlock as damage:
                    complaints.append(f"{file.name}: {damage}")
                else:
                    yield from ((block.rank, record) for record in records)
