"""The process beside the trainers of a host: follows their files and sends them to one collector.

    python -m tb_netdebug.transport.agent HOST:PORT

Started by the first trainer (`door.py`), one for each user, host and collector. It ends when all that it
knows of was sent, or when the trainers are gone and no collector has answered for long: what is left then
waits in notes (`notes.py`) for the next agent.
"""

from __future__ import annotations

import asyncio
import os
import sys
from contextlib import suppress

from tb_netdebug.transport.file_lock import taken
from tb_netdebug.transport.meeting import AgentMeeting


def main() -> int:
    """In the trainer's child: leaves the agent behind as nobody's process, and ends when that is ready."""
    meeting = AgentMeeting.of(sys.argv[1])
    lock = taken(meeting.lock)
    if lock is None:
        return 0  # another one is there, or about to be
    hears, says = os.pipe()
    if os.fork() > 0:
        os.close(says)
        return 0 if os.read(hears, 1) else 1
    os.close(hears)
    try:
        os.ftruncate(lock, 0)
        os.pwrite(lock, str(os.getpid()).encode(), 0)
        from tb_netdebug.transport.household import Household  # with gRPC, which is not for the trainer

        asyncio.run(Household(meeting).run(ready=lambda: tell(says)))
    except Exception as error:
        import traceback

        traceback.print_exc()
        sys.stderr.write(f"{type(error).__name__}: {error}\n")
        sys.stderr.flush()
        os._exit(1)
    os._exit(0)  # gRPC's threads are not waited for


def tell(says: int) -> None:
    with suppress(OSError):
        os.write(says, b"1")
    os.close(says)


if __name__ == "__main__":
    sys.exit(main())
