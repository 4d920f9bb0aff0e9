"""The probes of `netdebug doctor`.

They import nothing heavy: torch and tensorflow are only looked up.
"""

from __future__ import annotations

import os
import platform
import re
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import Enum
from importlib import metadata, util
from pathlib import Path

import psutil

from tb_netdebug.version import __version__

OLDEST_TENSORBOARD = (2, 15)
SCARCE_BYTES = 1 << 30
FRAMEWORKS = {
    "torch": ("torch",),
    "tensorflow": ("tensorflow", "tensorflow-cpu", "tensorflow-macos", "intel-tensorflow"),
    "keras": ("keras",),
    "lightning": ("lightning", "pytorch-lightning"),
    "transformers": ("transformers",),
}
KERNEL_DETAILS = {
    "instruction_set": "instructions",
    "compiled": "compiled for",
    "supported": "runnable here",
    "threads": "threads",
}
TERSE = {
    "own": "a thread pool of its own, or torch's where torch is loaded",
    "openmp": "the threads of the loaded OpenMP runtime",
    "none": "only the calling thread",
    "numpy": "NumPy",
}
REINSTALL = "pip install --force-reinstall --no-cache-dir"


class State(Enum):
    GOOD = "good"
    NOTE = "note"  # worth knowing, and no fault
    PROBLEM = "problem"  # makes NetDebug slow or blind


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """One fact that a probe found, and the next step if something is wrong."""

    topic: str
    name: str
    value: str
    state: State = State.GOOD
    advice: str = ""


def examine(*, logdir: str) -> list[Diagnosis]:
    """Run all probes and return the facts by topic. A probe that raises counts as a problem."""
    probes: list[tuple[str, Callable[[], Iterator[Diagnosis]]]] = [
        ("machine", machine),
        ("kernel", kernel),
        ("frameworks", frameworks),
        ("page", page),
        ("gpu", gpus),
        ("event files", lambda: event_files(Path(logdir))),
    ]
    facts: list[Diagnosis] = []
    for topic, probe in probes:
        try:
            facts += probe()
        except Exception as error:  # a broken installation is what the doctor is for: report it
            told = f"{type(error).__name__}: {error}"
            facts.append(Diagnosis(topic, "broken", told, State.PROBLEM, f"{REINSTALL} tb_netdebug"))
    return facts


def machine() -> Iterator[Diagnosis]:
    yield Diagnosis("machine", "netdebug", f"{__version__} in {Path(__file__).parents[1]}")
    yield Diagnosis("machine", "python", f"{platform.python_version()} ({sys.executable})")
    yield Diagnosis("machine", "system", platform.platform())
    yield Diagnosis("machine", "cpu", f"{processor()}, {usable_cpus()} of {os.cpu_count()} usable")
    yield Diagnosis("machine", "memory", f"{psutil.virtual_memory().total / 2**30:.1f} GiB")


def processor() -> str:
    """Return the model name of the CPU. On Linux only /proc/cpuinfo has it."""
    info = Path("/proc/cpuinfo")
    lines = info.read_text(encoding="utf-8", errors="replace").splitlines() if info.exists() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()


