"""How much a collector takes: every length and count that comes over the wire has its bound here."""

from __future__ import annotations

from dataclasses import dataclass

# One message, on both sides. What is bigger goes in pieces.
MESSAGE_BYTES = 1 << 20
# Whoever is silent for so long is asked whether it is there, and given up when it does not answer in time.
KEEP_ALIVE_SECS, KEEP_ALIVE_WAIT_SECS = 20.0, 20.0


@dataclass(frozen=True, slots=True)
class Limits:
    """A stream never has more in the collector's memory than one message and what it has sent of a Control;
    everything else waits at the agent, held back by the flow control of HTTP/2."""

    streams: int = 1000
    trainers: int = 1024  # of a stream
    files: int = 64  # of a trainer, at the same time
    run_parts: int = 16
    name_bytes: int = 200
    namesakes: int = 1000  # runs of one name, apart by their suffixes
    control_bytes: int = 4 << 20  # of a stream, each way
    chunk_bytes: int = 256 << 10
    # So much may be lost with the collector's machine; the agent has it still, and looks whether it is there.
    window_bytes: int = 16 << 20
    sync_secs: float = 1.0
    hello_secs: float = 20.0
    keep_alive_secs: float = KEEP_ALIVE_SECS
    keep_alive_wait_secs: float = KEEP_ALIVE_WAIT_SECS
    handshake_secs: float = 10.0
    idle_secs: float = 60.0  # of a connection without a stream
    refused_secs: float = 1.0  # how long a wrong token waits for its answer
    refused_streams: int = 64  # of those that wait; all more are answered at once
    disk_threads: int = 4


USUAL = Limits()
