"""The processes that train together, as torch.distributed knows them; what they agree on without waiting.

torch is never imported here: processes that nobody has brought together by it are unknown to it.
"""

from __future__ import annotations

import os
import sys
from itertools import count
from typing import Any

_questions = count()


def this_one() -> tuple[int, int] | None:
    """Its rank and how many there are; None before they have met, and of a process alone."""
    distributed = torch_distributed()
    if distributed is None or not (distributed.is_available() and distributed.is_initialized()):
        return None
    size = distributed.get_world_size()
    return (distributed.get_rank(), size) if size > 1 else None


def same_for_all(mine: str) -> str:
    """What the first process that asked has proposed. Nobody waits: there may be processes that never ask.

    The n-th question of a process is the n-th of all others.
    """
    where = store()
    if where is None:
        return mine
    # A launcher that restarts the processes may keep the store, with the answers of those before.
    attempt = os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")
    answer: bytes = where.compare_set(f"netdebug/same/{attempt}/{next(_questions)}", "", mine)
    return answer.decode() or mine


def timeout_secs() -> float | None:
    """After so long who waits for the others in a collective gives up; None when torch does not tell."""
    for device in ("cuda", "cpu"):
        try:
            group = torch_distributed().distributed_c10d._get_default_group()
            backend = group._get_backend(sys.modules["torch"].device(device))
            return float(backend.options._timeout.total_seconds())
        except (AttributeError, KeyError, RuntimeError, ValueError):
            continue  # there is none for this device
    return None


def store() -> Any:
    """Where processes leave notes for each other, by a connection of our own where torch can make one:
    whoever waits for an answer keeps all others on the same connection waiting. None when there is none."""
    if this_one() is None:
        return None
    find = getattr(torch_distributed().distributed_c10d, "_get_default_store", None)
    if find is None:
        return None
    found = find()
    return found.clone() if hasattr(found, "clone") else found


def torch_distributed() -> Any:
    """Return the module where the program has imported it, else None."""
    return sys.modules.get("torch.distributed")
