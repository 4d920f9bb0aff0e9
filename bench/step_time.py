"""How much longer a training step takes while it is watched."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median

from bench.models import KINDS, Kind, Training
from bench.peers import AUTO, BARE, CONTENDERS, EVERYTHING, HISTOGRAMS, Contender, Watcher
from bench.progress import Session
from bench.recorded import columns_of, sampled_steps
from bench.results import Column, Part, Promise, Row, Table
from bench.rounds import paired, paired_middle, turn

TITLE = "Step time"
METHOD = (
    "Each contender trains a copy of the same network on the same data, is set up once and keeps running. "
    "In each round every contender runs a stretch of steps, in an order that changes from round to round; "
    "before a stretch come a few steps that do not count. `whole stretch` is the time of the stretch, "
    "with all its steps and with bringing to the file what was recorded, against the unwatched stretch of "
    "the same round; `median step` compares the medians of the single steps in the same way, and does not "
    "see what only some of the steps cost. Over the rounds, the first is the mean of the middle half, the "
    "second the median. The headline is the larger of the two for NetDebug, and the smaller one for the "
    "peer that it is compared with. The second row without monitoring shows how far the measurement can "
    "be trusted. What NetDebug recorded is read back: every step has to be there. glibc keeps the memory "
    "that is freed, for all contenders alike: giving it back and asking for it again is what makes the same "
    "unwatched step take half as long again in one process as in the next."
)
AUTO_PERCENT = 2.0
EVERYTHING_PERCENT = {"mlp": 15.0, "cnn": 10.0, "transformer": 8.0}
TIMES_LESS = 20.0
COLUMNS = [
    Column("whole stretch, % slower", 1, "less"),
    Column("median step, % slower", 1, "less"),
    Column("median step, ms", 3, "less"),
    Column("fastest step, ms", 3, "less"),
    Column("steps timed"),
    Column("steps sampled, %", 1, "more"),
]

SETTLING_STEPS = 3
WARM_UP_STEPS = 30
QUICK_WARM_UP_STEPS = 10
FEWEST_STEPS = 10
FEWEST_OF_PEERS = 3


@dataclass(slots=True)
class Runner:
    """A contender at work, and its times."""

    contender: Contender
    training: Training
    watcher: Watcher
    folder: Path
    stretches: list[float] = field(default_factory=list)
    medians: list[float] = field(default_factory=list)
    steps: list[float] = field(default_factory=list)
    sampled: float | None = None

    def step(self) -> None:
        self.watcher.after(self.training.step())

    def warm_up(self, steps: int) -> None:
        for _ in range(steps):
            self.step()
        self.watcher.flush()
        self.watcher.rest()

    def run(self, steps: int) -> None:
        """One stretch; the first steps after the pause pay for it (cold caches, savings of the governor)."""
        own = max(min(steps, FEWEST_OF_PEERS), round(steps * self.contender.part))
        self.warm_up(max(1, round(SETTLING_STEPS * self.contender.part)))
        secs: list[float] = []
        began = last = time.perf_counter()
        for _ in range(own):
            self.step()
            now = time.perf_counter()
            secs.append(now - last)
            last = now
        self.watcher.flush()
        self.stretches.append((time.perf_counter() - began) / own)
        self.medians.append(median(secs))
        self.steps += secs
        self.watcher.rest()


@dataclass(frozen=True, slots=True)
class Ratios:
    """Against the bare contender."""

    whole: float
    step: float

    @property
    def high(self) -> float:
        return max(self.whole, self.step)

    @property
    def low(self) -> float:
        return min(self.whole, self.step)


@contextmanager
def runners(kind: Kind, folder: Path, contenders: Sequence[Contender] = CONTENDERS) -> Iterator[list[Runner]]:
    """All contenders, ready to run; closed at the end, also when one of them could not be made."""
    with ExitStack() as stack:
        made = []
        for contender in contenders:
            training = Training(kind)
            place = folder / kind.name / contender.name
            watcher = contender.watcher(training, place)
            stack.callback(watcher.close)
            made.append(Runner(contender, training, watcher, place))
        yield made


def measure(session: Session) -> Part:
    began = time.monotonic()
    rounds = session.choose(full=16, quick=3)
    promises, tables = [], []
    for kind in KINDS:
        with runners(kind, session.folder) as running:
            run_rounds(running, kind, session, rounds)
        for runner in running:
            note_samples(runner)
        promises += promises_of(kind, ratios_of(running))
        tables.append(table_of(kind, running))
    return Part("step_time", TITLE, METHOD, rounds, time.monotonic() - began, promises, tables)


def run_rounds(running: Sequence[Runner], kind: Kind, session: Session, rounds: int) -> None:
    tell: Callable[[str], None] = session.progress.show
    warm_up = QUICK_WARM_UP_STEPS if session.is_quick else WARM_UP_STEPS
    for runner in running:
        tell(f"{TITLE}, {kind.title}: warming up {runner.contender.title}")
        runner.warm_up(max(FEWEST_OF_PEERS, round(warm_up * runner.contender.part)))
    steps = steps_within(running[0], 0.15 if session.is_quick else 1.0)
    for number in range(rounds):
        tell(f"{TITLE}, {kind.title}: round {number + 1} of {rounds}, {steps} steps each")
        for runner in turn(running, number):
            runner.run(steps)


def steps_within(runner: Runner, secs: float) -> int:
    """How many steps make a stretch of about so many seconds."""
    trial = Runner(runner.contender, runner.training, runner.watcher, runner.folder)
    trial.run(FEWEST_STEPS)
    return max(FEWEST_STEPS, round(secs / trial.medians[0]))


def note_samples(runner: Runner) -> None:
    """How many of its steps NetDebug has sampled, from the file that it wrote. Raises NotRecordedError."""
    if runner.contender.is_ours:
        steps = runner.training.steps
        columns = columns_of(runner.folder / "run", steps)
        count = sampled_steps(columns, steps, every=runner.contender is EVERYTHING)
        runner.sampled = 100 * count / steps


def ratios_of(running: Sequence[Runner]) -> dict[str, Ratios]:
    by_name = {runner.contender.name: runner for runner in running}
    bare = by_name[BARE.name]
    return {
        name: Ratios(paired_middle(runner.stretches, bare.stretches), paired(runner.medians, bare.medians))
        for name, runner in by_name.items()
    }


def promises_of(kind: Kind, ratios: dict[str, Ratios]) -> list[Promise]:
    ours, everything, peer = (ratios[each.name] for each in (AUTO, EVERYTHING, HISTOGRAMS))
    # Below what can be measured a cost counts as a thousandth, or the quotient would mean nothing.
    less = (peer.low - 1) / max(everything.high - 1, 0.001)
    limit = EVERYTHING_PERCENT[kind.name]
    return [
        Promise(
            f"{kind.title}: `watch()` as it comes slows a step by",
            percent(ours.high),
            AUTO_PERCENT,
            "%",
            True,
        ),
        Promise(
            f"{kind.title}: everything in every step slows it by", percent(everything.high), limit, "%", True
        ),
        Promise(f"{kind.title}: that is less than `SummaryWriter` by", less, TIMES_LESS, "×", False),
    ]


def percent(ratio: float) -> float:
    return (ratio - 1) * 100


def table_of(kind: Kind, running: Sequence[Runner]) -> Table:
    ratios = ratios_of(running)
    parameters = running[0].training.parameters / 1e6
    rows = [row_of(runner, ratios[runner.contender.name]) for runner in running]
    batch = " × ".join(map(str, kind.batch))
    return Table(f"{kind.title}, {parameters:.2f} M parameters, batch {batch}", COLUMNS, rows)


def row_of(runner: Runner, ratios: Ratios) -> Row:
    compared = ratios if runner.contender is not BARE else None
    return Row(
        runner.contender.title, row_values(compared, runner.steps, runner.sampled), runner.contender.is_ours
    )


def row_values(compared: Ratios | None, secs: Sequence[float], sampled: float | None) -> list[float | None]:
    """For `COLUMNS`, of single steps and of the comparison with those without monitoring."""
    slower = [percent(compared.whole), percent(compared.step)] if compared is not None else [None, None]
    return [*slower, median(secs) * 1e3, min(secs) * 1e3, float(len(secs)), sampled]
