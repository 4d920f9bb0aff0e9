"""What a container leaves to its processes counts, not what its host has: with files like the kernel's."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import psutil
import pytest

from tb_netdebug.core.machine import free_memory
from tb_netdebug.core.machine.free_memory import copies_limit, free_bytes, left_in_groups

V2 = {"memory.max": "3000000", "memory.current": "1000000", "memory.stat": "anon 5\ninactive_file 200\n"}
V1 = {
    "memory.limit_in_bytes": "3000000", "memory.usage_in_bytes": "2500000",
    "memory.stat": "cache 7\ninactive_file 1\ntotal_inactive_file 300\n",
}  # fmt: skip


def laid_out(system: Path, line: str, folders: dict[str, dict[str, str]]) -> Path:
    (system / "proc/self").mkdir(parents=True)
    (system / "proc/self/cgroup").write_text(line)
    for folder, files in folders.items():
        (system / "sys/fs/cgroup" / folder).mkdir(parents=True, exist_ok=True)
        for name, text in files.items():
            (system / "sys/fs/cgroup" / folder / name).write_text(text + "\n")
    return system


def test_version_2(tmp_path: Path) -> None:
    """The groups above have limits, too, of which the narrowest counts; pages of files can be given back."""
    above = {"memory.max": "1500000", "memory.current": "1200000"}
    system = laid_out(tmp_path, "0::/jobs/mine\n", {"jobs/mine": V2, "jobs": above})
    assert [2_000_200, 300_000] == left_in_groups(system)


def test_version_2_without_a_limit(tmp_path: Path) -> None:
    system = laid_out(tmp_path, "0::/mine\n", {"mine": {**V2, "memory.max": "max"}})
    assert [] == left_in_groups(system)


def test_version_1(tmp_path: Path) -> None:
    """Beside other controllers, which have trees of their own."""
    lines = "5:cpu,cpuacct:/docker/x\n4:memory:/docker/x\n0::/docker/x\n"
    assert [500_300] == left_in_groups(laid_out(tmp_path, lines, {"memory/docker/x": V1}))


def test_inside_of_a_container(tmp_path: Path) -> None:
    """Version 1 tells the path on the host, and the root is the container's own."""
    assert [500_300] == left_in_groups(laid_out(tmp_path, "4:memory:/docker/x\n", {"memory": V1}))


def test_more_is_used_than_there_may_be(tmp_path: Path) -> None:
    system = laid_out(tmp_path, "0::/\n", {"": {**V2, "memory.current": "4000000"}})
    assert [0] == left_in_groups(system)


@pytest.mark.parametrize("line", ["", "nonsense", "0::", "4:memory", "0::/../../etc", "4:memory:/x:y\n"])
def test_what_makes_no_sense(tmp_path: Path, line: str) -> None:
    assert [] == left_in_groups(laid_out(tmp_path, line, {}))


def test_copies_have_room_where_the_free_memory_is_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    """And none where it is known that nothing is left."""

    def unreadable() -> Any:
        raise OSError("no /proc")

    monkeypatch.setattr(psutil, "virtual_memory", unreadable)
    assert (0, free_memory.COPIES_BYTES) == (free_bytes(), copies_limit())
    monkeypatch.undo()
    monkeypatch.setattr(free_memory, "left_in_groups", lambda _: [0])
    assert 0 == copies_limit()


def test_the_narrower_one_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of host and container; without control groups it is the host."""
    monkeypatch.setattr(free_memory, "SYSTEM", laid_out(tmp_path, "0::/mine\n", {"mine": V2}))
    assert 2_000_200 == free_bytes()
    monkeypatch.setattr(free_memory, "SYSTEM", tmp_path / "nothing")
    assert 2_000_200 < free_bytes() <= psutil.virtual_memory().total
