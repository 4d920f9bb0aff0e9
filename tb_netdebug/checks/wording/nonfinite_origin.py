"""The first NaN or infinity, as traced in the run: in words, as evidence, and how to open its step."""

from __future__ import annotations

import shlex
from dataclasses import dataclass

from tb_netdebug.checks.finding import Evidence, Severity
from tb_netdebug.checks.history import History
from tb_netdebug.checks.wording.phrases import named
from tb_netdebug.core.records.facts import NonfiniteFact

WORDS = {"NaN": "NaN", "Inf": "infinite values", "-Inf": "minus infinity"}
OUTSIDE = (
    "the cause lies outside the batch and the weights, such as a counter, a random generator of its own, a "
    "file or another thread"
)

LEFT_OUT = " No backward pass followed: this batch did not reach the weights."


@dataclass(frozen=True, slots=True)
class TracedOrigin:
    """The fact `first-nonfinite`, parsed. `repeats` is None if the batch could not be run again."""

    what: str  # "output", "input", "parameter", "gradient", "loss", "unknown"
    where: str
    class_name: str
    kind: str
    step: int
    operation: str
    line: str  # of the operation itself
    tensor: str  # such as "target"; "operand" if an operation was given it, and no layer made it
    variable: str  # that held such an operand
    follows: bool  # operations were traced, so nothing more would find the line
    before: str  # the loss function that it was given to, with its line
    backward: str  # the line that calls backward
    capsule: str
    script: str
    why_not: str
    repeats: bool | None
    inputs_finite: bool
    parameters_finite: bool
    parameters_known: bool  # whether anybody checked them before the step
    was_updated: bool  # a bad gradient was written into them, so the optimizer's state is bad as well
    divided_by_zero: str  # the class of the optimizer that wrote them so, with eps=0
    masked_only: bool
    left_out: bool
    rank: int | None  # the process that made it, in a run of several

    @classmethod
    def of(cls, fact: NonfiniteFact, step: int) -> TracedOrigin:
        """Parse the fact; `step` is that of its record, because an answer may come later than its step."""
        is_old_loss = fact.what == "loss" and fact.operations is not None and fact.backward is None
        return cls(
            what=fact.what,
            where=fact.where,
            class_name=fact.class_name,
            kind=fact.kind or "NaN",
            step=fact.step if fact.step is not None and fact.step <= step else step,
            operation=fact.operation or "",
            # In older records of torch, the line of a loss is that of backward.
            line="" if is_old_loss else fact.site,
            tensor=fact.tensor or "",
            variable=fact.variable or "",
            follows=bool(fact.follows),
            before=fact.before or "",
            backward=fact.site if is_old_loss else fact.backward or "",
            capsule=fact.capsule or "",
            script=fact.script or "",
            why_not=fact.why_not,
            repeats=fact.repeats,
            inputs_finite=fact.inputs_finite,
            parameters_finite=fact.parameters_finite,
            parameters_known=fact.parameters_known is not False,
            was_updated=bool(fact.was_updated),
            divided_by_zero=fact.divided_by_zero or "",
            masked_only=fact.masked_only,
            left_out=bool(fact.left_out),
            rank=fact.rank,
        )

    @property
    def is_made_in_a_layer(self) -> bool:
        """Whether a layer made it; else the batch brought it, or weights that held it already."""
        return self.what == "output" and self.parameters_finite and not self.masked_only

    @property
    def is_operand(self) -> bool:
        """Whether an operation in the layer was given it; whether the layer itself was is not known."""
        return self.what == "output" and self.tensor == "operand"

    def given_text(self) -> str:
        """Return what was non-finite before the layer made anything, as the end of a sentence."""
        if self.is_operand:
            return ": an operation there was given a tensor that holds such values already"
        return "" if self.inputs_finite else ": its inputs hold such values already"

    @property
    def made_of(self) -> str:
        """The kind of value, such as "NaN"."""
        return WORDS.get(self.kind, self.kind)

    @property
    def layer(self) -> str:
        """The name of the layer and its class."""
        shown = named(self.where)
        return f"{shown} ({self.class_name})" if self.class_name else shown

    @property
    def weight(self) -> str:
        """The weight that was not finite when the step began, with its layer; Keras names it by both."""
        return f"`{self.tensor}` of {self.layer}" if self.tensor else self.layer

    def batch_text(self) -> str:
        """Return what the batch brought along, as a sentence without its end."""
        when = f"of step {self.step}{self.on_rank}"
        for prefix, name in (("label/", "labels"), ("input/", "inputs")):
            if self.where.startswith(prefix):
                return f"The {name} {when} hold {self.made_of} already"
        return f"The batch {when} holds {self.made_of} already when it gets to {named(self.where)}"

    def operation_text(self, preposition: str = " by") -> str:
        """Return a text such as " by log at model.py:91"; empty if neither is known."""
        by = f"{preposition} {self.operation}" if self.operation else ""
        return f"{by} at {self.line}" if self.line else by

    def line_text(self) -> str:
        """Return where a loss made it, if its own line is not known, as the end of a sentence."""
        known = [f"it was there before {self.before}"] if self.before else []
        if self.backward:
            known.append(f"backward is called at {self.backward}")
        if self.line or not known:
            return ""
        advice = "" if self.follows else ' (check_numerics="ops" finds it)'
        return f"; its line is not known{advice}: {', '.join(known)}"

    def operand_text(self) -> str:
        """Return what brought a NaN into the loss, as a sentence goes on; empty if the loss made it."""
        if self.tensor == "operand":
            held = f"`{self.variable}`" if self.variable else "an operand such as the labels"
            return f"{held}, which no layer made, was not finite{self.operation_text(', given to')}"
        if self.tensor:
            return f"the {self.tensor} of the loss was not finite{self.operation_text(', given to')}"
        return ""

    def made_by_loss_text(self) -> str:
        """Return that the loss made it, as a sentence goes on; that is certain only for a known operation."""
        if self.operation or self.line:
            return f"the loss itself made it{self.operation_text()}"
        return "it came up in the loss, made by one of its operations or given to it, as labels are"

    def evidence(self) -> dict[str, Evidence]:
        known = {
            "value": self.kind,
            "operation": self.operation,
            "line": self.line,
            "before": self.before,
            "backward": self.backward,
            "inputs_finite": self.inputs_finite if self.what == "output" and not self.is_operand else "",
            "capsule": self.capsule,
            "variable": self.variable,
            "rank": "" if self.rank is None else self.rank,
            "repeats": "" if self.repeats is None else self.repeats,
        }
        return {name: Evidence(value) for name, value in known.items() if value != ""}

    def repeats_text(self) -> str:
        """Return what running the batch again has shown, as a sentence; empty if it showed the same."""
        if self.repeats is False:
            return f" Run again, the same batch on the same weights gave finite values: {OUTSIDE}."
        if self.why_not and not self.operation:
            return f" The operation is not known: {self.why_not}."
        return ""

    @property
    def on_rank(self) -> str:
        """The rank in words, such as " on rank 1"; empty for a process that trains alone."""
        return "" if self.rank is None else f" on rank {self.rank}"

    @property
    def is_of_another(self) -> bool:
        """Whether another process made it than the first, whose steps are judged."""
        return bool(self.rank)

    @property
    def severity(self) -> Severity:
        """The severity: a batch that the run leaves out is a lost batch, and no more."""
        return Severity.WARNING if self.left_out else Severity.ERROR

    def left_out_text(self) -> str:
        """Return what became of the batch, as a sentence; empty if it was trained on."""
        return LEFT_OUT if self.left_out else ""

    def opening(self) -> str:
        """Return how to look into the step, as a sentence; empty if nothing was kept of it."""
        if not self.capsule:
            return ""
        backward = "--backward " if self.what == "gradient" else ""  # its forward pass is finite
        command = f"netdebug replay {backward}{shlex.quote(self.capsule)} {self.script or 'YOUR_SCRIPT'}"
        return f" To open this very step: `{command}`."


def traced_origin(history: History, step: int) -> TracedOrigin | None:
    """Return the newest origin known at this step, unless infinities were put there on purpose."""
    fact = history.fact(NonfiniteFact)
    origin = None if fact is None else TracedOrigin.of(fact, step)
    return None if origin is None or origin.masked_only else origin


def is_in_the_batch(history: History) -> bool:
    """Return whether the batch brought the first NaN, as traced, or as a sample of the batch shows."""
    origin = traced_origin(history, history.step)
    if origin is not None and origin.what != "unknown":
        is_given = origin.what == "loss" and origin.tensor in ("target", "operand")
        return origin.what == "input" or is_given
    seen = history.tensors
    is_batch = [name.startswith(("input/", "label/")) for name in seen.names]
    return bool(seen.now is not None and (seen.now.nan[is_batch] > 0).any())
