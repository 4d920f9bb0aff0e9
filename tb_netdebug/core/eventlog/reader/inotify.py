"""Linux's inotify by ctypes: one descriptor for any number of folders. Used by `follower.py`.

The packages for it start a thread for each folder, or watch whole trees without a limit.
"""

from __future__ import annotations

import ctypes
import os
import struct
import sys
from collections.abc import Iterator
from typing import NamedTuple

# From linux/inotify.h, the same on all architectures.
_MODIFY, _MOVED_FROM, _MOVED_TO, _CREATE, _DELETE = 0x2, 0x40, 0x80, 0x100, 0x200
_DELETE_SELF, _MOVE_SELF, _OVERFLOW, _IGNORED = 0x400, 0x800, 0x4000, 0x8000
_ONLY_FOLDERS, _NO_LINKS, _IS_FOLDER = 0x1000000, 0x2000000, 0x40000000
_WANTED = _MODIFY | _MOVED_FROM | _MOVED_TO | _CREATE | _DELETE | _DELETE_SELF | _MOVE_SELF
_EVENT = struct.Struct("iIII")
_READ_BYTES = 1 << 16


class FolderChange(NamedTuple):
    """A change of `name` in `folder`; an empty `folder` means that the kernel's queue overflowed."""

    folder: str
    name: str
    is_folder: bool
    is_write: bool


class Inotify:
    """Watches folders, from one thread. Raises OSError if the system has no inotify or no watch is left."""

    def __init__(self) -> None:
        if not sys.platform.startswith("linux"):
            raise OSError("this system tells of changes in another way")
        self._library = ctypes.CDLL(None, use_errno=True)
        try:
            init = self._library.inotify_init1
        except AttributeError:
            raise OSError("the C library knows no inotify") from None
        self.descriptor = self._checked(init(os.O_NONBLOCK | os.O_CLOEXEC))
        self._folders: dict[int, str] = {}
        self._numbers: dict[str, int] = {}

    def __len__(self) -> int:
        return len(self._folders)

    def __contains__(self, folder: str) -> bool:
        return folder in self._numbers

    def add(self, folder: str) -> None:
        """Watch a folder. Raises OSError if it is not a folder or there are too many watches."""
        if folder in self._numbers:
            return
        mask = _WANTED | _ONLY_FOLDERS | _NO_LINKS
        number = self._checked(self._library.inotify_add_watch(self.descriptor, os.fsencode(folder), mask))
        self._folders[number] = folder
        self._numbers[folder] = number

    def changes(self) -> Iterator[FolderChange]:
        """Yield what has come since the last call, nothing if there is nothing. Never blocks."""
        try:
            data = os.read(self.descriptor, _READ_BYTES)
        except BlockingIOError:
            return
        at = 0
        while at < len(data):
            number, mask, _, size = _EVENT.unpack_from(data, at)
            at += _EVENT.size
            # The kernel pads names with zeros.
            name = os.fsdecode(data[at : at + size].rstrip(b"\0"))
            at += size
            # The kernel's queue was full, and changes were lost.
            if mask & _OVERFLOW:
                yield FolderChange("", "", False, False)
                continue
            folder = self._folders.get(number)
            if mask & _IGNORED:  # the folder is gone
                self._forget(number)
            elif folder is not None:
                yield FolderChange(folder, name, bool(mask & _IS_FOLDER), bool(mask & _MODIFY))

    def close(self) -> None:
        os.close(self.descriptor)

    def _forget(self, number: int) -> None:
        folder = self._folders.pop(number, None)
        if folder is not None:
            self._numbers.pop(folder, None)

    def _checked(self, result: int) -> int:
        if result < 0:
            code = ctypes.get_errno()
            raise OSError(code, os.strerror(code))
        return result
