"""The processes that train together, as torch.distributed knows them, and what they agree on.

torch is never imported here. Processes that it has not connected remain unknown.
"""

from __future__ import annotations

import os
import sys
from itertools import count
from typing import Any

_questions = count()


def this_one() -> tuple[int, int] | None:
    """Return this process's rank and the world size; None before the group is set up, and for one process."""
    distributed = torch_distributed()
    if distributed is None or not (distributed.is_available() and distributed.is_initialized()):
        return None
    size = distributed.get_world_size()
    return (distributed.get_rank(), size) if size > 1 else None


def same_for_all(mine: str) -> str:
    """Return what the first process to ask has proposed, without waiting: some processes may never ask.

    The n-th question of a process corresponds to the n-th of all others.
    """
    where = store()
    if where is None:
        return mine
    # A launcher that restarts the processes may keep the store, with the answers of earlier attempts.
    attempt = os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")
    answer: bytes = where.compare_set(f"netdebug/same/{attempt}/{next(_questions)}", "", mine)
    return answer.decode() or mine


def timeout_secs() -> float | None:
    """Return the timeout of collectives in seconds; None if torch does not reveal it."""
    for device in ("cuda", "cpu"):
        try:
            group = torch_distributed().distributed_c10d._get_default_group()
            backend = group._get_backend(sys.modules["torch"].device(device))
            return float(backend.options._timeout.total_seconds())
        except (AttributeError, KeyError, RuntimeError, ValueError):
            continue  # there is no backend for this device
    return None


def store() -> Any:
    """Return the store in which processes leave notes for each other; None if there is none.

    It uses a connection of our own where torch can make one: a process that waits for an answer blocks all
    others on the same connection.
    """
    if this_one() is None:
        return None
    find = getattr(torch_distributed().distributed_c10d, "_get_default_store", None)
    if find is None:
        return None
    found = find()
    return found.clone() if hasattr(found, "clone") else found


def torch_distributed() -> Any:
    """Return torch.distributed if the program has imported it, else None."""
    return sys.modules.get("torch.distributed")
