"""The registry of facts: what a step can tell beside numbers, one class for each kind.

Producers in `frameworks/` and the rules in `checks/` share these classes, so a misspelled or mistyped field
is an error that mypy finds. The name of a field is its key in the stored JSON unless its metadata says
otherwise; `fact_codec` encodes and decodes.

A field that is `OMITTED` has no key when it is None: not every framework tells it, or older versions did not.
Counts and sizes are never negative.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar, Final

Names = tuple[str, ...]
Shape = tuple[int, ...]

OMITTED: Final[dict[str, Any]] = {"omitted": True}


class TypedFact:
    """A fact of a known kind.

    Those kinds of which several may hold at once have an `id`: the latest fact of each id counts.
    """

    __slots__ = ()
    KIND: ClassVar[str] = ""


# ---- what is trained -------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ParameterGroup:
    """The settings of one parameter group of an optimizer; None if they are not known without waiting."""

    lr: float | None = None
    weight_decay: float | None = None
    parameters: int = 0  # tensors


@dataclass(frozen=True, slots=True)
class OptimizerFact(TypedFact):
    """The holdings of an optimizer, recorded when it first steps and on changes.

    With the id `NO_OPTIMIZER` it says that none has stepped in so many batches; with `steps` or `moved` it
    withdraws that. Only that one has the fields from `steps` on.
    """

    KIND = "optimizer"
    NO_OPTIMIZER: ClassVar[str] = "none"

    id: int | str = 0
    class_name: str | None = field(default=None, metadata={**OMITTED, "key": "class"})
    groups: tuple[ParameterGroup, ...] | None = field(default=None, metadata=OMITTED)
    parameters: int | None = field(default=None, metadata=OMITTED)  # tensors that it holds
    strangers: int | None = field(default=None, metadata=OMITTED)  # those of them in no watched model
    missing: Names | None = field(default=None, metadata=OMITTED)  # trainable, and in no optimizer at all
    missing_total: int | None = field(default=None, metadata=OMITTED)  # `missing` may be cut off
    missing_with_gradient: int | None = field(default=None, metadata=OMITTED)
    hidden: Names | None = field(default=None, metadata=OMITTED)  # always empty; read by no rule
    alike: bool | None = field(default=None, metadata=OMITTED)  # strangers have the shapes of what is missing
    steps: int | None = field(default=None, metadata=OMITTED)  # of all optimizers
    batches: int | None = field(default=None, metadata=OMITTED)  # seen without an optimizer step
    moved: bool | None = field(default=None, metadata=OMITTED)  # something else moves the weights
    gradients: bool | None = field(default=None, metadata=OMITTED)  # there were some
    cleared: bool | None = field(default=None, metadata=OMITTED)  # they were cleared again unused

    @property
    def is_of_none(self) -> bool:
        """Whether it says that no optimizer steps."""
        return self.id == self.NO_OPTIMIZER


@dataclass(frozen=True, slots=True)
class GradientsFact(TypedFact):
    """Which trainable parameters got no gradient, in the last `steps` steps of their optimizer."""

    KIND = "gradients"

    none: Names = ()
    none_total: int = 0  # `none` may be cut off
    steps: int = 2
    frozen: Names = ()
    frozen_total: int = 0  # `frozen` may be cut off
    detached: bool = False  # no parameter at all has a gradient
    # Owners of the parameters in `none`, once their calls have been watched.
    called: Names | None = field(default=None, metadata=OMITTED)
    called_without_grad: Names | None = field(default=None, metadata=OMITTED)  # under no_grad only
    uncalled: Names | None = field(default=None, metadata=OMITTED)
    all_frozen: bool | None = field(
        default=None, metadata=OMITTED
    )  # nothing can be trained, so nothing steps


@dataclass(frozen=True, slots=True)
class UnownedFact(TypedFact):
    """Parameters that the loss depends on, in no watched model and in no optimizer.

    The id says where they are used: "inside" of a watched model, between its layers, or "outside".
    """

    KIND = "unowned"

    id: str = ""
    tensors: int = 0
    values: int = 0  # numbers in these tensors
    values_of_models: int = 0  # numbers in the parameters of the watched models
    names: Names = ()  # of those that have one
    shapes: tuple[Shape, ...] = ()  # each once
    fresh: bool = False  # most look as random as torch initialises them
    twin: bool = False  # the watched models have parameters of the same shapes


@dataclass(frozen=True, slots=True)
class ElsewhereFact(TypedFact):
    """The number of parameters of the loss in an optimizer that holds nothing of the watched models."""

    KIND = "elsewhere"

    tensors: int


@dataclass(frozen=True, slots=True)
class IgnoredOutputsFact(TypedFact):
    """Modules without gradients that are called, so that something drops what they put out."""

    KIND = "ignored-outputs"

    names: Names = ()


@dataclass(frozen=True, slots=True)
class DataParallelFact(TypedFact):
    """The number of processes, and of those that should get batches of their own."""

    KIND = "data-parallel"

    processes: int
    batches: int


# ---- modes -----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ModesFact(TypedFact):
    """The modes of dropout and batch-norm layers, in training and in evaluations."""

    KIND = "modes"

    eval: Names = ()  # in evaluation mode while they are trained, without `frozen`
    total: int = 0  # layers, without `frozen`
    root_eval: bool | None = None  # the whole model is in evaluation mode
    frozen: Names = ()  # in evaluation mode because they are not trained
    evaluating_in_train: Names = ()  # in train mode in the last evaluation that had any
    evaluating_root_train: bool | None = None  # and so was the whole model
    evaluation_calls_in_a_row: int = 0  # at most, without a training call between
    # Lines that call dropout in an evaluation without saying that it is none.
    functional_dropout: Names | None = field(default=None, metadata=OMITTED)


# ---- the loss --------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class LossCallFact(TypedFact):
    """A call of a loss function; its scalars are those of `scalar_names.of_loss` with this id."""

    KIND = "loss-call"

    id: int = 0  # of the place in the program, in the order of appearance
    function: str = ""  # by the name in torch.nn.functional, also of Keras's losses that have an equal there
    module: str | None = None  # the class of the loss module, if one was called
    input_shape: Shape = ()
    input_dtype: str = ""
    target_shape: Shape | None = None  # None: a loss without a target
    target_dtype: str | None = None
    reduction: str = ""  # "mean", "sum" or "none"
    num_classes: int | None = None  # None: not a loss of classes
    broadcasts: bool = False  # input and target are stretched to each other's shape
    weighted: bool = False  # by classes
    with_logits: bool | None = None  # expects raw scores; None: neither these nor probabilities
    last_layer: str | None = None  # the class of layer that made the input; None if it is unknown
    softmax_of_one: bool | None = field(default=None, metadata=OMITTED)  # a softmax over a single unit
    site: str = ""  # file and line of the call; of Keras's losses the name
    target_learns: bool | None = field(default=None, metadata=OMITTED)  # gradients flow into the target
    ignored_share: float | None = None  # of the targets, by `ignore_index`


@dataclass(frozen=True, slots=True)
class DifferenceFact(TypedFact):
    """A loss of the program's own subtracts predictions and targets so that all meet all."""

    KIND = "difference"

    id: int | str
    prediction_shape: Shape
    shape: Shape  # of the difference


