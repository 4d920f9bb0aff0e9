"""Prints where a training run is: place, reason of the stop, source lines, new hits."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any

from tb_netdebug.cli.debugging.conditions import hit_text
from tb_netdebug.cli.debugging.workspace import Workspace
from tb_netdebug.cli.harmless import harmless
from tb_netdebug.core.user_code import foreign_folders
from tb_netdebug.debugger.client.client import ClientError, Json

PHASES = {
    "start": "at the start",
    "forward": "forward",
    "backward": "backward",
    "optimizer": "optimizer step",
    "end": "at the end of the batch",
    "code": "in the program's own code",
}
MOST_NEW_HITS = 5
TAB = "    "


def place_text(place: Json | None) -> str:
    """Return a place as text, such as "forward, before encoder.0 (Linear)"."""
    if not place:
        return "not in a batch yet"
    words = [PHASES.get(str(place.get("phase")), str(place.get("phase")))]
    if place.get("op"):
        words.append(f"before {place['op']}" + (f" in {place['module']}" if place.get("module") else ""))
    elif place.get("module"):
        of = f" ({place['class_name']})" if place.get("class_name") else ""
        words.append(f"{place.get('edge') or 'before'} {place['module']}{of}")
    elif place.get("phase") in ("forward", "backward", "optimizer"):
        words.insert(0, str(place.get("edge") or "before"))
        return harmless(" ".join(words))
    return harmless(", ".join(words))


def line_text(place: Mapping[str, Any]) -> str:
    """Return file, line and function of a frame."""
    function = f" in {place['function']}" if place.get("function") else ""
    return harmless(f"{place['file']}:{place['line']}{function}")


def tell_state(workspace: Workspace, *, with_source: bool = True) -> None:
    """Print what the training does and where, followed by new hits."""
    state = workspace.state
    status = state.get("status")
    if status == "over":
        workspace.output.say("The run is over.")
    elif status == "running":
        workspace.output.say(f"Running, step {state.get('step')}.")
    else:
        _tell_stop(workspace, state, with_source=with_source)
    if state.get("note"):
        workspace.output.say(f"Note: {harmless(str(state['note']))}")
    tell_new_hits(workspace)


def _tell_stop(workspace: Workspace, state: Json, *, with_source: bool) -> None:
    workspace.output.line((f"Paused in step {state.get('step')}", "bold"), reason_text(state.get("reason")))
    place = state.get("place")
    workspace.output.say(f"  {place_text(place)}")
    if with_source and place and place.get("file") and not is_without_user(workspace, place):
        workspace.output.say(f"  {line_text(place)}")
        for line in source_around(workspace, str(place["file"]), int(place["line"]), around=0):
            workspace.output.say(line)
    if state.get("resumes_at"):
        left = max(float(state["resumes_at"]) - time.time(), 0.0)
        workspace.output.say(
            f"  Other processes wait for this one, so it continues automatically in {left:.0f} s."
        )


def is_without_user(workspace: Workspace, place: Json) -> bool:
    """Return whether a replayed step is outside of the model.

    NetDebug itself calls a replayed step, so outside of the model there is no line of the user's code.
    """
    return workspace.restart is not None and str(place["file"]).startswith(foreign_folders())


def reason_text(reason: Json | None) -> str:
    """Return why the training stopped; for a watchpoint also which one."""
    if not reason or not reason.get("text"):
        return "."
    text = str(reason["text"])
    # Some reasons are the end of a sentence: "because of ...".
    if text.startswith("of "):
        return harmless(f" because {text}")
    watchpoint = f"watchpoint {reason.get('id')} was hit: " if reason.get("kind") == "watchpoint" else ""
    return harmless(f": {watchpoint}{text}")


def tell_new_hits(workspace: Workspace) -> None:
    """Print the hits that are not printed yet, at most MOST_NEW_HITS of them."""
    count = int(workspace.state.get("hits") or 0)
    # The number of hits falls when somebody clears them.
    if count <= workspace.told_hits:
        workspace.told_hits = count
        return
    hits = workspace.call("hits", since=workspace.told_hits)
    workspace.told_hits = count
    for hit in hits[:MOST_NEW_HITS]:
        workspace.output.line((hit_text(hit), "red"))
    if len(hits) > MOST_NEW_HITS:
        workspace.output.say(f"  and {len(hits) - MOST_NEW_HITS} more: `hits`")


def source_around(
    workspace: Workspace,
    file: str,
    line: int,
    *,
    around: int,
    current: int | None = None,
    marks: Mapping[int, str] | None = None,
) -> list[str]:
    """Return numbered source lines around `line`, with an arrow at `current` (default: `line`).

    The list is empty if the file cannot be shown.
    """
    told = source_of(workspace, file)
    if told is None:
        return []
    first = int(told["first_line"])
    lines: Sequence[str] = told["lines"]
    current = line if current is None else current
    start, end = max(line - around, first), line + around + 1
    return [
        numbered(
            number, lines[number - first], is_current=number == current, mark=(marks or {}).get(number, "")
        )
        for number in range(start, min(end, first + len(lines)))
    ]


def source_of(workspace: Workspace, file: str) -> Json | None:
    """Return the source of a file, or None.

    The trainer shows only files that its stack has named, so the stack is requested first.
    """
    try:
        if file not in workspace.named_files:
            workspace.call("stack")
            workspace.named_files.add(file)
        found: Json = workspace.call("source", file=file)
        return found
    except ClientError:
        return None


def numbered(number: int, text: str, *, is_current: bool, mark: str = "") -> str:
    shown = harmless(text.expandtabs(len(TAB)).rstrip())
    layers = f"   # {harmless(mark)}" if mark else ""
    return f"{'->' if is_current else '  '} {number:>5}  {shown}{layers}".rstrip()
