"""What the server writes and the page reads is held together by one sample, which both sides test against.

`NETDEBUG_ACCEPT=1 pytest tests/viewer/test_page_wire.py` writes the sample anew after a change that was
meant.
"""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np

from tb_netdebug.viewer.plugin.wire import Answer, columns_body

SAMPLE = Path(__file__).resolve().parents[2] / "frontend/src/wire/columns.sample.bin"
NAN = float("nan")


def answers() -> list[Answer]:
    """One of each kind, with what is easily lost: NaN, infinities, odd lengths, strange names, an error."""
    steps = np.array([0.0, 4.0, 8.0])
    scalar = {
        "step": steps, "last": steps + 3, "time": steps + 1.7e9, "samples": np.array([NAN, 256.0, 512.0]),
        "mean": np.array([2.5, NAN, 0.125]), "min": np.array([2.0, NAN, 0.1]),
        "max": np.array([3.0, NAN, 0.15]),
        "bad": np.array([0.0, 4.0, 1.0]), "end": np.array([2.0, -np.inf, np.inf]),
        "count": np.array([4.0, 4.0, 4.0]),
    }  # fmt: skip
    head = {"run": "</script>\u202e x", "version": 7}
    edges = {"first": steps, "last": steps + 3}
    bins = {
        "lower": np.array([-1.0, 0.5, 1.0]),
        "upper": np.array([-0.5, 1.0, 2.0]),
        "counts": np.array([3.0, 0.0, 9.0]),
    }
    histogram = {
        "first": 4, "last": 7, "merged": 4, "statistics": {"mean": 0.5, "std": NAN, "max": float("inf")},
        "nan": 2, "pos_inf": 1, "neg_inf": 0, "zeros": 5, "units_active": 3, "units": None,
    }  # fmt: skip
    statistics = {"statistics\0norm": np.array([1.0, NAN, 3.0]), "statistics\0zeros": np.zeros(3)}
    processes = {
        "time": steps + 1.7e9, "tree_bytes": np.array([2.0**30, 2.0**31, 2.0**32]),
        "most_bytes": np.array([2.0**31, 2.0**32, 2.0**33]), "cpu_share": np.array([0.5, 1.0, 7.5]),
        "processes": np.array([1.0, 5.0, 5.0]),
    }  # fmt: skip
    return [
        Answer(
            {**head, "what": "scalars", "level": 2},
            {f"loss/é\0{part}": column for part, column in scalar.items()},
        ),
        Answer(
            {**head, "what": "heat", "names": ["a.weight", "constructor"]},
            {**edges, "values": np.array([[1, 2, NAN], [4, np.inf, 6]], np.float32)},
        ),
        Answer({"error": "There is no run x."}),
        Answer(
            {**head, "what": "bands"}, {**edges, "quantiles": np.arange(27.0).reshape(3, 9), **statistics}
        ),
        Answer({**head, "what": "histogram", **histogram}, bins),
        Answer({**head, "what": "histogram"}),
        Answer(
            {**head, "what": "histograms"},
            {
                **edges,
                "offsets": np.array([0, 1, 1, 3], np.int32),
                **bins,
                "nonfinite": np.array([0.0, 0.0, 2.0]),
            },
        ),
        Answer({**head, "what": "table", "names": ["a", "b", "c"]}, {"steps": steps, **statistics}),
        Answer({**head, "what": "processes"}, processes),
    ]


def test_the_server_writes_the_sample() -> None:
    """The body is, byte by byte, the one that the tests of the page decode."""
    body = b"".join(columns_body(answers()).chunks())
    if os.environ.get("NETDEBUG_ACCEPT"):
        SAMPLE.write_bytes(body)
    assert SAMPLE.read_bytes() == body
