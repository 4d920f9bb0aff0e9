"""How much longer a step of Keras's `fit` takes while it is watched."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median

import torch

from bench.progress import Session
from bench.recorded import columns_of, sampled_steps
from bench.results import Column, Part, Promise, Row, Table
from bench.rounds import paired, paired_middle, turn
from bench.step_time import COLUMNS, Ratios, percent, row_values

TITLE = "Step time of Keras"
METHOD = (
    "Each contender trains a copy of the same network on the same data by one call of `fit`, in a process "
    "of its own that keeps running. In each round every contender runs an epoch, in an order that changes "
    "from round to round, while the others wait; the first steps of an epoch do not count, nor does the "
    "first epoch, in which TensorFlow traces. `whole stretch` is the time of the epoch with all its "
    "callbacks, for NetDebug also with bringing to the file what was recorded, against the unwatched epoch "
    "of the same round; `median step` compares the medians of the single steps in the same way. Over the "
    "rounds, the first is the mean of the middle half, the second the median; the headline is the larger of "
    "the two. The second row without monitoring shows how far the measurement can be trusted. Late traces "
    "are those after the second step: Python runs through a training step only while TensorFlow traces, and "
    "is counted there. What NetDebug recorded is read back: every step has to be there."
)
AUTO_PERCENT = 3.0
EVERYTHING_PERCENT = 25.0
TRAINEE = Path(__file__).with_name("keras_trainee.py")


class TraineeError(RuntimeError):
    """A training ended before its time."""


@dataclass(frozen=True, slots=True)
class Kind:
    """A network; an epoch of so many steps takes about a second."""

    name: str
    title: str
    batch: str
    steps: int


@dataclass(frozen=True, slots=True)
class Contender:
    name: str
    title: str
    is_ours: bool = False


KINDS = (Kind("mlp", "MLP", "128 × 784", 250), Kind("cnn", "CNN", "32 × 32 × 32 × 3", 30))
BARE = Contender("bare", "no monitoring")
# The same once more: how far apart equal things are measured tells how much a difference means.
AGAIN = Contender("again", "no monitoring, once more")
AUTO = Contender("netdebug", "`KerasCallback` as it comes", is_ours=True)
EVERYTHING = Contender("netdebug_everything", "`KerasCallback`, `every=1`", is_ours=True)
TENSORBOARD = Contender("tensorboard", "`TensorBoard(histogram_freq=1, update_freq=1)`")
CONTENDERS = (BARE, AUTO, EVERYTHING, AGAIN, TENSORBOARD)


@dataclass(slots=True)
class Runner:
    """A contender at work, and its times."""

    contender: Contender
    process: subprocess.Popen[str]
    folder: Path
    errors: Path
    stretches: list[float] = field(default_factory=list)
    medians: list[float] = field(default_factory=list)
    steps: list[float] = field(default_factory=list)
    late_traces: int = 0
    parameters: int = 0
    ended: int = 0
    """All steps so far."""

    def run(self, *, counts: bool = True) -> None:
        """An epoch. Raises TraineeError."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        with suppress(BrokenPipeError):  # it has ended: then there is nothing to read
            self.process.stdin.write("go\n")
            self.process.stdin.flush()
        line = self.process.stdout.readline()
        if not line:
            said = self.errors.read_text(errors="replace").strip().splitlines() or ["nothing"]
            raise TraineeError(f"the training with {self.contender.title} ended and said: {said[-1]}")
        told = json.loads(line)
        self.late_traces, self.ended, self.parameters = (
            told[name] for name in ("late_traces", "steps", "parameters")
        )
        if counts:
            self.stretches.append(told["whole"])
            self.medians.append(median(told["secs"]))
            self.steps += told["secs"]

    def finish(self) -> None:
        """Lets the training come to its end, after the last epoch that it was made for."""
        self.process.communicate()

    def end(self) -> None:
        self.process.kill()
        self.process.communicate()


