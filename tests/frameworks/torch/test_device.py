"""What the device path says of tensors: the same as the twin, here on the CPU."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tb_netdebug.core.stats import twin
from tb_netdebug.core.stats.dtypes import DType
from tb_netdebug.core.stats.packed import Summary
from tb_netdebug.frameworks.torch.device.buckets import of_doubles, of_singles
from tb_netdebug.frameworks.torch.device.summaries import DeviceSummaries, UnitRange
from tests.support.device_cases import (
    CODES,
    TORCH_TYPES,
    assert_same,
    device_summaries,
    tensor_of,
    twin_summary,
    twin_update,
)
from tests.support.kernel_cases import Array, tensors, values

# So little that a chunk holds four rows of float32, or one.
SMALL_ROOM_BYTES = 1 << 18
INF, NAN = math.inf, math.nan
ODD = [0.0, -0.0, 1.5, -3.0, INF, -INF, NAN, 1e-45, -1e-40, 3.4028235e38, 1e39, -1e300, 1e-60, -5e-324, 7e-46]


def sparse(indices: list[list[int]], rows: torch.Tensor) -> torch.Tensor:
    return torch.sparse_coo_tensor(torch.tensor(indices), rows, (6, 4), check_invariants=True)


FORMS: dict[str, Callable[[], torch.Tensor]] = {
    "empty": lambda: torch.empty(0, 3),
    "scalar": lambda: torch.tensor(2.5),
    "transposed": lambda: torch.randn(37, 61).t(),
    "channels last": lambda: torch.randn(4, 8, 5, 5).to(memory_format=torch.channels_last),
    "sliced": lambda: torch.randn(90, 70)[::2, 3:41],
    "expanded": lambda: torch.randn(5, 1, 3).expand(5, 700, 3),
    "sliced, larger than a chunk": lambda: torch.randn(300, 90)[:, ::2],
    "conjugated": lambda: torch.randn(50, dtype=torch.complex64).conj(),
    "negated": lambda: torch.randn(50, dtype=torch.complex128).conj().imag,
    "sparse": lambda: sparse([[0, 3]], torch.randn(2, 4)).coalesce(),
}


@given(st.lists(tensors(), min_size=1, max_size=4))
def test_any_tensors(drawn: list[tuple[Array, DType]]) -> None:
    """Counts, bins and extremes are the twin's, sums nearly so, whatever the types and values."""
    given_ = [tensor_of(array, dtype) for array, dtype in drawn]
    results = device_summaries(*given_, device=DeviceSummaries(room_bytes=SMALL_ROOM_BYTES))
    for tensor, actual in zip(given_, results, strict=True):
        assert_same(twin_summary(tensor), actual, tensor, exact=not tensor.is_complex())


@pytest.mark.parametrize("dtype", [dtype for dtype in TORCH_TYPES.values() if not dtype.is_complex])
def test_odd_values(dtype: torch.dtype) -> None:
    """Zeros of both signs, subnormals, infinities, NaN and what overflows or vanishes in float32."""
    whole = dtype in (torch.bool, torch.uint8)
    source = [0, 1, 7, 0, 255] if whole else ODD if dtype.is_floating_point else [0, -1, 5, 127, -128]
    tensor = torch.tensor(source, dtype=torch.float64).to(dtype)
    [actual] = device_summaries(tensor)
    assert_same(twin_summary(tensor), actual, tensor)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_edges_of_all_bins(dtype: torch.dtype) -> None:
    """The first and the last value of each bin, with both signs, fall where the twin puts them."""
    buckets, bits = (of_singles(), torch.int32) if dtype == torch.float32 else (of_doubles(), torch.int64)
    first = torch.tensor(buckets.edges, dtype=bits)
    tensor = torch.cat([first, first - 1]).view(dtype)
    [actual] = device_summaries(tensor)
    assert_same(twin_summary(tensor), actual, tensor)


def test_bytes_of_the_twin() -> None:
    """Where no sum is rounded the packed summary is the twin's, bit for bit."""
    tensor = torch.arange(-999.0, 5000.0)
    [actual] = device_summaries(tensor)
    assert twin_summary(tensor).pack() == actual.pack()


@pytest.mark.parametrize("form", FORMS)
def test_form_in_memory(form: str) -> None:
    """Strides, views, laziness and sparseness change nothing of what is said of the values."""
    torch.manual_seed(3)
    tensor = FORMS[form]()
    [actual] = device_summaries(tensor, device=DeviceSummaries(room_bytes=SMALL_ROOM_BYTES))
    plain = tensor.values() if tensor.is_sparse else tensor.resolve_neg()
    assert_same(twin_summary(plain), actual, plain)


