"""How results come back: in order, when they are there, in buffers that are used again."""

from __future__ import annotations

import threading
from typing import NoReturn

import pytest
import torch

from tb_netdebug.core.stats.packed import Summary
from tb_netdebug.frameworks.torch.device.results import Collected
from tb_netdebug.frameworks.torch.device.summaries import DeviceSummaries
from tb_netdebug.frameworks.torch.device.transfer import LateTransfer, StreamTransfer, transfer_for
from tests.support.paper_device import PaperRuntime


@pytest.fixture
def runtime() -> PaperRuntime:
    """Streams and events that pass when the test says so; the tensors are on the CPU."""
    return PaperRuntime()


@pytest.fixture
def device(runtime: PaperRuntime) -> DeviceSummaries:
    """A device path over that runtime."""
    transfer = StreamTransfer(runtime, pinned=False)
    return DeviceSummaries(room_bytes=1 << 20, pending_bytes=1 << 20, transfer=lambda _: transfer)


def sums(collected: list[Collected]) -> list[tuple[object, float]]:
    return [(key, Summary.unpack(packed).sum) for one in collected for key, packed in one.summaries]


def test_nothing_before_its_event(runtime: PaperRuntime, device: DeviceSummaries) -> None:
    """Results are handed out once the stream has passed them, in the order in which they were sent."""
    device.summarize([torch.ones(3)], ["first"])
    device.flush()
    runtime.finish()
    device.summarize([torch.ones(4)], ["second"])
    device.flush()
    assert [("first", 3.0)] == sums(device.ready())
    assert [] == device.ready()
    runtime.finish()
    assert [("second", 4.0)] == sums(device.ready())
    assert device.pending_bytes == 0


def test_nothing_without_flush(device: DeviceSummaries) -> None:
    """A step's results are sent together, at its end."""
    device.summarize([torch.ones(3)], ["a"])
    device.scalar(torch.tensor(1.0), "loss")
    assert (0, 0) == (device.cost.parcels, device.pending_bytes)
    device.flush()
    device.flush()
    assert device.cost.parcels == 1
    assert device.cost.sent_bytes == device.pending_bytes > 0


def test_large_results_do_not_wait_for_flush(device: DeviceSummaries) -> None:
    """What is kept on the device until the end of the step is bounded."""
    device.summarize([torch.ones(3)] * 100, range(100))
    assert device.cost.parcels > 5


def test_drain_waits(device: DeviceSummaries) -> None:
    """At the end of a run everything comes, sent or not."""
    for step in range(3):
        device.summarize([torch.full((2,), float(step))], [step])
        if step < 2:
            device.flush()
    assert [(0, 0.0), (1, 2.0), (2, 4.0)] == sums(device.drain())
    assert [] == device.drain()


def test_each_stream_sends_its_own(runtime: PaperRuntime, device: DeviceSummaries) -> None:
    """Results that were made on a side stream are sent on it, wherever flush is called."""
    device.summarize([torch.ones(1)], ["main"])
    runtime.current = "side"
    device.summarize([torch.ones(2)], ["side"])
    runtime.current = "main"
    device.flush()
    runtime.finish()
    assert ["main", "side"] == runtime.entered
    assert [("main", 1.0), ("side", 2.0)] == sums(device.ready())


def test_time_on_the_device(runtime: PaperRuntime, device: DeviceSummaries) -> None:
    """The device's own clock says what the statistics cost there."""
    device.summarize([torch.ones(1)], ["a"])
    device.summarize([torch.ones(1)], ["b"])
    device.flush()
    runtime.finish()
    [collected] = device.ready()
    assert collected.device_secs == device.cost.device_secs == 0.002
    assert device.cost.host_secs > 0.0


def test_buffers_are_used_again(runtime: PaperRuntime) -> None:
    """Page-locked memory is asked for once as long as a buffer is free that is large enough."""
    transfer = StreamTransfer(runtime, pinned=False)
    addresses = set()
    for size in (70_000, 100_000, 10, 131_072):
        shipment = transfer.send("main", [torch.zeros(size, dtype=torch.uint8)], [])
        addresses.add(shipment.bytes().ctypes.data)
        shipment.release()
    assert len(addresses) == 1


def test_a_buffer_in_use_is_left_alone(device: DeviceSummaries, runtime: PaperRuntime) -> None:
    """Later results never overwrite earlier ones that were not collected yet."""
    for value in (1.0, 2.0):
        device.summarize([torch.full((3,), value)], [value])
        device.flush()
    runtime.finish()
    first, second = device.finished()
    device.summarize([torch.full((3,), 9.0)], ["later"])
    device.flush()
    assert [(2.0, 6.0), (1.0, 3.0)] == sums([device.collect(second), device.collect(first)])


def test_too_much_on_its_way(runtime: PaperRuntime, device: DeviceSummaries) -> None:
    """When the device falls behind new work is refused and counted, and later taken again."""
    refusals = []
    for step in range(100):
        refusals += device.summarize([torch.ones(3)], [step])
        device.flush()
    assert 64 == 100 - len(refusals)
    assert (36, True) == (device.cost.refused, "earlier results" in refusals[0].reason)
    runtime.finish()
    assert len(device.ready()) == 64
    assert [] == device.summarize([torch.ones(3)], ["again"])


def test_capture_of_a_graph(runtime: PaperRuntime, device: DeviceSummaries) -> None:
    """Inside the capture of a CUDA graph nothing is queued: it would become part of the graph."""
    runtime.capturing = True
    [refusal] = device.summarize([torch.ones(3)], ["a"])
    assert "CUDA graph" in refusal.reason
    assert [] == device.drain()


def test_collected_on_another_thread(runtime: PaperRuntime, device: DeviceSummaries) -> None:
    """Polling is the training's, the NumPy work may be somebody else's."""
    device.summarize([torch.ones(3)], ["a"])
    device.flush()
    runtime.finish()
    collected: list[Collected] = []
    threads = [
        threading.Thread(target=lambda sent=sent: collected.append(device.collect(sent)))
        for sent in device.finished()
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [("a", 3.0)] == sums(collected)


@pytest.mark.parametrize(
    ("name", "expected"),
    [("cuda:1", StreamTransfer), ("xpu", StreamTransfer), ("cpu", LateTransfer), ("mps", LateTransfer)],
)
def test_way_of_sending(name: str, expected: type) -> None:
    """Devices with streams and events send at once, others when asked."""
    assert isinstance(transfer_for(torch.device(name)), expected)


def test_failure_to_send() -> None:
    """Without memory for the results they are lost, which is counted and told; the training goes on."""
    transfer = FullTransfer(PaperRuntime(), pinned=False)
    device = DeviceSummaries(transfer=lambda _: transfer)
    assert [] == device.summarize([torch.ones(3)], ["a"])
    device.flush()
    assert (1, "out of memory", 0) == (device.cost.lost_parcels, device.cost.last_loss, device.cost.parcels)
    assert [] == device.drain()


class FullTransfer(StreamTransfer):
    def send(self, *_: object) -> NoReturn:
        raise torch.OutOfMemoryError("out of memory\nTried to allocate")
