"""Damage of every shape: `check` and `export` look at no more bytes of it than the page does."""

from __future__ import annotations

import os
import random
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

import tb_netdebug as nd
from tb_netdebug.core.eventlog.reader import frames, scanner
from tb_netdebug.core.eventlog.reader.run import read_run
from tb_netdebug.core.eventlog.reader.storage import _Descriptor
from tests.support.event_files import blocks, header_of, write_blocks
from tests.support.recorded import opened, record

SIZE = 3 << 20
LIMIT = 1 << 20  # beside what is damaged

TAILS: dict[str, Callable[[], bytes]] = {
    "zeros": lambda: bytes(SIZE),
    "ones": lambda: b"\xff" * SIZE,
    "valid headers, wrong checksums": lambda: header_of(100) * (SIZE // 12),
    "valid headers of long records": lambda: header_of(1 << 18) * 300 + bytes(SIZE),
    "numbers that could be lengths": lambda: (b"\x01" + bytes(7)) * (SIZE // 8),
    "a length of gigabytes": lambda: header_of(3 << 30) + bytes(SIZE),
    "noise": lambda: random.Random(1).randbytes(SIZE),
    "islands": lambda: b"".join(header_of(50) + bytes(range(54)) + bytes(900) for _ in range(SIZE // 1000)),
}


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """Bytes that are read and scanned."""
    counts: Counter[str] = Counter()
    scan, at, read = scanner.native.scan, _Descriptor.at, frames._FrameReader._read

    def counted_scan(data: bytes, *arguments: int) -> object:
        counts["scanned"] += len(data)
        return scan(data, *arguments)  # type: ignore[arg-type]

    def counted_at(self: _Descriptor, offset: int, size: int) -> bytes:
        data = at(self, offset, size)
        counts["read"] += len(data)
        return data

    def counted_read(self: frames._FrameReader, offset: int, size: int) -> bytes:
        data = read(self, offset, size)
        counts["read"] += len(data)
        return data

    monkeypatch.setattr(scanner.native, "scan", counted_scan)
    monkeypatch.setattr(_Descriptor, "at", counted_at)
    monkeypatch.setattr(frames._FrameReader, "_read", counted_read)
    return counts


def look(counts: Counter[str], work: Callable[[], object]) -> tuple[object, Counter[str]]:
    counts.clear()
    found = work()
    return found, Counter(counts)


@pytest.mark.parametrize("where", ["at the end", "in the middle"])
@pytest.mark.parametrize("kind", TAILS)
def test_the_cost_of_damage(logdir: Path, counted: Counter[str], kind: str, where: str) -> None:
    """The page's scanner goes through it for all of them, once, and all find the same steps."""
    path = write_blocks(logdir, [record(step) for step in range(20)])
    with path.open("ab") as file:
        file.write(TAILS[kind]())
        if where == "in the middle":
            file.write(blocks([record(step) for step in range(20, 40)]))
    expected = 20 if where == "at the end" else 40
    shown, by_page = look(counted, lambda: opened(logdir).details()["steps"])
    checked, by_check = look(counted, lambda: nd.check(logdir).runs[0].steps)
    read, by_export = look(counted, lambda: len(read_run(logdir).main.steps))
    assert [expected] * 3 == [shown, checked, read]
    for cost in (by_check, by_export):
        assert cost["scanned"] <= by_page["scanned"] + LIMIT
        assert cost["read"] <= 2 * by_page["read"] + LIMIT
    if kind != "zeros":  # they are seen at a glance
        assert 0 < by_check["scanned"]


def test_a_hole_of_a_terabyte(logdir: Path, counted: Counter[str]) -> None:
    """What a sparse file does not hold is not read, by anybody."""
    path = write_blocks(logdir, [record(step) for step in range(20)])
    tail = blocks([record(step) for step in range(20, 40)])
    os.truncate(path, (1 << 40) + 5)
    with path.open("ab") as file:
        file.write(tail)
    works: list[Callable[[], int]] = [
        lambda: opened(logdir).details()["steps"],
        lambda: nd.check(logdir).runs[0].steps,
        lambda: len(read_run(logdir).main.steps),
    ]
    for work in works:
        steps, cost = look(counted, work)
        assert 40 == steps
        assert cost["read"] + cost["scanned"] <= 8 << 20
