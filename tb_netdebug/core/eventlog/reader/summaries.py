"""A run that another program recorded, as TensorBoard sees it: scalars and histograms by tag.

Owned by `followed_run.py`; `summary_views.py` draws it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from tb_netdebug.core.eventlog.reader.catalogue import text_of
from tb_netdebug.core.eventlog.reader.file_index import FileIndex, IndexedPiece
from tb_netdebug.core.eventlog.reader.followed_files import FollowedFiles
from tb_netdebug.core.eventlog.reader.growing import Growing
from tb_netdebug.core.eventlog.reader.storage import FileState, Storage

# Limits on all tags together, so that a run of any length takes about 150 MB at most.
MOST_POINTS = 4_000_000
MOST_POINTS_OF_A_TAG = 100_000
LEAST_POINTS_OF_A_TAG = 40
MOST_TAGS = 100_000

SCALAR = np.dtype([("step", "<i8"), ("time", "<f8"), ("value", "<f8")])
PLACE = np.dtype([("step", "<i8"), ("time", "<f8"), ("offset", "<i8"), ("length", "<u4"), ("file", "<u4")])
Table = NDArray[np.void]


@dataclass(slots=True)
class Tag:
    """The points of one tag in the order in which they came, evenly thinned out when there are too many."""

    points: Growing
    stride: int = 1
    seen: int = 0
    _sorted: tuple[int, int, Table] | None = field(default=None)

    def add(self, points: Table, most: int) -> None:
        # Keep every `stride`-th point counted from the first one ever seen, wherever this piece begins.
        start = -self.seen % self.stride
        self.seen += len(points)
        self.points.add(points[start :: self.stride])
        while len(self.points) > most:
            kept = self.points.view[::2]
            self.points = Growing(kept.dtype)
            self.points.add(kept)
            self.stride *= 2

    def by_step(self) -> Table:
        """Return the points by rising step; of several recordings of a step the newest."""
        points = self.points.view
        known = self._sorted
        if known is not None and known[:2] == (len(points), self.stride):
            return known[2]
        rising = points[np.argsort(points["step"], kind="stable")]
        is_newest = np.append(rising["step"][1:] != rising["step"][:-1], [True][: len(rising)])
        self._sorted = len(points), self.stride, rising[is_newest]
        return self._sorted[2]


class Summaries(FollowedFiles):
    """The scalars and histograms of a run, followed while its files grow.

    `scalars` and `histograms` hold the tags in the order of their first point. `sources` maps serial numbers
    to the files of the histograms.
    """

    def __init__(self, storage: Storage, path: str) -> None:
        super().__init__(storage, path)
        self.scalars: dict[str, Tag] = {}
        self.histograms: dict[str, Tag] = {}
        self.sources: dict[int, FileIndex] = {}
        self._has_gone = False

    def _take(self, file: FileIndex, state: FileState) -> None:
        for news in file.grow(state):
            self._add(file, news)

    def _drop(self, file: FileIndex) -> None:
        """Request a full reread in `_settle`: the file's points cannot be told from the others."""
        self._has_gone = True

    def _settle(self) -> None:
        if self._has_gone:
            self._has_gone = False
            self.scalars, self.histograms, self.sources = {}, {}, {}
            states = {path: file.state for path, file in self._files.items()}
            self._files = {}
            for path, state in states.items():
                if state is not None:
                    self._follow(path, state)
            self.files = tuple(self._files.values())

    def _add(self, file: FileIndex, news: IndexedPiece) -> None:
        points = news.points[np.argsort(news.points["tag"], kind="stable")]
        bounds = np.flatnonzero(np.diff(points["tag"], prepend=-1, append=-1)).tolist()
        most = self._most()
        for start, end in pairwise(bounds):
            name = text_of_tag(news.tags[int(points["tag"][start])])
            part = points[start:end]
            self._add_to(self.scalars, name, scalars_of(part[part["length"] == 0]), most)
            places = part[part["length"] > 0]
            if len(places):
                self._add_to(self.histograms, name, self._places(file, places), most)

    def _add_to(self, tags: dict[str, Tag], name: str, points: Table, most: int) -> None:
        if not len(points):
            return
        if name not in tags:
            if len(self.scalars) + len(self.histograms) >= MOST_TAGS:
                self.complaints["tags"] = f"This run has more than {MOST_TAGS} tags; the rest are left out."
                return
            tags[name] = Tag(Growing(points.dtype))
        tags[name].add(points, most)

    def _most(self) -> int:
        """Return how many points each tag may keep, which shrinks as tags are added."""
        tags = len(self.scalars) + len(self.histograms)
        return max(LEAST_POINTS_OF_A_TAG, min(MOST_POINTS_OF_A_TAG, MOST_POINTS // max(tags, 1)))

    def _places(self, file: FileIndex, points: Table) -> Table:
        self.sources[file.serial] = file
        table = np.zeros(len(points), PLACE)
        for name in ("step", "time", "offset", "length"):
            table[name] = points[name]
        table["file"] = file.serial
        return table


def scalars_of(points: Table) -> Table:
    table = np.zeros(len(points), SCALAR)
    for name in ("step", "time", "value"):
        table[name] = points[name]
    return table


def text_of_tag(tag: bytes) -> str:
    """Return the tag as text, even if it is not UTF-8: other programs may write anything."""
    try:
        return text_of(tag)
    except UnicodeDecodeError:
        return tag.decode("utf-8", "replace")
