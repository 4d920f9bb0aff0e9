"""The packed summary as numbers, and what its bins say of a distribution."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tensorboard.compat.proto.summary_pb2 import Summary as TensorBoardSummary
from tensorboard.data_compat import migrate_value

from tb_netdebug.core.stats.packed import HEADER, Summary, read_varints, write_varints
from tb_netdebug.core.stats.sketch import LOWER, UPPER, WIDTH, Histogram, histogram, merged, quantiles
from tests.support.record_cases import packed_of, packed_summaries

SINGLES = st.lists(st.floats(width=32), max_size=60)


def summary_of(values: object) -> Summary:
    return Summary.unpack(packed_of(np.asarray(values, np.float32).reshape(-1)))


@given(packed=packed_summaries())
def test_pack_is_the_inverse_of_unpack(packed: bytes) -> None:
    """Every bit comes back."""
    assert packed == Summary.unpack(packed).pack()


@given(numbers=st.lists(st.integers(0, 2**64 - 1)))
def test_varints(numbers: list[int]) -> None:
    """Numbers of any size, in their shortest form."""
    written = write_varints(np.array(numbers, np.uint64))
    assert numbers == read_varints(written).tolist()
    assert sum(max(1, -(-number.bit_length() // 7)) for number in numbers) == len(written)


@given(data=st.binary(max_size=30))
def test_any_bytes_as_bins(data: bytes) -> None:
    """Bytes are a packed summary only if they are its shortest form."""
    packed = bytes(HEADER.size) + data
    try:
        summary = Summary.unpack(packed)
    except ValueError:
        return
    assert packed == summary.pack()


def test_derived_numbers() -> None:
    """Mean, spread and norm are of the finite values."""
    summary = summary_of([3, -1, np.nan, np.inf, 0, -np.inf, np.inf])
    assert (7, 4, 3, 1) == (summary.count, summary.nonfinite, summary.finite, summary.zeros)
    assert (2 / 3, math.sqrt(10)) == (summary.mean, summary.norm)
    assert pytest.approx(np.std([3, -1, 0])) == summary.std


@pytest.mark.parametrize("values", [[], [np.nan], [np.inf, -np.inf]])
def test_nothing_finite(values: list[float]) -> None:
    """Without a finite value there is no mean, no quantile and no histogram."""
    summary = summary_of(values)
    assert 0.0 == summary.norm
    assert math.isnan(summary.mean)
    assert math.isnan(summary.std)
    assert np.isnan(quantiles(summary, [0, 0.5, 1])).all()
    assert histogram(summary) is None


@given(values=SINGLES)
def test_every_value_lies_in_its_bin(values: list[float]) -> None:
    """The edges are those of the kernel's bins."""
    for value in values:
        [bin_] = summary_of([value]).bins.tolist()
        assert math.isnan(value) == math.isnan(LOWER[bin_])
        assert math.isnan(value) or LOWER[bin_] <= value <= UPPER[bin_]


def test_edges() -> None:
    """Bins of one sign touch, those of zero and infinity have no width, others at most an eighth of it."""
    finite = np.arange(1, 0x7F8)
    assert UPPER[finite[:-1]].tolist() == LOWER[finite[1:]].tolist()
    assert (-UPPER[:0x7F8]).tolist() == LOWER[0x800:0xFF8].tolist()
    assert [0.0, 0.0] == WIDTH[[0x000, 0x800]].tolist()
    assert (math.inf, -math.inf, 2.0**128) == (LOWER[0x7F8], UPPER[0xFF8], UPPER[0x7F7])
    assert (WIDTH[8:0x7F8] <= LOWER[8:0x7F8] / 8).all()
    assert np.isnan(WIDTH[0x7F9:0x800]).all()


@given(values=SINGLES, qs=st.lists(st.floats(0, 1), min_size=1, max_size=5))
def test_quantiles(values: list[float], qs: list[float]) -> None:
    """A quantile lies in the bin of the value of that rank, or on its edge, and they rise."""
    summary, finite = summary_of(values), sorted(value for value in values if math.isfinite(value))
    got = quantiles(summary, sorted(qs)).tolist()
    assert got == sorted(got) or not finite
    for share, quantile in zip(sorted(qs) if finite else [], got, strict=False):
        ranked = finite[max(math.ceil(share * len(finite) - 1e-9), 1) - 1]
        after = finite[min(math.floor(share * len(finite) + 1e-9), len(finite) - 1)]
        bins = summary_of([ranked]).bins[0], summary_of([after]).bins[0]
        assert LOWER[bins[0]] <= quantile <= UPPER[bins[1]]


