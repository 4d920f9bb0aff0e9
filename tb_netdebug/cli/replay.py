"""Shows what a capsule holds, and runs its batch again.

A capsule is the batch, the weights and the random numbers of one step; a training writes it when its loss
is not finite, when it crashes, or when `monitor.capsule()` is called. To run the batch again the model is
needed: give the SCRIPT that was trained with (it is run until it calls `nd.watch`; words for it that begin
with a dash go behind `--`), or a function that builds the model.

The exit code is 0 when everything was finite or nothing was run, 1 when a NaN or infinity was found, 2 when
that was not possible.
"""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import runpy
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

from rich.console import Console
from rich.table import Table

from tb_netdebug.cli.debugging.replayed import debug_capsule
from tb_netdebug.cli.harmless import harmless
from tb_netdebug.cli.mistakes import UserMistake

MOST_ROWS = 2000


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("capsule", metavar="CAPSULE", help="a file in the folder capsules/ of a run")
    parser.add_argument(
        "script",
        metavar="SCRIPT",
        nargs="*",
        help="the training script and its arguments, to get the model from",
    )
    parser.add_argument(
        "--model", metavar="MODULE:CALLABLE", help="builds the model; MODULE may be a file such as net.py"
    )
    parser.add_argument(
        "--debug",
        action=argparse.BooleanOptionalAction,
        help="open the step in the debugger, paused before it (default: in a terminal, with a model)",
    )
    parser.add_argument(
        "--loss",
        metavar="MODULE:CALLABLE",
        help="makes the loss of the model's output, for the way back; else it is the sum of the outputs",
    )
    parser.add_argument(
        "--backward", action="store_true", help="go backward, too; in the debugger that is always done"
    )


def run(arguments: argparse.Namespace) -> int:
    if importlib.util.find_spec("torch") is None:
        raise UserMistake("capsules hold tensors of torch, which is not installed here: pip install torch")
    if arguments.script and arguments.model:
        raise UserMistake("give either a SCRIPT or --model, not both")
    from tb_netdebug.capture.pytorch.numerics import replay as replays

    try:
        content = replays.load_capsule(arguments.capsule)
        console = Console(highlight=False, markup=False, emoji=False)
        console.print(contents(arguments.capsule, content))
        if arguments.model:
            model = built(arguments.model)
        elif arguments.script:
            model = watched_in(arguments.script)
        else:
            console.print(
                "To run the batch again: netdebug replay CAPSULE SCRIPT, or --model MODULE:CALLABLE."
            )
            return 0
        loss = attribute_of("--loss", arguments.loss) if arguments.loss else None
        if is_for_debugger(arguments.debug):
            return debug_capsule(arguments.capsule, content, model, loss=loss)
        done = replays.replay(content, model, backward=arguments.backward, loss=loss)
    except replays.CapsuleError as error:
        raise UserMistake(str(error)) from error
    console.print(rows_of(done))
    for note in done.notes:
        console.print(f"Note: {note}.")
    console.print(verdict(done))
    return 0 if done.is_finite else 1


# ---- the model --------------------------------------------------------------------------------------------


def is_for_debugger(wish: bool | None) -> bool:
    """A person at a terminal gets the debugger, a pipe the table, unless they say otherwise."""
    return sys.stdin.isatty() and sys.stdout.isatty() if wish is None else wish


def attribute_of(option: str, place: str) -> Any:
    name, _, attribute = place.rpartition(":")
    if not name or not attribute:
        raise UserMistake(f"{option} {place}: give MODULE:CALLABLE, such as net.py:make_model")
    try:
        return getattr(imported(name), attribute)
    except UserMistake:
        raise
    except Exception as error:
        raise UserMistake(f"{option} {place}: {type(error).__name__}: {error}") from error


def built(place: str) -> Any:
    """What the callable returns: a module, or several by name."""
    make = attribute_of("--model", place)
    try:
        return make()
    except Exception as error:
        raise UserMistake(
            f"--model {place} does not build a model: {type(error).__name__}: {error}"
        ) from error


def imported(name: str) -> ModuleType:
    path = Path(name)
    if path.suffix != ".py":
        sys.path.insert(0, "")
        return importlib.import_module(name)
    spec = importlib.util.spec_from_file_location(path.stem, path)
    if not path.is_file() or spec is None or spec.loader is None:
        raise UserMistake(f"there is no file {name}")
    sys.path.insert(0, str(path.parent))
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    spec.loader.exec_module(module)
    return module


class WatchReachedError(BaseException):
    """Ends the script; no Exception, so that it is not caught there."""

    def __init__(self, model: Any) -> None:
        super().__init__("nd.watch was called")
        self.model = model


def watched_in(words: list[str]) -> Any:
    """The models that a script hands to `nd.watch`; what it does before is done, what comes after is not."""
    from tb_netdebug.capture import watch as place

    def stop(model: Any, *_: Any, **__: Any) -> Any:
        raise WatchReachedError(model)

    script = Path(words[0])
    if not script.is_file():
        raise UserMistake(f"there is no script {script}")
    before = place.watch, sys.argv
    place.watch, sys.argv = stop, words
    sys.path.insert(0, str(script.parent))
    try:
        runpy.run_path(str(script), run_name="__main__")
    except WatchReachedError as reached:
        return reached.model
    except (Exception, SystemExit) as error:
        raise UserMistake(
            f"{script} ended before it called nd.watch: {type(error).__name__}: {error}"
        ) from error
    finally:
        place.watch, sys.argv = before
        sys.path.remove(str(script.parent))
    raise UserMistake(f"{script} never calls nd.watch; give --model MODULE:CALLABLE instead")


