"""The level `landlock`: the process can write below one folder only.

The kernel enforces it, and Python's file functions work on copies in that folder.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterator
from contextlib import suppress

from tb_netdebug.experiments.rehearsal import syscalls
from tb_netdebug.experiments.rehearsal.changes import FileChange
from tb_netdebug.experiments.rehearsal.confinement_levels import ConfinementUnavailableError
from tb_netdebug.experiments.rehearsal.copies import Copies
from tb_netdebug.experiments.rehearsal.redirection import redirect

VERSION_ASKED = 1
RULE_PATH_BENEATH = 1
# Access rights as in linux/landlock.h.
WRITE_FILE, REMOVE_FILE, MAKE_REG, REFER, TRUNCATE = 1 << 1, 1 << 5, 1 << 8, 1 << 13, 1 << 14
# All write access rights of ABI version 1: writing, removing and creating of every kind. Reading is free.
WRITES = WRITE_FILE | sum(1 << bit for bit in range(4, 13))
TO_FILES = WRITE_FILE | TRUNCATE
# Shared memory of data loader workers is files here; they are gone when their processes end.
SHARED_MEMORY = "/dev/shm"
# Devices that programs write to without changing any file.
DEVICES = ("/dev/null", "/dev/zero", "/dev/full", "/dev/tty", "/dev/ptmx", "/dev/pts", "/proc/self")


class PathBeneath(ctypes.Structure):
    # The kernel's struct landlock_path_beneath_attr is packed.
    _pack_ = 1
    _fields_ = (("allowed", ctypes.c_uint64), ("parent", ctypes.c_int32))


class Landlock:
    """A hold for Linux 5.13 and newer. It does not restrict modes and times of files, except in Python."""

    def __init__(self, scratch: str) -> None:
        self._version = version()
        self._copies = Copies(scratch)
        self.read_only: list[str] = []

    def begin(self) -> None:
        redirect(self._copies)
        restrict(self._copies.scratch, self._version)

    def changes(self) -> Iterator[FileChange]:
        return self._copies.changes()

    def notes(self) -> list[str]:
        return [
            "Code that is not written in Python could not write elsewhere; such writes failed with "
            '"Permission denied". It could still change modes and times of files, and shared memory in '
            "/dev/shm."
        ]


def version() -> int:
    """Return the ABI version of Landlock. Raise ConfinementUnavailableError."""
    try:
        return syscalls.syscall(
            syscalls.SYS_LANDLOCK_CREATE_RULESET,
            "Landlock",
            None,
            ctypes.c_size_t(0),
            ctypes.c_uint(VERSION_ASKED),
        )
    except OSError as error:
        raise ConfinementUnavailableError(error.strerror or str(error)) from None


def restrict(folder: str, kernel_version: int) -> None:
    """Restrict this process, and what it starts, to writing below `folder`."""
    # A kernel rejects rights that are newer than its ABI version.
    handled = WRITES | (REFER if kernel_version >= 2 else 0) | (TRUNCATE if kernel_version >= 3 else 0)
    attribute = ctypes.c_uint64(handled)
    rules = syscalls.syscall(
        syscalls.SYS_LANDLOCK_CREATE_RULESET,
        "Landlock",
        ctypes.byref(attribute),
        # The size of the attribute in ABI version 1, which newer kernels accept.
        ctypes.c_size_t(8),
        ctypes.c_uint(0),
    )
    try:
        allow(rules, folder, handled)
        allow(rules, SHARED_MEMORY, (TO_FILES | REMOVE_FILE | MAKE_REG) & handled)
        for device in DEVICES:
            allow(rules, device, TO_FILES & handled)
        # Required for processes without CAP_SYS_ADMIN.
        syscalls.prctl(syscalls.PR_SET_NO_NEW_PRIVS, 1)
        syscalls.syscall(
            syscalls.SYS_LANDLOCK_RESTRICT_SELF, "Landlock", ctypes.c_int(rules), ctypes.c_uint(0)
        )
    finally:
        os.close(rules)


def allow(rules: int, path: str, access: int) -> None:
    with suppress(FileNotFoundError, PermissionError):
        descriptor = os.open(path, os.O_PATH | os.O_CLOEXEC)
        try:
            rule = PathBeneath(access, descriptor)
            syscalls.syscall(
                syscalls.SYS_LANDLOCK_ADD_RULE,
                "Landlock",
                ctypes.c_int(rules),
                ctypes.c_int(RULE_PATH_BENEATH),
                ctypes.byref(rule),
                ctypes.c_uint(0),
            )
        finally:
            os.close(descriptor)
