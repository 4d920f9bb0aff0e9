"""The C codec under the address and undefined behaviour sanitizers."""

from __future__ import annotations

from pathlib import Path

from tests.support.sanitizer import ended_of


def test_no_access_outside(tmp_path: Path) -> None:
    """Whatever bytes come in, nothing outside of them is touched, and nothing is done that C leaves open."""
    ended = ended_of("core/records/codec.c", "asan_codec.py", tmp_path / "_codec.so")
    assert (0, "") == (ended.returncode, ended.stderr)
    assert ended.stdout.startswith("done ")
