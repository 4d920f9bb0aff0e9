"""Records the payloads that later versions must still read: `python tests/support/record_golden.py`.

Run it once for each new format version; it never changes the folder of an older one. Nothing here is random,
so a second run records the same values.
"""

from __future__ import annotations

import json
import struct
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

# At the end of the path, so that an installed package comes first.
sys.path.append(str(Path(__file__).parents[2]))

from tb_netdebug.core.records.block import VERSION, decode_block, encode_block
from tb_netdebug.core.records.detail import DetailLevels, DetailRecord, decode_detail, encode_detail
from tb_netdebug.core.records.graph import decode_graph, encode_graph
from tb_netdebug.core.records.step import Kind, Sample, Series, StepRecord, Units
from tb_netdebug.core.stats.packed import Summary
from tests.support.graph_cases import SMALL_GRAPH
from tests.support.record_cases import Tensor, packed_of

GOLDEN = Path(__file__).parents[1] / "golden"
READERS: dict[str, Callable[[bytes], object]] = {
    "steps": lambda payload: [told_step(record) for record in decode_block(payload).records()],
    "detail": lambda payload: [told_detail(record) for record in decode_detail(payload).records()],
    "graph": lambda payload: repr(decode_graph(payload)),
}


def told(payload: bytes, kind: str) -> Any:
    """What a payload says, as JSON has it."""
    return json.loads(json.dumps(READERS[kind](payload)))


def told_step(record: StepRecord) -> dict[str, Any]:
    return {
        "step": record.step,
        "wall_time": bits(record.wall_time),
        "scalars": {name: bits(value) for name, value in record.scalars.items()},
        "samples": [told_sample(sample) for sample in record.samples],
    }


def told_detail(record: DetailRecord) -> dict[str, Any]:
    return {
        "level": record.level,
        "range": [record.first_step, record.last_step, bits(record.first_time), bits(record.last_time)],
        "steps": record.steps,
        "scalars": {
            name: [one.count, one.nan, one.pos_inf, one.neg_inf]
            + [bits(value) for value in (one.min, one.max, one.sum, one.first, one.last)]
            for name, one in record.scalars.items()
        },
        "samples": [
            [one.first_step, one.last_step, one.merged, told_sample(one.sample)] for one in record.samples
        ],
    }


def told_sample(sample: Sample) -> dict[str, Any]:
    summary = Summary.unpack(sample.summary)
    return {
        "series": [sample.series.kind.name, sample.series.name],
        "counts": [
            summary.count,
            summary.nan,
            summary.pos_inf,
            summary.neg_inf,
            summary.zeros,
            summary.overflow,
        ],
        "values": [bits(value) for value in (summary.min, summary.max, summary.sum, summary.sum_squares)],
        "bins": dict(zip(map(str, summary.bins.tolist()), summary.counts.tolist(), strict=True)),
        "units": [sample.units.count, sample.units.active.hex()] if sample.units else None,
    }


def bits(value: float) -> str:
    """A double with every bit of it, a NaN's payload too."""
    return struct.pack(">d", value).hex()


def pseudo_normal(size: int, *, seed: int) -> Tensor:
    """Numbers around 0 from integer arithmetic alone: the same on every machine."""
    words = (np.arange(1, 4 * size + 1, dtype=np.uint64) * np.uint64(2654435761 + 2 * seed)) % np.uint64(
        2**32
    )
    mixed = (words ^ (words >> np.uint64(15))) * np.uint64(2246822519) % np.uint64(2**32)
    sums = mixed.reshape(4, -1).sum(axis=0).astype(np.float64) / 2**33 - 1
    singles: Tensor = sums.astype(np.float32)
    return singles


def records() -> list[StepRecord]:
    weight, gradient = Series(Kind.WEIGHT, "linear.weight"), Series(Kind.GRADIENT, "linear.weight")
    activation, odd = Series(Kind.ACTIVATION, "relu"), Series(Kind.TENSOR, "näme\n")
    signs = [0.0, -0.0, np.inf, -np.inf, np.nan, 1e-45, -3e38]
    weights, steps = pseudo_normal(4000, seed=1), []
    for step in range(5):
        gradients = pseudo_normal(4000, seed=10 + step)
        weights = weights + np.float32(0.001) * gradients
        samples = [
            Sample(weight, packed_of(weights)),
            Sample(gradient, packed_of(gradients)),
            Sample(activation, packed_of(np.maximum(gradients, 0)), Units(10, bytes([0xFF >> step, 2]))),
        ]
        steps.append(StepRecord(step, 1.7e9 + step / 7, {"loss": 1 / (step + 1), "lr/0": 0.1}, samples))
    steps[2].scalars = {"loss": float("nan"), "scalar/extra": -0.0}
    steps[3].samples += [Sample(odd, packed_of(np.array(signs, np.float32)), Units(0, b""))]
    steps[4].samples = [Sample(odd, packed_of(np.empty(0, np.float32)))]
    return [*steps, StepRecord(-7, float("inf"), {"loss": float("-inf")})]


def payloads() -> dict[str, bytes]:
    levels = DetailLevels(factor=2, depth=2)
    details = [done for record in records() for done in levels.add(record)] + levels.flush()
    return {
        "steps": encode_block(records(), rank=3),
        "detail": encode_detail([record for record in details if record.level == 1], rank=3),
        "graph": encode_graph(SMALL_GRAPH),
    }


def record(folder: Path) -> None:
    folder.mkdir(parents=True)
    for kind, payload in payloads().items():
        (folder / f"{kind}.bin").write_bytes(payload)
        expected = json.dumps(told(payload, kind), indent=1, sort_keys=True, ensure_ascii=True)
        (folder / f"{kind}.json").write_text(expected + "\n", encoding="utf-8")


if __name__ == "__main__":
    record(GOLDEN / f"records_v{VERSION}")
