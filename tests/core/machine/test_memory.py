"""Memory of this process, its children and torch's allocator, sampled by a thread that harms nobody."""

from __future__ import annotations

import itertools
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from types import SimpleNamespace

import psutil
import pytest
import torch

from tb_netdebug.core.machine.host_memory import HostMemory, listed_descendants, resident_bytes
from tb_netdebug.core.machine.memory import Mailbox, MemorySampler, MemorySource
from tb_netdebug.frameworks.torch.memory import torch_allocator

MIB = 1 << 20
PATIENCE_SECS = 30.0

# Says that it is ready, then waits until its input ends.
CHILD = "import sys; block = b'x' * (64 << 20); print('ready', flush=True); sys.stdin.read()"
GRANDPARENT = (
    "import subprocess, sys\n"
    "child = subprocess.Popen([sys.executable, '-c', sys.argv[1]])\n"  # shares input and output
    "child.wait()"
)


@pytest.fixture
def sampler() -> Iterator[MemorySampler]:
    sampler = MemorySampler(interval_secs=0.01, detail_secs=0.01)
    yield sampler
    sampler.close()


@pytest.fixture
def spawn() -> Iterator[Callable[..., subprocess.Popen[bytes]]]:
    processes: list[subprocess.Popen[bytes]] = []

    def start(*arguments: str) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-c", *arguments]
        process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        processes.append(process)
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready" + os.linesep.encode()
        return process

    yield start
    for process in processes:
        process.communicate()


def readings_until(sampler: MemorySampler, enough: Callable[[dict[str, float]], bool]) -> dict[str, float]:
    """Collects what the sampler hands over until it is enough."""
    readings: dict[str, float] = {}
    deadline = time.monotonic() + PATIENCE_SECS
    while not enough(readings):
        assert time.monotonic() < deadline, readings
        readings |= sampler.latest()
    return readings


def run_python(script: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-W", "ignore::DeprecationWarning", "-c", script]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


def test_process_reads_what_psutil_says() -> None:
    """RSS and the host's available memory are those of the operating system."""
    readings = HostMemory().process()
    assert psutil.Process().memory_info().rss == pytest.approx(readings["memory/rss"], rel=0.1)
    assert psutil.virtual_memory().available == pytest.approx(readings["memory/host_available"], rel=0.2)


def test_thread_hands_over_every_reading_of_a_host(sampler: MemorySampler) -> None:
    """One round yields all readings that a machine without a GPU has."""
    sampler.start()
    assert sampler.wait_for_first(PATIENCE_SECS)
    expected = {"rss", "uss", "host_available", "children_rss", "children_count"}
    expected |= {"pss"} if sys.platform == "linux" else set()
    assert {f"memory/{name}" for name in expected} <= set(sampler.latest())


def test_a_child_that_allocates_is_seen(
    sampler: MemorySampler, spawn: Callable[..., subprocess.Popen[bytes]]
) -> None:
    """64 MiB in a child appear in children_rss, as psutil sees them."""
    before = HostMemory().children()
    child = spawn(CHILD)
    rss = psutil.Process(child.pid).memory_info().rss
    assert rss >= 64 * MIB
    sampler.start()
    readings = readings_until(sampler, lambda readings: "memory/children_rss" in readings)
    assert before["memory/children_count"] + 1 == readings["memory/children_count"]
    assert before["memory/children_rss"] + rss == pytest.approx(readings["memory/children_rss"], rel=0.1)


def test_grandchildren_count(spawn: Callable[..., subprocess.Popen[bytes]]) -> None:
    """Descendants of any generation are found, and both ways of finding them agree."""
    parent = spawn(GRANDPARENT, CHILD)
    pids = {child.pid for child in psutil.Process(parent.pid).children(recursive=True)}
    assert len(pids) == 1
    host = HostMemory()
    host.children()
    assert pids | {parent.pid} <= set(host.child_pids)


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux lists the children of a thread")
def test_listed_descendants_are_those_that_psutil_finds(
    spawn: Callable[..., subprocess.Popen[bytes]],
) -> None:
    """The kernel's lists name the same processes as a search through all of them."""
    spawn(GRANDPARENT, CHILD)
    searched = {child.pid for child in psutil.Process().children(recursive=True)}
    assert searched == set(listed_descendants(os.getpid()))


def test_children_started_by_another_thread_count() -> None:
    """A child belongs to the process, whichever of its threads started it."""
    started: list[subprocess.Popen[bytes]] = []
    release = threading.Event()

    def start() -> None:
        command = [sys.executable, "-c", CHILD]
        started.append(subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE))
        assert started[0].stdout is not None
        started[0].stdout.readline()
        ready.set()
        release.wait(PATIENCE_SECS)

    ready = threading.Event()
    thread = threading.Thread(target=start)
    thread.start()
    assert ready.wait(PATIENCE_SECS)
    host = HostMemory()
    host.children()
    release.set()
    thread.join()
    started[0].communicate()
    assert started[0].pid in host.child_pids


