"""Connects the processes by gloo groups of our own, in tiers, which torch knows nothing of.

A group made by `new_group` would be counted by torch. If one process made it and another did not, the next
groups of the run itself could not find each other. So ours bypass torch's registry, under a prefix of the
store that no other name begins with. No thread blocks in C++: pending work is polled, so that a thread that
is no longer wanted can leave.
"""

from __future__ import annotations

import ctypes
import time
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as distributed

# So many processes form a group, whose first process represents it in the tier above. With 16, a process has
# at most 15 connections per tier, and 10 000 processes need four tiers.
FAN = 16
# All processes are present by then, so they find each other at once or never.
CONNECT_SECS = 60.0
# A process may evaluate for a long time while the others wait. This thread has time.
PATIENCE_SECS = 1800.0
FIRST_PAUSE_SECS, LONGEST_PAUSE_SECS, GROWTH = 0.0005, 0.03, 1.5
ROLL_CALL_SECS = 1.0

Wanted = Callable[[], bool]


class AbandonedError(Exception):
    """The thread is no longer wanted and leaves."""


class Tier:
    """A group of processes, this one at `place`. Every method is called by all of them or by none."""

    def __init__(self, group: Any, place: int, size: int, is_wanted: Wanted) -> None:
        self.is_first = place == 0
        self._group = group
        self._size = size
        self._is_wanted = is_wanted

    def numbers(self, mine: Sequence[int]) -> list[list[int]]:
        """Return the numbers of all processes, in their order."""
        own = torch.tensor(mine, dtype=torch.int64, device="cpu")
        all_of_them = [torch.empty_like(own) for _ in range(self._size)]
        self._finish(self._group.allgather([all_of_them], [own]))
        return [each.tolist() for each in all_of_them]

    def letters(self, mine: bytes, lengths: Sequence[int]) -> list[bytes]:
        """Return the letters of all processes in the first one; an empty list in the others."""
        # gather needs tensors of one size, so letters are padded to the longest.
        most = max(lengths)
        own = torch.zeros(most, dtype=torch.uint8, device="cpu")
        own[: len(mine)] = torch.frombuffer(bytearray(mine), dtype=torch.uint8)
        wish = distributed.distributed_c10d.GatherOptions()
        wish.rootRank = 0
        all_of_them = [torch.empty_like(own) for _ in range(self._size)] if self.is_first else []
        self._finish(self._group.gather([all_of_them] if self.is_first else [], [own], wish))
        return [each[:length].numpy().tobytes() for each, length in zip(all_of_them, lengths, strict=False)]

    def told(self, number: int) -> int:
        """Broadcast a number from the first process, and return it."""
        said = torch.tensor([number], dtype=torch.int64, device="cpu")
        wish = distributed.distributed_c10d.BroadcastOptions()
        wish.rootRank, wish.rootTensor = 0, 0
        self._finish(self._group.broadcast([said], wish))
        return int(said.item())

    def leave_behind(self) -> None:
        """Leak the group on purpose: destroying it would wait for pending work."""
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(self._group))

    def _finish(self, work: Any) -> None:
        pause = FIRST_PAUSE_SECS
        # Poll instead of blocking, so that this thread can leave.
        while not work.is_completed():
            if not self._is_wanted():
                raise AbandonedError
            time.sleep(pause)
            pause = min(GROWTH * pause, LONGEST_PAUSE_SECS)
        work.wait()  # raises the error of the work, if any


def roll_call(store: Any, name: str, size: int, is_wanted: Wanted) -> None:
    """Wait until all processes are present, or raise AbandonedError.

    Some programs monitor in one process only.
    """
    call = f"netdebug/{name}/here"
    store.add(call, 1)
    pause = FIRST_PAUSE_SECS
    while store.add(call, 0) < size:
        if not is_wanted():
            store.add(call, -1)  # so that one that comes later does not count this one
            raise AbandonedError
        time.sleep(pause)
        pause = min(GROWTH * pause, ROLL_CALL_SECS)


class RankMeeting:
    """All processes of a run that watch the same model, connected in tiers."""

    def __init__(self, tiers: Sequence[Tier], levels: int) -> None:
        self._tiers = tiers
        self._reaches_top = len(tiers) == levels

    @classmethod
    def of(
        cls, store: Any, name: str, rank: int, size: int, is_wanted: Wanted, *, fan: int = FAN
    ) -> RankMeeting:
        """Connect the processes, after the roll call. Raise what torch raises."""
        tiers: list[Tier] = []
        members, level = list(range(size)), 0
        while len(members) > 1:
            first = rank // fan ** (level + 1) * fan ** (level + 1)
            company = [each for each in members if first <= each < first + fan ** (level + 1)]
            # A process that represents no group is in no company further up. The loop goes on to count the
            # tiers.
            if rank in company and len(company) > 1:
                tiers.append(tier_of(store, f"netdebug/{name}/{level}/{first}", company, rank, is_wanted))
            elif rank in company:
                tiers.append(Alone(is_wanted))
            members, level = members[::fan], level + 1
        return cls(tiers, level)

    def exchange(
        self, proposal: int, letter: bytes | None, merge: Callable[[Sequence[bytes]], bytes]
    ) -> tuple[int, bytes | None]:
        """Return the highest proposal; and in the first process the merged letters, if every process had one.

        Numbers and letters climb from tier to tier through the first process of each group. The result comes
        back down the same way.
        """
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
            proposal = joined.pop().told(proposal)  # its first process has asked the tiers above
        # The members of the top tier all know the result from `numbers`.
        elif joined:
            joined.pop()
        for tier in reversed(joined):
            tier.told(proposal)
        return proposal, letter

    def leave_behind(self) -> None:
        for tier in self._tiers:
            tier.leave_behind()


class Alone(Tier):
    """A tier with one process only: the last one may be left over when the others form groups."""

    def __init__(self, is_wanted: Wanted) -> None:
        super().__init__(None, 0, 1, is_wanted)

    def numbers(self, mine: Sequence[int]) -> list[list[int]]:
        return [list(mine)]

    def letters(self, mine: bytes, lengths: Sequence[int]) -> list[bytes]:
        return [mine]

    def told(self, number: int) -> int:
        return number

    def leave_behind(self) -> None:
        """Do nothing: there is no group."""


def tier_of(store: Any, name: str, company: Sequence[int], rank: int, is_wanted: Wanted) -> Tier:
    """Return a tier with a new gloo group of these processes."""
    place, size = company.index(rank), len(company)
    group = distributed.ProcessGroupGloo(
        distributed.distributed_c10d.PrefixStore(name, store), place, size, timedelta(seconds=CONNECT_SECS)
    )
    group._set_default_timeout(timedelta(seconds=PATIENCE_SECS))
    return Tier(group, place, size, is_wanted)