def measure(session: Session) -> Part:
    began = time.monotonic()
    rounds = session.choose(full=16, quick=2)
    promises, tables = [], []
    for kind in KINDS:
        steps = kind.steps // 5 if session.is_quick else kind.steps
        with runners(kind, session.folder, epochs=rounds + 1, steps=steps) as running:
            run_rounds(running, kind, session, rounds)
        ratios = ratios_of(running)
        promises += promises_of(kind, running, ratios)
        tables.append(table_of(kind, running, ratios))
    return Part("keras", TITLE, METHOD, rounds, time.monotonic() - began, promises, tables)


@contextmanager
def runners(
    kind: Kind, folder: Path, *, epochs: int, steps: int, contenders: Sequence[Contender] = CONTENDERS
) -> Iterator[list[Runner]]:
    """All contenders, ready to run for so many epochs; ended at the end, whatever has happened."""
    numbers = [str(each) for each in (epochs, steps, torch.get_num_threads())]
    with ExitStack() as stack:
        made = []
        for contender in contenders:
            place = folder / kind.name / contender.name
            place.mkdir(parents=True)
            errors = place / "errors.txt"
            with errors.open("w") as file:
                process = subprocess.Popen(
                    [sys.executable, str(TRAINEE), kind.name, contender.name, str(place), *numbers],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=file,
                    text=True,
                    start_new_session=True,  # Ctrl-C is for us, and we end it
                )
            made.append(Runner(contender, process, place, errors))
            stack.callback(made[-1].end)
        yield made


def run_rounds(running: Sequence[Runner], kind: Kind, session: Session, rounds: int) -> None:
    for runner in running:
        session.progress.show(f"{TITLE}, {kind.title}: warming up {runner.contender.title}")
        runner.run(counts=False)
    for number in range(rounds):
        session.progress.show(f"{TITLE}, {kind.title}: round {number + 1} of {rounds}")
        for runner in turn(running, number):
            runner.run()
    for runner in running:
        runner.finish()


def ratios_of(running: Sequence[Runner]) -> dict[str, Ratios]:
    bare = running[0]
    return {
        runner.contender.name: Ratios(
            paired_middle(runner.stretches, bare.stretches), paired(runner.medians, bare.medians)
        )
        for runner in running
    }


def promises_of(kind: Kind, running: Sequence[Runner], ratios: dict[str, Ratios]) -> list[Promise]:
    auto, everything = (percent(ratios[each.name].high) for each in (AUTO, EVERYTHING))
    traces = sum(runner.late_traces for runner in running if runner.contender.is_ours)
    name = f"Keras {kind.title}"
    return [
        Promise(f"{name}: `KerasCallback` as it comes slows a step by", auto, AUTO_PERCENT, "%", True),
        Promise(f"{name}: everything in every step slows it by", everything, EVERYTHING_PERCENT, "%", True),
        Promise(f"{name}: traces after the second step", float(traces), 0.0, "traces", True),
    ]


def table_of(kind: Kind, running: Sequence[Runner], ratios: dict[str, Ratios]) -> Table:
    rows = [row_of(runner, ratios[runner.contender.name]) for runner in running]
    millions = running[0].parameters / 1e6
    return Table(
        f"Keras {kind.title}, {millions:.2f} M parameters, batch {kind.batch}",
        [*COLUMNS, Column("late traces")],
        rows,
    )


def row_of(runner: Runner, ratios: Ratios) -> Row:
    compared = ratios if runner.contender is not BARE else None
    values = row_values(compared, runner.steps, sampled_share(runner))
    return Row(runner.contender.title, [*values, float(runner.late_traces)], runner.contender.is_ours)


def sampled_share(runner: Runner) -> float | None:
    """Per cent of its steps that NetDebug has sampled, from its file. Raises NotRecordedError."""
    if not runner.contender.is_ours:
        return None
    columns = columns_of(runner.folder / "run", runner.ended)
    count = sampled_steps(columns, runner.ended, every=runner.contender is EVERYTHING)
    return 100 * count / runner.ended
