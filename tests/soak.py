"""`make soak`: kills trainers, agents, collectors and TensorBoards at random, and looks what is missing.

make soak SOAK_ARGS="--seconds 600 --seed 7"
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path


def main() -> int:
    from tests.support.storm import Storm
    from tests.support.streamed import Home

    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--seconds", type=float, default=300.0, metavar="N", help="how long (default: 300)")
    parser.add_argument("--kills", type=int, default=1_000_000, metavar="N", help="end after so many")
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 30), metavar="N")
    arguments = parser.parse_args()
    say(f"seed {arguments.seed}")
    kills: Counter[str] = Counter()
    until, number, steps, size, runs = time.monotonic() + arguments.seconds, 0, 0, 0, 0
    while (left := until - time.monotonic()) > 0 and kills.total() < arguments.kills:
        seed = arguments.seed + number
        with (
            tempfile.TemporaryDirectory() as folder,
            Home() as home,
            Storm(home, Path(folder), seed) as storm,
        ):
            storm.blow(min(left, 60.0), arguments.kills - kills.total())
            storm.settle()
        number += 1
        kills, steps = kills + storm.kills, steps + storm.steps
        size, runs = size + storm.bytes, runs + storm.runs
        whom = ", ".join(f"{count} of a {victim}" for victim, count in sorted(kills.items()))
        say(
            f"{kills.total()} kills so far ({whom}): {runs} runs with {steps} steps and {size / 1e6:.1f} MB "
            "arrived whole, none lost, none twice"
        )
    return 0


def say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    # At the end of the path, so that an installed package goes before the checkout's.
    sys.path[:1] = []
    sys.path.append(str(Path(__file__).resolve().parent.parent))
    sys.exit(main())
