"""Steps grouped into cells of equal width, so that no more of them remain than a picture can show."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Integers = NDArray[np.int64]


def cell_width(first: int, last: int, most: int) -> int:
    """Return the least width with which at most `most` cells cover the range, out of a few fixed widths.

    Cells lie at multiples of the width. Since there are few widths, while a run grows or a view is moved, the
    same steps stay in the same cell, and the picture does not flicker. A range around zero needs two cells,
    however wide they are.
    """
    width = 1
    most = max(most, 2 if first < 0 <= last else 1)
    # Widths far too small are skipped: a range of steps may be as long as 2**61.
    scale = max((last - first + 1) // (8 * most), 1)
    scale = 1 << scale.bit_length() - 1
    while last // width - first // width + 1 > most:
        # 1, 2, 3 … 7, 8, 10, 12, 14, 16, 20 …
        unit = max(scale, 1 << max(width.bit_length() - 3, 0))
        width = max(unit, width - width % unit + unit)
    return width


def cells_of(steps: Integers, width: int) -> tuple[Integers, Integers]:
    """Return the occupied cells in order, and for each step the place of its cell among them."""
    cells, places = np.unique(steps // width, return_inverse=True)
    return cells, places.reshape(-1)


def middle_of(values: Integers) -> int:
    """Return about the median of at least one value; np.median would take a while to import."""
    place = len(values) // 2
    return int(np.partition(values, place)[place])
