"""The bounds on everything that a collector receives: each length and each count on the wire has one here."""

from __future__ import annotations

from dataclasses import dataclass

# The largest gRPC message, on both sides. Larger payloads are sent in chunks.
MESSAGE_BYTES = 1 << 20
# A silent peer is pinged after KEEP_ALIVE_SECS, and given up after KEEP_ALIVE_WAIT_SECS without an answer.
KEEP_ALIVE_SECS, KEEP_ALIVE_WAIT_SECS = 20.0, 20.0


@dataclass(frozen=True, slots=True)
class Limits:
    """What one collector accepts from its agents, and how long it waits for them.

    The memory for one stream never exceeds one message and the pieces of a Control received so far.
    Everything else waits at the agent, held back by the flow control of HTTP/2.
    """

    streams: int = 1000
    trainers: int = 1024  # per stream
    files: int = 64  # open per trainer at the same time
    run_parts: int = 16
    name_bytes: int = 200
    namesakes: int = 1000  # runs that share a name and differ by suffix
    control_bytes: int = 4 << 20  # per stream, in each direction
    chunk_bytes: int = 256 << 10
    # Unacknowledged bytes per stream: the most that a crash of the collector's machine can lose. The agent
    # still has them, and compares what is there when it reconnects.
    window_bytes: int = 16 << 20
    sync_secs: float = 1.0
    hello_secs: float = 20.0
    keep_alive_secs: float = KEEP_ALIVE_SECS
    keep_alive_wait_secs: float = KEEP_ALIVE_WAIT_SECS
    handshake_secs: float = 10.0
    idle_secs: float = 60.0  # for a connection without a stream
    refused_secs: float = 1.0  # delay before a wrong token is answered, against guessing
    refused_streams: int = 64  # how many may be delayed; any more are answered at once
    disk_threads: int = 4


USUAL = Limits()
