"""The device path never waits for the device, needs few operations and little memory, and leaves no trace."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
import torch
from torch._subclasses.fake_tensor import DynamicOutputShapeException, FakeTensorMode
from torch.profiler import ProfilerActivity, profile

from tb_netdebug.core.stats.packed import Summary
from tb_netdebug.frameworks.torch.device.summaries import DeviceSummaries, UnitRange
from tb_netdebug.frameworks.torch.device.transfer import LateTransfer, StreamTransfer
from tests.support.device_cases import TORCH_TYPES, Audit, device_summaries
from tests.support.paper_device import PaperRuntime

TENSORS = 75
GPU = torch.device("cuda:0")
MOST_LAUNCHES = 40
LAUNCHES_OF_A_CHUNK = 14
LAUNCHES_TO_SEND = 2


def model(device: torch.device | str = "cpu") -> list[torch.Tensor]:
    """A network of 25 layers: weights, biases and scales, 0.4 million values."""
    shapes = [(128, 128), (128,), (128,)]
    return [torch.zeros(shape, device=device) for _ in range(TENSORS // len(shapes)) for shape in shapes]


@contextmanager
def paper_gpu() -> Iterator[tuple[DeviceSummaries, PaperRuntime]]:
    """A GPU that knows shapes and types but no values: whatever needs a value raises."""
    runtime = PaperRuntime()
    with FakeTensorMode():
        yield DeviceSummaries(transfer=lambda _: StreamTransfer(runtime, pinned=False)), runtime


def full_sample(device: DeviceSummaries, where: torch.device | str) -> None:
    """Everything of one step: weights with updates, gradients, activations with their units, loss, norm."""
    weights, gradients = model(where), model(where)
    previous = device.snapshot(weights)
    activation = torch.zeros(32, 64, 8, 8, device=where).to(memory_format=torch.channels_last)
    with Audit():
        assert [] == device.summarize_updates(weights, previous, [(n, -n) for n in range(TENSORS)])
        assert [] == device.summarize(gradients, range(TENSORS))
        assert [] == device.summarize([activation], ["relu"], units=[UnitRange(1, -1.0, 2.0)])
        assert [] == device.sum_squares(gradients, "norm")
        assert device.scalar(torch.zeros((), device=where), "loss") is None
        device.flush()


def test_no_value_is_looked_at() -> None:
    """A whole sample runs on tensors that have no values, on a GPU that does not exist."""
    with paper_gpu() as (device, _):
        full_sample(device, GPU)
        assert device.cost.parcels == 1


def test_paper_gpu_notices() -> None:
    """The two tests of waiting would fail if something waited."""
    with paper_gpu(), pytest.raises(DynamicOutputShapeException):
        torch.bincount(torch.zeros(3, dtype=torch.int64, device=GPU))
    with Audit(), pytest.raises(AssertionError, match="waits for the device"):
        bool(torch.ones(1) > 0)


@pytest.mark.parametrize("where", ["cpu", GPU])
def test_no_waiting_operation(where: torch.device | str) -> None:
    """None of the operations that wait is dispatched, with GPU and CPU tensors alike."""
    if where == GPU:
        with paper_gpu() as (device, _):
            full_sample(device, where)
    else:
        full_sample(DeviceSummaries(), where)


@pytest.mark.parametrize("dtype", TORCH_TYPES.values())
def test_no_value_of_any_type_is_looked_at(dtype: torch.dtype) -> None:
    """Each type goes its way without a value."""
    with paper_gpu() as (device, _), Audit():
        tensors = [torch.empty(5000, 40, device=GPU).to(dtype), torch.empty(3, device=GPU).to(dtype)]
        previous = device.snapshot(tensors)
        units = [UnitRange(0, -1.0, 2.0)] * 2
        assert [] == device.summarize(tensors, "ab", units=units)
        assert [] == device.summarize_updates(tensors, previous, [("a", "b"), ("c", "d")])
        device.flush()


def test_launches_for_a_model() -> None:
    """All tensors of a model of 75 go through the same dozen operations."""
    with paper_gpu() as (device, _):
        tensors = model(GPU)
        device.summarize(tensors[:1], ["warm"])
        device.flush()
        with Audit() as audit:
            device.summarize(tensors, range(TENSORS))
            device.flush()
    assert LAUNCHES_OF_A_CHUNK + LAUNCHES_TO_SEND == len(audit.launches), audit.launches


def test_launches_for_a_full_sample() -> None:
    """Weights, updates and gradients of 75 parameters, the norm and the loss stay below forty."""
    with paper_gpu() as (device, _):
        tensors = model(GPU)
        previous = device.snapshot(tensors)
        with Audit() as audit:
            device.summarize_updates(tensors, previous, [(n, -n) for n in range(TENSORS)])
            device.summarize(tensors, range(TENSORS))
            device.sum_squares(tensors, "norm")
            device.scalar(torch.zeros((), device=GPU), "loss")
            device.flush()
    assert len(audit.launches) <= MOST_LAUNCHES, audit.launches


def test_launches_of_every_step() -> None:
    """What each step costs: the norms, the loss, and sending both."""
    with paper_gpu() as (device, _):
        tensors, loss = model(GPU), torch.zeros((), device=GPU)
        with Audit() as audit:
            device.sum_squares(tensors, "norm")
            device.scalar(loss, "loss")
            device.flush()
    assert ["_foreach_norm", "stack", "to", "cat", "copy_"] == audit.launches


def test_launches_grow_with_chunks_alone() -> None:
    """Four times the values that fit at once need four times the operations, not one more."""
    with paper_gpu() as (device, _):
        values = 4 * (32 << 20) // 12 // 2048 * 2048
        device.summarize([torch.empty(5, device=GPU)], ["warm"])
        device.flush()
        with Audit() as audit:
            device.summarize([torch.empty(values - 8192, device=GPU)], ["large"])
            device.flush()
    # A tensor alone in its chunk needs no shift of its buckets; 'full' and the copy are per chunk too.
    assert len(audit.launches) <= 4 * (LAUNCHES_OF_A_CHUNK - 1) + LAUNCHES_TO_SEND, audit.launches


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64, torch.int8, torch.complex64])
def test_memory(dtype: torch.dtype) -> None:
    """However large the tensors are, the memory used meanwhile stays below the bound."""
    room_bytes = 2 << 20
    device = DeviceSummaries(room_bytes=room_bytes)
    tensors = [torch.zeros(900, 700).to(dtype), *(torch.zeros(40, 5).to(dtype) for _ in range(300))]
    sliced = torch.zeros(800, 700).to(dtype)[:, ::2]
    previous = device.snapshot(tensors)
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as profiled:
        assert [] == device.summarize([*tensors, sliced], range(302))
        assert [] == device.summarize_updates(tensors, previous, [(n, -n) for n in range(301)])
        assert [] == device.summarize([sliced], ["relu"], units=[UnitRange(1, -1.0, 1.0)])
    # What has been sent on the CPU stays where it is until it is collected; it is no scratch memory.
    assert peak_bytes(profiled) - device.pending_bytes <= room_bytes


def peak_bytes(profiled: profile) -> int:
    events = [e for e in profiled.profiler.kineto_results.events() if e.name() == "[memory]"]
    held = peak = 0
    for event in sorted(events, key=lambda event: event.start_ns()):
        held += event.nbytes()
        peak = max(peak, held)
    return peak


def test_values_at_the_time_of_the_call() -> None:
    """What the user changes in place afterwards is not seen, even before anything is sent."""
    device = DeviceSummaries()
    tensor, loss = torch.full((100,), 2.0), torch.tensor(3.0)
    device.summarize([tensor], ["tensor"], units=[UnitRange(0, 0.0, 9.0)])
    device.sum_squares([tensor], "norm")
    device.scalar(loss, "loss")
    tensor.zero_()
    loss.zero_()
    device.flush()
    [collected] = device.ready()
    assert (200.0, 400.0, 3.0) == (
        Summary.unpack(collected.summaries[0][1]).sum,
        pytest.approx(collected.sums[0].total),
        collected.scalars[0][1],
    )
    assert bytes([255] * 12 + [15]) == collected.units[0][1]


def test_no_graph_is_kept() -> None:
    """Neither a tensor nor what it was computed from outlives the call."""

    class Saved:
        """Stands for what the graph keeps for the backward pass."""

    saved = Saved()
    device = DeviceSummaries()
    weight = torch.ones(50, requires_grad=True)
    with torch.autograd.graph.saved_tensors_hooks(lambda tensor, saved=saved: saved, lambda saved: weight):
        activation = weight * weight
    loss = activation.sum()
    held = [weakref.ref(one) for one in (activation, loss, saved)]
    device.summarize([activation, weight], ["a", "w"], units=[UnitRange(0, 0.0, 9.0), None])
    device.sum_squares([activation], "norm")
    device.scalar(loss, "loss")
    del activation, loss, saved
    gc.collect()
    assert [None, None, None] == [ref() for ref in held]


def train(watched: bool) -> list[float]:
    """A short training, its losses bit for bit; watched with everything that there is."""
    torch.manual_seed(0)
    net = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.Dropout(0.3), torch.nn.Linear(16, 1))
    optimizer = torch.optim.Adam(net.parameters(), lr=0.01)
    device = DeviceSummaries()
    parameters = list(net.parameters())
    previous = device.snapshot(parameters)
    losses = []
    for _ in range(5):
        optimizer.zero_grad()
        loss = net(torch.randn(32, 8)).square().mean()
        loss.backward()
        if watched:
            device.summarize([parameter.grad for parameter in parameters], range(4))
            device.sum_squares([parameter.grad for parameter in parameters], "norm")
        optimizer.step()
        if watched:
            device.scalar(loss, "loss")
            device.summarize_updates(parameters, previous, [(n, -n) for n in range(4)])
            device.flush()
            device.ready()
        losses.append(loss.item())
    return losses


def test_training_is_not_changed() -> None:
    """Losses, and with them the random numbers, are the same bit for bit with and without."""
    assert train(watched=False) == train(watched=True)


@pytest.fixture
def odd_defaults() -> Iterator[None]:
    """Default type and device that would break whatever relies on them."""
    dtype = torch.get_default_dtype()
    torch.set_default_dtype(torch.float16)
    torch.set_default_device("meta")
    yield
    torch.set_default_device(None)
    torch.set_default_dtype(dtype)


@pytest.mark.usefixtures("odd_defaults")
def test_defaults_of_the_user() -> None:
    """Default type and device are neither used nor changed."""
    [summary] = device_summaries(torch.arange(5.0, dtype=torch.float32, device="cpu"))
    assert (10.0, 30.0) == (summary.sum, summary.sum_squares)
    assert (torch.float16, "meta") == (torch.get_default_dtype(), torch.empty(1).device.type)


@pytest.mark.parametrize("context", ["autocast", "inference", "deterministic", "grad disabled"])
def test_modes_of_the_user(context: str) -> None:
    """Automatic casts, inference mode and the demand for determinism change nothing of the result."""
    tensor = torch.full((3, 5), 1.0009765625)
    with mode(context):
        made_inside = tensor.clone()
        plain, inside = device_summaries(tensor, made_inside)
        assert not torch.is_autocast_enabled("cpu") or context == "autocast"
    outside = device_summaries(made_inside)[0]
    assert [tensor.double().sum().item()] * 3 == [summary.sum for summary in (plain, inside, outside)]


@contextmanager
def mode(context: str) -> Iterator[None]:
    if context == "deterministic":
        torch.use_deterministic_algorithms(True)
        try:
            yield
        finally:
            torch.use_deterministic_algorithms(False)
        return
    modes = {
        "autocast": torch.autocast("cpu", torch.bfloat16),
        "inference": torch.inference_mode(),
        "grad disabled": torch.no_grad(),
    }
    with modes[context]:
        yield


def test_determinism_on_a_gpu() -> None:
    """No operation of ours on a GPU is among those that torch refuses when asked for determinism."""
    with mode("deterministic"), paper_gpu() as (device, _):
        full_sample(device, GPU)
        with pytest.raises(RuntimeError, match="deterministic"):
            torch.histc(torch.zeros(3, device=GPU))


def test_tensor_class_of_the_user() -> None:
    """The operations of a tensor's own class are not called."""

    class Loud(torch.Tensor):
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):  # type: ignore[no-untyped-def]
            raise AssertionError(f"{func} was called")

    with torch._C.DisableTorchFunctionSubclass():
        loud = torch.arange(4.0).as_subclass(Loud)
    [summary] = device_summaries(loud)
    assert summary.sum == 6.0


def test_failure_is_a_refusal() -> None:
    """What torch cannot do on a device becomes the reason why the tensors are not watched."""
    with FakeTensorMode():
        # Uploads by a copy that this build of torch has no device for.
        device = DeviceSummaries(transfer=lambda _: BrokenTransfer())
        [refusal] = device.summarize([torch.empty(3, device=GPU)], ["weight"])
    assert "could not be read on cuda:0: no upload" in refusal.reason
    assert (1, []) == (device.cost.refused, device.drain())


class BrokenTransfer(LateTransfer):
    def upload(self, *_: object) -> torch.Tensor:
        raise RuntimeError("no upload\nof anything")
