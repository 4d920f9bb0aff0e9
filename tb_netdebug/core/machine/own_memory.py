"""Copying of this process's own memory through the kernel, which reports unreadable pages as an error.

Reading them directly kills the process by a signal if the mapped file behind them has been truncated.
"""

from __future__ import annotations

import ctypes
import errno
import os
from functools import cache
from typing import Any

PIECE_BYTES = 1 << 20


class UnreadableMemoryError(Exception):
    """Raised when some of the memory cannot be read."""


class Span(ctypes.Structure):
    """The C struct iovec."""

    _fields_ = (("base", ctypes.c_void_p), ("size", ctypes.c_size_t))


def copy_memory(source: int, destination: int, size: int) -> None:
    """Copy bytes from one address to another; raise UnreadableMemoryError if the source cannot be read.

    Where the kernel lacks or forbids `process_vm_readv`, the bytes are copied directly.
    """
    read = process_vm_readv()
    done = 0
    while read is not None and done < size:
        into, out_of = Span(destination + done, size - done), Span(source + done, size - done)
        count = read(os.getpid(), ctypes.byref(into), 1, ctypes.byref(out_of), 1, 0)
        if count > 0:
            done += count  # maybe fewer than asked for: the next call shows whether more can be read
        elif ctypes.get_errno() in (errno.EFAULT, errno.EIO):
            raise UnreadableMemoryError
        else:
            read = None
    if done < size:
        ctypes.memmove(destination + done, source + done, size - done)


def check_memory(source: int, size: int) -> None:
    """Raise UnreadableMemoryError if some of the bytes cannot be read; needs no buffer of their full size."""
    piece = ctypes.create_string_buffer(PIECE_BYTES)
    for start in range(0, size, PIECE_BYTES):
        copy_memory(source + start, ctypes.addressof(piece), min(PIECE_BYTES, size - start))


@cache
def process_vm_readv() -> Any:
    """Return the C library's function, or None where it has none, as on macOS and Windows."""
    if os.name != "posix":
        return None
    found = getattr(ctypes.CDLL(None, use_errno=True), "process_vm_readv", None)
    if found is not None:
        found.restype = ctypes.c_ssize_t
        span = ctypes.POINTER(Span)
        found.argtypes = (ctypes.c_int, span, ctypes.c_ulong, span, ctypes.c_ulong, ctypes.c_ulong)
    return found
