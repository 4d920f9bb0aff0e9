"""The command: `make zoo`, or `python -m zoo --help`."""

from __future__ import annotations

import argparse
import signal
import sys
from collections.abc import Iterable, Sequence
from datetime import datetime, timezone
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path
from types import FrameType

import torch

import tb_netdebug as nd
from zoo import report
from zoo.program import KERAS, PACKAGES, Program, all_programs
from zoo.progress import Progress
from zoo.run import Outcome, run, run_again
from zoo.tally import Tally
from zoo.workers import outcomes

PAGE = Path(__file__).resolve().parent.parent / "docs/zoo.md"
INTERRUPTED = 130


def main(words: Sequence[str] | None = None) -> int:
    """0 when every sick program was found by a right rule and no healthy one was called sick, else 1.

    Interrupted, it tells of the runs that have ended, and leaves docs/zoo.md as it is.
    """
    options = parser().parse_args(words)
    signal.signal(signal.SIGTERM, interrupt)
    wanted = frameworks(options)
    programs = chosen([each for each in all_programs() if each.framework in wanted], options)
    if not programs:
        print("No program of the zoo is called so. `python -m zoo --list` shows all.", file=sys.stderr)
        return 2
    if options.keep and options.keep.exists():
        print(f"{options.keep} is there already: --keep wants a new folder.", file=sys.stderr)
        return 2
    if options.list:
        say(program.name for program in programs)
        return 0
    torch.set_num_threads(1)
    received: list[Outcome] = []
    try:
        run_all(programs, options, received)
    except KeyboardInterrupt:
        show(Tally.of(programs, received), options)
        print(f"\nStopped after {len(received)} of {len(programs) * options.seeds} runs.", file=sys.stderr)
        return INTERRUPTED
    tally = Tally.of(programs, received)
    show(tally, options)
    if is_whole(programs, options):
        PAGE.write_text(report.page(tally, seeds=options.seeds, made_on=made_on()), encoding="utf-8")
        print("\nWritten to docs/zoo.md.")
    return int(bool(tally.failed or tally.misses or tally.alarms))


def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(prog="python -m zoo", description=__doc__)
    which = made.add_mutually_exclusive_group()
    which.add_argument("--tuning", action="store_true", help="only the two thirds that rules may be tuned on")
    which.add_argument("--held-out", action="store_true", help="only the third held out: rates, no names")
    made.add_argument(
        "--framework", action="append", choices=list(PACKAGES), help="only programs of this one"
    )
    made.add_argument("--only", metavar="NAME", action="append", help="programs whose name contains this")
    made.add_argument("--slug", metavar="SLUG", action="append", help="sick programs with this fault")
    made.add_argument("--seeds", type=int, default=3, help="runs of each program (default: %(default)s)")
    where = made.add_mutually_exclusive_group()
    where.add_argument("--keep", metavar="FOLDER", type=Path, help="keep what is recorded in a new folder")
    where.add_argument(
        "--again", metavar="FOLDER", type=Path, help="train nothing, judge what --keep has kept"
    )
    made.add_argument("--verbose", action="store_true", help="what was said in each run")
    made.add_argument("--list", action="store_true", help="names, and nothing is run")
    return made


def frameworks(options: argparse.Namespace) -> list[str]:
    """Those that were asked for, or all; without TensorFlow, programs of Keras can only be judged again."""
    wanted: list[str] = options.framework or list(PACKAGES)
    is_trained = not (options.again or options.list)
    if KERAS in wanted and is_trained and not (find_spec("keras") and find_spec("tensorflow")):
        wanted = [name for name in wanted if name != KERAS]
        print(
            "Without the programs of Keras: TensorFlow is not installed "
            "(pip install 'tb_netdebug[keras]'). docs/zoo.md stays as it is.",
            file=sys.stderr,
        )
    return wanted


def chosen(programs: Sequence[Program], options: argparse.Namespace) -> list[Program]:
    """With --tuning, a name that is held out stays unknown."""
    kept = [
        program
        for program in programs
        if not (options.tuning and program.is_held_out) and not (options.held_out and not program.is_held_out)
    ]
    if options.only:
        kept = [program for program in kept if any(word in program.name for word in options.only)]
    if options.slug:
        kept = [program for program in kept if program.slug in options.slug]
    return kept


def run_all(programs: Sequence[Program], options: argparse.Namespace, received: list[Outcome]) -> None:
    """`received` grows as they end: it is right also when this does not come to its end."""
    jobs = [(program, seed) for seed in range(options.seeds) for program in programs]
    folder: Path | None = options.again or options.keep
    action = run_again if options.again else run
    progress = Progress(len(jobs))
    try:
        for outcome in outcomes(jobs, action=action, folder=folder):
            received.append(outcome)
            progress.advance()
    finally:
        progress.end()


def show(tally: Tally, options: argparse.Namespace) -> None:
    """Names of the held-out third stand in docs/zoo.md alone, and where they were asked for by name."""
    tuning, held_out = tally.part(held_out=False), tally.part(held_out=True)
    named = tally if options.only else tuning
    if options.verbose:
        say(report.everything(named))
    say(report.details(named))
    for framework in PACKAGES:
        for title, part in (("tuned on", tuning), ("held out", held_out)):
            cases = part.of_framework(framework)
            if cases.cases:
                print()
                say(report.summary(f"{report.TITLES[framework]}, {title}", cases))


def say(lines: Iterable[str]) -> None:
    for line in lines:
        print(line)


def is_whole(programs: Sequence[Program], options: argparse.Namespace) -> bool:
    return len(programs) == len(all_programs()) and not options.again


def made_on() -> str:
    day = datetime.now(timezone.utc).date().isoformat()
    return f"Made on {day} by NetDebug {nd.__version__} with {versions()}, on a CPU."


def versions() -> str:
    """TensorFlow comes under several names, and is not imported here."""
    names = {"keras": "Keras", "tensorflow": "TensorFlow", "tensorflow-cpu": "TensorFlow"}
    told = {
        name: f"{name} {metadata.version(package)}"
        for package, name in names.items()
        if any(metadata.distributions(name=package))
    }
    return " and ".join([f"torch {torch.__version__}", " on ".join(told.values())])


def interrupt(number: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt
