"""The messages between the processes: samples of sharded tensors, and what the checks compare."""

from __future__ import annotations

import json
import struct
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tb_netdebug.core.records.step import Fact, Kind, Sample, Series, StepRecord
from tb_netdebug.core.stats import kernel
from tb_netdebug.core.stats.packed import HEADER

_LENGTH = struct.Struct("<Q")


@dataclass(slots=True)
class RankMessage:
    """One message: `parts` are packed summaries, `told` are the last steps of each process."""

    parts: dict[Series, bytes] = field(default_factory=dict)
    told: dict[int, list[StepRecord]] = field(default_factory=dict)

    def pack(self) -> bytes:
        """Return the bytes: a JSON head with all names, then the summaries."""
        summaries: list[bytes] = [*self.parts.values()]
        head: dict[str, Any] = {
            "parts": [_place(series, summary) for series, summary in self.parts.items()],
            "told": {},
        }
        for rank, records in self.told.items():
            head["told"][rank] = [
                [
                    each.step,
                    each.wall_time,
                    each.scalars,
                    [_place(sample.series, sample.summary) for sample in each.samples],
                    [[fact.kind, fact.data] for fact in each.facts],
                ]
                for each in records
            ]
            summaries += [sample.summary for each in records for sample in each.samples]
        text = json.dumps(head).encode()
        return b"".join((_LENGTH.pack(len(text)), text, *summaries))

    @classmethod
    def unpack(cls, data: bytes) -> RankMessage:
        """Read a letter from the bytes that `pack` returned."""
        (length,) = _LENGTH.unpack_from(data)
        at = _LENGTH.size + length
        head = json.loads(data[_LENGTH.size : at])
        cut = _Cutter(data, at)
        letter = cls(dict(cut.all(head["parts"])))
        for rank, records in head["told"].items():
            letter.told[int(rank)] = [
                StepRecord(
                    step,
                    time,
                    scalars,
                    [Sample(*each) for each in cut.all(places)],
                    [Fact(*each) for each in facts],
                )
                for step, time, scalars, places, facts in records
            ]
        return letter


def merged(letters: Sequence[bytes]) -> bytes:
    """Return one letter made of several.

    They come in the order of their processes, so that sums are always added in the same order.
    """
    whole = RankMessage()
    parts: dict[Series, list[bytes]] = {}
    for each in map(RankMessage.unpack, letters):
        whole.told.update(each.told)
        for series, summary in each.parts.items():
            parts.setdefault(series, []).append(summary)
    whole.parts = {series: kernel.merge(several) for series, several in parts.items()}
    return whole.pack()


def without_bins(records: Iterable[StepRecord]) -> list[StepRecord]:
    """Return the records with bare summaries: of weights, the checks compare only the sums."""
    return [
        StepRecord(
            each.step,
            each.wall_time,
            each.scalars,
            [Sample(sample.series, sample.summary[: HEADER.size]) for sample in each.samples],
            each.facts,
        )
        for each in records
    ]


def squares(summaries: Mapping[Series, bytes]) -> float:
    """Return the sum of squares of all gradients."""
    of_gradients = [summary for series, summary in summaries.items() if series.kind is Kind.GRADIENT]
    return float(sum(HEADER.unpack_from(summary)[-1] for summary in of_gradients))


class _Cutter:
    """Cuts the summaries off the end of a letter, in the order of its head."""

    def __init__(self, data: bytes, at: int) -> None:
        self._data = data
        self._at = at

    def all(self, places: Sequence[Sequence[Any]]) -> Iterable[tuple[Series, bytes]]:
        """Yield each series with its summary."""
        for kind, name, length in places:
            summary = self._data[self._at : self._at + length]
            self._at += length
            yield Series(Kind(kind), name), summary


def _place(series: Series, summary: bytes) -> list[Any]:
    return [int(series.kind), series.name, len(summary)]
