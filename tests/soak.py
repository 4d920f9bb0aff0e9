"""`make soak`: kills trainers, agents, collectors and TensorBoards at random, and looks what is missing.

make soak SOAK_ARGS="--seconds 600 --seed 7"
make soak SOAK_ARGS="--agents 200"
make soak SOAK_ARGS="--knocks 20000"
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

ROUND = 500


def main() -> int:
    from tests.support.storm import Storm
    from tests.support.streamed import Home

    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--seconds", type=float, default=300.0, metavar="N", help="how long (default: 300)")
    parser.add_argument("--kills", type=int, default=1_000_000, metavar="N", help="end after so many")
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 30), metavar="N")
    parser.add_argument("--agents", type=int, metavar="N", help="so many agents at once instead of a storm")
    parser.add_argument(
        "--knocks", type=int, metavar="N", help="so many requests of strangers to the debugger"
    )
    arguments = parser.parse_args()
    say(f"seed {arguments.seed}")
    if arguments.agents is not None:
        return crowd(arguments.agents, arguments.seed)
    if arguments.knocks is not None:
        return strangers(arguments.knocks, arguments.seed)
    kills: Counter[str] = Counter()
    until, number, steps, size, runs = time.monotonic() + arguments.seconds, 0, 0, 0, 0
    disturbed = 0
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
        size, runs, disturbed = size + storm.bytes, runs + storm.runs, disturbed + storm.disturbed
        whom = ", ".join(f"{count} of a {victim}" for victim, count in sorted(kills.items()))
        say(
            f"{kills.total()} kills so far ({whom}): {runs} runs with {steps} steps and {size / 1e6:.1f} MB "
            f"arrived whole, none lost, none twice; {disturbed} steps read again with records exchanged, "
            "repeated and forged, none hidden, none doubled"
        )
    return 0


def crowd(agents: int, seed: int) -> int:
    """One in ten is killed."""
    from tests.support.crowd import Crowd

    with tempfile.TemporaryDirectory() as folder, Crowd(Path(folder), agents, seed=seed) as gathered:
        say(str(gathered.run(kills=max(1, agents // 10))))
    return 0


def strangers(knocks: int, seed: int) -> int:
    """For ten requests there are a stream to the collector, and for fifty one from a strange collector."""
    from tests.support.doors import AgentDoor, PageDoors

    with tempfile.TemporaryDirectory() as folder, PageDoors(Path(folder)) as doors:
        for begin in range(0, knocks, ROUND):
            answers = doors.ask(seed + begin, ROUND)
            doors.check()
            ends = doors.stream(seed + begin, ROUND // 10)
            doors.check()
            say(f"{begin + ROUND} requests: {dict(sorted(answers.items()))}; streams: {dict(ends)}; "
                f"TensorBoard has grown by {doors.growth >> 20} MiB")  # fmt: skip
        doors.finish()
    with tempfile.TemporaryDirectory() as folder, AgentDoor(Path(folder), seed) as door:
        facts = door.suffer(max(1, knocks // 50))
        say(f"an agent heard {facts}; it has grown by {door.growth >> 20} MiB")
        door.finish()
    return 0


def say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    # At the end of the path, so that an installed package goes before the checkout's.
    sys.path[:1] = []
    sys.path.append(str(Path(__file__).resolve().parent.parent))
    sys.exit(main())