@pytest.mark.parametrize("dtype", DType)
def test_larger_than_a_chunk(dtype: DType) -> None:
    """A tensor in many pieces is told of as one."""
    tensor = tensor_of(values(dtype, "spoilt", 33_333, 5), dtype)
    [actual] = device_summaries(tensor, device=DeviceSummaries(room_bytes=SMALL_ROOM_BYTES))
    assert_same(twin_summary(tensor), actual, tensor, exact=dtype not in (DType.COMPLEX64, DType.COMPLEX128))


def test_many_small_tensors() -> None:
    """Thousands of tensors come back in order, each with its own numbers, in several parcels."""
    many = [torch.full((number % 7,), float(number)) for number in range(1500)]
    results = device_summaries(*many)
    assert [(number % 7, number * (number % 7)) for number in range(1500)] == [
        (summary.count, summary.sum) for summary in results
    ]


@given(tensors())
def test_updates(drawn: tuple[Array, DType]) -> None:
    """The update is the difference in the type's own precision; then previous values are the current ones."""
    array, dtype = drawn
    current, before = tensor_of(array, dtype), tensor_of(np.roll(array, 1), dtype)
    device = DeviceSummaries(room_bytes=SMALL_ROOM_BYTES)
    [previous] = device.snapshot([before])
    assert [] == device.summarize_updates([current], [previous], [("weight", "update")])
    device.flush()
    [collected] = device.ready()
    assert ["weight", "update"] == [key for key, _ in collected.summaries]
    weight, update = (Summary.unpack(packed) for _, packed in collected.summaries)
    exact = dtype not in (DType.COMPLEX64, DType.COMPLEX128)
    assert_same(twin_summary(current), weight, current, exact=exact)
    assert_same(twin_update(current, before), update, _difference(current, before), exact=exact)
    assert stored_bytes(current) == stored_bytes(previous)


def stored_bytes(tensor: torch.Tensor) -> bytes:
    return bytes(tensor.clone(memory_format=torch.contiguous_format).untyped_storage())


def _difference(current: torch.Tensor, before: torch.Tensor) -> torch.Tensor:
    if current.dtype in (torch.float16, torch.bfloat16):
        return current.float() - before.float()
    return current - before if current.is_complex() or current.dtype == torch.float32 else (
        current.double() - before.double()
    )  # fmt: skip


def test_updates_of_strided_weights() -> None:
    """A weight that is transposed or not dense is compared with its own previous values."""
    weights = [torch.randn(40, 30).t(), torch.randn(300, 90)[:, ::2]]
    device = DeviceSummaries(room_bytes=1 << 20)
    previous = device.snapshot(weights)
    for weight in weights:
        weight[0] += 2.0
    assert [] == device.summarize_updates(weights, previous, [(0, 1), (2, 3)])
    device.flush()
    [collected] = device.ready()
    updates = [Summary.unpack(packed) for key, packed in collected.summaries if key in (1, 3)]
    sizes = [weight[0].numel() for weight in weights]
    assert sizes == [update.count - update.zeros for update in updates]
    assert all(torch.equal(weight, before) for weight, before in zip(weights, previous, strict=True))


@given(
    st.sampled_from(DType),
    st.tuples(st.integers(1, 4), st.integers(1, 20), st.integers(1, 3)),
    st.sampled_from([(0.0, INF), (-0.1, 0.1), (-INF, 0.3), (0.5, 0.5), (-1.0, 2.0), (NAN, 1.0)]),
    st.sampled_from(["relu", "odd", "spoilt", "zeros"]),
    st.integers(0, 2**32),
)
def test_units(
    dtype: DType, shape: tuple[int, int, int], limits: tuple[float, float], style: str, seed: int
) -> None:
    """The bitmap is the twin's, whatever torch would make of limits that the type cannot hold."""
    tensor = tensor_of(values(dtype, style, math.prod(shape), seed), dtype)
    expected = twin.active_units(tensor.data_ptr(), dtype, *shape, *limits)
    device = DeviceSummaries()
    assert [] == device.summarize([tensor.view(shape)], ["relu"], units=[UnitRange(1, *limits)])
    device.flush()
    [collected] = device.ready()
    assert [("relu", expected)] == collected.units


