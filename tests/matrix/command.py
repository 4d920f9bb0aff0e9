"""`make matrix`: runs the matrix, tells how far it is, and which cells are not equal."""

from __future__ import annotations

import argparse
import gc
import importlib
import os
import pkgutil
import re
import shutil
import signal
import sys
import tempfile
import time
from pathlib import Path

from tests.matrix.cells import HANDLINGS, MODES, PLACES
from tests.matrix.programs import AGAIN
from tests.matrix.report import Report, say

# Beside torch, these are what a first call would import: in the process that forks it is done once.
HEAVY = (
    "torch._dynamo",
    "torch._dynamo.testing",
    "torch.export",
    "torch.fx",
    "torch._functorch.aot_autograd",
)
INTERRUPTED = 130
PARTS = ("trainings", "copies", "ranks", "keras")
Words = tuple[str, ...]
NOT_HERE = re.compile(r"keras|stream|plugin|integrations|notebook|_pb2|__main__|debugger|asan")


def main() -> int:
    arguments = parser().parse_args()
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    import_all()
    folder = Path(tempfile.mkdtemp(prefix="matrix-"))
    began, report = time.monotonic(), Report()
    try:
        run(arguments, folder, report)
    except KeyboardInterrupt:
        say("interrupted: this is what was found so far")
        report.close(time.monotonic() - began)
        return INTERRUPTED
    finally:
        if arguments.keep:
            say(f"what was left is in {folder}")
        else:
            shutil.rmtree(folder, ignore_errors=True)
    return report.close(time.monotonic() - began)


def run(arguments: argparse.Namespace, folder: Path, report: Report) -> None:
    from tests.matrix.backends import Backends
    from tests.matrix.copies import Copies
    from tests.matrix.distributed import Ranks
    from tests.matrix.trainings import Trainings

    parts = {"trainings": Trainings, "copies": Copies, "ranks": Ranks, "keras": Backends}
    for name, part in parts.items():
        if name in arguments.parts:
            part(arguments, folder / name, report).run()


def parser() -> argparse.ArgumentParser:
    found = argparse.ArgumentParser(
        prog="matrix",
        description="Trains every kind of model with and without NetDebug, and compares every bit.",
        epilog='For instance: make matrix MATRIX_ARGS="--only generator --modes run"',
    )
    found.add_argument("--only", metavar="RE", default="", help="kinds whose names match")
    modes = (*MODES, AGAIN)
    add_words(found, "--parts", PARTS, PARTS)
    add_words(found, "--places", PLACES, PLACES)
    add_words(found, "--handlings", HANDLINGS, HANDLINGS)
    add_words(found, "--modes", modes, MODES, f"; with {AGAIN} nothing watches, and no cell may differ")
    found.add_argument("--slice", action="store_true", help="the few cells that `make test` runs")
    found.add_argument("--jobs", metavar="N", type=int, default=len(os.sched_getaffinity(0)))
    found.add_argument(
        "--fresh", action="store_true", help="each training in an interpreter of its own (slow)"
    )
    found.add_argument("--keep", action="store_true", help="leave the folders of the trainings")
    return found


def add_words(
    parser: argparse.ArgumentParser, name: str, known: Words, default: Words, more: str = ""
) -> None:
    """An option that takes some of the known words, with commas between them."""

    def read(text: str) -> Words:
        words = tuple(text.split(","))
        if unknown := [word for word in words if word not in known]:
            raise argparse.ArgumentTypeError(f"unknown: {', '.join(unknown)}; there are {', '.join(known)}")
        return words

    words = f"of {', '.join(known)}{more}"
    parser.add_argument(name, metavar="A,B", type=read, default=default, help=words)


def import_all() -> None:
    """So that a fork has nothing to import. Starts no thread, and calls nothing of NetDebug."""
    import tb_netdebug
    from tests.matrix import copying, training  # noqa: F401

    for name in HEAVY:
        importlib.import_module(name)
    for module in pkgutil.walk_packages(tb_netdebug.__path__, "tb_netdebug."):
        if not NOT_HERE.search(module.name):
            importlib.import_module(module.name)
    assert 1 == len(list(Path("/proc/self/task").iterdir())), "a process with threads must not fork"
    sys.stdout.flush()
    gc.collect()
    gc.freeze()
