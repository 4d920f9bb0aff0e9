"""The verbs with their arguments and answers, in one table; a test compares it with that of README.md."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tb_netdebug.debugger.protocol.arguments import (
    NEEDED,
    Argument,
    ArgumentError,
    cells,
    count,
    maybe,
    number,
    one_of,
    one_of_these,
    pattern,
    switch,
    text,
    wait,
)
from tb_netdebug.debugger.protocol.choices import COMPARISONS, PHASES, STATISTICS, STEPS, WATCHED
from tb_netdebug.debugger.protocol.statements import (
    BatchTensorJson,
    BreakpointJson,
    FrameJson,
    HitJson,
    LearningRateJson,
    ModuleJson,
    PieceJson,
    PresetJson,
    SourceJson,
    StateJson,
    TensorJson,
    WatchpointJson,
)


@dataclass(frozen=True, slots=True)
class Verb:
    """A verb of the debugger.

    `answer` is the type of its answer, a hint that `statements.py` resolves; None answers nothing. The hub
    checks it field by field, or, if the verb `is_loose`, only that it is a list or an object of modest depth.
    `told` is what README.md says of the answer besides its fields.

    `steers`: the caller must hold the controls. `is_for_all`: it goes to all ranks of a run. `waits`: it is
    answered once the run is paused, or at the first place after the time of the argument `wait`; if no answer
    comes shortly after, the hub itself answers with the newest state.
    """

    arguments: Mapping[str, Argument] = field(default_factory=dict)
    answer: Any = None
    told: str = ""
    is_loose: bool = False
    steers: bool = False
    is_for_all: bool = False
    waits: bool = False


def steering(answer: Any, **arguments: Argument) -> Verb:
    """Return a verb that steers all ranks."""
    return Verb(arguments, answer, steers=True, is_for_all=True)


def waiting(**arguments: Argument) -> Verb:
    """Return a verb that tells the run where to stop next."""
    return Verb({**arguments, "wait": _WAIT}, StateJson, steers=True, is_for_all=True, waits=True)


def looking(answer: Any, told: str = "", /, **arguments: Argument) -> Verb:
    """Return a verb that only reads, and whose answer passes the hub as it is."""
    return Verb(arguments, answer, told, is_loose=True)


_WAIT = Argument(wait, "the answer comes after at most this many seconds", 1.0)
_ID, _NEW_ID = Argument(count, "N"), Argument(maybe(count), "N or null (new)", None)
_NAME, _SLICE = Argument(text), Argument(maybe(text), 'text such as "[0, :, 3:10]" or null', None)
_CELLS = Argument(cells, "", 4096)
_IS_ON = Argument(switch, "", True)

VERBS: Mapping[str, Verb] = {
    "pause": waiting(step=Argument(maybe(count), "N or null (at the end of this batch)", None)),
    "continue": steering(StateJson),
    "step": waiting(
        by=one_of_these(STEPS),
        count=Argument(count, "", 1),
        match=Argument(maybe(pattern), "RE or null (layers or ops that count)", None),
    ),
    "run_to": waiting(
        step=Argument(maybe(count), "N, or null if there is a `layer`", None),
        layer=Argument(maybe(pattern), "RE, or null if there is a `step`", None),
    ),
    "set_breakpoint": steering(
        BreakpointJson,
        id=_NEW_ID,
        layer=Argument(maybe(pattern), "RE or null", None),
        phase=one_of_these(PHASES, "forward"),
        step=Argument(maybe(count), "N or null (from this batch on)", None),
        is_on=_IS_ON,
    ),
    "remove_breakpoint": steering(None, id=_ID),
    "set_watchpoint": steering(
        WatchpointJson,
        id=_NEW_ID,
        kind=Argument(one_of(*WATCHED), "see below"),
        tensors=Argument(pattern, "RE", ""),
        statistic=Argument(one_of(*STATISTICS), "see below"),
        comparison=one_of_these(COMPARISONS),
        threshold=Argument(maybe(number), "number or null", None),
        is_on=_IS_ON,
        preset=Argument(maybe(text), "slug or null", None),
    ),
    "remove_watchpoint": steering(None, id=_ID),
    "presets": looking(list[PresetJson], "the recommended watchpoints"),
    "recheck": Verb(
        {}, dict[str, Any],
        '`{"hits": N}`: evaluates the watchpoints on the present tensors; new hits come last',
        is_loose=True, steers=True,
    ),
    "hits": looking(
        list[HitJson], "in the order of execution",
        since=Argument(count, "", 0), most=Argument(count, "", 200),
    ),
    "clear_hits": Verb(steers=True),
    "set_learning_rate": steering(
        list[LearningRateJson],
        optimizer=Argument(count, "N"),
        group=Argument(maybe(count), "N or null (all)", None),
        value=Argument(number),
    ),
    "snapshot": Verb({}, dict[str, Any], '`{"path"}` of the capsule', is_loose=True, steers=True),
    "detach": Verb(
        {}, StateJson, "the run continues; breakpoints and watchpoints are off until a client attaches",
        steers=True, is_for_all=True,
    ),
    "modules": looking(list[ModuleJson]),
    "stack": looking(list[FrameJson], "innermost first"),
    "source": looking(SourceJson, file=Argument(text, "one that `stack` or `modules` has returned")),
    "tensors": looking(
        list[TensorJson],
        kind=Argument(maybe(text), "a kind of tensors, or null", None),
        match=Argument(maybe(pattern), "RE or null", None),
        most=Argument(count, "", 500),
    ),
    "tensor": looking(
        dict[str, Any], "below",
        name=_NAME,
        slice=_SLICE,
        previous=Argument(switch, "also return the step before, and the difference", False),
        cells=_CELLS,
    ),
    "evaluate": looking(dict[str, Any], "as `tensor`", text=Argument(text), cells=_CELLS),
    "batch": looking(list[BatchTensorJson]),
    "bytes": Verb(
        {
            "name": _NAME,
            "slice": _SLICE,
            "offset": Argument(count, "", 0),
            "most": Argument(count, "", 1 << 20),
        },
        PieceJson,
        "with an attachment: a piece of the `.npy` file",
    ),
}  # fmt: skip


def checked(name: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Return all arguments of the verb with their defaults; raise ArgumentError, also for an unknown verb.

    TensorBoard does this once with what a client sends, and the training process once with what comes off
    the channel: neither believes the other.
    """
    verb = VERBS.get(name)
    if verb is None:
        raise ArgumentError(f"There is no verb {name[:40]!r}.")
    unknown = sorted(set(arguments) - set(verb.arguments))
    if unknown:
        raise ArgumentError(f"{name} has no argument {unknown[0][:40]!r}.")
    found = {}
    for key, argument in verb.arguments.items():
        value = arguments.get(key, argument.default)
        if value is NEEDED:
            raise ArgumentError(f"{name} needs {key}.")
        found[key] = argument.check(key, value) if key in arguments else value
    return found
