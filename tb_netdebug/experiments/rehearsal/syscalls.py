"""Linux system calls that Python has no functions for. They raise OSError like Python's own."""

from __future__ import annotations

import ctypes
import os
import platform
import signal
import sys
from contextlib import suppress
from functools import cache

# As in the kernel's sched.h, mount.h and capability.h; Python has no names for them.
CLONE_NEWNS = 0x00020000
CLONE_NEWIPC = 0x08000000
CLONE_NEWUSER = 0x10000000
MS_RDONLY = 1
MS_REMOUNT = 32
MS_BIND = 4096
MS_REC = 16384
MS_PRIVATE = 1 << 18
MNT_DETACH = 2
CAP_SYS_RAWIO = 17
CAP_SYS_ADMIN = 21
CAP_MKNOD = 27
# These numbers are the same on every architecture since Linux 5.1; that of pivot_root is not.
SYS_MOUNT_SETATTR = 442
SYS_LANDLOCK_CREATE_RULESET = 444
SYS_LANDLOCK_ADD_RULE = 445
SYS_LANDLOCK_RESTRICT_SELF = 446
SYS_PIVOT_ROOT = {"x86_64": 155, "aarch64": 41, "riscv64": 41, "ppc64le": 203, "s390x": 217}
AT_RECURSIVE = 0x8000
MOUNT_ATTR_RDONLY = 1
PR_SET_PDEATHSIG = 1
PR_CAPBSET_DROP = 24
PR_SET_CHILD_SUBREAPER = 36
PR_SET_NO_NEW_PRIVS = 38
CAPABILITY_VERSION_3 = 0x20080522


@cache
def libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)


def checked(result: int, what: str) -> int:
    """Return the result of a C call. Raise OSError with errno if it failed."""
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")
    return result


def unshare(flags: int) -> None:
    checked(libc().unshare(ctypes.c_int(flags)), "unshare")


def mount(source: str, target: str, kind: str = "", flags: int = 0, options: str = "") -> None:
    words = (each.encode("utf-8", "surrogateescape") for each in (source, target, kind))
    data = options.encode("utf-8", "surrogateescape")
    checked(libc().mount(*words, ctypes.c_ulong(flags), data), f"mount on {target}")


def unmount(target: str) -> None:
    checked(libc().umount2(os.fsencode(target), MNT_DETACH), f"unmount {target}")


def syscall(number: int, what: str, *arguments: object) -> int:
    return checked(libc().syscall(ctypes.c_long(number), *arguments), what)


def pivot_root(new: str, old: str) -> None:
    number = SYS_PIVOT_ROOT.get(platform.machine())
    if number is None:
        raise OSError(f"pivot_root: the number of the call is not known on {platform.machine()}")
    syscall(number, "pivot_root", os.fsencode(new), os.fsencode(old))


def make_read_only(target: str, *, recursive: bool) -> None:
    attributes = (ctypes.c_uint64 * 4)(MOUNT_ATTR_RDONLY, 0, 0, 0)
    flags = ctypes.c_uint(AT_RECURSIVE if recursive else 0)
    path = os.fsencode(target)
    size = ctypes.c_size_t(ctypes.sizeof(attributes))
    # -100 is AT_FDCWD, which does not matter: all paths here are absolute.
    syscall(SYS_MOUNT_SETATTR, f"make {target} read-only", -100, path, flags, attributes, size)


def prctl(option: int, value: int) -> None:
    zero = ctypes.c_ulong(0)
    checked(libc().prctl(ctypes.c_int(option), ctypes.c_ulong(value), zero, zero, zero), "prctl")


def drop_capabilities(kept: int) -> None:
    """Drop all capabilities outside of the bit mask `kept`, in this process and what it starts."""
    for number in range(64):
        if not kept >> number & 1:
            with suppress(OSError):  # this kernel does not have the capability
                prctl(PR_CAPBSET_DROP, number)
    header = (ctypes.c_uint32 * 2)(CAPABILITY_VERSION_3, 0)
    # Two halves of 32 capabilities each, and in each the effective, permitted and inheritable set.
    data = (ctypes.c_uint32 * 6)()
    checked(libc().capget(header, data), "capget")
    for half, mask in enumerate((kept & 0xFFFFFFFF, kept >> 32)):
        for place in range(3):
            data[3 * half + place] &= mask
    checked(libc().capset(header, data), "capset")


def end_with_parent(number: int = signal.SIGKILL) -> None:
    """Have the kernel send this signal to this process when the thread that started it is gone."""
    if sys.platform == "linux":
        prctl(PR_SET_PDEATHSIG, number)


def adopt_orphans() -> None:
    """Become the parent of all descendants whose own parent ends."""
    if sys.platform == "linux":
        prctl(PR_SET_CHILD_SUBREAPER, 1)
