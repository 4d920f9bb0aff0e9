"""The runs of a TensorBoard elsewhere: what its NetDebug has read, asked for by HTTP."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

import numpy as np

from tb_netdebug.cli.distant_columns import Columns, answer_of
from tb_netdebug.core.eventlog.reader.views import ScalarColumns, ScalarView, TableView
from tb_netdebug.core.records.step import Kind
from tb_netdebug.debugger.client.client import ClientError, TrainingGoneError
from tb_netdebug.debugger.client.http_client import HttpClient
from tb_netdebug.debugger.client.hub_address import HubAddress

# Each is a request: what a person sees need not be newer, and the way there may be long.
LIST_SECS = 2.0
RUN_SECS = 1.0
# What the route takes at once.
MOST_NAMES = 200
_SCALAR_FIELDS = ("step", "last", "time", "samples", "mean", "min", "max", "bad", "end", "count")


class DistantError(OSError):
    """What was asked for did not come; a sentence."""


@dataclass(frozen=True, slots=True)
class DistantRow:
    """A run in the list."""

    started: float
    told: Mapping[str, Any]


class DistantRuns:
    """As watched_source.Source. What it cannot get is a complaint, and asked for again."""

    def __init__(self, address: HubAddress) -> None:
        self.runs: dict[str, DistantRow] = {}
        self.complaints: list[str] = []
        self._client = HttpClient(address, label="netdebug watch", environ=os.environ)
        self._opened: dict[str, DistantRun] = {}
        self._due = 0.0

    def connect(self) -> None:
        """The first look. Raises DistantError when there is nothing to look at."""
        self._list()

    def refresh(self) -> None:
        if time.monotonic() < self._due:
            return
        try:
            self._list()
        except DistantError as error:
            self.complaints = [f"{error} Trying again."]

    def open(self, name: str) -> DistantRun:
        if name not in self._opened:
            self._opened[name] = DistantRun(self, name)
        return self._opened[name]

    def glance(self, name: str) -> Mapping[str, Any]:
        """Of a run that TensorBoard has not read yet, it is asked to do so."""
        told = self.runs[name].told
        return told if told["steps"] is not None else self.read_json(route_of(name))

    def close(self) -> None:
        """Nothing stays open between two requests."""

    def read_json(self, route: str) -> dict[str, Any]:
        """Raises DistantError, or KeyError for a run that is not there any more."""
        try:
            told = json.loads(self._read(route))
        except (ValueError, RecursionError):
            raise DistantError("The answer is no JSON.") from None
        if not isinstance(told, dict):
            raise DistantError("The answer is no JSON object.")
        return told

    def read_columns(self, query: Mapping[str, Any]) -> tuple[dict[str, Any], Columns]:
        """Raises DistantError, or KeyError for a run that is not there any more."""
        try:
            return answer_of(self._read(f"columns?q={quote(json.dumps([query]))}"))
        except ValueError as error:
            raise DistantError(f"The numbers did not come: {error}") from None

    def _list(self) -> None:
        self._due = time.monotonic() + LIST_SECS
        told = self.read_json("runs")
        try:
            self.runs = {row["name"]: DistantRow(float(row["started"]), row) for row in told["runs"]}
            self.complaints = [str(each) for each in told["complaints"]]
        except (KeyError, TypeError, ValueError):
            raise DistantError("The list of runs is none that this version knows.") from None

    def _read(self, route: str) -> bytes:
        try:
            return self._client.read(route)
        except TrainingGoneError as error:
            raise KeyError(str(error)) from None
        except ClientError as error:
            raise DistantError(str(error)) from None


class DistantRun:
    """As watched_source.WatchedRun."""

    def __init__(self, runs: DistantRuns, name: str) -> None:
        self.name = name
        self._runs = runs
        self._told: dict[str, Any] = {}
        self._due = 0.0

    @property
    def version(self) -> int:
        return int(self._told["version"])

    def refresh(self) -> None:
        if not self._told or time.monotonic() >= self._due:
            self._told = self._runs.read_json(route_of(self.name))
            self._due = time.monotonic() + RUN_SECS

    def details(self) -> dict[str, Any]:
        """JSON has no NaN: it comes as text."""
        last_time = self._told["last_time"]
        return {**self._told, "last_time": None if last_time is None else float(last_time)}

    def scalars(self, names: Sequence[str], *, first: int | None = None, points: int = 1000) -> ScalarView:
        query = {"what": "scalars", "run": self.name, "names": list(names[:MOST_NAMES]), "points": points}
        if first is not None:
            query["first"] = max(first, 0)
        head, columns = self._runs.read_columns(query)
        found = {
            name: ScalarColumns(*(columns[f"{name}\0{each}"] for each in _SCALAR_FIELDS))
            for name in names
            if f"{name}\0step" in columns
        }
        return ScalarView(int(head.get("level", 0)), found)

    def statistics_at(self, kind: Kind) -> TableView:
        query = {"what": "table", "run": self.name, "kind": kind.name.lower()}
        head, columns = self._runs.read_columns(query)
        statistics = {
            path.partition("\0")[2]: column
            for path, column in columns.items()
            if path.startswith("statistics\0")
        }
        return TableView(list(head["names"]), columns.get("steps", np.empty(0)), statistics)


def route_of(name: str) -> str:
    return f"run?run={quote(name, safe='')}"
