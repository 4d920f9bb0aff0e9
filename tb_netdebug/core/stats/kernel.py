"""The kernel in use: the C one where it was built, otherwise its NumPy twin.

Every function is documented in `twin`, which is the specification; both return the same bytes. The
environment variable `NETDEBUG_KERNEL` forces `twin`, or one instruction set of the C kernel (`baseline`,
`avx2`, `avx512`).
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Protocol

from tb_netdebug.core.stats import twin


class Kernel(Protocol):
    """The interface of both kernels; items are (address, count, dtype) of contiguous memory."""

    def summarize(self, items: Sequence[tuple[int, int, int]], threads: int, /) -> list[bytes]: ...
    def summarize_strided(
        self, address: int, dtype: int, shape: tuple[int, ...], strides: tuple[int, ...], /
    ) -> bytes: ...
    def summarize_updates(
        self, items: Sequence[tuple[int, int, int, int]], threads: int, /
    ) -> list[tuple[bytes, bytes]]: ...
    def sum_squares(self, items: Sequence[tuple[int, int, int]], threads: int, /) -> tuple[float, int]: ...
    def active_units(
        self, address: int, dtype: int, outer: int, units: int, inner: int, low: float, high: float, /
    ) -> bytes: ...
    def merge(self, packed: Sequence[bytes], /) -> bytes: ...
    def description(self) -> dict[str, object]: ...


def choose(environment: Mapping[str, str]) -> tuple[Kernel, str]:
    """Return the kernel and the reason for choosing it, which `netdebug doctor` prints."""
    wanted = environment.get("NETDEBUG_KERNEL", "")
    if wanted == "twin":
        return twin, "NETDEBUG_KERNEL=twin selects the NumPy twin"
    try:
        from tb_netdebug.core.stats import _kernel
    except ImportError as error:
        return (
            twin,
            f"the C kernel is missing ({error}); it is built if a C compiler is available at install time",
        )
    if not wanted:
        return _kernel, "the best instruction set of this machine"
    try:
        _kernel.use(wanted)
    except ValueError as error:
        return _kernel, f"NETDEBUG_KERNEL={wanted} is ignored: {error}"
    return _kernel, f"NETDEBUG_KERNEL={wanted} selects it"


def borrow_threads(library: str | os.PathLike[str]) -> bool:
    """Run big tensors on the OpenMP threads of the framework whose loaded library this is; return whether.

    Other packages bring OpenMP runtimes of their own, whose threads would compete with the framework's for
    the cores. The twin has no threads: there the answer is False.
    """
    borrow = getattr(kernel, "borrow_threads", None)
    return bool(borrow and borrow(os.fspath(library)))


kernel, reason = choose(os.environ)
summarize = kernel.summarize
summarize_strided = kernel.summarize_strided
summarize_updates = kernel.summarize_updates
sum_squares = kernel.sum_squares
active_units = kernel.active_units
merge = kernel.merge
description = kernel.description
