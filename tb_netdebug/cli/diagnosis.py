"""What `netdebug doctor` looks at. Nothing heavy is imported: torch and tensorflow are only looked up."""

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
    "own": "a team of its own, or torch's where torch is loaded",
    "openmp": "those of the OpenMP runtime that is loaded",
    "none": "the calling one alone",
    "numpy": "NumPy",
}
REINSTALL = "pip install --force-reinstall --no-cache-dir"


class State(Enum):
    GOOD = "good"
    NOTE = "note"  # worth knowing, and no fault
    PROBLEM = "problem"  # makes NetDebug slow or blind


@dataclass(frozen=True, slots=True)
class Fact:
    """One thing that was looked at, and the next step when it is not as it should be."""

    topic: str
    name: str
    value: str
    state: State = State.GOOD
    advice: str = ""


def examine(*, logdir: str) -> list[Fact]:
    """Everything that was found out, topic by topic. What cannot be looked at counts as a problem."""
    probes: list[tuple[str, Callable[[], Iterator[Fact]]]] = [
        ("machine", machine),
        ("kernel", kernel),
        ("frameworks", frameworks),
        ("page", page),
        ("gpu", gpus),
        ("event files", lambda: event_files(Path(logdir))),
    ]
    facts: list[Fact] = []
    for topic, probe in probes:
        try:
            facts += probe()
        except Exception as error:  # a doctor must not die of the illness
            told = f"{type(error).__name__}: {error}"
            facts.append(Fact(topic, "broken", told, State.PROBLEM, f"{REINSTALL} tb_netdebug"))
    return facts


def machine() -> Iterator[Fact]:
    yield Fact("machine", "netdebug", f"{__version__} in {Path(__file__).parents[1]}")
    yield Fact("machine", "python", f"{platform.python_version()} ({sys.executable})")
    yield Fact("machine", "system", platform.platform())
    yield Fact("machine", "cpu", f"{processor()}, {usable_cpus()} of {os.cpu_count()} usable")
    yield Fact("machine", "memory", f"{psutil.virtual_memory().total / 2**30:.1f} GiB")


def processor() -> str:
    """The name that the maker gave it; Linux keeps it in a file only."""
    info = Path("/proc/cpuinfo")
    lines = info.read_text(encoding="utf-8", errors="replace").splitlines() if info.exists() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()