def test_quantiles_of_a_normal_distribution() -> None:
    """Many values give the quantiles of their distribution, and the extremes exactly."""
    values = np.random.default_rng(0).normal(0, 2, 100_000).astype(np.float32)
    got = quantiles(summary_of(values), [0, 0.0228, 0.1587, 0.5, 0.8413, 0.9772, 1])
    assert pytest.approx([-4, -2, 0, 2, 4], abs=0.05) == got[1:-1].tolist()
    assert (values.min(), values.max()) == (got[0], got[-1])


def test_quantiles_beyond_float32() -> None:
    """Values that only a double can hold are clamped in the bins, but not at the ends."""
    header = HEADER.pack(2, 0, 0, 0, 0, 2, -1.5e308, 1.5e308, 0.0, math.inf)
    fields = (*HEADER.unpack(header), np.array([0x7F7, 0xFF7], np.uint16), np.ones(2, np.uint64))
    summary = Summary(*fields)
    assert [-1.5e308, 1.5e308] == quantiles(summary, [0, 1]).tolist()
    made = histogram(summary)
    assert made is not None
    assert 1.5e308 == made.bucket_limit[-1]


@given(values=SINGLES, buckets=st.integers(1, 130))
def test_histogram(values: list[float], buckets: int) -> None:
    """Limits rise strictly up to the greatest value, and every finite value is counted once."""
    finite = [value for value in values if math.isfinite(value)]
    made = histogram(summary_of(values), buckets=buckets)
    assert (made is None) == (not finite)
    if made is not None:
        assert (len(finite), len(finite)) == (made.num, sum(made.bucket))
        assert (min(finite), max(finite)) == (made.min, made.max)
        assert len(made.bucket) == len(made.bucket_limit) <= buckets
        assert all(a < b for a, b in zip(made.bucket_limit, made.bucket_limit[1:], strict=False))
        assert max(finite) == made.bucket_limit[-1]
        check_counts(made, finite)


def check_counts(made: Histogram, finite: list[float]) -> None:
    """What lies up to a limit is counted up to it; a value on the limit may count on either side."""
    for limit, total in zip(made.bucket_limit, np.cumsum(made.bucket).tolist(), strict=True):
        below, upto = sum(value < limit for value in finite), sum(value <= limit for value in finite)
        assert below <= total <= upto


def test_histogram_keeps_the_shape() -> None:
    """An outlier far away does not lump the rest together."""
    values = np.random.default_rng(0).normal(0, 1, 10_000).astype(np.float32)
    values[0] = 1e30
    made = histogram(summary_of(values))
    assert made is not None
    inside = [limit for limit in made.bucket_limit if abs(limit) < 2]
    assert len(inside) > 30


@pytest.mark.parametrize(
    "values",
    [[0.0], [1.0], [-2.5, -2.5], [0, 0, 1], [0, -1], [-0.0, 0.0], [1e-45, -1e-45], [3e38, -3e38], [1, 2, 4]],
)
def test_tensorboard_takes_the_histogram(values: list[float]) -> None:
    """TensorBoard's histogram plugin makes rows of left, right and count of it, none of them backwards."""
    made = histogram(summary_of(values))
    assert made is not None
    value = TensorBoardSummary.Value(tag="weights")
    for name in ("min", "max", "num", "sum", "sum_squares"):
        setattr(value.histo, name, getattr(made, name))
    value.histo.bucket_limit.extend(made.bucket_limit)
    value.histo.bucket.extend(made.bucket)
    migrated = migrate_value(value).tensor
    rows = np.frombuffer(migrated.tensor_content, np.float32).reshape(-1, 3)
    assert len(values) == rows[:, 2].sum()
    assert (rows[:, 0] <= rows[:, 1]).all()
    assert (np.float32(min(values)), np.float32(max(values))) == (rows[0, 0], rows[-1, 1])


def test_merged() -> None:
    """Merging two summaries is summarizing both tensors at once."""
    values = np.random.default_rng(0).normal(0, 1, 4096).astype(np.float32)
    both = merged([summary_of(values[:1024]), summary_of(values[1024:])])
    whole = summary_of(values)
    assert (whole.count, whole.min, whole.max) == (both.count, both.min, both.max)
    assert whole.counts.tolist() == both.counts.tolist()
    assert pytest.approx(whole.sum) == both.sum
