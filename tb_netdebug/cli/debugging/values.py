"""Commands for tensors and numbers: lists, values, expressions, the batch, learning rates."""

from __future__ import annotations

import re
from argparse import Namespace
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rich.text import Text

from tb_netdebug.cli.debugging.command import Command, whole
from tb_netdebug.cli.debugging.looking import matches
from tb_netdebug.cli.debugging.tensor_view import entry_row, number_text, size_text, tell_tensor
from tb_netdebug.cli.debugging.words import CommandError, OptionParser, ranges_of, split_slice
from tb_netdebug.cli.debugging.workspace import Workspace
from tb_netdebug.cli.harmless import harmless
from tb_netdebug.debugger.client.client import ClientError
from tb_netdebug.debugger.protocol.arguments import MOST_CELLS
from tb_netdebug.debugger.protocol.choices import WATCHED

KINDS = tuple(kind for kind in WATCHED if kind != "scalar")
ORDERS = {"order": None, "name": "name", "size": "bytes", "kind": "kind", "dtype": "dtype"}
SEEN_CELLS = 400
MOST_TENSORS = 2000
MOST_LOOKED_AT = 200
NONFINITE = ("nan", "pos_inf", "neg_inf")
Entry = Mapping[str, Any]


def tensors(workspace: Workspace, arguments: Namespace) -> None:
    """List the available tensors, in the order in which the batch makes them.

    tensors -k gradient -m encoder     of a kind, with names that match (-x: that do not)
    tensors -s size -r                 sorted by order, name, size, kind or dtype; -r reverses it
    tensors -v                         with statistics, which takes longer; --nonfinite: only the sick ones
    """
    found = workspace.call("tensors", kind=arguments.kind, match=arguments.match, most=MOST_TENSORS)
    found = [
        each for each in found if arguments.exclude is None or not matches(arguments.exclude, each["name"])
    ]
    # The trainer lists tensors in the order in which the batch makes them; others are made here.
    key = ORDERS[arguments.sort]
    if key is not None:
        found = sorted(found, key=lambda each: each[key])
    found = found[::-1] if arguments.reverse else found
    if arguments.verbose or arguments.nonfinite:
        return _with_statistics(workspace, found, only_sick=arguments.nonfinite)
    workspace.output.rows(["tensor", "dtype", "shape", "size"], map(entry_row, found), right=["size"])
    total = size_text(sum(int(each.get("bytes") or 0) for each in found))
    workspace.output.say(f"{len(found)} tensors, {total}")


def _with_statistics(workspace: Workspace, found: list[Entry], *, only_sick: bool) -> None:
    rows = []
    # One request for each tensor, hence the limit.
    for entry in found[:MOST_LOOKED_AT]:
        told = statistics_of(workspace, str(entry["name"])) or {}
        sick = sum(int(told.get(name) or 0) for name in NONFINITE)
        if sick or not only_sick:
            numbers = [number_text(told.get(name)) for name in ("min", "mean", "max", "std")]
            rows.append([entry["name"], Text(str(list(entry["shape"]))), *numbers, sick or ""])
    columns = ["tensor", "shape", "min", "mean", "max", "std", "not finite"]
    workspace.output.rows(columns, rows, right=columns[2:])
    if len(found) > MOST_LOOKED_AT:
        workspace.output.say(
            f"Only the first {MOST_LOOKED_AT} of {len(found)} were read. Narrow the choice with -k and -m."
        )


def statistics_of(workspace: Workspace, name: str) -> Entry | None:
    """Return the statistics of a tensor, or None if its values cannot be read."""
    try:
        told = workspace.call("tensor", name=name, cells=1).get("statistics")
    except ClientError:
        return None
    return told if isinstance(told, dict) else None