# ---- what is shown ----------------------------------------------------------------------------------------


def contents(path: str, content: dict[str, Any]) -> Table:
    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_column(style="bold")
    table.add_column(overflow="fold")
    for name, told in facts_of(path, content):
        table.add_row(name, harmless(told))
    return table


def facts_of(path: str, content: dict[str, Any]) -> Iterator[tuple[str, str]]:
    yield "capsule", path
    yield "step", str(content["step"])
    yield "written", f"{moment(content.get('time'))}, because of {content.get('reason', 'an unknown reason')}"
    versions = content.get("versions")
    if isinstance(versions, dict):
        yield "versions", ", ".join(f"{name} {version}" for name, version in versions.items())
    for number, call in enumerate(content["calls"]):
        values = [*call["args"], *(f"{name}={shown(each)}" for name, each in call["kwargs"].items())]
        told = ", ".join(each if isinstance(each, str) else shown(each) for each in values)
        yield f"call {number}", f"{call['model'] or 'the model'}({told})"
    for name, state in content["models"].items():
        yield f"weights {name}".strip(), f"{len(state)} tensors, {size(state)}"
    for optimizer in content["optimizers"]:
        yield "optimizer", f"{optimizer.get('class')}, {size(optimizer)}"
    for sentence in content["left_out"]:
        yield "left out", str(sentence)
    first = content.get("first_nonfinite")
    if isinstance(first, dict):
        yield "found", sentence_of(first)
    if isinstance(content.get("error"), str):
        yield "error", content["error"].strip().rpartition("\n")[2]
    for finding in content.get("findings") or []:
        yield "finding", f"{finding.get('rule')}: {finding.get('message')}"


def shown(value: Any) -> str:
    if hasattr(value, "dtype") and hasattr(value, "shape"):
        return f"{str(value.dtype).rpartition('.')[2]}{list(value.shape)}"
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(shown, value[:8]))}{', …' if len(value) > 8 else ''}]"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key}: {shown(each)}" for key, each in list(value.items())[:8]) + "}"
    return repr(value)[:80]


def size(value: Any) -> str:
    from tb_netdebug.capture.pytorch.numerics.portable import bytes_of

    return f"{bytes_of(value) / 1e6:.3g} MB"


def moment(secs: Any) -> str:
    is_time = isinstance(secs, int | float) and 0 <= secs < 1e11
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(secs)) if is_time else "at an unknown time"


def rows_of(done: Any) -> Table:
    table = Table(box=None, header_style="bold", padding=(0, 2, 0, 0))
    table.add_column("module", overflow="fold")
    for name in ("output", "min", "mean", "max", "NaN", "Inf"):
        table.add_column(name, justify="left" if name == "output" else "right")
    for row in done.rows[:MOST_ROWS]:
        summary = row.summary
        numbers = [""] * 5
        style = None
        if summary is not None:
            infinite = summary.pos_inf + summary.neg_inf
            numbers = [""] * 3
            if summary.finite:
                numbers = [f"{each:.4g}" for each in (summary.min, summary.mean, summary.max)]
            numbers += [str(summary.nan or ""), str(infinite or "")]
            style = "red" if summary.nonfinite else None
        named = harmless(f"{row.module}{row.place} ({row.class_name})")
        table.add_row(named, f"{row.dtype}{list(row.shape)}", *numbers, style=style)
    if len(done.rows) > MOST_ROWS:
        table.add_row(f"… and {len(done.rows) - MOST_ROWS} more")
    return table


def verdict(done: Any) -> str:
    if done.is_finite:
        return "Everything was finite."
    return harmless(sentence_of(done.as_dict()))


def sentence_of(found: dict[str, Any]) -> str:
    """The fact `first-nonfinite` in words."""
    kind, where = found.get("kind") or "NaN", f"{found.get('where')} ({found.get('class_name')})"
    by = f" by {found['operation']}" if found.get("operation") else ""
    line = f", {found['site']}" if found.get("site") else ""
    what = found.get("what")
    if what == "input":
        return f"The first {kind} is in the batch itself: {found.get('tensor')} of {where}."
    if what == "parameter":
        return f"The first {kind} is in the weights: {found.get('tensor')} of {where}."
    if what == "gradient":
        return f"The loss is finite; the first {kind} on the way back is in the gradients of {where}."
    if what == "loss":
        if found.get("tensor"):
            return f"The models put out finite numbers; the {found['tensor']} of the loss has others."
        through = " → ".join(map(str, found.get("operations") or []))
        told = f" ({through})" if through else ""
        return f"The models put out finite numbers; the {kind} is made by the loss{by}{told}."
    given = "finite inputs" if found.get("inputs_finite") else "inputs that were not all finite"
    if found.get("masked_inputs"):
        given = "scores that a mask of −inf leaves nothing of"
    return f"The first {kind} is made in {where}{by}{line}, from {given}."
