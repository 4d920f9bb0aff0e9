"""GPU memory through the real nvidia-ml-py and a stand-in for the driver's library, compiled here."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

SOURCE = Path(__file__).parents[2] / "support" / "fake_nvml.c"
GIB = 1 << 30
NOT_AVAILABLE = 2**64 - 1
NO_SUCH_PID = 2**22 + 1  # above what any Linux gives out

MACHINE = {
    "FAKE_NVML_TOTAL_0": 80 * GIB,
    "FAKE_NVML_USED_0": 11 * GIB,
    "FAKE_NVML_RESERVED_0": 1 * GIB,
    "FAKE_NVML_PROCESS_0": 9 * GIB,
    "FAKE_NVML_UTILIZATION_0": 97,
    "FAKE_NVML_TOTAL_1": 24 * GIB,
    "FAKE_NVML_USED_1": 3 * GIB,
    "FAKE_NVML_PROCESS_1": 2 * GIB,
    "FAKE_NVML_UTILIZATION_1": 5,
}
READINGS = {
    "memory/gpu0/used": 10.0 * GIB,
    "memory/gpu0/total": 80.0 * GIB,
    "memory/gpu0/process": 9.0 * GIB,
    "gpu0/utilization": 97.0,
    "memory/gpu1/used": 3.0 * GIB,
    "memory/gpu1/total": 24.0 * GIB,
    "memory/gpu1/process": 2.0 * GIB,
    "gpu1/utilization": 5.0,
}

# What every script below begins with: a clock that it moves itself, and a way to print its findings.
PRELUDE = """
import json, os, subprocess, sys
from tb_netdebug.core.machine.nvml import Nvml
now = [0.0]
nvml = Nvml(clock=lambda: now[0])
read = lambda: nvml.read(pid=os.getpid())
show = lambda *values: print(json.dumps(values))
"""
READ_ONCE = "show(read(), nvml.reason); nvml.close()"


def compiled(folder: Path, *flags: str) -> Path:
    command = ["gcc", "-shared", "-fPIC", "-Wall", "-Werror", *flags]
    subprocess.run([*command, "-o", str(folder / "libnvidia-ml.so.1"), str(SOURCE)], check=True)
    return folder


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a driver library with two GPUs."""
    return compiled(tmp_path_factory.mktemp("nvml"))


def run(script: str, library: Path, **environment: object) -> list[Any]:
    """Runs `script` where the driver is that of `library`; gives what it showed."""
    settings = {**MACHINE, **environment, "LD_LIBRARY_PATH": library}
    variables = {**os.environ, **{name: str(value) for name, value in settings.items()}}
    command = [sys.executable, "-c", PRELUDE + script]
    ended = subprocess.run(command, env=variables, capture_output=True, text=True, timeout=60, check=False)
    assert (ended.returncode, ended.stderr) == (0, "")
    shown: list[Any] = json.loads(ended.stdout)
    return shown


def without(*endings: str) -> dict[str, float]:
    return {name: value for name, value in READINGS.items() if not name.endswith(endings)}


SAMPLE = """
from tb_netdebug.core.machine.memory import MemorySampler
sampler = MemorySampler(interval_secs=3600.0)
sampler.start()
assert sampler.wait_for_first(30)
show({name: value for name, value in sampler.latest().items() if "gpu" in name}, sampler.describe())
sampler.close()
"""


def test_sampler_hands_over_the_values_of_the_driver(library: Path) -> None:
    """The exact numbers of the driver arrive in `latest()`, under the names of the devices."""
    readings, description = run(SAMPLE, library)
    assert readings == READINGS
    assert description == ("Host memory and GPU 0 (Imaginary GPU A), GPU 1 (Imaginary GPU B) are recorded.")


def test_sampler_without_a_driver_says_so(tmp_path: Path) -> None:
    """Without a usable library only the host is recorded, and the sentence says why."""
    (tmp_path / "libnvidia-ml.so.1").write_text("not a library")  # hides a real one
    readings, description = run(SAMPLE, tmp_path)
    assert readings == {}
    assert description == (
        "Only host memory is recorded: GPUs not available because "
        "the library of the NVIDIA driver (NVML) was not found."
    )


