"""The system calls that a confined process may make, as a seccomp filter.

These are memory, time, randomness, and reading and writing what is open already. Everything else fails with
EPERM, as if file permissions forbade it.
"""

from __future__ import annotations

import errno
import platform
import struct
from collections.abc import Iterable
from dataclasses import dataclass

# Instructions of the kernel's packet filter (BPF): load a word, compare it, return.
LOAD, IS_EQUAL, IS_AT_LEAST, RETURN = 0x20, 0x15, 0x35, 0x06
# SECCOMP_RET_ALLOW, SECCOMP_RET_ERRNO with EPERM, and SECCOMP_RET_KILL_PROCESS.
ALLOW, REFUSE, KILL = 0x7FFF0000, 0x00050000 | errno.EPERM, 0x80000000
NUMBER_AT, MACHINE_AT = 0, 4  # offsets in the kernel's seccomp_data
# Numbers from here on belong to x86-64's second set of calls, x32.
SECOND_SET = 0x40000000


@dataclass(frozen=True, slots=True)
class Machine:
    """The kernel's code for a processor architecture, and the numbers of the calls that are allowed there."""

    code: int
    numbers: tuple[int, ...]


# read, write, close, fstat, lseek, mmap, mprotect, munmap, brk, rt_sigaction, rt_sigprocmask, rt_sigreturn,
# sched_yield, mremap, madvise, nanosleep, getpid, exit, uname, gettimeofday, getrusage, times, sigaltstack,
# arch_prctl (x86-64), gettid, futex, sched_getaffinity, clock_gettime, clock_getres, clock_nanosleep,
# exit_group, getcpu, getrandom, membarrier, rseq
MACHINES = {
    "x86_64": Machine(
        0xC000003E,
        (
            0, 1, 3, 5, 8, 9, 10, 11, 12, 13, 14, 15, 24, 25, 28, 35, 39, 60, 63, 96, 98, 100, 131, 158, 186,
            202, 204, 228, 229, 230, 231, 309, 318, 324, 334,
        ),
    ),
    "aarch64": Machine(
        0xC00000B7,
        (
            63, 64, 57, 80, 62, 222, 226, 215, 214, 134, 135, 139, 124, 216, 233, 101, 172, 93, 160, 169, 165,
            153, 132, 178, 98, 123, 113, 114, 115, 94, 168, 278, 283, 293,
        ),
    ),
}  # fmt: skip


def filter_of_this_machine() -> bytes:
    """Return the filter in the kernel's format; empty for an architecture whose calls are unknown here."""
    machine = MACHINES.get(platform.machine())
    return b"" if machine is None else filter_of(machine)


def filter_of(machine: Machine) -> bytes:
    """Return the instructions: a call of another architecture kills, one that is not listed is refused."""
    numbers = machine.numbers
    return b"".join(
        (
            instruction(LOAD, MACHINE_AT),
            instruction(IS_EQUAL, machine.code, if_true=1),
            instruction(RETURN, KILL),
            instruction(LOAD, NUMBER_AT),
            instruction(IS_AT_LEAST, SECOND_SET, if_true=len(numbers)),
            *comparisons(numbers),
            instruction(RETURN, REFUSE),
            instruction(RETURN, ALLOW),
        )
    )


def comparisons(numbers: Iterable[int]) -> list[bytes]:
    """Return comparisons that each jump over those after it, and over the refusal, to the permission."""
    known = list(numbers)
    return [instruction(IS_EQUAL, number, if_true=len(known) - place) for place, number in enumerate(known)]


def instruction(code: int, value: int, *, if_true: int = 0) -> bytes:
    return struct.pack("=HBBI", code, if_true, 0, value)