def test_units_in_pieces() -> None:
    """A large activation, channels last, is read in pieces; a channel active in any of them is active."""
    activation = torch.zeros(40, 9, 16, 16).to(memory_format=torch.channels_last)
    activation[39, 8, 15, 15] = activation[0, 0, 0, 0] = 1.0
    device = DeviceSummaries(room_bytes=SMALL_ROOM_BYTES)
    device.summarize([activation], ["relu"], units=[UnitRange(-3, 0.0, INF)])
    device.flush()
    assert [("relu", bytes([1, 1]))] == [unit for collected in device.ready() for unit in collected.units]


@pytest.mark.parametrize(
    "dtype", [torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.complex64]
)
def test_sum_of_squares(dtype: torch.dtype) -> None:
    """The global norm is the twin's, over tensors of several types and shapes."""
    gradients = [torch.randn(300, 20).to(dtype), torch.randn(7).to(dtype), torch.empty(0, 2), torch.randn(3)]
    items = [(tensor.data_ptr(), tensor.numel(), CODES[tensor.dtype]) for tensor in gradients]
    device = DeviceSummaries()
    assert [] == device.sum_squares(gradients, "gradient_norm")
    device.flush()
    [[result]] = [collected.sums for collected in device.ready()]
    assert (twin.sum_squares(items, 1)[0], 0) == (pytest.approx(result.total, rel=1e-12), result.nonfinite)
    assert math.sqrt(result.total) == result.norm


def test_sum_of_squares_without_sick_tensors() -> None:
    """A tensor with NaN or ±Inf is counted and left out; a large finite one in float32 is neither."""
    gradients = [
        torch.tensor([3.0, 4.0]),
        torch.tensor([1.0, NAN]),
        torch.tensor([-INF]),
        torch.tensor([1e30]),
    ]
    device = DeviceSummaries()
    device.sum_squares(gradients, "gradient_norm")
    device.flush()
    [[result]] = [collected.sums for collected in device.ready()]
    assert (2, pytest.approx(1e60)) == (result.nonfinite, result.total)


@pytest.mark.parametrize("value", [2.5, NAN, INF, -INF, True, 7])
def test_scalar(value: float) -> None:
    """A loss arrives as the number it was."""
    device = DeviceSummaries()
    assert device.scalar(torch.tensor([[value]]), "loss") is None
    device.flush()
    [[(key, actual)]] = [collected.scalars for collected in device.ready()]
    assert ("loss", pytest.approx(float(value), nan_ok=True)) == (key, actual)


REFUSED: dict[str, Callable[[], torch.Tensor]] = {
    "repeated indices": lambda: sparse([[0, 0]], torch.ones(2, 4)),
    "sparse_csr": lambda: torch.eye(3).to_sparse_csr(),
    "meta device": lambda: torch.empty(3, device="meta"),
    "float8_e5m2": lambda: torch.ones(3).to(torch.float8_e5m2),
    "quint8": lambda: torch.quantize_per_tensor(torch.ones(3), 0.1, 0, torch.quint8),
    "layout": lambda: torch.nested.nested_tensor([torch.ones(2), torch.ones(3)], layout=torch.jagged),
    "no memory": lambda: _freed(),
}


def _freed() -> torch.Tensor:
    tensor = torch.ones(3)
    tensor.untyped_storage().resize_(0)
    return tensor


@pytest.mark.parametrize("reason", REFUSED)
@pytest.mark.filterwarnings("ignore:.*:UserWarning")
def test_refused(reason: str) -> None:
    """What cannot be read is named with the reason, and the others are read all the same."""
    device = DeviceSummaries()
    sick = REFUSED[reason]()
    refusals = device.summarize([torch.ones(2), sick, torch.ones(3)], ["a", "b", "c"])
    refusals += device.sum_squares([torch.ones(2), sick], "norm")
    refusals += [refusal for refusal in [device.scalar(sick, "loss")] if refusal]
    device.flush()
    assert [(1, "b"), (1, "norm"), (0, "loss")] == [(refusal.number, refusal.key) for refusal in refusals]
    assert all(reason in refusal.reason for refusal in refusals)
    assert [["a", "c"]] == [[key for key, _ in collected.summaries] for collected in device.ready()]


def test_refused_inside_a_transform() -> None:
    """A tensor inside vmap stands for many and is not read."""
    reasons: list[str] = []

    def watched(row: torch.Tensor) -> torch.Tensor:
        reasons.extend(refusal.reason for refusal in DeviceSummaries().summarize([row], ["row"]))
        return row * 2

    torch.func.vmap(watched)(torch.ones(2, 3))
    assert len(reasons) == 1
    assert "function transform" in reasons[0]