def show(workspace: Workspace, arguments: Namespace) -> None:
    """Print a tensor: statistics, histogram, and the values of a slice; big ones are thinned.

    print weight:encoder.0.weight        the kind may be left out where the name is unambiguous
    print output:encoder.0[0, :, 3:10]   a slice, as in NumPy
    print NAME -s                        the statistics alone; -a: as many values as possible
    print NAME -r 1,inf                  a star at values in a range, or in [[-inf,-1],[1,inf]]
    print NAME --previous                with the step before, and the difference
    print NAME[SLICE] -w FILE.npy        writes it into a file that NumPy reads
    """
    name, part = resolved(workspace, "".join(arguments.name))
    if arguments.write:
        return _write(workspace, name, part, Path(arguments.write).expanduser())
    told = workspace.call(
        "tensor",
        name=name,
        slice=part,
        previous=arguments.previous,
        cells=MOST_CELLS if arguments.all else SEEN_CELLS,
    )
    ranges = ranges_of(arguments.ranges) if arguments.ranges else ()
    tell_tensor(workspace.output, told, values=not arguments.summary, ranges=ranges)


def resolved(workspace: Workspace, text: str) -> tuple[str, str | None]:
    """Return name and slice. A name may end in brackets itself (`input:encoder[1]`), so try both readings."""
    tried = dict.fromkeys([(text, None), split_slice(text)])
    found: list[str] = []
    for name, part in tried:
        # Without its kind, the name matches under any kind, if that is unambiguous.
        kind = "" if name.partition(":")[0] in KINDS else "[a-z_]+:"
        found = [
            str(each["name"])
            for each in workspace.call("tensors", match=f"^{kind}{re.escape(name)}$", most=20)
        ]
        if len(found) == 1:
            return found[0], part
        if found:
            raise CommandError(f"Which one: {', '.join(map(harmless, found))}?")
    # The list is limited: the tensor may exist all the same, so let the training answer.
    return split_slice(text)


def _write(workspace: Workspace, name: str, part: str | None, path: Path) -> None:
    pieces = workspace.client.download(workspace.training.key, name, slice_text=part)
    size = 0
    try:
        first = next(pieces, b"")  # fetched before the file is opened: a refusal leaves no empty file
        # "x": an existing file is never overwritten.
        with path.open("xb") as file, _removed_if_cut(path):
            size += file.write(first)
            for piece in pieces:
                size += file.write(piece)
    except FileExistsError:
        raise CommandError(f"The file {path} exists already.") from None
    except OSError as error:
        raise CommandError(f"{path} cannot be written: {error.strerror or error}.") from None
    workspace.output.say(f"{path}: {size_text(size)}")


@contextmanager
def _removed_if_cut(path: Path) -> Iterator[None]:
    """Remove the file if the block fails: half a tensor is unreadable, and would block the next attempt."""
    try:
        yield
    except BaseException:
        path.unlink(missing_ok=True)
        raise


def evaluate(workspace: Workspace, arguments: Namespace) -> None:
    """Compute an expression over tensors, in the training, and show it as `print` does.

    eval norm(`gradient:encoder.0.weight`) / norm(`weight:encoder.0.weight`)

    Names of tensors stand in backticks. It is a small language of its own that looks like NumPy.
    """
    if not arguments.text.strip():
        raise CommandError("Which expression?")
    tell_tensor(workspace.output, workspace.call("evaluate", text=arguments.text.strip(), cells=SEEN_CELLS))


def batch(workspace: Workspace, _: Namespace) -> None:
    """Show what the model was given in this batch, and the labels that the loss got."""
    found = workspace.call("batch")
    if not found:
        workspace.output.say(
            unseen_batch(workspace.state.get("place") or {}, workspace.training.session.get("can") or ())
        )
        return
    rows = []
    for entry in found:
        told = statistics_of(workspace, str(entry["name"])) or {}
        numbers = [number_text(told.get(name)) for name in ("min", "mean", "max")]
        rows.append([entry.get("role"), *entry_row(entry), *numbers])
    columns = ["role", "tensor", "dtype", "shape", "size", "min", "mean", "max"]
    workspace.output.rows(columns, rows, right=columns[4:])


