"""Without a compiler the reader works on its twins: every view is the same."""

from __future__ import annotations

from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tb_netdebug.core.eventlog.reader import scanner
from tb_netdebug.core.eventlog.reader.followed_run import FollowedRun
from tb_netdebug.core.eventlog.reader.growing import Growing
from tb_netdebug.core.eventlog.writer.values import histogram, scalar
from tb_netdebug.core.records.step import Kind
from tests.support.event_files import framed
from tests.support.recorded import ACTIVATION, WEIGHT, opened, record, write


def seen(run: FollowedRun) -> list[Any]:
    """One view of each sort, near and from afar."""
    return [
        told(view)
        for view in (
            run.scalars(["loss", "bad", "rare"], points=30),
            run.scalars(["loss"], first=100, last=200),
            run.heat(Kind.ACTIVATION, "inactive_units", columns=20),
            run.heat(Kind.TENSOR, "std"),
            run.heat(Kind.UPDATE, "ratio", columns=1000),
            run.bands(WEIGHT, columns=30),
            run.histogram(ACTIVATION, first=3, last=900),
            run.histograms(WEIGHT, columns=7),
            run.statistics_at(Kind.GRADIENT, step=500),
            {key: value for key, value in run.details().items() if key != "state"},
        )
    ]


def told(value: Any) -> Any:
    """Plain values with every bit of them, which NaN equals itself by."""
    if is_dataclass(value):
        return {field.name: told(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, dict):
        return {key: told(one) for key, one in value.items()}
    if isinstance(value, np.ndarray):
        return value.dtype.str, value.shape, value.tobytes()
    return repr(value)


@pytest.mark.parametrize("kind", ["netdebug", "summary"])
def test_the_same_views(logdir: Path, monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    """Bit for bit, of a run of ours and of one that others wrote."""
    if kind == "netdebug":
        write(logdir, [record(step, every=2) for step in range(1000)])
    else:
        table = np.array([[-1.0, 0.0, 3.0], [0.0, 2.0, 1.0]])
        values = [scalar("loss", step, 1.0, 1.0 / (1 + step)) for step in range(300)]
        values += [histogram("h", step, 1.0, table * (1 + step)) for step in range(0, 300, 10)]
        (logdir / "events.out.tfevents.1700000000.host").write_bytes(framed(values))
    native = seen(opened(logdir))
    monkeypatch.setattr(scanner, "native", scanner.Twin())
    assert native == seen(opened(logdir))


def test_columns_that_grow_while_others_look() -> None:
    """What was handed out stays as it was, and the room of a long run is given back."""
    column = Growing(np.int64)
    looks = []
    for start in range(0, 1000, 10):
        column.add(np.arange(start, start + 10))
        looks.append(column.view)
    column.trim()
    assert list(range(1000)) == column.view.tolist()
    assert [list(range(10 * (at + 1))) for at in range(100)] == [look.tolist() for look in looks]
    assert 1000 <= len(column._data) <= 1250
