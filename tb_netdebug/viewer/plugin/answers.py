"""Answers the queries of the `columns` route: turns the reader's views into arrays for the wire."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

import numpy as np

from tb_netdebug.core.eventlog.reader.errors import ReaderError
from tb_netdebug.core.eventlog.reader.followed_run import FollowedRun
from tb_netdebug.core.records.step import Series
from tb_netdebug.viewer.plugin.queries import Query, QueryError
from tb_netdebug.viewer.plugin.wire import SEPARATOR, Answer, Array
from tb_netdebug.viewer.plugin.workers import Workers

logger = logging.getLogger(__name__)

FAILED = "NetDebug failed to answer this. The terminal in which TensorBoard runs shows where."
# The most that the answers to one request may add up to; a page shows a few megabytes.
MOST_BYTES = 64 << 20
SCALAR_PARTS = ("step", "last", "time", "samples", "mean", "min", "max", "bad", "end", "count")
PROCESS_COLUMNS = ("time", "tree_bytes", "most_bytes", "cpu_share", "processes")
HISTOGRAM_NUMBERS = (
    "first", "last", "merged", "statistics", "nan", "pos_inf", "neg_inf", "zeros", "units_active", "units",
)  # fmt: skip

Opener = Callable[[str], FollowedRun]


def answer_all(queries: Iterable[Query | QueryError], open_run: Opener, workers: Workers) -> list[Answer]:
    """Return an answer to each query, in order; one that cannot be answered says why."""
    found: list[Answer] = []
    room = MOST_BYTES
    for query in queries:
        if isinstance(query, QueryError):
            found.append(_failure(str(query)))
        elif room <= 0:
            found.append(_failure("The answers to one request would be too big. Ask for fewer at once."))
        else:
            found.append(_answer(query, open_run, workers))
            room -= found[-1].size
    return found


def _answer(query: Query, open_run: Opener, workers: Workers) -> Answer:
    try:
        run = open_run(query.run)
    except KeyError:
        return _failure(f"There is no run {query.run[:200]!r}.")
    version = run.version  # read first: what comes meanwhile is newer
    try:
        # One query at a time, so that a small request does not wait for all queries of a big one.
        answer = workers.run(partial(_ANSWERS[query.what], run, dict(query.arguments)))
    except ReaderError as error:
        return _failure(str(error))
    except Exception:
        # The other queries of the request belong to other charts, which should still be drawn.
        logger.exception("NetDebug failed to answer %r", query)
        return _failure(FAILED)
    answer.head = {"what": query.what, "run": query.run, "version": version, **answer.head}
    return answer


def _scalars(run: FollowedRun, arguments: dict[str, Any]) -> Answer:
    view = run.scalars(arguments.pop("names"), **arguments)
    columns = {
        f"{name}{SEPARATOR}{part}": getattr(scalar, part)
        for name, scalar in view.scalars.items()
        for part in SCALAR_PARTS
    }
    return Answer({"level": view.level}, columns)


def _heat(run: FollowedRun, arguments: dict[str, Any]) -> Answer:
    view = run.heat(arguments.pop("kind"), arguments.pop("statistic"), **arguments)
    return Answer({"names": view.names}, {"first": view.first, "last": view.last, "values": view.values})


def _bands(run: FollowedRun, arguments: dict[str, Any]) -> Answer:
    view = run.bands(_series(arguments), **arguments)
    columns = {"first": view.first, "last": view.last, "quantiles": view.quantiles}
    return Answer({}, columns | _statistics(view.statistics))


def _histogram(run: FollowedRun, arguments: dict[str, Any]) -> Answer:
    view = run.histogram(_series(arguments), **arguments)
    # No sample at or before the end of the range: the page knows by the missing columns.
    if view is None:
        return Answer({"merged": 0})
    head = {name: getattr(view, name) for name in HISTOGRAM_NUMBERS}
    return Answer(head, {"lower": view.lower, "upper": view.upper, "counts": view.counts})


def _histograms(run: FollowedRun, arguments: dict[str, Any]) -> Answer:
    view = run.histograms(_series(arguments), **arguments)
    names = ("first", "last", "offsets", "lower", "upper", "counts", "nonfinite")
    return Answer({}, {name: getattr(view, name) for name in names})


def _table(run: FollowedRun, arguments: dict[str, Any]) -> Answer:
    view = run.statistics_at(arguments.pop("kind"), **arguments)
    return Answer({"names": view.names}, {"steps": view.steps, **_statistics(view.statistics)})


def _processes(run: FollowedRun, arguments: dict[str, Any]) -> Answer:
    course = run.processes(**arguments)
    return Answer({}, {name: getattr(course, name) for name in PROCESS_COLUMNS})


def _series(arguments: dict[str, Any]) -> Series:
    return Series(arguments.pop("kind"), arguments.pop("name"))


def _statistics(columns: dict[str, Any]) -> dict[str, Array]:
    return {f"statistics{SEPARATOR}{name}": np.asarray(values) for name, values in columns.items()}


def _failure(sentence: str) -> Answer:
    return Answer({"error": sentence})


_ANSWERS: dict[str, Callable[[FollowedRun, dict[str, Any]], Answer]] = {
    "scalars": _scalars,
    "heat": _heat,
    "bands": _bands,
    "histogram": _histogram,
    "histograms": _histograms,
    "table": _table,
    "processes": _processes,
}
