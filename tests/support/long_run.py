"""Writes a long run without waiting for a training: `python tests/support/long_run.py DIR`.

The blocks are made by the real encoders and framed as in a real file. The tensors come from a small stock of
summaries that differ, so that a million steps take minutes.
"""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path

import numpy as np

# At the end of the path, so that an installed package comes first.
sys.path.append(str(Path(__file__).parents[2]))

from tb_netdebug.core.eventlog.writer import values
from tb_netdebug.core.eventlog.writer.framing import frame
from tb_netdebug.core.records.block import encode_block
from tb_netdebug.core.records.detail import DetailBlocks
from tb_netdebug.core.records.graph import Edge, Graph, Node, Parameter, TensorType, encode_graph
from tb_netdebug.core.records.run_info import encode_run_info
from tb_netdebug.core.records.step import Kind, Sample, Series, StepRecord, Units
from tests.support.record_cases import packed_of

START = 1_700_000_000.0
STEP_SECS = 0.01
STOCK = 32
KINDS = (Kind.WEIGHT, Kind.GRADIENT, Kind.UPDATE, Kind.ACTIVATION)


def write_long_run(
    folder: Path, *, steps: int, tensors: int = 200, every: int = 64, block_steps: int = 20, first: int = 0
) -> Path:
    """The event file: `tensors` tensors of all kinds sampled in every `every`-th step."""
    folder.mkdir(parents=True, exist_ok=True)
    number = len(list(folder.glob("*.netdebug")))
    path = folder / f"events.out.tfevents.{int(START) + number:010d}.synthetic.1.{number:04d}.netdebug"
    series = series_of(tensors)
    levels, stock = DetailBlocks(), Stock()
    with path.open("wb") as file:
        file.write(frame(values.opening(START)))
        for name, data in (("run", info_of(every)), ("graph", encode_graph(graph_of(series)))):
            put(file.write, values.payload(name, first, START, data))
        for start in range(first, first + steps, block_steps):
            stop = min(start + block_steps, first + steps)
            records = [record_of(step, series, every, stock) for step in range(start, stop)]
            put(file.write, payload("steps", stop - 1, encode_block(records)))
            for level, data in levels.add(records):
                put(file.write, payload(f"detail/{level}", stop - 1, data))
        for level, data in levels.finish():
            put(file.write, payload(f"detail/{level}", first + steps - 1, data))
    return path


class Stock:
    """Packed summaries of normal values of several scales, made once."""

    def __init__(self) -> None:
        rng = np.random.default_rng(0)
        self._packed = [
            packed_of((rng.standard_normal(4096) * 10 ** (-3 + 3 * at / STOCK)).astype(np.float32))
            for at in range(STOCK)
        ]

    def sample(self, series: Series, place: int, turn: int) -> Sample:
        units = Units(64, bytes([0xFF] * 7 + [place & 0xFF])) if series.kind == Kind.ACTIVATION else None
        return Sample(series, self._packed[(place + turn // 8) % STOCK], units)


def series_of(tensors: int) -> list[Series]:
    return [
        Series(KINDS[at % 4], f"layers.{at // 4}.linear{'.weight' if at % 4 < 3 else ''}")
        for at in range(tensors)
    ]


def record_of(step: int, series: list[Series], every: int, stock: Stock) -> StepRecord:
    wave = math.sin(step * 0.01)
    scalars = {
        "loss": 2.0 / (1.0 + step * 1e-4) + 0.1 * wave,
        "batch_size": 32.0,
        "gradient_norm": 1.0 + wave,
        "nonfinite_gradients": 0.0,
        "lr/0": 1e-3,
        "time/step": 0.01 + 0.001 * wave,
        "time/data": 0.001,
        "time/forward": 0.004,
        "time/backward": 0.004,
        "time/optimizer": 0.001,
    }
    record = StepRecord(step, START + step * STEP_SECS, scalars)
    if step % every == 0:
        scalars["monitor/every"] = float(every)
        record.samples = [stock.sample(one, place, step // every) for place, one in enumerate(series)]
    return record


def graph_of(series: list[Series]) -> Graph:
    names = list(dict.fromkeys(one.name.removesuffix(".weight") for one in series))
    shape = TensorType((64, 64), "float32")
    weight = Parameter("weight", shape)
    nodes = [Node("", "Sequential", order=0, calls=1)]
    nodes += [
        Node(
            name,
            "Linear",
            parent="",
            parameters=4096,
            trainable=4096,
            own_parameters=(weight,),
            calls=1,
            order=at + 1,
        )
        for at, name in enumerate(names)
    ]
    edges = [Edge(before, after, shape) for before, after in pairwise(names)]
    return Graph(tuple(nodes), tuple(edges))


def info_of(every: int) -> bytes:
    return encode_run_info({"framework": "synthetic", "settings": {"every": every}})


def payload(name: str, step: int, data: bytes) -> values.SummaryPoint:
    return values.payload(name, step, START + step * STEP_SECS, data)


def put(write: Callable[[bytes], object], value: values.SummaryPoint) -> None:
    serialized, _ = values.events([value], ())
    for event in serialized:
        write(frame(event))


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--steps", type=int, default=1_000_000)
    parser.add_argument("--tensors", type=int, default=200)
    parser.add_argument("--every", type=int, default=64)
    parser.add_argument("--block-steps", type=int, default=20)
    parsed = parser.parse_args(arguments)
    write_long_run(
        parsed.folder, steps=parsed.steps, tensors=parsed.tensors, every=parsed.every,
        block_steps=parsed.block_steps,
    )  # fmt: skip


if __name__ == "__main__":
    main()
