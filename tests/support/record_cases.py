"""Records for the tests: arbitrary ones for hypothesis, and realistic ones of a small training."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence

import numpy as np
from hypothesis import strategies as st
from numpy.typing import NDArray

from tb_netdebug.core.records.step import Kind, Sample, Series, StepRecord, Units
from tb_netdebug.core.stats import kernel
from tb_netdebug.core.stats.dtypes import DType
from tb_netdebug.core.stats.packed import HEADER, Summary

Tensor = NDArray[np.float32]

WORDS = st.one_of(st.integers(0, 3), st.integers(0, 2**64 - 1))
# All bit patterns, signalling NaNs too, which a float strategy would not give.
DOUBLES = st.one_of(
    st.floats(width=64),
    st.binary(min_size=8, max_size=8).map(lambda bits: float(struct.unpack("<d", bits)[0])),
)
COUNTS = st.one_of(st.integers(1, 4), st.integers(1, 2**20), st.integers(1, 2**64 - 1), st.just(2**64 - 1))
NAMES = st.one_of(st.sampled_from(["loss", "encoder.0.weight", "encoder.0.bias"]), st.text(max_size=12))


def packed_of(values: Tensor) -> bytes:
    """What the kernel says of an array."""
    values = np.ascontiguousarray(values, np.float32)
    [packed] = kernel.summarize([(values.ctypes.data, values.size, DType.FLOAT32)], 1)
    return packed


@st.composite
def packed_summaries(draw: st.DrawFn) -> bytes:
    """Well-formed, but with numbers that need not fit together."""
    around = draw(st.sampled_from([range(4096), range(1000, 1040), range(2040, 2060), range(3000, 3010)]))
    bins = sorted(draw(st.sets(st.sampled_from(around), max_size=30)))
    counts = draw(st.lists(COUNTS, min_size=len(bins), max_size=len(bins)))
    header = HEADER.unpack(
        struct.pack("<6Q", *(draw(WORDS) for _ in range(6)))
        + struct.pack("<4d", *(draw(DOUBLES) for _ in range(4)))
    )
    fields = (*header, np.array(bins, np.uint16), np.array(counts, np.uint64))
    return Summary(*fields).pack()


SERIES = st.builds(Series, st.sampled_from(Kind), NAMES)
UNITS = st.integers(0, 40).flatmap(
    lambda count: st.builds(
        Units, st.just(count), st.binary(min_size=(count + 7) // 8, max_size=(count + 7) // 8)
    )
)
SAMPLES = st.builds(Sample, SERIES, packed_summaries(), st.none() | UNITS)
RECORDS = st.builds(
    StepRecord,
    st.integers(-(2**63), 2**63 - 1),
    DOUBLES,
    st.dictionaries(NAMES, DOUBLES, max_size=4),
    st.lists(SAMPLES, max_size=4),
)


def bits_of(records: Sequence[StepRecord]) -> list[object]:
    """Everything in the records, comparable bit by bit: NaN equals itself, and -0.0 differs from 0.0."""
    return [
        (
            record.step,
            struct.pack("<d", record.wall_time),
            {name: struct.pack("<d", value) for name, value in record.scalars.items()},
            [(sample.series, sample.summary, sample.units) for sample in record.samples],
        )
        for record in records
    ]


def tensors(step_count: int, *, seed: int = 0) -> Iterator[dict[Series, Tensor]]:
    """Step by step: weights that drift slowly, fresh gradients, updates, ReLU activations with dead units."""
    rng = np.random.default_rng(seed)
    shapes = {f"encoder.layers.{i}.linear.weight": (64 << i, 64 << i) for i in range(3)}
    weights = {
        name: rng.normal(0, shape[0] ** -0.5, shape).astype(np.float32) for name, shape in shapes.items()
    }
    for _ in range(step_count):
        step: dict[Series, Tensor] = {}
        for name, weight in weights.items():
            gradient = rng.normal(0, 1e-3, weight.shape).astype(np.float32)
            update = (-0.02 * gradient).astype(np.float32)
            weight += update
            activation = np.maximum(rng.normal(0, 1, (128, len(weight))), 0).astype(np.float32)
            activation[:, :: len(weight) // 4] = 0
            step[Series(Kind.WEIGHT, name)] = weight.copy()
            step[Series(Kind.GRADIENT, name)] = gradient
            step[Series(Kind.UPDATE, name)] = update
            step[Series(Kind.ACTIVATION, name.removesuffix(".weight"))] = activation
        yield step


def training(step_count: int, *, seed: int = 0) -> tuple[list[StepRecord], list[dict[Series, Tensor]]]:
    """The records of such steps as the capture makes them, and the tensors themselves."""
    rng = np.random.default_rng(seed + 1)
    steps = list(tensors(step_count, seed=seed))
    times = 1.7e9 + np.cumsum(0.1 + 0.01 * rng.random(step_count))
    records = [
        StepRecord(at, float(times[at]), _scalars(rng, at), [_sample(*item) for item in step.items()])
        for at, step in enumerate(steps)
    ]
    return records, steps


def _scalars(rng: np.random.Generator, step: int) -> dict[str, float]:
    times = ("step", "data", "forward", "backward", "optimizer")
    return {
        "loss": float(np.float32(2.3 / (1 + 0.01 * step) + 0.1 * rng.random())),
        "gradient_norm": float(rng.random()),
        "nonfinite_gradients": 0.0,
        "batch_size": 128.0,
        "lr/0": 1e-3,
        **{f"time/{name}": float(0.01 * rng.random()) for name in times},
    }


def _sample(series: Series, tensor: Tensor) -> Sample:
    units = None
    if series.kind == Kind.ACTIVATION:
        active = (tensor != 0).any(axis=0)
        units = Units(len(active), np.packbits(active, bitorder="little").tobytes())
    return Sample(series, packed_of(tensor), units)
