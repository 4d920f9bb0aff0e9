"""Judges runs that another writer recorded for TensorBoard, by their scalars and histograms."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from tb_netdebug.checks.engine import Engine
from tb_netdebug.checks.evaluation import is_evaluation
from tb_netdebug.checks.evidence.loss_curves import loss_of
from tb_netdebug.checks.history import History
from tb_netdebug.core.eventlog.reader.errors import ReaderError
from tb_netdebug.core.eventlog.reader.followed_run import FollowedRun
from tb_netdebug.core.eventlog.reader.views import BandView, ScalarColumns
from tb_netdebug.core.records.scalar_names import GRADIENT_NORM, LOSS, name_of_own, name_of_rate
from tb_netdebug.core.records.step import Kind, Sample, Series, StepRecord
from tb_netdebug.core.stats.packed import HEADER

RECORDED_BY_OTHERS = (
    "this run was recorded by another writer, so only its curves and histograms are judged; to have the "
    "network itself checked, record with `netdebug run SCRIPT` or nd.watch(model, optimizer)"
)
MOST_TAGS = 1000
MOST_POINTS = 10_000  # the most that the reader returns
LOOKS = 64


def word(pattern: str) -> re.Pattern[str]:
    """Return a pattern that matches a whole word of a tag, in either case."""
    return re.compile(rf"(?<![a-z])({pattern})(?![a-z])", re.IGNORECASE)


# Tags that other writers use for what the checks know under a name of their own.
KINDS: Sequence[tuple[Kind, re.Pattern[str]]] = (
    (Kind.GRADIENT, word("grads?|gradients?")),
    (Kind.ACTIVATION, word("activations?|outputs?")),
    (Kind.WEIGHT, word("weights?|kernels?|bias|biases|params?|parameters?")),
)
SCALARS: Sequence[tuple[str, re.Pattern[str]]] = (
    (GRADIENT_NORM, word("(total_?)?grad(ient)?s?[_ -]?norm")),
    (name_of_rate(0), word("lr|learning[_ -]?rate")),
    (LOSS, word("(train(ing)?[_ -]?)?loss")),
)


def judged(run: FollowedRun, checks: Mapping[str, Any] | None = None) -> Engine:
    """Return an engine that has judged the whole run."""
    engine = Engine(checks)
    engine.feed(records_of(run))
    engine.finish()
    return engine


def tells_of_training(history: History) -> bool:
    """Return whether the run holds anything by which a check can tell a sick network from a healthy one."""
    tensors = (history.weights, history.gradients, history.activations)
    return (
        loss_of(history) is not None
        or history.curve(GRADIENT_NORM) is not None
        or any(each.has_values for each in tensors)
    )


def records_of(run: FollowedRun) -> Iterator[StepRecord]:
    """Return the run as step records: its scalars under our names, its histograms as samples.

    They come in the order of their steps.
    """
    details = run.details()
    records: dict[int, StepRecord] = {}
    names = list(details["scalars"])[:MOST_TAGS]
    ours = names_of(names)
    for name, columns in run.scalars(names, points=MOST_POINTS).scalars.items():
        for step, time, value in points_of(columns):
            record = records.setdefault(step, StepRecord(step, time))
            record.scalars[ours[name]] = value
    for listed in list(details["series"])[:MOST_TAGS]:
        known = Series(Kind[listed["kind"].upper()], listed["name"])
        series = Series(kind_of(known.name), known.name)
        try:
            view = run.bands(known, columns=LOOKS)
        except ReaderError:
            continue
        for step, summary in looks_of(view):
            record = records.setdefault(step, StepRecord(step, 0.0))
            record.samples.append(Sample(series, summary))
    return iter(sorted(records.values(), key=lambda record: record.step))


def names_of(tags: Sequence[str]) -> dict[str, str]:
    """Return the name of the scalar for each tag.

    The shortest tag that matches a name of ours gets that name; any other keeps its own, as "scalar/TAG".
    Tags of an evaluation never match.
    """
    found = {tag: name_of_own(tag) for tag in tags}
    taken: dict[str, str] = {}
    for tag in sorted(tags, key=len):  # shortest first: "loss" before "loss/regularisation"
        if is_evaluation(tag):
            continue
        for name, pattern in SCALARS:
            if name not in taken and pattern.search(tag):
                taken[name] = tag
                found[tag] = name
                break
    return found


def kind_of(name: str) -> Kind:
    """Return what a histogram shows, judged by its tag."""
    return next((kind for kind, pattern in KINDS if pattern.search(name)), Kind.TENSOR)


def points_of(columns: ScalarColumns) -> Iterator[tuple[int, float, float]]:
    """Yield step, time and value of each bucket: its mean, or its last value when any is non-finite."""
    # The mean is over the finite values only, so it would hide a NaN.
    values = np.where(columns.bad > 0, columns.end, columns.mean)
    for step, time, value in zip(columns.last, columns.time, values, strict=True):
        yield int(step), float(time), float(value)


def looks_of(view: BandView) -> Iterator[tuple[int, bytes]]:
    """Yield a packed summary of each step, without bins.

    Bins of other writers have other bounds than ours.
    """
    told = view.statistics
    for place, step in enumerate(view.last):
        number = {name: float(values[place]) for name, values in told.items()}
        count = number["count"]
        if not count > 0:
            continue
        # The statistics are shares and averages; the header of a summary holds counts and sums.
        finite = count - number["nan"] - number["pos_inf"] - number["neg_inf"]
        whole = (count, number["nan"], number["pos_inf"], number["neg_inf"], number["zeros"] * count, 0.0)
        yield (
            int(step),
            HEADER.pack(
                *(int(each) if each == each else 0 for each in whole),
                number["min"],
                number["max"],
                number["mean"] * finite,
                number["rms"] ** 2 * finite,
            ),
        )