def test_a_child_that_vanishes_is_left_out() -> None:
    """A process that has ended, reaped or not, has no memory and no children."""
    child = subprocess.Popen([sys.executable, "-c", "print('end')"], stdout=subprocess.PIPE)
    assert child.stdout is not None
    child.stdout.read()
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    host = HostMemory()
    host.children()
    assert child.pid not in host.child_pids
    child.communicate()
    assert resident_bytes(child.pid) == 0
    assert listed_descendants(child.pid) == []


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux divides shared pages")
def test_details_divide_what_is_shared(spawn: Callable[..., subprocess.Popen[bytes]]) -> None:
    """USS is at most PSS, PSS at most RSS, and a child's own block is in the PSS of the children."""
    spawn(CHILD)
    host = HostMemory()
    rss = host.process()["memory/rss"]
    host.children()
    details = host.details()
    assert 0 < details["memory/uss"] <= details["memory/pss"] <= 1.05 * rss
    assert details["memory/children_pss"] >= 64 * MIB


def test_nothing_new_is_an_empty_dictionary() -> None:
    """Each reading is handed over once."""
    sampler = MemorySampler(interval_secs=3600.0, early_secs=3600.0)
    assert sampler.latest() == {}
    sampler.start()
    assert sampler.wait_for_first(PATIENCE_SECS)
    assert "memory/rss" in sampler.latest()
    assert sampler.latest() == {}
    sampler.close()


def test_readings_come_sooner_in_the_beginning() -> None:
    """A training of a second has several of them, though they are meant for every hour."""
    sampler = MemorySampler(interval_secs=3600.0, early_secs=0.01)
    sampler.start()
    for _ in range(3):
        readings_until(sampler, lambda found: "memory/rss" in found)
    sampler.close()


def test_mailbox_keeps_the_newest_of_each_name() -> None:
    """Readings that nobody took are joined to the next ones."""
    mailbox = Mailbox()
    mailbox.put({"rss": 1.0, "pss": 2.0})
    mailbox.put({"rss": 3.0})
    assert mailbox.take() == {"rss": 3.0, "pss": 2.0}
    assert mailbox.take() == {}


def test_mailbox_loses_nothing_between_threads() -> None:
    """Every reading arrives, however the two sides interleave."""
    mailbox = Mailbox()
    total = 20_000

    def put_all() -> None:
        for i in range(total):
            mailbox.put({str(i): float(i)})

    thread = threading.Thread(target=put_all)
    thread.start()
    taken: dict[str, float] = {}
    while thread.is_alive():
        taken |= mailbox.take()
    taken |= mailbox.take()
    assert {str(i): float(i) for i in range(total)} == taken


def test_a_dear_reading_comes_rarer() -> None:
    """A reading that took 20 ms twice waits 20 s; the first one, which loads libraries, is not believed."""
    now, used = [0.0], itertools.count(0.0, 0.020)
    source = MemorySource(
        "x", lambda: {"x": now[0]}, every_secs=1.0, clock=lambda: now[0], processor_clock=lambda: next(used)
    )
    read_at = [now[0] for now[0] in map(float, range(50)) if source.read_if_due()]
    assert read_at == [0.0, 1.0, 21.0, 41.0]


def test_a_cheap_reading_keeps_its_interval() -> None:
    """A reading that costs less than a thousandth comes as often as was asked for."""
    now, used = [0.0], itertools.count(0.0, 0.001)
    source = MemorySource(
        "x", lambda: {"x": 1.0}, every_secs=3.0, clock=lambda: now[0], processor_clock=lambda: next(used)
    )
    read_at = [now[0] for now[0] in map(float, range(10)) if source.read_if_due()]
    assert read_at == [0.0, 3.0, 6.0, 9.0]


