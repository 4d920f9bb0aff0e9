"""Reads memory of this process by way of the kernel, which answers for what cannot be read any more.

Reading it directly ends the process by a signal when a mapped file behind it was truncated meanwhile.
"""

from __future__ import annotations

import ctypes
import errno
import os
from functools import cache
from typing import Any

PIECE_BYTES = 1 << 20


class UnreadableMemoryError(Exception):
    """Some of the memory cannot be read."""


class Span(ctypes.Structure):
    """What the kernel calls an iovec."""

    _fields_ = (("base", ctypes.c_void_p), ("size", ctypes.c_size_t))


def copy_memory(source: int, destination: int, size: int) -> None:
    """Copy bytes from one address to another. Raises GoneError when the source cannot be read.

    Where the kernel does not offer this, or forbids it, they are copied directly.
    """
    read = process_vm_readv()
    done = 0
    while read is not None and done < size:
        into, out_of = Span(destination + done, size - done), Span(source + done, size - done)
        count = read(os.getpid(), ctypes.byref(into), 1, ctypes.byref(out_of), 1, 0)
        if count > 0:
            done += count  # fewer than asked for: the next call says whether more can be read
        elif ctypes.get_errno() in (errno.EFAULT, errno.EIO):
            raise UnreadableMemoryError
        else:
            read = None
    if done < size:
        ctypes.memmove(destination + done, source + done, size - done)


def check_memory(source: int, size: int) -> None:
    """Raise GoneError when some of the bytes cannot be read; without a place for all of them."""
    piece = ctypes.create_string_buffer(PIECE_BYTES)
    for start in range(0, size, PIECE_BYTES):
        copy_memory(source + start, ctypes.addressof(piece), min(PIECE_BYTES, size - start))


@cache
def process_vm_readv() -> Any:
    """Return the C library's function; None where there is none, as on macOS and Windows."""
    if os.name != "posix":
        return None
    found = getattr(ctypes.CDLL(None, use_errno=True), "process_vm_readv", None)
    if found is not None:
        found.restype = ctypes.c_ssize_t
        span = ctypes.POINTER(Span)
        found.argtypes = (ctypes.c_int, span, ctypes.c_ulong, span, ctypes.c_ulong, ctypes.c_ulong)
    return found
