"""Where the trainers of a host find the agent for their collector, and what they leave for it."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from tb_netdebug.transport.private_folder import made_private, runtime_folder, spool_folder

# Trainers that differ in these cannot share an agent.
CREDENTIALS = (
    "NETDEBUG_TOKEN",
    "NETDEBUG_TOKEN_FILE",
    "NETDEBUG_TLS_CA",
    "NETDEBUG_TLS_FINGERPRINT",
    "NETDEBUG_INSECURE",
)
# The name of a socket may be this long (the path of a Unix socket, less the byte that ends it).
MOST_PATH_BYTES = 103


@dataclass(frozen=True, slots=True)
class AgentMeeting:
    """`socket`, `lock` and `log` are the agent's; `starting` is locked by the trainer that starts it;
    `notes` is the folder in which trainers say what is to be sent to this collector."""

    target: str
    socket: Path
    lock: Path
    starting: Path
    log: Path
    notes: Path

    @classmethod
    def of(cls, target: str, environ: Mapping[str, str] = os.environ) -> AgentMeeting:
        """Makes the folders. Raises OSError with a sentence when they cannot be used."""
        folder = runtime_folder(environ)
        here = process_namespace()
        stem = f"agent-{digest(target, here, *(environ.get(name, '') for name in CREDENTIALS))}"
        notes = made_private(spool_folder() / f"notes-{digest(target, here)}")
        socket = folder / f"{stem}.sock"
        if len(os.fsencode(socket)) > MOST_PATH_BYTES:
            raise OSError(f"{socket} is too long for a socket: set XDG_RUNTIME_DIR to a shorter folder")
        return cls(
            target=target,
            socket=socket,
            lock=folder / f"{stem}.lock",
            starting=folder / f"{stem}.starting",
            log=folder / f"{stem}.log",
            notes=notes,
        )


def process_namespace() -> str:
    """Containers may share a folder for temporary files, and yet not see each other's processes."""
    try:
        return str(Path("/proc/self/ns/pid").readlink())
    except OSError:
        return ""


def digest(*texts: str) -> str:
    """Short enough for a name, and nothing can be learned from it."""
    return hashlib.sha256("\0".join(texts).encode("utf-8", "surrogateescape")).hexdigest()[:16]