def test_a_reading_that_fails_is_told_and_not_raised() -> None:
    """The source hands over nothing and remembers why."""

    def fail() -> dict[str, float]:
        raise PermissionError(13, "Permission denied")

    source = MemorySource("x", fail)
    assert source.read_if_due() == {}
    assert source.problem == "PermissionError: [Errno 13] Permission denied"


def test_no_thread_is_left_after_close(sampler: MemorySampler) -> None:
    """Closing ends the thread; closing twice and starting again do nothing."""
    before = threading.active_count()
    sampler.start()
    sampler.start()
    assert threading.active_count() == before + 1
    sampler.close()
    sampler.close()
    sampler.start()
    assert threading.active_count() == before


def test_cost_is_counted(sampler: MemorySampler) -> None:
    """The processor time of the thread grows with its readings and is not that of the process."""
    assert sampler.cost_secs == 0.0
    sampler.start()
    assert sampler.wait_for_first(PATIENCE_SECS)
    sampler.close()
    assert 0.0 < sampler.cost_secs < time.process_time()


def test_describe_says_what_is_not_known_yet() -> None:
    """Before the first reading nobody knows whether there is a GPU."""
    assert MemorySampler().describe() == "Host memory is recorded; GPUs were not searched for yet."


def test_an_open_sampler_does_not_disturb_the_end_of_the_interpreter() -> None:
    """A program that forgets to close ends silently and with its own status."""
    script = """
import sys
from tb_netdebug.core.machine.memory import MemorySampler
sampler = MemorySampler(interval_secs=0.001, detail_secs=0.001)
sampler.start()
sampler.wait_for_first(30)
sys.exit(7)
"""
    ended = run_python(script)
    assert (ended.returncode, ended.stdout, ended.stderr) == (7, "", "")


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system cannot fork")
def test_a_forked_child_has_an_inert_sampler() -> None:
    """In the child nothing is sampled or handed over, nothing hangs, and the parent goes on."""
    script = """
import os, threading
from tb_netdebug.core.machine.memory import MemorySampler
sampler = MemorySampler(interval_secs=0.001, detail_secs=0.001)
sampler.start()
assert sampler.wait_for_first(30)
for _ in range(50):
    pid = os.fork()
    if pid == 0:
        sampler.start()
        inert = sampler.latest() == {} and threading.active_count() == 1
        sampler.close()
        os._exit(0 if inert else 1)
    assert os.waitpid(pid, 0)[1] == 0
sampler.latest()
while "memory/rss" not in sampler.latest():
    pass
sampler.close()
print("parent goes on")
"""
    ended = run_python(script)
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "parent goes on\n", "")


def test_torch_without_cuda_has_no_allocator_readings() -> None:
    """While CUDA is not initialized there is nothing to say, and asking does not initialize it."""
    assert torch_allocator(torch) == {}
    assert not torch.cuda.is_initialized()  # type: ignore[no-untyped-call]


def cuda(stats: dict[int, object]) -> SimpleNamespace:
    """As much of torch as the reading uses: there is no CUDA device here to run the real one on."""

    def of_device(device: int) -> object:
        answer = stats[device]
        if isinstance(answer, Exception):
            raise answer
        return answer

    return SimpleNamespace(
        cuda=SimpleNamespace(
            is_initialized=lambda: True,
            device_count=lambda: len(stats),
            memory=SimpleNamespace(memory_stats_as_nested_dict=of_device),
        )
    )


def pool(current: int, peak: int) -> dict[str, dict[str, int]]:
    return {"all": {"current": current, "peak": peak, "allocated": 0, "freed": 0}}


def test_torch_allocator_tells_devices_in_use_apart() -> None:
    """Devices that this process never used, or whose allocator keeps no statistics, are left out."""
    stats: dict[int, object] = {
        0: {"allocated_bytes": pool(100, 300), "reserved_bytes": pool(400, 500)},
        1: {"allocated_bytes": pool(0, 0), "reserved_bytes": pool(0, 0)},
        2: RuntimeError("this allocator does not keep statistics"),
        3: {},
    }
    expected = {"memory/cuda0/allocated": 100.0, "memory/cuda0/reserved": 400.0}
    assert {**expected, "memory/cuda0/peak_allocated": 300.0} == torch_allocator(cuda(stats))  # type: ignore[arg-type]
