"""Operations of TensorFlow that were followed one by one, and which of them is to blame for a NaN."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Any

# Operations that can make NaN or infinity of ordinary numbers, by the names that TensorFlow gives them.
RISKY = (
    "SqrtGrad", "RsqrtGrad", "ReciprocalGrad", "Log", "Log1p", "Sqrt", "Rsqrt",
    "RealDiv", "Div", "Reciprocal", "Pow", "Exp", "Expm1",
    "Acos", "Asin", "Atanh", "Xlogy", "Lgamma",
    "Square", "Mul", "Cast", "MatMul", "BatchMatMulV2", "Conv2D", "Sum", "Mean", "Sub", "AddV2",
)  # fmt: skip

# How many values are -infinity, +infinity and NaN.
Counts = tuple[int, int, int]


@dataclass(frozen=True, slots=True, eq=False)
class Operation:
    """One that was done, or put into a graph."""

    order: int
    kind: str
    name: str
    layer: Any
    """The innermost layer that was running (`layers.Layer`), None outside of all."""
    site: str
    inputs: tuple[Any, ...]
    outputs: tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class NonFiniteStart:
    """What has made the first value that is no number, of those that got into the result.

    `what`: "output" of a layer, "input", "parameter", "loss", or "gradient" when it came up on the way back.
    `why_not`: why it is not known whether this operation did it or one beside it; "" when it is known.
    """

    what: str
    where: str
    class_name: str
    kind: str
    operation: str
    site: str = ""
    masked_only: bool = False
    why_not: str = ""

    def as_fact(self) -> dict[str, Any]:
        return {
            "where": self.where,
            "class_name": self.class_name,
            "what": self.what,
            "inputs_finite": self.what != "input",
            "parameters_finite": self.what != "parameter",
            "kind": self.kind,
            "masked_only": self.masked_only,
            "capsule": None,
            "operation": self.operation,
            "site": self.site,
            "repeats": None,
            "why_not": self.why_not,
        }


@dataclass(frozen=True, slots=True, eq=False)
class SuspectOperation:
    """The operation, of those that nobody could look between the likeliest, and what it made."""

    operation: Operation
    counts: Counts
    others: tuple[Operation, ...] = ()


@dataclass(slots=True, eq=False)
class OperationFlow:
    """Which operation made which tensor, and what is known of it; all by the id of a tensor.

    `checked`: those that were looked at; None when all were. What was not looked at, because TensorFlow
    merges
    the operations around it into one, counts as a part of whatever reads it.
    """

    makers: Mapping[int, Operation]
    bad: Mapping[int, Counts]
    checked: Set[int] | None = None

    def culprit(self, ends: Iterable[Any]) -> SuspectOperation | None:
        """From results that are no numbers back to the operation that made such of ordinary numbers.

        What nobody used is not met on the way. Of several the first is taken; of one that made -infinity
        alone, as masks are made, only when there is no other.
        """
        waiting = [each for each in ends if id(each) in self.bad]
        seen = set(map(id, waiting))
        found: list[SuspectOperation] = []
        while waiting:
            tensor = waiting.pop()
            maker = self.makers.get(id(tensor))
            if maker is None:
                continue
            sources, merged = self._sources(maker)
            if not sources:
                likely = likeliest(merged)
                found.append(
                    SuspectOperation(
                        likely, self.bad[id(tensor)], tuple(each for each in merged if each is not likely)
                    )
                )
            for each in sources:
                if id(each) not in seen:
                    seen.add(id(each))
                    waiting.append(each)
        return min(found, key=lambda each: (not any(each.counts[1:]), each.operation.order), default=None)

    def _sources(self, maker: Operation) -> tuple[list[Any], list[Operation]]:
        """Its bad inputs, looked for through those that are not known; and the operations on the way."""
        merged, sources, seen = [maker], [], {id(maker)}
        for operation in merged:  # which grows meanwhile
            for each in operation.inputs:
                if id(each) in self.bad:
                    sources.append(each)
                elif self._is_unknown(each):
                    before = self.makers[id(each)]
                    if id(before) not in seen:
                        seen.add(id(before))
                        merged.append(before)
        return sources, merged

    def _is_unknown(self, tensor: Any) -> bool:
        return self.checked is not None and id(tensor) not in self.checked and id(tensor) in self.makers


def likeliest(merged: Sequence[Operation]) -> Operation:
    """Of several operations the one that can make NaN of ordinary numbers most easily."""
    return min(merged, key=lambda each: (risk(each.kind), each.order))


def risk(kind: str) -> int:
    """The smaller, the likelier."""
    return RISKY.index(kind) if kind in RISKY else len(RISKY)


def is_harmless(kind: str) -> bool:
    """Whether it makes NaN or infinity only of numbers that are too big: mostly it was given them."""
    return risk(kind) >= RISKY.index("Square")


def word_of(counts: Counts) -> str:
    _, positive, nan = counts
    return "NaN" if nan else "Inf" if positive else "-Inf"
