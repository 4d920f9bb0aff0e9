"""What the checks cost: beside a step of the transformer, and over a long recorded run."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from pathlib import Path
from statistics import median

import numpy as np

import tb_netdebug as nd
from bench.models import KINDS, Training
from bench.progress import Session
from bench.results import Column, Part, Promise, Row, Table
from bench.rounds import timed
from tb_netdebug.checks.engine import Engine
from tb_netdebug.core.eventlog.reader.run import run_files
from tb_netdebug.core.eventlog.writer import EventWriter
from tb_netdebug.core.records.step import Kind, Sample, Series, StepRecord
from tb_netdebug.core.stats import kernel
from tb_netdebug.judging.recorded import described, records_in

TITLE = "Checks"
METHOD = (
    "The transformer trains as it comes; then all checks judge its records once more, in memory and in the "
    "order in which they came, several times over. Their processor time a step is held against the median "
    "step of the same training without NetDebug. The long run is written by the recorder's own writer: a "
    "falling loss, ten scalars in every step, and 100 tensors in every fiftieth; it is judged as `netdebug "
    "check` does it, reading included."
)
MOST_SHARE_PERCENT = 0.3
MOST_SECS = 5.0
LAYERS = 25
SAMPLED_EVERY = 50
TENSOR_KINDS = (Kind.WEIGHT, Kind.GRADIENT, Kind.UPDATE, Kind.ACTIVATION)


def measure(session: Session) -> Part:
    began = time.monotonic()
    rounds = session.rounds or (2 if session.is_quick else 5)
    steps, long_steps = (60, 5_000) if session.is_quick else (400, 100_000)
    step_secs, judging = beside_training(session, steps, rounds)
    share = 100 * median(judging) / step_secs
    run = session.folder / "judging" / "long"
    session.progress.show(f"{TITLE}: writing {long_steps} steps")
    write(run, long_steps)
    secs = []
    for number in range(rounds):
        session.progress.show(f"{TITLE}: {long_steps} steps, round {number + 1} of {rounds}")
        secs.append(timed(lambda: nd.check(run)))
    promises = [
        Promise("transformer: all checks together take of a step", share, MOST_SHARE_PERCENT, "%", True),
        Promise(f"{long_steps} recorded steps are judged in", median(secs), MOST_SECS, "s", True),
    ]
    tables = [
        Table(
            f"{steps} steps of the transformer",
            [Column("a step without NetDebug, ms", 1), Column("all checks, µs a step", 1, "less")],
            [Row("as it comes", [step_secs * 1e3, median(judging) * 1e6], is_ours=True)],
        ),
        Table(
            f"{long_steps} recorded steps",
            [
                Column("fastest, s", 2, "less"),
                Column("median, s", 2, "less"),
                Column("slowest, s", 2, "less"),
            ],
            [Row("nd.check", [min(secs), median(secs), max(secs)], is_ours=True)],
        ),
    ]
    return Part("judging", TITLE, METHOD, rounds, time.monotonic() - began, promises, tables)


def beside_training(session: Session, steps: int, rounds: int) -> tuple[float, list[float]]:
    """The median step without NetDebug, and of each round what the checks take for one."""
    (kind,) = [each for each in KINDS if each.name == "transformer"]
    training = Training(kind)
    bare = []
    for number in range(steps // 4):
        session.progress.show(f"{TITLE}: step {number} of {steps // 4} without NetDebug")
        bare.append(timed(training.step))
    run = session.folder / "judging" / "run"
    with nd.watch(
        training.model, training.optimizer, logdir=run.parent, run=run.name, on_finding="ignore"
    ) as monitor:
        for number in range(steps):
            session.progress.show(f"{TITLE}: step {number} of {steps}")
            monitor.step(loss=training.step())
    records = list(records_of(run))
    return median(bare), [judge(run, records) / len(records) for _ in range(rounds)]


def records_of(run: Path) -> Iterator[StepRecord]:
    for _, record in records_in(run_files(run), []):
        yield record


def judge(run: Path, records: list[StepRecord]) -> float:
    """Seconds of processor time for all of them."""
    engine = Engine()
    described(engine, run_files(run), [])
    began = time.thread_time()
    engine.feed(records)
    return time.thread_time() - began


def write(run: Path, steps: int) -> None:
    """A long run that learns."""
    random = np.random.default_rng(0)
    values = random.normal(size=256).astype(np.float32)
    (packed,) = kernel.summarize([(values.ctypes.data, values.size, 0)], 1)
    series = [Series(kind, f"layer{number}.weight") for kind in TENSOR_KINDS for number in range(LAYERS)]
    noise = random.random(steps)
    writer = EventWriter(run, mirror=None)
    for step in range(steps):
        scalars = {
            "loss": 2.0 * math.exp(-step / (0.3 * steps)) + 0.1 + 0.02 * noise[step],
            "gradient_norm": 1.0,
            "nonfinite_gradients": 0.0,
            "batch_size": 32.0,
            "lr/0": 1e-3,
            "time/step": 0.01,
            "time/data": 0.001,
            "time/forward": 0.003,
            "time/backward": 0.004,
            "time/optimizer": 0.002,
        }
        samples = [Sample(each, packed) for each in series] if step % SAMPLED_EVERY == 0 else []
        writer.put(StepRecord(step, 1e9 + step / 100, scalars, samples))
        if step % 2000 == 0:
            writer.flush()
    writer.close()
