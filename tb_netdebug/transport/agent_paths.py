"""Where the trainers of a host meet their agent: paths that both derive from the collector's address."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from tb_netdebug.transport.private_folder import made_private, runtime_folder, spool_folder

# Trainers whose environments differ in these cannot share an agent.
CREDENTIALS = (
    "NETDEBUG_TOKEN",
    "NETDEBUG_TOKEN_FILE",
    "NETDEBUG_TLS_CA",
    "NETDEBUG_TLS_FINGERPRINT",
    "NETDEBUG_INSECURE",
)
# The longest path of a Unix socket, without its terminating byte (104 bytes on macOS, 108 on Linux).
MOST_PATH_BYTES = 103


@dataclass(frozen=True, slots=True)
class AgentPaths:
    """The files of one agent.

    `socket`, `lock` and `log` belong to the agent. `starting` is locked by the trainer that starts it.
    `notes` is the folder in which trainers note what is to be sent to this collector.
    """

    target: str
    socket: Path
    lock: Path
    starting: Path
    log: Path
    notes: Path

    @classmethod
    def of(cls, target: str, environ: Mapping[str, str] = os.environ) -> AgentPaths:
        """Return the paths for this collector, and make the folders.

        Raise OSError with a sentence when they cannot be used.
        """
        folder = runtime_folder(environ)
        here = process_namespace()
        stem = f"agent-{digest(target, here, *(environ.get(name, '') for name in CREDENTIALS))}"
        notes = made_private(spool_folder() / f"notes-{digest(target, here)}")
        socket = folder / f"{stem}.sock"
        if len(os.fsencode(socket)) > MOST_PATH_BYTES:
            raise OSError(
                f"{socket} is too long a path for a socket: set XDG_RUNTIME_DIR to a shorter folder"
            )
        return cls(
            target=target,
            socket=socket,
            lock=folder / f"{stem}.lock",
            starting=folder / f"{stem}.starting",
            log=folder / f"{stem}.log",
            notes=notes,
        )


def process_namespace() -> str:
    """Return the name of the PID namespace; empty where there is none.

    Containers may share a folder for temporary files and yet not see each other's processes.
    """
    try:
        return str(Path("/proc/self/ns/pid").readlink())
    except OSError:
        return ""


def digest(*texts: str) -> str:
    """Return a hash of the texts, short enough for a file name, that reveals none of them."""
    return hashlib.sha256("\0".join(texts).encode("utf-8", "surrogateescape")).hexdigest()[:16]
