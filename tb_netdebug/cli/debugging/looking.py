"""Commands that look at a training run: its place, its code, its layers."""

from __future__ import annotations

import re
from argparse import Namespace
from collections.abc import Mapping
from typing import Any

from tb_netdebug.cli.debugging.command import Command
from tb_netdebug.cli.debugging.place_text import line_text, numbered, source_around, tell_state
from tb_netdebug.cli.debugging.words import CommandError, OptionParser
from tb_netdebug.cli.debugging.workspace import Workspace
from tb_netdebug.cli.harmless import harmless

AROUND = 4
Frame = Mapping[str, Any]


def where(workspace: Workspace, arguments: Namespace) -> None:
    """Show where the training is: place, stack (the newest call last), source.

    Frames of libraries are left out unless --all. Numbers of frames are for `locals`.
    """
    workspace.refresh()
    tell_state(workspace, with_source=False)
    if not workspace.training.is_paused:
        return
    frames: list[Frame] = workspace.call("stack")
    for number, frame in reversed(list(enumerate(frames))):
        if arguments.all or frame.get("is_user"):
            workspace.output.say(f"  #{number} {line_text(frame)}")
    own = _innermost(frames)
    if own is not None:
        marks = layer_marks(workspace, str(own["file"]))
        for line in source_around(workspace, str(own["file"]), int(own["line"]), around=AROUND, marks=marks):
            workspace.output.say(line)


def _innermost(frames: list[Frame]) -> Frame | None:
    """Return the innermost frame of the user's code."""
    return next((frame for frame in frames if frame.get("is_user")), None)


def layer_marks(workspace: Workspace, file: str) -> dict[int, str]:
    """Return the names of the layers that each line of the file created."""
    marks: dict[int, list[str]] = {}
    for layer in workspace.layers():
        if layer.get("file") == file and layer.get("line"):
            marks.setdefault(int(layer["line"]), []).append(str(layer["name"] or layer["class_name"]))
    return {line: ", ".join(names) for line, names in marks.items()}


def source(workspace: Workspace, arguments: Namespace) -> None:
    """Show a source file, with the layers that come from its lines.

    source              the file that it is in
    source net.py:40    around line 40 of a file that a layer or the stack comes from
    """
    frames: list[Frame] = workspace.call("stack") if workspace.training.is_paused else []
    own = _innermost(frames)
    text, _, number = (arguments.file or "").partition(":")
    if not text:
        if own is None:
            raise CommandError("It is not in one of your files now: pause it elsewhere, or name a file.")
        text = str(own["file"])
    file = _file(workspace, frames, text)
    current = int(own["line"]) if own is not None and own["file"] == file else 0
    marks = layer_marks(workspace, file)
    if number.isdecimal():
        lines = source_around(workspace, file, int(number), around=10, current=current, marks=marks)
    else:
        told = workspace.call("source", file=file)
        first = int(told["first_line"])
        lines = [
            numbered(each, text, is_current=each == current, mark=marks.get(each, ""))
            for each, text in enumerate(told["lines"], first)
        ]
    for line in lines:
        workspace.output.say(line)


def _file(workspace: Workspace, frames: list[Frame], text: str) -> str:
    """Return the file that ends with `text`, such as net.py, among those of the stack and the layers."""
    known = [str(each["file"]) for each in (*frames, *workspace.layers()) if each.get("file")]
    found = sorted(
        {
            each
            for each in known
            if each == text or re.split(r"[\\/]", each)[-1] == text or each.endswith(f"/{text}")
        }
    )
    if not found:
        names = ", ".join(harmless(each) for each in dict.fromkeys(known))
        raise CommandError(f"No layer and no frame comes from {text!r}. The files are: {names or 'none'}")
    if len(found) > 1:
        raise CommandError(f"Which one: {', '.join(map(harmless, found))}?")
    return found[0]


def local_names(workspace: Workspace, arguments: Namespace) -> None:
    """Show the local variables of a frame: `locals 2`; without a number those of your innermost."""
    frames: list[Frame] = workspace.call("stack")
    frame = _innermost(frames) if arguments.frame is None else None
    if arguments.frame is not None and 0 <= arguments.frame < len(frames):
        frame = frames[arguments.frame]
    if frame is None:
        raise CommandError(f"There are frames 0 to {len(frames) - 1}: `where --all` shows them.")
    workspace.output.say(line_text(frame))
    rows = [[each["name"], each["type"], each["text"]] for each in frame.get("locals") or ()]
    workspace.output.rows(["name", "type", "value"], rows)


def modules(workspace: Workspace, arguments: Namespace) -> None:
    """List the layers of the model, in the order in which they are called.

    With -m only those whose names match, with -t those whose class does.
    """
    layers = [
        layer
        for layer in workspace.layers()
        if matches(arguments.match, layer["name"]) and matches(arguments.type, layer["class_name"])
    ]
    here = (workspace.state.get("place") or {}).get("module")
    rows = [
        [
            ("-> " if layer["name"] == here else "   ") + (layer["name"] or "(the model)"),
            layer["class_name"],
            layer.get("parameters") or 0,
            f"{layer['file']}:{layer['line']}" if layer.get("file") else "",
        ]
        for layer in layers
    ]
    workspace.output.rows(["   layer", "class", "parameters", "source"], rows, right=["parameters"])


def matches(pattern: str | None, text: str) -> bool:
    """Return whether the text matches; without a pattern, always True.

    Raise CommandError if the pattern is no regular expression.
    """
    try:
        return pattern is None or re.search(pattern, str(text)) is not None
    except re.error as error:
        raise CommandError(f"{pattern!r} is not a regular expression: {error}.") from None


def _where(parser: OptionParser) -> None:
    parser.add_argument("-a", "--all", action="store_true")


def _file_argument(parser: OptionParser) -> None:
    parser.add_argument("file", nargs="?", metavar="FILE[:LINE]")


def _frame(parser: OptionParser) -> None:
    parser.add_argument("frame", nargs="?", type=int, metavar="FRAME")


def _modules(parser: OptionParser) -> None:
    parser.add_argument("-m", "--match", metavar="RE")
    parser.add_argument("-t", "--type", metavar="RE")


COMMANDS = (
    Command("where", where, short=("w", "bt"), takes=_where),
    Command("source", source, takes=_file_argument, completes=("files",)),
    Command("locals", local_names, takes=_frame),
    Command("modules", modules, short=("m",), takes=_modules, completes=("--match", "--type", "layers")),
)
