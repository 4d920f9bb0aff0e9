"""Many agents at once; `make soak SOAK_ARGS="--agents 200"` has more of them."""

from __future__ import annotations

from pathlib import Path

from tests.support.crowd import Crowd

AGENTS, KILLS = 6, 2


def test_many_agents_at_once(tmp_path: Path) -> None:
    """All are connected before most is recorded. Some are killed, and the collector is, once. In the end each
    has sent every byte of its file."""
    with Crowd(tmp_path, AGENTS, seed=1) as crowd:
        told = crowd.run(kills=KILLS)
    assert (AGENTS, KILLS, 2) == (told.at_once, told.kills, told.collectors)
    assert told.bytes > AGENTS * (512 << 10) > told.bytes_before > 0
