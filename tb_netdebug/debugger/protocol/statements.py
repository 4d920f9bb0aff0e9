"""What a session tells: its state, itself, and what its verbs answer. One table, field by field.

The hub's checks (`hub/statements.py`), the page's types and parsers (`frontend/src/wire/debugger-table.ts`,
written by `tools/debugger_types.py`) and the tables of README.md all come from here. Each field has a line of
documentation; a field that may be missing in a session of an older version is then 0, empty, null or off,
unless `Default` says something else.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import UnionType
from typing import Annotated, Any, Literal, TypedDict, Union, cast, get_args, get_origin, get_type_hints

from tb_netdebug.debugger.place import PHASES, Place
from tb_netdebug.debugger.protocol.choices import STEPS


@dataclass(frozen=True, slots=True)
class Default:
    """The value of a field that an older session does not send."""

    value: Any


@dataclass(frozen=True, slots=True)
class OneOf:
    """The texts that a field, or each item of its list, can have; the first one is a field's default."""

    choices: tuple[str, ...]


class PlaceJson(TypedDict):
    phase: Annotated[str, '"end" is that of a batch, "code" is `nd.breakpoint()`', OneOf(PHASES)]
    module: Annotated[str | None, "name of a layer as in the graph of the run"]
    class_name: Annotated[str | None, "class of the layer"]
    edge: Annotated[str, "of the layer, phase or operation", OneOf(("before", "after"))]
    op: Annotated[str | None, 'an operation such as "aten.addmm.default"']
    number: Annotated[int, "counts the stops within the batch"]
    file: Annotated[str | None, "of the line of the user's program"]
    line: Annotated[int, "the line of the user's program"]
    function: Annotated[str, "the function that the line is in"]


class ReasonJson(TypedDict):
    kind: Annotated[str, '"asked", "start", "step", "breakpoint", "watchpoint", "finding" or "code"']
    text: Annotated[str, "a sentence"]
    id: Annotated[int | None, "of the breakpoint or watchpoint"]


class BreakpointJson(TypedDict):
    id: Annotated[int, "its number"]
    layer: Annotated[str | None, "pattern of the layers; null: the whole batch"]
    phase: Annotated[str, "it stops where this phase begins"]
    step: Annotated[int | None, "from this batch on"]
    is_on: Annotated[bool, "off: it stays in the list, and stops nothing", Default(True)]
    hits: Annotated[int, "how often it has stopped the run"]


class WatchpointJson(TypedDict):
    id: Annotated[int, "its number"]
    kind: Annotated[str, "the kind of tensors that it watches"]
    tensors: Annotated[str, "pattern of their names"]
    statistic: Annotated[str, "what is compared: see below"]
    comparison: Annotated[str, '">", "<" or, for nonfinite, "is"']
    threshold: Annotated[float | None, 'null for "is"']
    is_on: Annotated[bool, "off: it stays in the list, and stops nothing", Default(True)]
    advice: Annotated[str, "what to do after a hit"]
    preset: Annotated[str | None, "slug of the recommended one that it was made from"]
    hits: Annotated[int, "how many tensors it has hit"]
    complaint: Annotated[str | None, "why it cannot be evaluated"]


class LearningRateJson(TypedDict):
    optimizer: Annotated[int, "number of the optimizer"]
    group: Annotated[int, "number of its group of parameters"]
    name: Annotated[str, "class of the optimizer"]
    value: Annotated[float, "the learning rate", Default(None)]


class StateJson(TypedDict):
    version: Annotated[int, "increases with each change"]
    status: Annotated[Literal["running", "paused", "over"], "whether it runs"]
    is_attached: Annotated[bool, "a client is attached and the lease holds"]
    step: Annotated[int, "number of the current batch"]
    place: Annotated[PlaceJson | None, "the current place, or the last one known; null before the first"]
    reason: Annotated[ReasonJson | None, "why it is paused; null while it runs"]
    paused_at: Annotated[float | None, "wall time; null while it runs"]
    lease_secs: Annotated[float, "how long the run stays paused without a renewal"]
    resumes_at: Annotated[
        float | None,
        "wall time when the run resumes by itself because other ranks wait for it (collective time-out)",
    ]
    is_waiting: Annotated[bool, "it runs towards a requested stop"]
    loss: Annotated[float | None, "the loss of the last finished step"]
    hits: Annotated[int, "the total number of hits so far"]
    breakpoints: Annotated[list[BreakpointJson], "all, also those that are off"]
    watchpoints: Annotated[list[WatchpointJson], "all, also those that are off"]
    learning_rates: Annotated[list[LearningRateJson], "one a group of parameters"]
    note: Annotated[str | None, "a sentence for the user: what could not be done as requested"]


class SessionJson(TypedDict):
    run: Annotated[list[str], "folder names"]
    run_dir: Annotated[str, "the folder of the run"]
    rank: Annotated[int, "which process of the run it is"]
    world_size: Annotated[int, "how many processes the run has", Default(1)]
    group: Annotated[str, "the same text for all ranks of one run"]
    pid: Annotated[int, "number of the process"]
    host: Annotated[str, "name of the machine"]
    program: Annotated[str, "the user's script"]
    framework: Annotated[str, "name of the framework"]
    models: Annotated[dict[str, str], "the class of each model by its name"]
    can: Annotated[list[str], "the steps that work here", OneOf(STEPS)]
    cannot: Annotated[list[str], "sentences that explain why the others do not"]
    collective_timeout_secs: Annotated[float | None, "null without a process group"]