def usable_cpus() -> int:
    """What a container or a batch system leaves to this process."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def kernel() -> Iterator[Fact]:
    from tb_netdebug.core.eventlog.reader import scanner
    from tb_netdebug.core.records import codec_twin
    from tb_netdebug.core.records.codec import codec
    from tb_netdebug.core.stats import kernel as chosen

    about = chosen.description()
    if about["kernel"] == "native":
        yield native_kernel(chosen.reason)
    else:
        told = f"the slow NumPy twin: {chosen.reason}"
        yield Fact("kernel", "in use", told, State.PROBLEM, towards_native())
    for key, name in KERNEL_DETAILS.items():
        if value := about.get(key):
            told = ", ".join(value) if isinstance(value, list) else str(value)
            yield Fact("kernel", name, TERSE.get(told, told))
    for name, is_twin in (
        ("codec", codec is codec_twin),
        ("reader", isinstance(scanner.native, scanner.Twin)),
    ):
        if is_twin:
            yield Fact("kernel", name, "the slow Python twin", State.PROBLEM, towards_native())
        else:
            yield Fact("kernel", name, "C")


def native_kernel(reason: str) -> Fact:
    if os.environ.get("NETDEBUG_KERNEL"):
        return Fact(
            "kernel", "in use", f"C: {reason}", State.NOTE, "unset NETDEBUG_KERNEL to have the best one"
        )
    return Fact("kernel", "in use", f"C: {reason}")


def towards_native() -> str:
    if os.environ.get("NETDEBUG_KERNEL"):
        return "unset NETDEBUG_KERNEL"
    needed = "a C compiler and Python's headers (gcc, python3-dev)"
    return f"install {needed}, then {REINSTALL} --no-deps tb_netdebug"


def frameworks() -> Iterator[Fact]:
    found = {name: installed(name, distributions) for name, distributions in FRAMEWORKS.items()}
    for name, version in found.items():
        if version:
            yield Fact("frameworks", name, version)
    if not (found["torch"] or found["tensorflow"] or found["keras"]):
        advice = "fine where TensorBoard only shows runs; to record one, install torch or tensorflow"
        yield Fact("frameworks", "torch, keras", "not installed", State.NOTE, advice)
    yield tensorboard()


def tensorboard() -> Fact:
    version = installed("tensorboard", ("tensorboard", "tb-nightly"))
    wanted = ".".join(map(str, OLDEST_TENSORBOARD))
    if tuple(int(number) for number in re.findall(r"\d+", version)[:2]) >= OLDEST_TENSORBOARD:
        return Fact("frameworks", "tensorboard", version)
    advice = f'pip install "tensorboard>={wanted}"'
    return Fact("frameworks", "tensorboard", version or "not installed", State.PROBLEM, advice)


def page() -> Iterator[Fact]:
    """What TensorBoard needs to show our tab; nothing of TensorBoard is imported."""
    folder = Path(__file__).parents[1] / "viewer/plugin/page"
    if (folder / "index.html").exists():
        yield Fact("page", "files", f"{sum(1 for path in folder.rglob('*') if path.is_file())} files")
    else:
        advice = f"install Node 18 or newer, then {REINSTALL} --no-deps tb_netdebug (in a checkout: make dev)"
        yield Fact("page", "files", "not built", State.PROBLEM, advice)
    known = metadata.entry_points(group="tensorboard_plugins")
    if any(each.value.startswith("tb_netdebug.") for each in known):
        yield Fact("page", "tab", "TensorBoard finds it")
    else:
        advice = f"{REINSTALL} --no-deps tb_netdebug into the environment of TensorBoard"
        yield Fact("page", "tab", "TensorBoard does not find it", State.PROBLEM, advice)


def installed(module: str, distributions: tuple[str, ...]) -> str:
    """The version of a module that could be imported, looked up without importing it; empty when absent."""
    if util.find_spec(module) is None:
        return ""
    for name in distributions:
        try:
            return metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return "of unknown version"


def gpus() -> Iterator[Fact]:
    from tb_netdebug.core.machine.nvml import Nvml

    nvml = Nvml()
    readings = nvml.read(pid=os.getpid())
    for device in nvml.devices():
        total = readings.get(f"memory/gpu{device.index}/total", 0.0)
        yield Fact("gpu", f"gpu {device.index}", f"{device.name}, {total / 2**30:.1f} GiB")
    nvml.close()
    present = Path("/dev/nvidiactl").exists() or Path("/proc/driver/nvidia").exists()
    if nvml.reason and (present or nvml.devices()):
        advice = "see whether nvidia-smi works; the memory of the GPU is not recorded without it"
        yield Fact("gpu", "driver", nvml.reason, State.PROBLEM, advice)
    elif nvml.reason:
        why = nvml.reason.removeprefix("GPUs not available because ")
        yield Fact("gpu", "nvidia", f"none: {why}", State.NOTE)


def event_files(logdir: Path) -> Iterator[Fact]:
    yield writable(logdir)
    yield checksums()
    yield messages()


def writable(logdir: Path) -> Fact:
    """Whether a file can be made in the folder, or in the nearest one above it that exists already."""
    folder = next(each for each in (logdir, *logdir.absolute().parents) if each.exists())
    try:
        with tempfile.NamedTemporaryFile(dir=folder, prefix=".netdebug-doctor-") as trial:
            trial.write(b"netdebug")
            trial.flush()
            os.fsync(trial.fileno())
    except OSError as error:
        advice = "choose another --logdir, or make this one writable"
        return Fact("event files", "logdir", f"{folder}: {error.strerror}", State.PROBLEM, advice)
    free = shutil.disk_usage(folder).free
    told = f"{logdir} can be written, {free / 2**30:.1f} GiB free"
    if free < SCARCE_BYTES:
        return Fact("event files", "logdir", told, State.PROBLEM, "make room, or choose another --logdir")
    return Fact("event files", "logdir", told)


def checksums() -> Fact:
    import google_crc32c

    version = metadata.version("google-crc32c")
    if google_crc32c.implementation == "c":
        return Fact("event files", "checksums", f"google-crc32c {version} in C")
    told = f"google-crc32c {version} in pure Python, slow"
    return Fact("event files", "checksums", told, State.PROBLEM, f"{REINSTALL} google-crc32c")


def messages() -> Fact:
    from google.protobuf.internal import api_implementation

    version, implementation = metadata.version("protobuf"), api_implementation.Type()
    if implementation != "python":
        return Fact("event files", "protobuf", f"{version} in C ({implementation})")
    forced = os.environ.get("PROTOCOL_BUFFERS_PYTHON_IMPLEMENTATION")
    advice = "unset PROTOCOL_BUFFERS_PYTHON_IMPLEMENTATION" if forced else f"{REINSTALL} protobuf"
    return Fact("event files", "protobuf", f"{version} in pure Python, slow", State.PROBLEM, advice)