def test_devices_have_names_and_uuids(library: Path) -> None:
    """Devices are known after the first reading, by NVML's numbers, whatever CUDA_VISIBLE_DEVICES says."""
    script = "assert not nvml.devices(); read(); show([[d.index, d.name, d.uuid] for d in nvml.devices()])"
    [devices] = run(script, library, CUDA_VISIBLE_DEVICES="1")
    assert devices == [
        [0, "Imaginary GPU A", "GPU-00000000-0000-0000-0000-000000000000"],
        [1, "Imaginary GPU B", "GPU-00000000-0000-0000-0000-000000000001"],
    ]


def test_children_are_summed_and_strangers_left_out(library: Path) -> None:
    """Children have a reading of their own; processes of others count in neither."""
    script = """
children = [subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) for _ in range(2)]
pids = [child.pid for child in children]
os.environ["FAKE_NVML_PIDS"] = ",".join(map(str, [1, os.getpid(), *pids]))
show(nvml.read(pid=os.getpid(), children=pids), nvml.read(pid=os.getpid()))
for child in children:
    child.communicate(b"\\n")
"""
    with_children, alone = run(script, library)
    expected = {"memory/gpu0/children": 18.0 * GIB, "memory/gpu1/children": 4.0 * GIB}
    assert with_children == {**READINGS, **expected}
    assert alone == READINGS


def test_a_device_that_this_process_does_not_use_has_no_process_reading(library: Path) -> None:
    """No reading rather than 0, and nothing to complain about."""
    readings, reason = run(READ_ONCE, library, FAKE_NVML_PIDS="1")
    assert readings == without("/process")
    assert reason == ""


@pytest.mark.parametrize("used", [NOT_AVAILABLE, 0])
def test_unknown_process_memory_is_absent(library: Path, used: int) -> None:
    """Where the driver does not say what a process uses, there is no reading and a reason."""
    readings, reason = run(READ_ONCE, library, FAKE_NVML_PROCESS_0=used, FAKE_NVML_PROCESS_1=used)
    assert readings == without("/process")
    assert "GPU 0 processes not available because the driver does not report how much memory" in reason


def test_process_ids_from_outside_a_container_are_recognised(library: Path) -> None:
    """Ids that nobody has here are the host's, not ours."""
    readings, reason = run(READ_ONCE, library, FAKE_NVML_PIDS=NO_SUCH_PID)
    assert readings == without("/process")
    assert (
        "GPU 1 processes not available because the driver identifies processes by ids from outside" in reason
    )


def test_old_drivers_are_read_by_their_old_functions(tmp_path: Path) -> None:
    """Without the newer functions the older ones serve; their used memory includes what is reserved."""
    readings, reason = run(READ_ONCE, compiled(tmp_path, "-DOLD_DRIVER"))
    assert readings == {**READINGS, "memory/gpu0/used": 11.0 * GIB}
    assert reason == ""


