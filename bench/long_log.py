"""The event file of a long training, made without it: the records go through NetDebug's own writer."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from tb_netdebug.core.eventlog.writer.backlog import Dropped, Extra, PendingPayload
from tb_netdebug.core.eventlog.writer.mirror import MirrorOptions
from tb_netdebug.core.eventlog.writer.packing import Packer
from tb_netdebug.core.eventlog.writer.run_log import RunLog
from tb_netdebug.core.records.graph import Edge, Graph, Node, TensorType, encode_graph
from tb_netdebug.core.records.run_info import encode_run_info
from tb_netdebug.core.records.step import Kind, Sample, Series, StepRecord
from tb_netdebug.core.stats import kernel
from tb_netdebug.core.stats.dtypes import DType

KINDS = (Kind.WEIGHT, Kind.GRADIENT, Kind.UPDATE, Kind.ACTIVATION)
# Different looks at each tensor, which come in turn: sketches of real numbers, made once.
LOOKS = 12
VALUES = 4096
# The writer takes what came within 200 ms into one block: here that of 80 steps a second.
STEPS_A_BLOCK = 16
STEP_SECS = 0.0125
SAMPLED_EVERY = 64
TELL_EVERY = 4096
# Hours are made in a minute or two: histograms for TensorBoard's own pages come as many times as in hours.
MIRROR_SECS = 0.5
BEGAN = 1.7e9
FLOW = TensorType((64, 64), "float32")


@dataclass(frozen=True, slots=True)
class LongLog:
    """How long a training, and of how many tensors: a quarter each of weights, gradients, updates and
    activations."""

    steps: int
    tensors: int
    sampled_every: int = SAMPLED_EVERY
    modules: int = 0
    seed: int = 1
    names: list[str] = field(init=False)

    def __post_init__(self) -> None:
        layers = max(self.tensors // len(KINDS), self.modules)
        object.__setattr__(self, "names", [f"encoder.layers.{at}" for at in range(layers)])

    def write(self, run_dir: Path, tell: Callable[[int], object] = lambda step: None) -> Path:
        """Makes the event file; `tell` hears now and then how many steps are in it."""
        log = RunLog(run_dir)
        packer = Packer(rank=0, mirror=MirrorOptions(histogram_secs=MIRROR_SECS))
        nothing = Dropped()
        try:
            log.write(packer.pack(self._beginning(), dropped=nothing, log=log).values)
            for records in self._batches():
                log.write(packer.pack(records, dropped=nothing, log=log).values)
                if (records[-1].step + 1) % TELL_EVERY == 0:
                    tell(records[-1].step + 1)
            log.write(packer.rest(dropped=nothing))
            path = log.path
        finally:
            log.close()
        if errors := packer.take_errors():
            raise errors[0]
        assert path is not None
        return path

    def records(self) -> Iterator[StepRecord]:
        """All steps; a loss that falls, and every so often samples of all tensors."""
        looks = itertools.cycle(self._looks())
        losses, noise = self._losses(), np.random.default_rng(self.seed).random(4096).tolist()
        for step in range(self.steps):
            some = noise[step % 4096]
            scalars = {
                "loss": losses[step], "batch_size": 64.0, "gradient_norm": 1.0 + some,
                "nonfinite_gradients": 0.0, "lr/0": 1e-3, "time/step": STEP_SECS + 1e-3 * some,
                "time/data": 1e-3 * some, "time/forward": 4e-3 + 3e-4 * some,
                "time/backward": 6e-3 + 4e-4 * some, "time/optimizer": 2e-3 + 1e-4 * some,
            }  # fmt: skip
            record = StepRecord(step, BEGAN + step * STEP_SECS, scalars)
            if step % 80 == 0:
                scalars["memory/rss"] = 1e9 + 1e6 * some
            if step % self.sampled_every == 0:
                scalars["monitor/every"] = float(self.sampled_every)
                scalars["monitor/overhead"] = 0.01 + 0.01 * some
                record.samples = next(looks)
            yield record

    def _batches(self) -> Iterator[list[StepRecord]]:
        records = self.records()
        while batch := list(itertools.islice(records, STEPS_A_BLOCK)):
            yield batch

    def _losses(self) -> list[float]:
        rng = np.random.default_rng(self.seed)
        steps = np.arange(self.steps)
        losses: list[float] = (2.3 / (1 + 1e-3 * steps) + 0.1 * rng.random(self.steps)).tolist()
        return losses

    def _looks(self) -> list[list[Sample]]:
        """What one sampled step has, `LOOKS` times."""
        rng = np.random.default_rng(self.seed)
        count = self.tensors // len(KINDS)
        series = [
            Series(kind, name if kind == Kind.ACTIVATION else f"{name}.weight")
            for kind in KINDS
            for name in self.names[:count]
        ]
        return [[Sample(one, summary_of(values_of(rng, one))) for one in series] for _ in range(LOOKS)]

    def _beginning(self) -> list[StepRecord | Extra]:
        info = encode_run_info({"framework": "none", "made_for": "the benchmarks"})
        payloads = {"run": info, "graph": encode_graph(self._graph())}
        return [
            Extra(PendingPayload(name, data, BEGAN, keep=True), len(data)) for name, data in payloads.items()
        ]

    def _graph(self) -> Graph:
        nodes = [Node("", "Network"), Node("encoder", "Encoder", parent="")]
        nodes += [Node("encoder.layers", "ModuleList", parent="encoder")]
        nodes += [
            Node(
                name,
                "Linear",
                parent="encoder.layers",
                parameters=VALUES,
                trainable=VALUES,
                calls=1,
                order=at,
            )
            for at, name in enumerate(self.names)
        ]
        edges = [Edge(*pair, FLOW) for pair in itertools.pairwise(self.names)]
        return Graph(tuple(nodes), tuple(edges))


def values_of(rng: np.random.Generator, series: Series) -> NDArray[np.float32]:
    """Such as a tensor of that kind has: of its own size, half of an activation zero."""
    scale = {Kind.WEIGHT: 0.05, Kind.GRADIENT: 1e-3, Kind.UPDATE: 1e-5}.get(series.kind, 1.0)
    values = rng.normal(0, scale, VALUES).astype(np.float32)
    return np.maximum(values, 0) if series.kind == Kind.ACTIVATION else values


def summary_of(values: NDArray[np.float32]) -> bytes:
    [packed] = kernel.summarize([(values.ctypes.data, values.size, DType.FLOAT32)], 1)
    return packed
