"""The runs of a TensorBoard on another machine, asked for over HTTP.

Implements the protocols of `watched_source.py` for `netdebug watch HOST:PORT`.
"""

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

# Each refresh is a request over a possibly slow network, and a person does not need newer numbers than this.
LIST_SECS = 2.0
RUN_SECS = 1.0
# The limit of the route for one request.
MOST_NAMES = 200
_SCALAR_FIELDS = ("step", "last", "time", "samples", "mean", "min", "max", "bad", "end", "count")


class DistantError(OSError):
    """A request failed; the message is a sentence for the user."""


@dataclass(frozen=True, slots=True)
class DistantRow:
    """One run of the list."""

    started: float
    told: Mapping[str, Any]


class DistantRuns:
    """A `watched_source.RunSource` over HTTP. A failed refresh becomes a complaint and is tried again."""

    def __init__(self, address: HubAddress) -> None:
        self.runs: dict[str, DistantRow] = {}
        self.complaints: list[str] = []
        self._client = HttpClient(address, label="netdebug watch", environ=os.environ)
        self._opened: dict[str, DistantRun] = {}
        self._due = 0.0

    def connect(self) -> None:
        """Fetch the list for the first time. Raise DistantError when the server cannot be reached or read."""
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
        """Return state, last step and loss of a run; if TensorBoard has not read it yet, ask it to."""
        told = self.runs[name].told
        return told if told["steps"] is not None else self.read_json(route_of(name))

    def close(self) -> None:
        """Do nothing: no connection stays open between two requests."""

    def read_json(self, route: str) -> dict[str, Any]:
        """Return the JSON object of a route. Raise DistantError, or KeyError if the run is gone."""
        try:
            told = json.loads(self._read(route))
        # RecursionError: the answer is nested too deeply.
        except (ValueError, RecursionError):
            raise DistantError("The answer is not JSON.") from None
        if not isinstance(told, dict):
            raise DistantError("The answer is not a JSON object.")
        return told

    def read_columns(self, query: Mapping[str, Any]) -> tuple[dict[str, Any], Columns]:
        """Return header and columns of a query. Raise DistantError, or KeyError if the run is gone."""
        try:
            return answer_of(self._read(f"columns?q={quote(json.dumps([query]))}"))
        except ValueError as error:
            raise DistantError(f"The numbers could not be read: {error}") from None

    def _list(self) -> None:
        # Set before the request, so that a failing server is not asked at every call.
        self._due = time.monotonic() + LIST_SECS
        told = self.read_json("runs")
        try:
            self.runs = {row["name"]: DistantRow(float(row["started"]), row) for row in told["runs"]}
            self.complaints = [str(each) for each in told["complaints"]]
        except (KeyError, TypeError, ValueError):
            raise DistantError("The list of runs has a format that this version does not know.") from None

    def _read(self, route: str) -> bytes:
        try:
            return self._client.read(route)
        except TrainingGoneError as error:
            raise KeyError(str(error)) from None
        except ClientError as error:
            raise DistantError(str(error)) from None


class DistantRun:
    """A `watched_source.WatchedRun` over HTTP."""

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
        """Return the details of the run, with `last_time` as a float.

        JSON has no NaN, so the server may send it as text.
        """
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
