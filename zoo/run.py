"""One program, run and judged, in a process of its own."""

from __future__ import annotations

import random
import time
import traceback
import warnings
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from tb_netdebug.checks.engine import Engine
from tb_netdebug.checks.finding import Finding, Severity
from tb_netdebug.core.eventlog.reader.run import run_files
from tb_netdebug.judging.recorded import described, ranked
from zoo.program import KERAS, Program, Zoo


@dataclass(frozen=True)
class Said:
    """A finding: the step at which its fault began as it says, and the step at which it was first said."""

    slug: str
    severity: str
    first_step: int
    said_step: int
    message: str
    where: tuple[str, ...] = ()


@dataclass
class Outcome:
    """What came out of one program with one seed. `error` is how it failed, if it did."""

    name: str
    seed: int
    said: list[Said] = field(default_factory=list)
    infos: list[str] = field(default_factory=list)
    steps: int = 0
    secs: float = 0.0
    error: str = ""
    broken: dict[str, str] = field(default_factory=dict)
    otherwise: list[str] = field(default_factory=list)
    """Rules that spoke during the training and not from the files, or the other way round."""


def run(program: Program, seed: int, folder: Path) -> Outcome:
    """Never raises: what goes wrong is part of the outcome."""
    outcome = Outcome(program.name, seed)
    began = time.monotonic()
    zoo = Zoo(seed, folder)
    sow(program.framework, seed)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            program.body(zoo)
        for watcher in zoo.watchers:
            watcher.close()
            judge(watcher.run_dir, watcher.findings, outcome)
    except Exception:
        outcome.error = traceback.format_exc(limit=-4)
    outcome.secs = time.monotonic() - began
    return outcome


def run_again(program: Program, seed: int, folder: Path) -> Outcome:
    """The same from what `run` has left in the folder: nothing is trained. Never raises."""
    outcome = Outcome(program.name, seed)
    began = time.monotonic()
    try:
        for path in sorted(folder.iterdir()):
            judge(path, (), outcome)
        outcome.otherwise.clear()  # what was said during the training is not known any more
    except Exception:
        outcome.error = traceback.format_exc(limit=-4)
    outcome.secs = time.monotonic() - began
    return outcome


def sow(framework: str, seed: int) -> None:
    """One thread, and the same numbers for the same seed. Only the framework that is wanted is imported."""
    np.random.seed(seed)  # programs are written as people write them
    random.seed(seed)
    if framework == KERAS:
        from zoo.keras.late import keras, tf

        tf.config.threading.set_intra_op_parallelism_threads(1)
        tf.config.threading.set_inter_op_parallelism_threads(1)
        keras.utils.set_random_seed(seed)
    else:
        import torch

        torch.set_num_threads(1)
        torch.manual_seed(seed)


def judge(path: Path | None, online: Iterable[Finding], outcome: Outcome) -> None:
    """Once more from the files, record by record: that tells in which step a thing was said."""
    if path is None:
        raise ValueError("a callback was asked for and not used")
    engine = Engine()
    files = run_files(path)
    said: dict[str, int] = {}
    for rank, record in ranked(described(engine, files, []), []):
        note(engine.feed((record,), rank=rank), engine, said)
    note(engine.finish(), engine, said)
    for finding in engine.findings:
        if finding.rule in said:
            outcome.said.append(
                Said(
                    finding.rule,
                    finding.severity.text,
                    finding.first_step,
                    said[finding.rule],
                    finding.message,
                    tuple(finding.where[:5]),
                )
            )
        else:
            outcome.infos.append(finding.rule)
    outcome.steps += engine.history.steps
    outcome.broken.update(engine.broken)
    told = {finding.rule for finding in online if finding.severity > Severity.INFO}
    outcome.otherwise += sorted(told ^ said.keys())


def note(news: Iterable[Finding], engine: Engine, said: dict[str, int]) -> None:
    for finding in news:
        if finding.severity > Severity.INFO:
            said.setdefault(finding.rule, engine.history.step)
