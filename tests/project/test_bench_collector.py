"""The load on the collector that `make bench` makes: it is what it says it is, and arrives whole."""

from __future__ import annotations

from pathlib import Path

from tests.support.bench_folder import load_bench

load_bench()

from bench import collector  # noqa: E402
from bench.progress import Progress, Session  # noqa: E402


def test_a_small_load(tmp_path: Path) -> None:
    """Paced and flat out, everything is acknowledged and stored, and nothing is left of it."""
    session = Session(tmp_path, Progress(is_terminal=False), is_quick=True, rounds=1)
    paced = collector.loaded(session, 5, 1000, 50, streams=3)
    flat_out = collector.loaded(session, 5, 1000, 0, streams=3)
    assert [0.015, 0.015] == [paced.megabytes, flat_out.megabytes]
    assert [] == list(tmp_path.rglob("*.netdebug"))
    promises = collector.promises([paced], [flat_out])
    assert ["ms", "MB/s", "MB"] == [promise.unit for promise in promises]
    rows = collector.table_of([paced], [flat_out]).rows
    assert ["steady, round 1", "flat out, round 1"] == [row.title for row in rows]
    assert [False, True] == [row.values[-1] is None for row in rows]