def usable_cpus() -> int:
    """Return how many CPUs a container or a batch system leaves to this process."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def kernel() -> Iterator[Diagnosis]:
    """Yield which of the C modules are in use, and why not the others."""
    from tb_netdebug.core.eventlog.reader import scanner
    from tb_netdebug.core.records import codec_twin
    from tb_netdebug.core.records.codec import codec
    from tb_netdebug.core.stats import kernel as chosen

    about = chosen.description()
    if about["kernel"] == "native":
        yield native_kernel(chosen.reason)
    else:
        told = f"the slow NumPy twin: {chosen.reason}"
        yield Diagnosis("kernel", "in use", told, State.PROBLEM, towards_native())
    for key, name in KERNEL_DETAILS.items():
        if value := about.get(key):
            told = ", ".join(value) if isinstance(value, list) else str(value)
            yield Diagnosis("kernel", name, TERSE.get(told, told))
    for name, is_twin in (
        ("codec", codec is codec_twin),
        ("reader", isinstance(scanner.native, scanner.Twin)),
    ):
        if is_twin:
            yield Diagnosis("kernel", name, "the slow Python twin", State.PROBLEM, towards_native())
        else:
            yield Diagnosis("kernel", name, "C")


def native_kernel(reason: str) -> Diagnosis:
    if os.environ.get("NETDEBUG_KERNEL"):
        return Diagnosis(
            "kernel", "in use", f"C: {reason}", State.NOTE, "unset NETDEBUG_KERNEL to use the fastest one"
        )
    return Diagnosis("kernel", "in use", f"C: {reason}")


def towards_native() -> str:
    """Return the advice for a slow Python twin: what to unset or to install."""
    if os.environ.get("NETDEBUG_KERNEL"):
        return "unset NETDEBUG_KERNEL"
    needed = "a C compiler and Python's headers (gcc, python3-dev)"
    return f"install {needed}, then {REINSTALL} --no-deps tb_netdebug"


def frameworks() -> Iterator[Diagnosis]:
    found = {name: installed(name, distributions) for name, distributions in FRAMEWORKS.items()}
    for name, version in found.items():
        if version:
            yield Diagnosis("frameworks", name, version)
    if not (found["torch"] or found["tensorflow"] or found["keras"]):
        advice = "not needed where TensorBoard only shows runs; to record a run, install torch or tensorflow"
        yield Diagnosis("frameworks", "torch, keras", "not installed", State.NOTE, advice)
    yield tensorboard()


def tensorboard() -> Diagnosis:
    version = installed("tensorboard", ("tensorboard", "tb-nightly"))
    wanted = ".".join(map(str, OLDEST_TENSORBOARD))
    if tuple(int(number) for number in re.findall(r"\d+", version)[:2]) >= OLDEST_TENSORBOARD:
        return Diagnosis("frameworks", "tensorboard", version)
    advice = f'pip install "tensorboard>={wanted}"'
    return Diagnosis("frameworks", "tensorboard", version or "not installed", State.PROBLEM, advice)


def page() -> Iterator[Diagnosis]:
    """Yield whether TensorBoard can show our tab. TensorBoard is not imported."""
    folder = Path(__file__).parents[1] / "viewer/plugin/page"
    if (folder / "index.html").exists():
        yield Diagnosis("page", "files", f"{sum(1 for path in folder.rglob('*') if path.is_file())} files")
    else:
        advice = f"install Node 18 or newer, then {REINSTALL} --no-deps tb_netdebug (in a checkout: make dev)"
        yield Diagnosis("page", "files", "not built", State.PROBLEM, advice)
    known = metadata.entry_points(group="tensorboard_plugins")
    if any(each.value.startswith("tb_netdebug.") for each in known):
        yield Diagnosis("page", "tab", "TensorBoard finds it")
    else:
        advice = f"{REINSTALL} --no-deps tb_netdebug into the environment of TensorBoard"
        yield Diagnosis("page", "tab", "TensorBoard does not find it", State.PROBLEM, advice)


def installed(module: str, distributions: tuple[str, ...]) -> str:
    """Return the version of an importable module without importing it; empty when absent."""
    if util.find_spec(module) is None:
        return ""
    for name in distributions:
        try:
            return metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return "of unknown version"


def gpus() -> Iterator[Diagnosis]:
    """Yield the GPUs; that there is none is a problem only where an NVIDIA driver is present."""
    from tb_netdebug.core.machine.nvml import Nvml

    nvml = Nvml()
    readings = nvml.read(pid=os.getpid())
    for device in nvml.devices():
        total = readings.get(f"memory/gpu{device.index}/total", 0.0)
        yield Diagnosis("gpu", f"gpu {device.index}", f"{device.name}, {total / 2**30:.1f} GiB")
    nvml.close()
    present = Path("/dev/nvidiactl").exists() or Path("/proc/driver/nvidia").exists()
    if nvml.reason and (present or nvml.devices()):
        advice = "check that nvidia-smi works; without it, GPU memory is not recorded"
        yield Diagnosis("gpu", "driver", nvml.reason, State.PROBLEM, advice)
    elif nvml.reason:
        why = nvml.reason.removeprefix("GPUs not available because ")
        yield Diagnosis("gpu", "nvidia", f"none: {why}", State.NOTE)


def event_files(logdir: Path) -> Iterator[Diagnosis]:
    yield writable(logdir)
    yield checksums()
    yield messages()


def writable(logdir: Path) -> Diagnosis:
    """Return whether a file can be created in the folder, or else in its nearest existing parent."""
    folder = next(each for each in (logdir, *logdir.absolute().parents) if each.exists())
    try:
        with tempfile.NamedTemporaryFile(dir=folder, prefix=".netdebug-doctor-") as trial:
            trial.write(b"netdebug")
            trial.flush()
            # a full disk or an exceeded quota may show only at fsync
            os.fsync(trial.fileno())
    except OSError as error:
        advice = "choose another --logdir, or make this one writable"
        return Diagnosis("event files", "logdir", f"{folder}: {error.strerror}", State.PROBLEM, advice)
    free = shutil.disk_usage(folder).free
    told = f"{logdir} can be written, {free / 2**30:.1f} GiB free"
    if free < SCARCE_BYTES:
        return Diagnosis(
            "event files", "logdir", told, State.PROBLEM, "free some space, or choose another --logdir"
        )
    return Diagnosis("event files", "logdir", told)


def checksums() -> Diagnosis:
    import google_crc32c

    version = metadata.version("google-crc32c")
    if google_crc32c.implementation == "c":
        return Diagnosis("event files", "checksums", f"google-crc32c {version} in C")
    told = f"google-crc32c {version} in pure Python, slow"
    return Diagnosis("event files", "checksums", told, State.PROBLEM, f"{REINSTALL} google-crc32c")


def messages() -> Diagnosis:
    from google.protobuf.internal import api_implementation

    version, implementation = metadata.version("protobuf"), api_implementation.Type()
    if implementation != "python":
        return Diagnosis("event files", "protobuf", f"{version} in C ({implementation})")
    forced = os.environ.get("PROTOCOL_BUFFERS_PYTHON_IMPLEMENTATION")
    advice = "unset PROTOCOL_BUFFERS_PYTHON_IMPLEMENTATION" if forced else f"{REINSTALL} protobuf"
    return Diagnosis("event files", "protobuf", f"{version} in pure Python, slow", State.PROBLEM, advice)
