"""What the numbers were measured on; nothing that tells whose machine it is."""

from __future__ import annotations

import ctypes
import os
import platform
from importlib import metadata
from pathlib import Path

import psutil

from tb_netdebug.core.stats import kernel
from tb_netdebug.version import __version__

PACKAGES = ("torch", "keras", "tensorflow-cpu", "numpy", "tensorboard", "wandb")


def describe(threads: int) -> dict[str, str]:
    """By name, in the order in which it is to be shown."""
    told = {
        "processor": f"{processor()}, {cores()} cores usable, {threads} threads used",
        "memory": f"{psutil.virtual_memory().total / 2**30:.1f} GiB",
        "system": f"{system()}, {platform.machine()}",
        "load at the start": load(),
        "Python": f"{platform.python_implementation()} {platform.python_version()}",
        "NetDebug": f"{__version__}, kernel: {in_use()}",
    }
    return {
        **told,
        **{name: metadata.version(name) for name in PACKAGES if any(metadata.distributions(name=name))},
    }


def processor() -> str:
    """Its name as the system knows it."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        lines = []
    names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(names, platform.processor() or platform.machine())


def cores() -> int:
    """Those that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return psutil.cpu_count() or 1


def system() -> str:
    kernel_release = f"{platform.system()} {platform.release()}"
    try:
        return f"{platform.freedesktop_os_release()['PRETTY_NAME']}, {kernel_release}"
    except (OSError, KeyError):
        return kernel_release


def load() -> str:
    """How much else was going on; a busy machine makes every number worse and less certain."""
    return f"{psutil.getloadavg()[0]:.2f} processes wanted to run"


def in_use() -> str:
    told = kernel.description()
    return f"{told['kernel']}, {told['instruction_set']}"


# glibc's own numbers for mallopt(), and what we ask for.
MOST_KEPT = -1, 1 << 30
FROM_THE_SYSTEM = -3, 32 << 20


def keep_freed_memory() -> None:
    """Has glibc keep what is freed, for everybody in this process.

    By itself it gives gradients back to the system at the end of some steps and not of others, according to
    what else lies at the end of its heap: the unwatched MLP took 2.7 or 4.1 ms a step by that alone.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        for which, size in (MOST_KEPT, FROM_THE_SYSTEM):
            mallopt(which, size)