def unseen_batch(place: Mapping[str, Any], can: Sequence[str]) -> str:
    """Return a sentence on when there will be a batch to see."""
    if place.get("phase") == "start":
        how = " (`step layer` goes to its first layer)" if "layer" in can else ""
        return f"The model has had no input yet. It gets its first with the next step{how}."
    return "The model's input was not recorded in this batch; it will be in the next one."


def learning_rate(workspace: Workspace, arguments: Namespace) -> None:
    """Show the learning rates, or set one: lr [OPTIMIZER [GROUP]] VALUE.

    lr 1e-4         of the only optimizer, all of its groups
    lr 1 0 1e-4     of optimizer 1, group 0
    """
    workspace.refresh()
    rates = workspace.state.get("learning_rates") or []
    if arguments.words:
        optimizer, group, value = _rate_of(arguments.words, {rate["optimizer"] for rate in rates})
        rates = workspace.call("set_learning_rate", optimizer=optimizer, group=group, value=value)
    rows = [[rate.get(name) for name in ("optimizer", "group", "name")] for rate in rates]
    shown = [[*row, number_text(rate.get("value"))] for row, rate in zip(rows, rates, strict=True)]
    workspace.output.rows(["optimizer", "group", "name", "learning rate"], shown, right=["learning rate"])


def _rate_of(words: list[str], optimizers: set[int]) -> tuple[int, int | None, float]:
    """Return the optimizer, group and value that the words name. Raise CommandError."""
    *places, value = words
    if len(places) > 2:
        raise CommandError("Usage: lr [OPTIMIZER [GROUP]] VALUE")
    if not places and len(optimizers) > 1:
        raise CommandError("There are several optimizers: lr OPTIMIZER VALUE")
    numbers = [whole(place, "number of an optimizer or a group") for place in places]
    optimizer = numbers[0] if numbers else min(optimizers, default=0)
    return optimizer, numbers[1] if len(numbers) > 1 else None, _number(value)


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise CommandError(f"{text!r} is not a number.") from None


def snapshot(workspace: Workspace, _: Namespace) -> None:
    """Write a capsule of this step, on the training's machine: `netdebug replay` runs it again."""
    workspace.output.say(f"Capsule written: {harmless(str(workspace.call('snapshot')['path']))}")


def _tensors(parser: OptionParser) -> None:
    parser.add_argument("-k", "--kind", choices=KINDS, metavar="KIND")
    parser.add_argument("-m", "--match", metavar="RE")
    parser.add_argument("-x", "--exclude", metavar="RE")
    parser.add_argument("-s", "--sort", choices=tuple(ORDERS), default="order", metavar="ORDER")
    parser.add_argument("-r", "--reverse", action="store_true")
    parser.add_argument("-v", "--verbose", action="store_true")
    parser.add_argument("--nonfinite", action="store_true")


def _show(parser: OptionParser) -> None:
    parser.add_argument("name", nargs="+", metavar="NAME[SLICE]")
    parser.add_argument("-s", "--summary", action="store_true")
    parser.add_argument("-a", "--all", action="store_true")
    parser.add_argument("-r", "--ranges", metavar="RANGES")
    parser.add_argument("-p", "--previous", action="store_true")
    parser.add_argument("-w", "--write", metavar="FILE.npy")


def _words(parser: OptionParser) -> None:
    parser.add_argument("words", nargs="*", metavar="OPTIMIZER GROUP VALUE")


COMMANDS = (
    Command(
        "tensors",
        tensors,
        short=("t",),
        takes=_tensors,
        completes=(*KINDS, *ORDERS, "--kind", "--match", "--exclude", "--sort", "--reverse", "--nonfinite"),
    ),
    Command(
        "print",
        show,
        short=("p",),
        takes=_show,
        completes=("tensors", "--summary", "--all", "--ranges", "--previous", "--write"),
    ),
    Command("eval", evaluate, short=("e",), completes=("tensors",), is_raw=True),
    Command("batch", batch),
    Command("lr", learning_rate, takes=_words),
    Command("snapshot", snapshot),
)