@dataclass(frozen=True, slots=True)
class BackwardLossFact(TypedFact):
    """The recorded loss is what backward was called on, as nobody has reported one."""

    KIND = "backward-loss"

    value_name: str = ""


# ---- values that are not finite --------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class NonfiniteFact(TypedFact):
    """Where the first value of an incident comes from that is not finite."""

    KIND = "first-nonfinite"

    step: int | None = field(default=None, metadata=OMITTED)  # None: that of the record
    operations: Names | None = field(default=None, metadata=OMITTED)  # of the loss, the last one first
    capsule: str | None = None  # path of the file that holds the step
    script: str | None = field(
        default=None, metadata=OMITTED
    )  # what to type behind `netdebug replay CAPSULE`
    left_out: bool | None = field(default=None, metadata=OMITTED)  # no backward pass followed
    follows: bool | None = field(default=None, metadata=OMITTED)  # operations were traced in the run
    what: str = ""  # "output" of a layer, "input", "parameter", "gradient", "loss" or "unknown"
    where: str = ""  # the layer, or the name of a series such as input/0
    class_name: str = ""  # of the layer
    kind: str = ""  # "NaN", "Inf" or "-Inf"
    inputs_finite: bool = True
    parameters_finite: bool = True
    masked_only: bool = False  # infinities that were put there on purpose
    masked_inputs: bool | None = field(default=None, metadata=OMITTED)  # so were those that came in
    # An input or a parameter; of a loss "target", or "operand" for what no layer made.
    tensor: str | None = field(default=None, metadata=OMITTED)
    operation: str | None = None
    site: str = ""  # file and line of the operation
    before: str | None = field(default=None, metadata=OMITTED)  # a call that was given the value already
    why_not: str = ""  # why no more is known
    repeats: bool | None = None  # running the batch again made it again; None: it could not be run
    is_open: bool | None = field(default=None, metadata=OMITTED)  # the origin is not certain
    variable: str | None = field(default=None, metadata=OMITTED)  # that held the operand
    backward: str | None = field(default=None, metadata=OMITTED)  # file and line of the call of backward
    was_updated: bool | None = field(default=None, metadata=OMITTED)  # weights took up a bad gradient before
    parameters_known: bool | None = field(default=None, metadata=OMITTED)  # they were read before the step
    rank: int | None = field(default=None, metadata=OMITTED)  # of the process, in a run of several
    divided_by_zero: str | None = field(default=None, metadata=OMITTED)  # by this optimizer, with eps=0


KINDS: Final[dict[str, type[TypedFact]]] = {
    each.KIND: each
    for each in (
        OptimizerFact, GradientsFact, UnownedFact, ElsewhereFact, IgnoredOutputsFact, DataParallelFact,
        ModesFact, LossCallFact, DifferenceFact, BackwardLossFact, NonfiniteFact,
    )
}  # fmt: skip
