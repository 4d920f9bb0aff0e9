"""All who take part in a stream are killed at random instants; `make soak` does so for longer."""

from __future__ import annotations

import os
import random
from pathlib import Path

from tests.support.storm import Storm
from tests.support.streamed import Home

KILLS = 4
MOST_SECS = 90.0  # a TensorBoard takes its time to start


def test_nothing_is_lost_and_nothing_doubled(tmp_path: Path) -> None:
    """Whoever was killed: in the end each byte of each run is there once, and TensorBoard shows each step."""
    seed = int(os.environ.get("NETDEBUG_SEED") or random.randrange(1 << 30))
    with Home() as home, Storm(home, tmp_path, seed) as storm:
        try:
            storm.blow(MOST_SECS, KILLS)
            storm.settle()
        except AssertionError as error:
            raise AssertionError(f"{error} (NETDEBUG_SEED={seed}; {dict(storm.kills)})") from error
        assert storm.kills.total() >= KILLS
        assert storm.runs >= 1
