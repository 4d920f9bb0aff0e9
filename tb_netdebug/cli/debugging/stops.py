"""Commands for what stops training: breakpoints, watchpoints and their hits."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Mapping
from typing import Any

from tb_netdebug.cli.debugging.command import Command, whole
from tb_netdebug.cli.debugging.conditions import actual_text, condition_text
from tb_netdebug.cli.debugging.place_text import place_text, tell_new_hits
from tb_netdebug.cli.debugging.words import CommandError, OptionParser
from tb_netdebug.cli.debugging.workspace import Workspace
from tb_netdebug.cli.harmless import harmless
from tb_netdebug.debugger.protocol.choices import PHASES, STATISTICS, WATCHED

COMPARISONS = (">", "<", "is")
WATCHPOINT_FIELDS = ("kind", "tensors", "statistic", "comparison", "threshold")
Thing = Mapping[str, Any]


def add_breakpoint(workspace: Workspace, arguments: Namespace) -> None:
    r"""Stop at layers whose names match, or without a name at any.

    break encoder.0              before its forward pass (a whole name means that layer alone)
    break 'encoder\..*' backward when the gradients of its output have come
    break optimizer              before each step of an optimizer
    break end --from-step 100    at the end of each batch from the 100th on
    """
    layer, phase = arguments.layer, arguments.phase
    # `break optimizer` names a phase, not a layer.
    if phase is None and layer in PHASES:
        layer, phase = None, layer
    told = workspace.call(
        "set_breakpoint",
        layer=None if layer is None else workspace.exactly(layer),
        phase=phase or "forward",
        step=arguments.from_step,
    )
    workspace.output.say(breakpoint_text(told))


def watch(workspace: Workspace, arguments: Namespace) -> None:
    r"""Stop when a statistic of a tensor crosses a threshold.

    watch gradient 'encoder\..*' abs_max > 100   KIND RE STATISTIC COMPARISON THRESHOLD
    watch output . nonfinite                     any output of a layer that is not finite
    watch scalar loss max > 10                   the loss, or another number given to monitor.step
    watch 2 > 50                                 another threshold for watchpoint 2
    watch recommended                            those that suit most training runs
    """
    words = list(arguments.what)
    if words == ["recommended"]:
        return _watch_recommended(workspace)
    if words[0].isdecimal():
        return _change(workspace, int(words[0]), words[1:])
    # Padded to three words, so that a missing one is reported by name.
    kind, tensors, statistic, *condition = [*words, "", ""][: max(len(words), 3)]
    _one_of("kind", kind, WATCHED)
    _one_of("statistic", statistic, STATISTICS)
    comparison, threshold = _condition(statistic, condition)
    told = workspace.call(
        "set_watchpoint",
        kind=kind,
        tensors=tensors,
        statistic=statistic,
        comparison=comparison,
        threshold=threshold,
    )
    workspace.output.say(watchpoint_text(told))


def _watch_recommended(workspace: Workspace) -> None:
    workspace.refresh()
    there = {point.get("preset") for point in workspace.state.get("watchpoints") or ()}
    for preset in workspace.call("presets"):
        if preset["preset"] not in there:
            wanted = {name: preset[name] for name in WATCHPOINT_FIELDS}
            told = workspace.call("set_watchpoint", preset=preset["preset"], **wanted)
            workspace.output.say(f"{watchpoint_text(told)}: {harmless(str(preset.get('title') or ''))}")


def _change(workspace: Workspace, number: int, condition: list[str]) -> None:
    workspace.refresh()
    point = _found(workspace, "watchpoints", number)
    if point is None:
        raise CommandError(f"There is no watchpoint {number}.")
    comparison, threshold = _condition(point["statistic"], condition)
    wanted = {name: point[name] for name in WATCHPOINT_FIELDS}
    wanted |= {"comparison": comparison, "threshold": threshold, "is_on": point["is_on"]}
    workspace.output.say(watchpoint_text(workspace.call("set_watchpoint", id=number, **wanted)))


def _condition(statistic: str, words: list[str]) -> tuple[str, float | None]:
    if statistic == "nonfinite":
        if words not in ([], ["is"]):
            raise CommandError("nonfinite takes no threshold.")
        return "is", None
    if len(words) != 2 or words[0] not in COMPARISONS[:2]:
        raise CommandError("Usage: watch KIND RE STATISTIC > THRESHOLD, or < THRESHOLD")
    try:
        return words[0], float(words[1])
    except ValueError:
        raise CommandError(f"{words[1]!r} is not a number.") from None


def _one_of(what: str, word: str, known: tuple[str, ...]) -> None:
    if word not in known:
        raise CommandError(f"{word!r} is not a {what}. Choose one of: {', '.join(known)}.")


def list_points(workspace: Workspace, arguments: Namespace) -> None:
    """List breakpoints and watchpoints, with how often each was hit."""
    workspace.refresh()
    for what, told in (("breakpoints", breakpoint_text), ("watchpoints", watchpoint_text)):
        if arguments.what in (None, what):
            points = workspace.state.get(what) or []
            for point in points:
                workspace.output.say(told(point) + _fate(point))
            if not points:
                workspace.output.say(f"There are no {what}.")


def breakpoint_text(told: Thing) -> str:
    layer = f" of layers {told['layer']}" if told.get("layer") else ""
    since = f" from step {told['step']} on" if told.get("step") is not None else ""
    return harmless(f"breakpoint {told.get('id')}: {told.get('phase')}{layer}{since}")


def watchpoint_text(told: Thing) -> str:
    tensors = f" {told['tensors']}" if told.get("tensors") else ""
    return harmless(f"watchpoint {told.get('id')}: {told.get('kind')}{tensors}: {condition_text(told)}")


def _fate(point: Thing) -> str:
    hits = f", {point['hits']} hits" if point.get("hits") else ""
    off = "" if point.get("is_on", True) else ", off"
    complaint = f" ({harmless(str(point['complaint']))})" if point.get("complaint") else ""
    return f"{hits}{off}{complaint}"


def delete(workspace: Workspace, arguments: Namespace) -> None:
    """Remove a breakpoint or a watchpoint by its number; `delete all` removes all of them.

    Where both have the number, say which: `delete watchpoint 2`.
    """
    for what, point in _meant(workspace, arguments):
        workspace.call(f"remove_{what}", id=point["id"])
        workspace.output.say(f"{what} {point['id']} removed.")


def enable(workspace: Workspace, arguments: Namespace) -> None:
    """Switch a breakpoint or watchpoint on again, by its number."""
    _switch(workspace, arguments, is_on=True)


def disable(workspace: Workspace, arguments: Namespace) -> None:
    """Switch a breakpoint or watchpoint off, by its number."""
    _switch(workspace, arguments, is_on=False)


def _switch(workspace: Workspace, arguments: Namespace, *, is_on: bool) -> None:
    for what, point in _meant(workspace, arguments):
        names = ("layer", "phase", "step") if what == "breakpoint" else WATCHPOINT_FIELDS
        # The verb sets the whole point, so its other fields are sent along.
        wanted = {name: point.get(name) for name in names}
        workspace.call(f"set_{what}", id=point["id"], is_on=is_on, **wanted)
        workspace.output.say(f"{what} {point['id']} is {'on' if is_on else 'off'}.")


def _meant(workspace: Workspace, arguments: Namespace) -> list[tuple[str, Thing]]:
    """Return the breakpoints and watchpoints that the arguments name. Raise CommandError if unclear."""
    workspace.refresh()
    *kinds, last = arguments.which
    # The plural is accepted because `list` has it.
    kinds = [kind.removesuffix("s") for kind in kinds] or ["breakpoint", "watchpoint"]
    if not set(kinds) <= {"breakpoint", "watchpoint"}:
        raise CommandError(f"Usage: {arguments.name} [breakpoint|watchpoint] N|all")
    if last == "all":
        return [(kind, point) for kind in kinds for point in workspace.state.get(f"{kind}s") or ()]
    number = whole(last, "number")
    found = [(kind, point) for kind in kinds if (point := _found(workspace, f"{kind}s", number)) is not None]
    if not found:
        raise CommandError(f"There is no {' or '.join(kinds)} {number}.")
    if len(found) > 1:
        raise CommandError(
            f"{number} is both a breakpoint and a watchpoint. Say which, such as `{arguments.name} "
            f"watchpoint {number}`."
        )
    return found


def _found(workspace: Workspace, what: str, number: int) -> Thing | None:
    return next((point for point in workspace.state.get(what) or () if point.get("id") == number), None)


def hits(workspace: Workspace, arguments: Namespace) -> None:
    """List what the watchpoints have hit, in the order in which it was computed.

    `hits clear` forgets them.
    """
    if arguments.clear:
        workspace.call("clear_hits")
        return workspace.output.say("The hits are cleared.")
    found = workspace.call("hits", most=arguments.most)
    if not found:
        return workspace.output.say("There are no hits.")
    rows = [
        [
            hit.get("number"),
            hit.get("step"),
            place_text(hit.get("place")),
            hit.get("watchpoint"),
            hit.get("tensor"),
            condition_text(hit),
            actual_text(hit),
        ]
        for hit in found
    ]
    workspace.output.rows(
        ["hit", "step", "place", "by", "tensor", "wanted", "actual"],
        rows,
        right=["hit", "step", "by", "actual"],
    )
    for advice in dict.fromkeys(str(hit["advice"]) for hit in found if hit.get("advice")):
        workspace.output.say(f"Advice: {harmless(advice)}")


def recheck(workspace: Workspace, _: Namespace) -> None:
    """Evaluate all watchpoints on the tensors as they are now, without a step."""
    workspace.refresh()
    before = workspace.told_hits
    told = workspace.call("recheck")
    workspace.refresh()
    tell_new_hits(workspace)
    if workspace.told_hits == before:
        workspace.output.say(f"{told.get('hits', 0)} new hits.")


def _layer(parser: OptionParser) -> None:
    parser.add_argument("layer", nargs="?", metavar="LAYER-RE")
    parser.add_argument("phase", nargs="?", choices=PHASES, metavar="|".join(PHASES))
    parser.add_argument("--from-step", type=int, metavar="N")


def _words(parser: OptionParser) -> None:
    parser.add_argument("what", nargs="+", metavar="KIND RE STATISTIC > THRESHOLD")


def _lists(parser: OptionParser) -> None:
    parser.add_argument("what", nargs="?", choices=["breakpoints", "watchpoints"])


def _which(parser: OptionParser) -> None:
    parser.set_defaults(name=parser.prog)
    parser.add_argument("which", nargs="+", metavar="[breakpoint|watchpoint] N|all")


def _hits(parser: OptionParser) -> None:
    parser.add_argument("clear", nargs="?", choices=["clear"], metavar="clear")
    parser.add_argument("-n", "--most", type=int, default=50, metavar="N")


POINTS = ("breakpoint", "watchpoint", "all")
COMMANDS = (
    Command(
        "break", add_breakpoint, short=("b",), takes=_layer, completes=("layers", *PHASES, "--from-step")
    ),
    Command(
        "watch",
        watch,
        takes=_words,
        completes=("recommended", *WATCHED, *STATISTICS, "layers"),
        compares=True,
    ),
    Command("list", list_points, short=("l",), takes=_lists, completes=("breakpoints", "watchpoints")),
    Command("delete", delete, short=("d",), takes=_which, completes=POINTS),
    Command("enable", enable, takes=_which, completes=POINTS),
    Command("disable", disable, takes=_which, completes=POINTS),
    Command("hits", hits, takes=_hits, completes=("clear",)),
    Command("recheck", recheck),
)
