"""NVIDIA GPUs as seen by their driver: memory and load of each device, and memory of our processes on it."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Collection
from dataclasses import dataclass
from functools import partial
from typing import Any

import psutil

# A missing library or a query that a device does not support will hardly work a second later.
RETRY_SECS = 60.0

# Names of pynvml's exceptions, without their common prefix: those that end the session, or lose one device.
SESSION_ERRORS = ("Uninitialized", "DriverNotLoaded", "LibRmVersionMismatch")
DEVICE_ERRORS = ("GpuIsLost", "ResetRequired")
REASONS = {
    "LibraryNotFound": "the library of the NVIDIA driver (NVML) was not found",
    "Uninitialized": "the NVIDIA driver ended the session",
    "DriverNotLoaded": "the NVIDIA driver is not loaded",
    "LibRmVersionMismatch": "the NVIDIA driver was updated and does not match its library until a restart",
    "NoPermission": "the NVIDIA driver does not permit it",
    "GpuIsLost": "the driver lost the device",
    "ResetRequired": "the device needs a reset",
    "NotSupported": "the device does not support it",
    "FunctionNotFound": "the NVIDIA driver is too old for it",
}

Readings = dict[str, float]


class NvmlUnavailableError(Exception):
    """Raised when the driver answers without the figure that was asked for; the message says why."""


@dataclass(frozen=True, slots=True)
class Device:
    """A GPU by its index in NVML, which ignores CUDA_VISIBLE_DEVICES; only the UUID identifies it."""

    index: int
    name: str
    uuid: str


class Nvml:
    """A reader of every GPU of the machine that never raises: what it cannot read is absent, see `reason`.

    A failed query is tried again after a minute. `read` and `close` belong to one thread; any thread may use
    the rest.
    """

    def __init__(self, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._library: Any = None  # pynvml while a session is open
        self._count = 0
        self._handles: dict[int, Any] = {}
        self._devices: dict[int, Device] = {}
        self._retry_at: dict[str, float] = {}
        self._reasons: dict[str, str] = {}

    def devices(self) -> list[Device]:
        """Return the GPUs found so far: none before the first reading, none without a working driver."""
        return list(self._devices.values())

    @property
    def reason(self) -> str:
        """Why something is not available, or an empty string if nothing is missing."""
        return "; ".join(f"{what} not available because {why}" for what, why in list(self._reasons.items()))

    def read(self, *, pid: int, children: Collection[int] = ()) -> Readings:
        """Return memory in bytes and utilization in percent of each GPU, such as `memory/gpu0/used`.

        `memory/gpu0/process` (of `pid`) and `memory/gpu0/children` (their sum) are present only if the driver
        lists those processes on that device; absent does not mean 0.
        """
        readings: Readings = {}
        if self._library is None:
            self._ask("GPUs", self._open)
        for index in range(self._count):
            readings |= self._read_device(index, pid=pid, children=children)
        return readings

    def close(self) -> None:
        """End the session with the driver; a later `read` opens another."""
        library, self._library = self._library, None
        self._count = 0
        self._handles.clear()
        if library is not None:
            # An unloaded driver has already ended the session.
            with contextlib.suppress(library.NVMLError):
                library.nvmlShutdown()

    def _read_device(self, index: int, *, pid: int, children: Collection[int]) -> Readings:
        if self._library is not None and index not in self._handles:
            self._ask(f"GPU {index}", partial(self._open_device, index), index=index)
        readings: Readings = {}
        for what, query in (
            ("memory", self._memory),
            ("utilization", self._utilization),
            ("processes", partial(self._processes, pid=pid, children=children)),
        ):
            if index in self._handles:  # a failed query may have ended the session or lost the device
                readings |= self._ask(f"GPU {index} {what}", partial(query, index), index=index)
        return readings

    def _ask(self, what: str, query: Callable[[], Readings], *, index: int | None = None) -> Readings:
        if self._clock() < self._retry_at.get(what, float("-inf")):
            return {}
        try:
            readings = query()
        except Exception as error:  # also errors of ctypes and decoders with an unexpected library
            self._failed(what, error, index=index)
            return {}
        self._retry_at.pop(what, None)
        self._reasons.pop(what, None)
        return readings

    def _failed(self, what: str, error: Exception, *, index: int | None) -> None:
        name = error_name(error)
        if name in SESSION_ERRORS or index is None:
            self.close()
            self._retry_at.clear()
            self._reasons.clear()
            what = "GPUs"
        elif name in DEVICE_ERRORS:
            self._handles.pop(index, None)
            what = f"GPU {index}"
        self._retry_at[what] = self._clock() + RETRY_SECS
        self._reasons[what] = REASONS.get(name) or str(error) or name

    def _open(self) -> Readings:
        # Not at the top: the import takes 20 ms, which the sampler's thread spends instead of the training.
        import pynvml

        pynvml.nvmlInit()
        self._library = pynvml
        self._count = pynvml.nvmlDeviceGetCount()
        if not self._count:
            raise NvmlUnavailableError("the NVIDIA driver finds no device")
        return {}

    def _open_device(self, index: int) -> Readings:
        handle = self._library.nvmlDeviceGetHandleByIndex(index)
        name = self._library.nvmlDeviceGetName(handle)
        self._devices[index] = Device(index, name, self._library.nvmlDeviceGetUUID(handle))
        self._handles[index] = handle
        return {}

    def _memory(self, index: int) -> Readings:
        library, handle = self._library, self._handles[index]
        try:
            memory = library.nvmlDeviceGetMemoryInfo(handle, version=library.nvmlMemory_v2)
        except (library.NVMLError_FunctionNotFound, library.NVMLError_NotSupported):
            # Drivers before 510, which count the driver's own reserve as used.
            memory = library.nvmlDeviceGetMemoryInfo(handle)
        prefix = f"memory/gpu{index}"
        return {f"{prefix}/used": float(memory.used), f"{prefix}/total": float(memory.total)}

    def _utilization(self, index: int) -> Readings:
        rates = self._library.nvmlDeviceGetUtilizationRates(self._handles[index])
        return {f"gpu{index}/utilization": float(rates.gpu)}

    def _processes(self, index: int, *, pid: int, children: Collection[int]) -> Readings:
        used = self._used_by_process(self._handles[index])
        if used and not any(map(psutil.pid_exists, used)):
            raise NvmlUnavailableError("the driver identifies processes by ids from outside this container")
        own = {process: used[process] for process in (pid, *children) if process in used}
        if not all(own.values()):  # None on Windows, 0 in some containers
            raise NvmlUnavailableError("the driver does not report how much memory a process uses")
        readings = {f"memory/gpu{index}/process": float(own.pop(pid) or 0)} if pid in own else {}
        if own:
            readings[f"memory/gpu{index}/children"] = float(sum(bytes_ or 0 for bytes_ in own.values()))
        return readings

    def _used_by_process(self, handle: Any) -> dict[int, int | None]:
        library = self._library
        try:
            processes = library.nvmlDeviceGetComputeRunningProcesses_v3(handle)
        except library.NVMLError_FunctionNotFound:
            processes = library.nvmlDeviceGetComputeRunningProcesses_v2(handle)
        used: dict[int, int | None] = {}
        for process in processes:  # one process has an entry for each MIG instance that it uses
            unknown = process.usedGpuMemory is None
            used[process.pid] = None if unknown else (used.get(process.pid) or 0) + process.usedGpuMemory
        return used


def error_name(error: Exception) -> str:
    """Return the error in one word, such as `GpuIsLost`."""
    return type(error).__name__.removeprefix("NVMLError_")
