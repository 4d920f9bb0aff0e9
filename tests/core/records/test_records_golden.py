"""Recordings of every format version are still read, and say what they said."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tb_netdebug.core.records.block import VERSION
from tests.support.record_golden import GOLDEN, payloads, told

RECORDINGS = sorted(GOLDEN.glob("records_v*/*.bin"))


def test_every_version_is_there() -> None:
    """Each version from the first to the present one has a recording of each kind of payload."""
    expected = {
        (f"records_v{v}", kind) for v in range(1, VERSION + 1) for kind in ("steps", "detail", "graph")
    }
    assert expected == {(path.parent.name, path.stem) for path in RECORDINGS}


@pytest.mark.parametrize("path", RECORDINGS, ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_recording(path: Path) -> None:
    """The bytes of an earlier time give the values written down beside them."""
    assert json.loads(path.with_suffix(".json").read_text("utf-8")) == told(path.read_bytes(), path.stem)


@pytest.mark.parametrize("kind", ["steps", "detail", "graph"])
def test_the_recorder_is_reproducible(kind: str) -> None:
    """The script that made the newest recording still makes the same values."""
    expected = json.loads((GOLDEN / f"records_v{VERSION}/{kind}.json").read_text("utf-8"))
    assert expected == told(payloads()[kind], kind)
