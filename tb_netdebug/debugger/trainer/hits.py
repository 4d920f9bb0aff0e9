"""The hits of watchpoints, in the order of execution."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, replace
from itertools import islice

from tb_netdebug.debugger.place import Place
from tb_netdebug.debugger.protocol.statements import HitJson, place_json

MOST_HITS = 1000


@dataclass(frozen=True, slots=True)
class Hit:
    """One hit. `number` counts all hits of a run from 1 on; `watchpoint` is its id."""

    step: int
    place: Place
    watchpoint: int
    tensor: str
    kind: str
    statistic: str
    comparison: str
    threshold: float | None
    actual: float
    advice: str
    number: int = 0

    def as_dict(self) -> HitJson:
        return {
            "number": self.number,
            "step": self.step,
            "watchpoint": self.watchpoint,
            "tensor": self.tensor,
            "kind": self.kind,
            "statistic": self.statistic,
            "comparison": self.comparison,
            "threshold": self.threshold,
            "actual": self.actual,
            "advice": self.advice,
            "place": place_json(self.place),
        }

    @property
    def sentence(self) -> str:
        """The hit as a sentence for the user whose run has stopped."""
        if self.threshold is None:
            return f"{self.tensor} holds {self.actual:.0f} values that are NaN or infinite"
        way = "above" if self.comparison == ">" else "below"
        return f"{self.statistic} of {self.tensor} is {self.actual:.4g}, {way} {self.threshold:.4g}"


class HitList:
    """The newest hits; of older ones only the count is kept."""

    def __init__(self) -> None:
        self._hits: deque[Hit] = deque(maxlen=MOST_HITS)
        self.count = 0

    @property
    def dropped(self) -> int:
        """How many of the counted hits are no longer there: too old, or cleared."""
        return self.count - len(self._hits)

    def add(self, hit: Hit) -> Hit:
        self.count += 1
        numbered = replace(hit, number=self.count)
        self._hits.append(numbered)
        return numbered

    def clear(self) -> None:
        """Remove all hits; numbers continue from where they are."""
        self._hits.clear()

    def since(self, number: int, most: int) -> list[HitJson]:
        """Return the first `most` hits after this number."""
        first = self.count - len(self._hits)
        return [hit.as_dict() for hit in islice(self._hits, max(number - first, 0), None)][: max(most, 0)]
