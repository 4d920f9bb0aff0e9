"""The description and the scalars of a recorded run; `recorded_views.py` adds the tensors."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from tb_netdebug.core.eventlog.reader import scalar_view
from tb_netdebug.core.eventlog.reader.recording import Recording
from tb_netdebug.core.eventlog.reader.scalar_rows import ScalarSource
from tb_netdebug.core.eventlog.reader.timeline import TimelinePiece
from tb_netdebug.core.eventlog.reader.views import ScalarView
from tb_netdebug.core.records.step import Kind

# How many blocks to search for a newest value, growing: some scalars are not measured in every step.
_LAST_BLOCKS = (8, 64, 400)
_NEWEST = ("loss", "monitor/every", "monitor/overhead")
# More names than this are read in several rounds, so that memory stays bounded.
_NAMES_AT_ONCE = 32


class RecordedScalars:
    """All views of a recorded run except those of tensors."""

    def __init__(self, recording: Recording) -> None:
        self.recording = recording

    def scalars(
        self, names: Sequence[str], first: int | None, last: int | None, points: int, rank: int
    ) -> ScalarView:
        recording = self.recording
        stored = recording.catalogue.scalars
        known = [name for name in dict.fromkeys(names) if name in stored]
        pieces = recording.pieces(rank, first, last)
        if not known or not pieces:
            return ScalarView(0, {})
        level = scalar_view.level_for(pieces, points, recording.levels(pieces))
        before = self._seen_before(rank, pieces[0].first)
        found = {}
        for start in range(0, len(known), _NAMES_AT_ONCE):
            some = known[start : start + _NAMES_AT_ONCE]
            wanted = dict.fromkeys([*(stored[name] for name in some), scalar_view.BATCH_SIZE])
            source = ScalarSource(recording.reader, list(wanted))
            columns = scalar_view.scalar_columns(source, pieces, level, points, before)
            found.update({name: one for name, one in zip(some, columns, strict=False) if len(one.step)})
        return ScalarView(level, found)

    def _seen_before(self, rank: int, step: int) -> float:
        """Return how many training samples the steps before this one had."""
        earlier = self.recording.pieces(rank, None, step - 1)
        if not earlier:
            return 0.0
        source = ScalarSource(self.recording.reader, [scalar_view.BATCH_SIZE])
        rows = source.rows(earlier, max(self.recording.levels(earlier), default=0))
        return float(np.nansum(scalar_view.one_of(rows, 0).sum))

    def newest(self, names: Sequence[str], rank: int) -> dict[str, float]:
        """Return the last value of each name, if one of the last blocks has any."""
        found: dict[str, float] = {}
        pieces = self.recording.pieces(rank)
        for blocks in _LAST_BLOCKS:
            missing = [
                name for name in names if name in self.recording.catalogue.scalars and name not in found
            ]
            if missing and pieces:
                found |= self._newest(missing, pieces[-1], blocks)
        return found

    def _newest(self, names: Sequence[str], piece: TimelinePiece, blocks: int) -> dict[str, float]:
        spans = piece.stretch.blocks(0, piece.first, piece.last)[-blocks:]
        tail = piece.part(int(spans["first"][0]), None) if len(spans) else None
        stored = self.recording.catalogue.scalars
        source = ScalarSource(self.recording.reader, [stored[name] for name in names])
        rows = source.rows([tail] if tail else [], 0)
        ones = [scalar_view.one_of(rows, at) for at in range(len(names))]
        return {name: float(one.end[0, -1]) for name, one in zip(names, ones, strict=True) if len(one)}

    def times(self, rank: int) -> tuple[float | None, float | None]:
        """Return the wall times of the first and the last step."""
        recording = self.recording
        pieces = recording.pieces(rank)
        if not pieces:
            return None, None
        source = ScalarSource(recording.reader, [])
        ends = [
            pieces[0].part(pieces[0].first, pieces[0].first),
            pieces[-1].part(pieces[-1].last, pieces[-1].last),
        ]
        rows = [source.rows([end] if end else [], 0) for end in ends]
        first, last = (float(one.time[0]) if len(one) else None for one in rows)
        return first, last

    def described(self) -> dict[str, Any]:
        """Return the part of `details` that depends on who recorded the run."""
        recording = self.recording
        rank = next(iter(recording.ranks), 0)
        pieces = recording.pieces(rank)
        newest = self.newest(_NEWEST, rank)
        graph = recording.graph()
        first_time, last_time = self.times(rank)
        return {
            "first_step": pieces[0].first if pieces else None,
            "last_step": pieces[-1].last if pieces else None,
            "steps": recording.steps(rank),
            "loss": newest.get("loss"),
            "ranks": recording.ranks,
            "info": recording.info(),
            "scalars": list(recording.catalogue.scalars),
            "series": [
                {"kind": kind.name.lower(), "name": series.name}
                for kind in Kind
                for series in recording.catalogue.of_kind(kind, graph)
            ],
            "sampled_every": whole(newest.get("monitor/every")),
            "overhead": newest.get("monitor/overhead"),
            "has_graph": graph is not None,
            "first_time": first_time,
            "last_time": last_time,
        }


def whole(number: float | None) -> int | None:
    return int(number) if number is not None and math.isfinite(number) else None
