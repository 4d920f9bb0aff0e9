"""Record TensorFlow operations one by one, and decide which of them caused a NaN."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Any

from tb_netdebug.core.records.facts import NonfiniteFact

# Operations that can turn finite values into NaN or infinity, the likeliest first, by their TensorFlow names.
RISKY = (
    "SqrtGrad", "RsqrtGrad", "ReciprocalGrad", "Log", "Log1p", "Sqrt", "Rsqrt",
    "RealDiv", "Div", "Reciprocal", "Pow", "Exp", "Expm1",
    "Acos", "Asin", "Atanh", "Xlogy", "Lgamma",
    "Square", "Mul", "Cast", "MatMul", "BatchMatMulV2", "Conv2D", "Sum", "Mean", "Sub", "AddV2",
)  # fmt: skip

# The numbers of values that are -infinity, +infinity and NaN.
Counts = tuple[int, int, int]


@dataclass(frozen=True, slots=True, eq=False)
class Operation:
    """One operation that was executed, or added to a graph."""

    order: int
    kind: str
    name: str
    layer: Any
    """The innermost running layer (`layers.Layer`); None outside all layers."""
    site: str
    inputs: tuple[Any, ...]
    outputs: tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class NonFiniteStart:
    """The origin of the first non-finite value among those that reached the result.

    `what` is "output" of a layer, "input", "parameter", "loss", or "gradient" if the value arose in the
    backward pass. `why_not` says why this operation cannot be told from its neighbours; "" if it can.
    """

    what: str
    where: str
    class_name: str
    kind: str
    operation: str
    site: str = ""
    masked_only: bool = False
    why_not: str = ""

    def as_fact(self) -> NonfiniteFact:
        return NonfiniteFact(
            where=self.where,
            class_name=self.class_name,
            what=self.what,
            inputs_finite=self.what != "input",
            parameters_finite=self.what != "parameter",
            kind=self.kind,
            masked_only=self.masked_only,
            operation=self.operation,
            site=self.site,
            why_not=self.why_not,
        )


@dataclass(frozen=True, slots=True, eq=False)
class SuspectOperation:
    """The likeliest of several operations that could not be told apart, and the counts of their output."""

    operation: Operation
    counts: Counts
    others: tuple[Operation, ...] = ()


@dataclass(slots=True, eq=False)
class OperationFlow:
    """The graph of operations: which made which tensor, and what is known of it, all by tensor id.

    `checked` holds the tensors that were inspected; None means all. A tensor that was not inspected, because
    TensorFlow fuses the operations around it, counts as a part of whatever reads it.
    """

    makers: Mapping[int, Operation]
    bad: Mapping[int, Counts]
    checked: Set[int] | None = None

    def culprit(self, ends: Iterable[Any]) -> SuspectOperation | None:
        """Walk back from bad results to the operation that made non-finite values from finite ones.

        Tensors that nothing used are not on the way. Of several candidates the first executed wins; one that
        made only -infinity, as masks do, is chosen only if there is no other.
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
        """Return the bad inputs of an operation, also behind unchecked tensors, and the operations passed."""
        merged, sources, seen = [maker], [], {id(maker)}
        for operation in merged:  # the list grows while it is iterated
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
    """Return the operation that turns finite values into NaN most easily."""
    return min(merged, key=lambda each: (risk(each.kind), each.order))


def risk(kind: str) -> int:
    """Return the rank of an operation; the smaller, the likelier."""
    return RISKY.index(kind) if kind in RISKY else len(RISKY)


def is_harmless(kind: str) -> bool:
    """Return whether it makes NaN or infinity only from values that are too big: mostly they came in bad."""
    return risk(kind) >= RISKY.index("Square")


def word_of(counts: Counts) -> str:
    _, positive, nan = counts
    return "NaN" if nan else "Inf" if positive else "-Inf"
