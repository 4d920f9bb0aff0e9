"""Which scanner and column reader are in use: C where it was compiled, else their twins."""

from __future__ import annotations

import numpy as np

from tb_netdebug.reader import columns_twin, scan_twin

ENTRY = np.dtype(
    [
        ("offset", "<i8"), ("first", "<i8"), ("last", "<i8"), ("length", "<u4"), ("rows", "<u4"),
        ("samples", "<u4"), ("ahead", "<u4"), ("sketches", "<u4"), ("rank", "<u2"), ("kind", "u1"),
        ("version", "u1"),
    ]
)  # fmt: skip
POINT = np.dtype(
    [("step", "<i8"), ("time", "<f8"), ("value", "<f8"), ("offset", "<i8"), ("length", "<u4"), ("tag", "<u4")]
)
GAP = np.dtype([("start", "<i8"), ("end", "<i8"), ("reason", "<i8")])
SAMPLE = columns_twin.SAMPLE

scan = scan_twin.scan
step_rows = columns_twin.step_rows
detail_rows = columns_twin.detail_rows
sample_rows = columns_twin.sample_rows
names_of = columns_twin.names_of
