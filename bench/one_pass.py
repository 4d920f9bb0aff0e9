"""Everything that is to be known of one tensor: how long it takes to find out."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from statistics import median
from typing import Any

import numpy as np
import psutil
import torch
from torch import Tensor

from bench.progress import Session
from bench.results import Column, Part, Promise, Row, Table
from bench.rounds import contest, paired
from tb_netdebug.core.stats import kernel, twin
from tb_netdebug.core.stats.dtypes import DType
from tb_netdebug.frameworks.torch.adapter import COMPUTING

TITLE = "One pass"
METHOD = (
    "Normally distributed float32 values. The peer does what a careful user writes with `SummaryWriter`: "
    "`add_histogram`, and `torch` mean, std, min, max, number of NaN, Inf and zeros, and norm. Reading is "
    "`tensor.sum()` with as many threads. Headline: the median over rounds of the ratio within a round."
)
TIMES_FASTER = 50.0
TIMES_READING = 1.5
BIG_BYTES = 1 << 30
INSTRUCTION_SETS = ("baseline", "avx2", "avx512")


def measure(session: Session) -> Part:
    began = time.monotonic()
    is_borrowed = kernel.borrow_threads(COMPUTING)
    rounds = session.choose(full=11, quick=3)
    millions = 1 if session.is_quick else 10
    peers, faster = against_peers(session, rounds, millions)
    reading, slower = against_reading(session, rounds)
    tables = [peers, reading, by_type(session, min(rounds, 5), millions)]
    size = f"{millions} M float32"
    promises = [
        Promise(
            f"{size}: one pass is faster than `SummaryWriter` and torch by", faster, TIMES_FASTER, "×", False
        ),
        Promise(
            "a tensor larger than the cache: one pass against reading it", slower, TIMES_READING, "×", True
        ),
    ]
    threads = "OpenMP threads of torch" if is_borrowed else "threads of its own"
    method = f"{METHOD} The kernel ran on {threads}."
    return Part("one_pass", TITLE, method, rounds, time.monotonic() - began, promises, tables)


def item(values: Tensor) -> tuple[int, int, int]:
    return values.data_ptr(), values.numel(), int(DType.FLOAT32)


def careful_user(writer: Any, values: Tensor) -> None:
    """What the kernel finds in one pass, by the usual means."""
    writer.add_histogram("tensor", values, 0)
    for found in (
        values.mean(), values.std(), values.min(), values.max(), values.isnan().sum(), values.isinf().sum(),
        (values == 0).sum(), values.norm(),
    ):  # fmt: skip
        found.item()


def against_peers(session: Session, rounds: int, millions: int) -> tuple[Table, float]:
    from torch.utils.tensorboard import SummaryWriter

    make: Callable[..., Any] = SummaryWriter
    values = torch.randn(millions * 1_000_000)
    writer = make(str(session.folder / "one_pass"))
    threads = torch.get_num_threads()
    ours = f"NetDebug, {threads} threads"
    actions: dict[str, Callable[[], object]] = {
        ours: lambda: kernel.summarize([item(values)], threads),
        "NetDebug, one thread alone": lambda: kernel.summarize([item(values)], 1),
        "NetDebug's NumPy twin": lambda: twin.summarize([item(values)], 1),
        "`add_histogram` and 8 torch calls": lambda: careful_user(writer, values),
    }
    try:
        secs = contest(actions, rounds, tick=partial(tick, session, "against SummaryWriter"))
    finally:
        writer.close()
    peer = secs["`add_histogram` and 8 torch calls"]
    rows = [
        Row(name, [median(each) * 1e3, min(each) * 1e3, paired(peer, each)], name.startswith("NetDebug"))
        for name, each in secs.items()
    ]
    columns = [
        Column("median, ms", 2, "less"),
        Column("fastest, ms", 2, "less"),
        Column("× faster than the last", 1, "more"),
    ]
    return Table(f"{millions} M float32", columns, rows), paired(peer, secs[ours])


def against_reading(session: Session, rounds: int) -> tuple[Table, float]:
    wanted = BIG_BYTES // 4 if session.is_quick else BIG_BYTES
    size = min(wanted, psutil.virtual_memory().available // 4)
    values = torch.randn(size // 4)
    threads = torch.get_num_threads()
    actions: dict[str, Callable[[], object]] = {
        "`tensor.sum()`": values.sum,
        "NetDebug": lambda: kernel.summarize([item(values)], threads),
    }
    secs = contest(actions, rounds, tick=partial(tick, session, "against reading"))
    reading = secs["`tensor.sum()`"]
    rows = [
        Row(
            name,
            [median(each) * 1e3, min(each) * 1e3, size / median(each) / 1e9, paired(each, reading)],
            name == "NetDebug",
        )
        for name, each in secs.items()
    ]
    columns = [
        Column("median, ms", 1, "less"),
        Column("fastest, ms", 1, "less"),
        Column("GB/s", 1, "more"),
        Column("× reading", 2, "less"),
    ]
    table = Table(f"{size / 2**20:.0f} MiB of float32, {threads} threads", columns, rows)
    return table, paired(secs["NetDebug"], reading)


def by_type(session: Session, rounds: int, millions: int) -> Table:
    """For information: each type of element on each instruction set that this machine has."""
    rows = []
    for dtype in DType:
        session.progress.show(f"{TITLE}: {dtype.name.lower()}")
        values = made(dtype, millions * 1_000_000)
        speeds = [speed_on(name, values, dtype, rounds) for name in INSTRUCTION_SETS]
        few = values[: values.size // 10]
        rows.append(Row(dtype.name.lower(), [*speeds, speed(twin.summarize, few, dtype, 1)], is_ours=True))
    columns = [Column(f"{name}, M values/s", 0, "more") for name in (*INSTRUCTION_SETS, "NumPy twin")]
    return Table(f"By type and instruction set, {millions} M values, 1 thread", columns, rows)


def made(dtype: DType, count: int) -> np.ndarray[Any, Any]:
    """Values such as a tensor of this type would hold."""
    generator = np.random.default_rng(1)
    values = generator.standard_normal(count, dtype=np.float32)
    if dtype is DType.BFLOAT16:  # NumPy has none: the upper halves of float32
        return (values.view(np.uint32) >> 16).astype(np.uint16)
    if dtype is DType.BOOL:
        return values > 0
    return (values * 30 if "INT" in dtype.name else values).astype(dtype.name.lower())


def speed_on(name: str, values: np.ndarray[Any, Any], dtype: DType, rounds: int) -> float | None:
    """Of the C kernel with one instruction set; None where there is none."""
    use = getattr(kernel.kernel, "use", None)
    if use is None:
        return None
    best = str(kernel.description()["instruction_set"])
    try:
        use(name)
    except ValueError:
        return None
    try:
        return speed(kernel.summarize, values, dtype, rounds)
    finally:
        use(best)


def speed(
    summarize: Callable[[list[tuple[int, int, int]], int], object],
    values: np.ndarray[Any, Any],
    dtype: DType,
    rounds: int,
) -> float:
    """Million values in a second, by the median."""
    items = [(int(values.ctypes.data), int(values.size), int(dtype))]
    secs = contest({"": lambda: summarize(items, 1)}, rounds, tick=lambda number: None)
    return values.size / median(secs[""]) / 1e6


def tick(session: Session, what: str, number: int) -> None:
    session.progress.show(f"{TITLE} {what}: round {number + 1}")
