"""The agent process, beside the trainers of a host: follows their files and sends them to one collector.

    python -m tb_netdebug.transport.agent HOST:PORT

The first trainer starts it (`agent_connection.py`); there is one for each user, host and collector. It ends
when it has sent all that it knows of, or when the trainers are gone and no collector has answered for a long
time. What is left then waits in notes (`notes.py`) for the next agent.
"""

from __future__ import annotations

import asyncio
import os
import sys
from contextlib import suppress

from tb_netdebug.transport.agent_paths import AgentPaths
from tb_netdebug.transport.file_lock import taken


def main() -> int:
    """Start the agent as a detached process, from a child of the trainer. Return when it is ready.

    Return 0 as well when another agent holds the lock, and 1 when the agent failed at its start.
    """
    meeting = AgentPaths.of(sys.argv[1])
    lock = taken(meeting.lock)
    if lock is None:
        return 0  # another agent is running, or about to
    hears, says = os.pipe()
    # The trainer waits for this process alone; the forked one outlives both.
    if os.fork() > 0:
        os.close(says)
        return 0 if os.read(hears, 1) else 1
    os.close(hears)
    try:
        os.ftruncate(lock, 0)
        os.pwrite(lock, str(os.getpid()).encode(), 0)
        from tb_netdebug.transport.agent_loop import AgentLoop  # gRPC stays out of the trainer

        asyncio.run(AgentLoop(meeting).run(ready=lambda: tell(says)))
    except Exception as error:
        import traceback

        traceback.print_exc()
        sys.stderr.write(f"{type(error).__name__}: {error}\n")
        sys.stderr.flush()
        os._exit(1)
    os._exit(0)  # without waiting for gRPC's threads


def tell(says: int) -> None:
    with suppress(OSError):
        os.write(says, b"1")
    os.close(says)


if __name__ == "__main__":
    sys.exit(main())