class PieceJson(TypedDict):
    size: Annotated[int, "bytes of the whole file"]
    dtype: Annotated[str, "type of the tensor's values"]
    shape: Annotated[list[int], "shape of the tensor or slice"]
    offset: Annotated[int, "where in the file the attachment belongs"]
    is_last: Annotated[bool, "nothing comes after it"]


# ---- answers that pass the hub as they are, bounded in size and depth alone


class PresetJson(TypedDict):
    preset: Annotated[str | None, "its slug"]
    title: Annotated[str, "what it finds"]
    kind: Annotated[str, "as in a watchpoint"]
    statistic: Annotated[str, "as in a watchpoint"]
    comparison: Annotated[str, "as in a watchpoint"]
    threshold: Annotated[float | None, "as in a watchpoint"]
    advice: Annotated[str, "what to do after a hit"]
    tensors: Annotated[str, "as in a watchpoint"]


class HitJson(TypedDict):
    number: Annotated[int, "counts all hits of a run from 1 on"]
    step: Annotated[int, "number of the batch"]
    place: Annotated[PlaceJson | None, "where it was seen"]
    watchpoint: Annotated[int | None, "id of the watchpoint"]
    tensor: Annotated[str, "name of the tensor"]
    kind: Annotated[str, "kind of the tensor"]
    statistic: Annotated[str, "as in the watchpoint"]
    comparison: Annotated[str, "as in the watchpoint"]
    threshold: Annotated[float | None, "as in the watchpoint"]
    actual: Annotated[float, "value of the statistic", Default(None)]
    advice: Annotated[str, "what to do now"]


class ModuleJson(TypedDict):
    name: Annotated[str, "name of the layer, empty for the model"]
    class_name: Annotated[str, "its class"]
    parent: Annotated[str | None, "name of the layer around it"]
    parameters: Annotated[int, "how many parameters it has"]
    file: Annotated[str | None, "where its forward pass is defined"]
    line: Annotated[int, "the line there"]
    order: Annotated[int | None, "when it was called first, among the layers"]


class LocalJson(TypedDict):
    name: Annotated[str, "name of the variable"]
    type: Annotated[str, "its type"]
    text: Annotated[str, "a summary of its value"]


class FrameJson(TypedDict):
    file: Annotated[str, "path of the file"]
    line: Annotated[int, "the line that runs"]
    function: Annotated[str, "name of the function"]
    is_user: Annotated[bool, "the code is the user's own"]
    locals: Annotated[list[LocalJson], "variables of the function"]


class SourceJson(TypedDict):
    file: Annotated[str, "path of the file"]
    first_line: Annotated[int, "number of the first line", Default(1)]
    lines: Annotated[list[str], "the text"]


class TensorJson(TypedDict):
    name: Annotated[str, "KIND:NAME"]
    kind: Annotated[str, "kind of the tensor"]
    of: Annotated[str, "name of the layer, parameter or argument"]
    shape: Annotated[list[int], "its shape"]
    dtype: Annotated[str, "type of its values"]
    device: Annotated[str, "where it lies"]
    bytes: Annotated[int, "its size"]
    module: Annotated[str | None, "the layer that it belongs to"]


class BatchTensorJson(TensorJson):
    role: Annotated[Literal["input", "label"], "what it is in the batch"]


def place_json(place: Place) -> PlaceJson:
    """Return a place as it is told."""
    return cast("PlaceJson", place.as_dict())


# ---- the table, for those who make something of it


@dataclass(frozen=True, slots=True)
class FieldSpec:
    """A field of the table. `hint` is its type without null; `choices` are the texts of `OneOf`."""

    name: str
    hint: Any
    is_nullable: bool
    choices: tuple[str, ...]
    default: Any
    told: str


def fields_of(shape: type) -> Sequence[FieldSpec]:
    """Return the fields of one of the types above, in their order."""
    return [_field(name, hint) for name, hint in get_type_hints(shape, include_extras=True).items()]


def _field(name: str, annotated: Any) -> FieldSpec:
    hint, told, *more = get_args(annotated)
    is_nullable = get_origin(hint) in (UnionType, Union)
    if is_nullable:
        (hint,) = (each for each in get_args(hint) if each is not type(None))
    choices = next((each.choices for each in more if isinstance(each, OneOf)), ())
    usual = None if is_nullable else _usual(hint, choices)
    default = next((each.value for each in more if isinstance(each, Default)), usual)
    return FieldSpec(name, hint, is_nullable, choices, default, told)


def _usual(hint: Any, choices: Sequence[str]) -> Any:
    """Return the default of a type that cannot be null."""
    if get_origin(hint) is Literal:
        return get_args(hint)[0]
    return choices[0] if choices and hint is str else _EMPTY[get_origin(hint) or hint]


_EMPTY: Mapping[Any, Any] = {int: 0, float: 0.0, str: "", bool: False, list: [], dict: {}}
