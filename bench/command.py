"""The command: `make bench`, or `.venv/bin/python bench --help`."""

from __future__ import annotations

import argparse
import shutil
import signal
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime, timezone
from pathlib import Path

import torch

from bench import (
    collector,
    judging,
    keras_fit,
    live,
    log_bytes,
    long_run,
    machine,
    manners,
    many_runs,
    memory,
    one_pass,
    remote,
    report,
    step_time,
    stepping,
)
from bench.progress import Progress, Session
from bench.results import Part, Results
from tests.support.chromium import NoChromiumError, need_chromium
from tests.support.tensorboard_process import BoardError

ROOT = Path(__file__).resolve().parent.parent
README = "README.md"
RESULTS = "bench/results.json"
# Beside the code rather than in the system's temporary folder, which may be in memory: memory is measured.
WORK = ROOT / "bench/work"
MOST_BYTES = 3 << 30
THREADS = 2
CANNOT_MEASURE = 2
INTERRUPTED = 130

# First what needs a quiet machine most: nobody has made it busy yet, and its caches full.
PARTS: dict[str, Callable[[Session], Part]] = {
    "step_time": step_time.measure,
    "one_pass": one_pass.measure,
    "judging": judging.measure,
    "keras": keras_fit.measure,
    "live": live.measure,
    "manners": manners.measure,
    "remote": remote.measure,
    "stepping": stepping.measure,
    "collector": collector.measure,
    "log_bytes": log_bytes.measure,
    "memory": memory.measure,
    "many_runs": many_runs.measure,
    "long_run": long_run.measure,
}
NEED_BROWSER = {"live", "long_run", "stepping"}


def main(arguments: Sequence[str] | None = None) -> int:
    asked = parse(arguments)
    if asked.readme:
        report.update_readme(ROOT / README, Results.read(ROOT / RESULTS))
        return 0
    progress = Progress()
    signal.signal(signal.SIGTERM, interrupt)
    names = asked.only or list(PARTS)
    try:
        if NEED_BROWSER.intersection(names):
            need_chromium()  # before many minutes of other measurements are lost
        torch.set_num_threads(asked.threads)
        machine.keep_freed_memory()
        results = run(names, progress, is_quick=asked.quick, rounds=asked.rounds)
    except NoChromiumError as error:
        progress.say(f"{error} Or name the parts that need none with --only.")
        return 1
    except BoardError as error:
        progress.say(f"{sentence(error)} Nothing was kept.")
        return CANNOT_MEASURE
    except KeyboardInterrupt:
        progress.say("Stopped. Nothing was kept.")
        return INTERRUPTED
    print(report.whole_report(results))
    keep(results, progress, updates=asked.update)
    return 0


def sentence(error: BoardError) -> str:
    """In one line, with a full stop; TensorBoard's own words may have several."""
    return f"{' '.join(error.text.split()).rstrip('.')}."


def interrupt(number: int, frame: object) -> None:
    """Whoever is terminated cleans up in the same way."""
    raise KeyboardInterrupt


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="bench",
        description="Measures what NetDebug promises, on this machine and against its peers: what monitoring "
        "costs, and how soon and how fast it is seen (about half an hour, best with nothing else running). "
        "A run of everything is kept in bench/results.json, bench/results.md and the README, any other only "
        "with --update. live and long_run need a Chromium (apt install chromium, or NETDEBUG_CHROMIUM).",
    )
    parser.add_argument("--only", action="append", choices=list(PARTS), help="this one; may be repeated")
    parser.add_argument(
        "--update", action="store_true", help="with --only: keep it, beside what was kept of the other parts"
    )
    parser.add_argument("--quick", action="store_true", help="a few minutes, to see that all of it works")
    parser.add_argument("--rounds", type=number, help="how many rounds, where there are rounds")
    parser.add_argument("--threads", type=number, default=THREADS, help="threads of torch (default: 2)")
    parser.add_argument(
        "--readme", action="store_true", help="measure nothing, put the kept results into the README"
    )
    return parser.parse_args(arguments)


def number(text: str) -> int:
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError("at least 1")
    return value


def run(names: Sequence[str], progress: Progress, *, is_quick: bool, rounds: int | None) -> Results:
    """All measurements of one run; the files that they made are gone afterwards."""
    described = machine.describe(torch.get_num_threads())
    began = time.monotonic()
    parts = []
    with work_folder() as folder:
        for name in names:
            progress.say(f"{name}: begins")
            session = Session(folder / name, progress, is_quick=is_quick, rounds=rounds)
            parts.append(PARTS[name](session))
            progress.say(f"{name}: done in {parts[-1].secs:.0f} s")
    date = datetime.now(timezone.utc).date().isoformat()
    return Results(date, is_quick, time.monotonic() - began, described, parts)


@contextmanager
def work_folder() -> Iterator[Path]:
    WORK.mkdir(exist_ok=True)
    if shutil.disk_usage(WORK).free < MOST_BYTES:
        raise SystemExit(f"{MOST_BYTES >> 30} GiB of free disk are needed for the event files.")
    try:
        with tempfile.TemporaryDirectory(dir=WORK) as folder:
            yield Path(folder)
    finally:
        if not any(WORK.iterdir()):
            WORK.rmdir()


def keep(results: Results, progress: Progress, *, updates: bool = False, root: Path = ROOT) -> bool:
    """A whole run, or with `updates` some parts of one; never a quick one."""
    is_whole = [part.name for part in results.parts] == list(PARTS)
    if results.is_quick or not (is_whole or updates):
        progress.say("Not kept: only a run of everything without --quick is, or with --update.")
        return False
    if not is_whole:
        results = Results.read(root / RESULTS).updated(results, list(PARTS))
    results.write(root / RESULTS)
    (root / RESULTS).with_suffix(".md").write_text(report.whole_report(results), encoding="utf-8")
    try:
        report.update_readme(root / README, results)
    except report.MissingMarkersError as error:
        progress.say(f"The README stays as it is: {error}.")
    progress.say(f"Kept in {RESULTS} and the results.md beside it.")
    return True
