"""What was measured, as data: the shape of results.json."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

SCHEMA = 1
# What a number depends on.
DESCRIBING = ("processor", "memory", "system", "Python", "torch", "numpy", "tensorboard")


class UnknownResultsError(ValueError):
    """The file was written by another version of the benchmarks."""


@dataclass(frozen=True, slots=True)
class Promise:
    """A number that is promised, with what was measured; `at_most` says on which side it has to stay."""

    text: str
    measured: float
    limit: float
    unit: str
    at_most: bool

    @property
    def is_kept(self) -> bool:
        """A number that is not finite keeps no promise."""
        if self.at_most:
            return self.measured <= self.limit
        return self.measured >= self.limit


@dataclass(frozen=True, slots=True)
class Column:
    """`better` is "less", "more" or nothing; it decides the direction in which numbers are rounded."""

    title: str
    digits: int = 0
    better: str = ""


@dataclass(frozen=True, slots=True)
class Row:
    """None stands for what was not measured, or does not exist on this machine."""

    title: str
    values: list[float | None]
    is_ours: bool = False


@dataclass(frozen=True, slots=True)
class Table:
    title: str
    columns: list[Column]
    rows: list[Row]


@dataclass(frozen=True, slots=True)
class Part:
    """One of the benchmarks; `method` says how its numbers came about and which of them is the headline.

    `date` is the day when it was measured, and `elsewhere` the machine, where that is another one.
    """

    name: str
    title: str
    method: str
    rounds: int
    secs: float
    promises: list[Promise]
    tables: list[Table]
    date: str = ""
    elsewhere: str = ""


@dataclass(frozen=True, slots=True)
class Results:
    """One run of the benchmarks on one machine; `machine` is what describes it, by name. What is compared is
    compared within a part, so parts of an earlier run may stand beside those of this one."""

    date: str
    is_quick: bool
    secs: float
    machine: dict[str, str]
    parts: list[Part] = field(default_factory=list)

    @property
    def promises(self) -> list[Promise]:
        return [promise for part in self.parts for promise in part.promises]

    def updated(self, later: Results, order: Sequence[str]) -> Results:
        """With the parts of a later run in the place of ours, or beside them."""
        told = "; ".join(value for name, value in self.machine.items() if name in DESCRIBING)
        is_same = all(self.machine.get(name) == later.machine.get(name) for name in DESCRIBING)
        kept = {
            each.name: replace(
                each, date=each.date or self.date, elsewhere=each.elsewhere or ("" if is_same else told)
            )
            for each in self.parts
        }
        kept |= {each.name: replace(each, date=later.date) for each in later.parts}
        return replace(later, parts=[kept[name] for name in order if name in kept])

    def write(self, path: Path) -> None:
        data = {"schema": SCHEMA, **asdict(self)}
        for part, made in zip(data["parts"], self.parts, strict=True):
            for promise, source in zip(part["promises"], made.promises, strict=True):
                promise["kept"] = source.is_kept
        # No NaN or infinity, which are no JSON: the benchmarks end with an error rather than write one.
        path.write_text(
            json.dumps(data, indent=1, allow_nan=False, ensure_ascii=False) + "\n", encoding="utf-8"
        )

    @classmethod
    def read(cls, path: Path) -> Results:
        """Raises UnknownResultsError."""
        data = json.loads(path.read_text(encoding="utf-8"))
        if data.pop("schema", None) != SCHEMA:
            raise UnknownResultsError(f"{path.name} is not of schema {SCHEMA}: run `make bench` anew")
        return cls(**{**data, "parts": [_part(each) for each in data["parts"]]})


def _part(data: Mapping[str, Any]) -> Part:
    promises = [{name: value for name, value in each.items() if name != "kept"} for each in data["promises"]]
    return Part(
        **{
            **data,
            "promises": [Promise(**each) for each in promises],
            "tables": [_table(each) for each in data["tables"]],
        }
    )


def _table(data: Mapping[str, Any]) -> Table:
    columns = [Column(**each) for each in data["columns"]]
    return Table(data["title"], columns, [Row(**each) for each in data["rows"]])
