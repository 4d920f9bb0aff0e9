"""Where the processes talk: groups of gloo of our own, in tiers, and none that the training knows of.

A group of torch's own making (`new_group`) would be counted by torch: had one process made it and another
not, the next groups of the training itself could not find each other. These are made behind its back, on a
part of the store that no other name begins with. Nobody blocks in C++: what was begun is asked for, so that a
thread that is not wanted any more can leave.
"""

from __future__ import annotations

import ctypes
import time
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as distributed

# So many processes are a group, whose first one speaks for all in the tier above: with 16 a process has at
# most 15 connections a tier, and 10 000 processes have four tiers.
FAN = 16
# All are there when this begins, so they find each other at once or never.
CONNECT_SECS = 60.0
# One may evaluate for a long time while the others wait for it; this thread has time.
PATIENCE_SECS = 1800.0
FIRST_PAUSE_SECS, LONGEST_PAUSE_SECS, GROWTH = 0.0005, 0.03, 1.5
ROLL_CALL_SECS = 1.0

Wanted = Callable[[], bool]


class AbandonedError(Exception):
    """Nobody wants to know any more."""


class Tier:
    """A group of processes; `place` is this one's in it. Each method is called by all of them, or none."""

    def __init__(self, group: Any, place: int, size: int, is_wanted: Wanted) -> None:
        self.is_first = place == 0
        self._group = group
        self._size = size
        self._is_wanted = is_wanted

    def numbers(self, mine: Sequence[int]) -> list[list[int]]:
        """Everybody's, in the order of the processes."""
        own = torch.tensor(mine, dtype=torch.int64, device="cpu")
        all_of_them = [torch.empty_like(own) for _ in range(self._size)]
        self._finish(self._group.allgather([all_of_them], [own]))
        return [each.tolist() for each in all_of_them]

    def letters(self, mine: bytes, lengths: Sequence[int]) -> list[bytes]:
        """Everybody's at the first process, nothing at the others."""
        most = max(lengths)
        own = torch.zeros(most, dtype=torch.uint8, device="cpu")
        own[: len(mine)] = torch.frombuffer(bytearray(mine), dtype=torch.uint8)
        wish = distributed.distributed_c10d.GatherOptions()
        wish.rootRank = 0
        all_of_them = [torch.empty_like(own) for _ in range(self._size)] if self.is_first else []
        self._finish(self._group.gather([all_of_them] if self.is_first else [], [own], wish))
        return [each[:length].numpy().tobytes() for each, length in zip(all_of_them, lengths, strict=False)]

    def told(self, number: int) -> int:
        """The first process says a number to the others."""
        said = torch.tensor([number], dtype=torch.int64, device="cpu")
        wish = distributed.distributed_c10d.BroadcastOptions()
        wish.rootRank, wish.rootTensor = 0, 0
        self._finish(self._group.broadcast([said], wish))
        return int(said.item())

    def leave_behind(self) -> None:
        """What is still going on is never waited for: taking the group apart would do so."""
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(self._group))

    def _finish(self, work: Any) -> None:
        pause = FIRST_PAUSE_SECS
        while not work.is_completed():
            if not self._is_wanted():
                raise AbandonedError
            time.sleep(pause)
            pause = min(GROWTH * pause, LONGEST_PAUSE_SECS)
        work.wait()  # raises what went wrong


def roll_call(store: Any, name: str, size: int, is_wanted: Wanted) -> None:
    """Waits until all are there, or raises AbandonedError: in some programs one alone watches."""
    call = f"netdebug/{name}/here"
    store.add(call, 1)
    pause = FIRST_PAUSE_SECS
    while store.add(call, 0) < size:
        if not is_wanted():
            store.add(call, -1)  # or one that comes later would look for this one
            raise AbandonedError
        time.sleep(pause)
        pause = min(GROWTH * pause, ROLL_CALL_SECS)


class RankMeeting:
    """All processes of one training that watch the same model. `of` makes it, after the roll call; it raises
    what torch raises."""

    def __init__(self, tiers: Sequence[Tier], levels: int) -> None:
        self._tiers = tiers
        self._reaches_top = len(tiers) == levels

    @classmethod
    def of(
        cls, store: Any, name: str, rank: int, size: int, is_wanted: Wanted, *, fan: int = FAN
    ) -> RankMeeting:
        tiers: list[Tier] = []
        members, level = list(range(size)), 0
        while len(members) > 1:
            first = rank // fan ** (level + 1) * fan ** (level + 1)
            company = [each for each in members if first <= each < first + fan ** (level + 1)]
            if rank in company and len(company) > 1:
                tiers.append(tier_of(store, f"netdebug/{name}/{level}/{first}", company, rank, is_wanted))
            elif rank in company:
                tiers.append(Alone(is_wanted))
            members, level = members[::fan], level + 1
        return cls(tiers, level)

    def exchange(
        self, proposal: int, letter: bytes | None, merge: Callable[[Sequence[bytes]], bytes]
    ) -> tuple[int, bytes | None]:
        """The highest proposal of all; and in the first process what became of the letters if all had one."""
        joined: list[Tier] = []
        for tier in self._tiers:
            joined.append(tier)
            numbers = tier.numbers([proposal, letter is not None, len(letter or b"")])
            proposal = max(each[0] for each in numbers)
            if all(each[1] for each in numbers) and letter is not None:
                letters = tier.letters(letter, [each[2] for each in numbers])
                letter = merge(letters) if tier.is_first else None
            else:
                letter = None
            if not tier.is_first:
                break
        if not (self._reaches_top and len(joined) == len(self._tiers)):
            proposal = joined.pop().told(proposal)  # the first one of it has asked further above
        elif joined:
            joined.pop()
        for tier in reversed(joined):
            tier.told(proposal)
        return proposal, letter

    def leave_behind(self) -> None:
        for tier in self._tiers:
            tier.leave_behind()


class Alone(Tier):
    """The last process of all may be left over in its tier."""

    def __init__(self, is_wanted: Wanted) -> None:
        super().__init__(None, 0, 1, is_wanted)

    def numbers(self, mine: Sequence[int]) -> list[list[int]]:
        return [list(mine)]

    def letters(self, mine: bytes, lengths: Sequence[int]) -> list[bytes]:
        return [mine]

    def told(self, number: int) -> int:
        return number

    def leave_behind(self) -> None:
        """There is nothing."""


def tier_of(store: Any, name: str, company: Sequence[int], rank: int, is_wanted: Wanted) -> Tier:
    place, size = company.index(rank), len(company)
    group = distributed.ProcessGroupGloo(
        distributed.distributed_c10d.PrefixStore(name, store), place, size, timedelta(seconds=CONNECT_SECS)
    )
    group._set_default_timeout(timedelta(seconds=PATIENCE_SECS))
    return Tier(group, place, size, is_wanted)