@pytest.mark.parametrize(
    ("failing", "expected", "reason"),
    [
        ("nvmlInitWithFlags=9", {}, "GPUs not available because the NVIDIA driver is not loaded"),
        ("nvmlInitWithFlags=18", {}, "GPUs not available because the NVIDIA driver was updated and"),
        ("nvmlInitWithFlags=4", {}, "GPUs not available because the NVIDIA driver does not permit it"),
        ("nvmlInitWithFlags=999", {}, "GPUs not available because Unknown Error"),
        ("nvmlDeviceGetCount_v2=4", {}, "GPUs not available because the NVIDIA driver does not permit it"),
        ("nvmlDeviceGetCount_v2=12345", {}, "GPUs not available because Some other error"),
        (
            "nvmlDeviceGetHandleByIndex_v2@1=15",
            {name: value for name, value in READINGS.items() if "gpu1" not in name},
            "GPU 1 not available because the driver lost the device",
        ),
        (
            "nvmlDeviceGetUUID@0=4",
            {name: value for name, value in READINGS.items() if "gpu0" not in name},
            "GPU 0 not available because the NVIDIA driver does not permit it",
        ),
        (
            "nvmlDeviceGetUtilizationRates=3",
            without("/utilization"),
            "GPU 0 utilization not available because the device does not support it; "
            "GPU 1 utilization not available because the device does not support it",
        ),
        (
            "nvmlDeviceGetComputeRunningProcesses_v3@0=4",
            {name: value for name, value in READINGS.items() if name != "memory/gpu0/process"},
            "GPU 0 processes not available because the NVIDIA driver does not permit it",
        ),
        (
            "nvmlDeviceGetMemoryInfo_v2@0=21",
            {n: v for n, v in READINGS.items() if n not in ("memory/gpu0/used", "memory/gpu0/total")},
            "GPU 0 memory not available because No data (said by the library)",
        ),
        ("nvmlShutdown=1", READINGS, ""),
    ],
)
def test_failures_are_told_and_cost_only_what_failed(
    library: Path, failing: str, expected: dict[str, float], reason: str
) -> None:
    """Each error of the driver becomes a reason; the other readings arrive."""
    readings, told = run(READ_ONCE, library, FAKE_NVML_FAIL=failing)
    assert readings == expected
    assert told.startswith(reason)
    assert bool(told) == bool(reason)


def test_a_lost_device_comes_back_after_a_minute(library: Path) -> None:
    """A device that is lost while it is watched is left alone for a minute, then found again."""
    script = """
show_later = [sorted(read())]
os.environ["FAKE_NVML_FAIL"] = "nvmlDeviceGetMemoryInfo_v2@1=15"
show_later += [sorted(read()), nvml.reason]
del os.environ["FAKE_NVML_FAIL"]
now[0] = 59.0
show_later += [sorted(read())]
now[0] = 60.0
show_later += [sorted(read()), nvml.reason, len(nvml.devices())]
show(*show_later)
"""
    rest = sorted(name for name in READINGS if "gpu1" not in name)
    lost = "GPU 1 not available because the driver lost the device"
    assert run(script, library) == [sorted(READINGS), rest, lost, rest, sorted(READINGS), "", 2]


def test_a_session_that_ends_is_opened_again_after_a_minute(library: Path) -> None:
    """When the driver is unloaded or replaced everything is gone until a new session works."""
    script = """
show_later = [len(read())]
os.environ["FAKE_NVML_FAIL"] = "nvmlDeviceGetUtilizationRates@0=1"
show_later += [len(read()) < 4, nvml.reason]
del os.environ["FAKE_NVML_FAIL"]
show_later += [len(read())]
now[0] = 60.0
show_later += [len(read()), nvml.reason]
show(*show_later)
"""
    count = len(READINGS)
    told = "GPUs not available because the NVIDIA driver ended the session"
    assert run(script, library) == [count, True, told, 0, count, ""]


def test_a_missing_library_is_looked_for_once_a_minute(library: Path, tmp_path: Path) -> None:
    """A driver that is installed during a training is found at the next look."""
    script = f"""
import pathlib, shutil
show_later = [len(read())]
pathlib.Path("{tmp_path}/libnvidia-ml.so.1").unlink()
shutil.copy("{library}/libnvidia-ml.so.1", "{tmp_path}")
show_later += [len(read())]
now[0] = 60.0
show_later += [len(read())]
show(*show_later)
"""
    (tmp_path / "libnvidia-ml.so.1").write_text("not a library")
    assert run(script, tmp_path) == [0, 0, len(READINGS)]


def test_no_device_is_told(library: Path) -> None:
    """A driver without a GPU is not an error, and there is nothing to read."""
    told = "GPUs not available because the NVIDIA driver finds no device"
    assert run(READ_ONCE, library, FAKE_NVML_DEVICES=0) == [{}, told]


def test_a_missing_package_is_told(library: Path) -> None:
    """Without nvidia-ml-py the reason names it."""
    script = 'sys.modules["pynvml"] = None\n' + READ_ONCE
    readings, reason = run(script, library)
    assert readings == {}
    assert "pynvml" in reason
