"""Operations of TensorFlow that were followed one by one, and which of them is to blame for a NaN."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

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
class Followed:
    """What has made the first value that is no number, of those that got into the result.

    `what`: "output" of a layer, "input", "parameter", "loss", or "gradient" when it came up on the way back.
    """

    what: str
    where: str
    class_name: str
    kind: str
    operation: str
    site: str = ""
    masked_only: bool = False

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
        }


def culprit(
    ends: Iterable[Any], bad: Mapping[int, Counts], makers: Mapping[int, Operation]
) -> tuple[Operation, Counts] | None:
    """From results that are no numbers back to the operation that made such of ordinary numbers.

    What nobody used is not met on the way. Of several the first is taken; of one that made -infinity alone,
    as masks are made, only when there is no other. `bad` and `makers` are by the id of a tensor.
    """
    waiting = [each for each in ends if id(each) in bad]
    seen = set(map(id, waiting))
    found: list[tuple[Operation, Counts]] = []
    while waiting:
        tensor = waiting.pop()
        maker = makers.get(id(tensor))
        if maker is None:
            continue
        sources = [each for each in maker.inputs if id(each) in bad]
        if not sources:
            found.append((maker, bad[id(tensor)]))
        for each in sources:
            if id(each) not in seen:
                seen.add(id(each))
                waiting.append(each)
    return min(found, key=lambda each: (not any(each[1][1:]), each[0].order), default=None)


def word_of(counts: Counts) -> str:
    _, positive, nan = counts
    return "NaN" if nan else "Inf" if positive else "-Inf"
