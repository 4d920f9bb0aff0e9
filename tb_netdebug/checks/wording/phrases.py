"""Writes numbers, times and names in sentences: one way for all texts that people read."""

from __future__ import annotations

import math
from collections.abc import Iterable

MOST_NAMED = 4
# Shares below this are written as "less than" it: nobody counts more zeros than that.
LEAST_PERCENT = 1e-6
LARGEST = 1e15
LARGE = ((1e12, "trillion"), (1e9, "billion"), (1e6, "million"))


def percent(share: float) -> str:
    """Return a share as text, such as "61 %".

    Shares above ten percent are whole numbers, small ones keep the digits that they have. Only all of
    something is 100 %, and only nothing is 0 %.
    """
    value = 100.0 * float(share)
    size = abs(value)
    if not math.isfinite(value) or size >= 1e5:
        return f"{number(value)} %"
    if 0 < size < LEAST_PERCENT:
        return f"less than {plain(LEAST_PERCENT, 1)} %"
    if 99.5 <= size < 100:
        return f"{math.floor(value * 10) / 10} %"
    return f"{round(value)} %" if size >= 9.95 else f"{plain(value, 1 if size < 0.1 else 2)} %"


def number(value: float, digits: int = 3) -> str:
    """Return the number as text with `digits` digits.

    Powers of ten are used only where zeros can no longer be counted: 0.00031, 65500, "2.5 million", but
    2.3e-09. Beyond thousands of trillions, which nobody can picture, the text is "more than 1000 trillion".
    """
    value = float(value)
    if not math.isfinite(value):
        return "NaN" if math.isnan(value) else "infinite" if value > 0 else "minus infinity"
    rounded = float(f"{value:.{digits}g}")
    if abs(rounded) >= LARGEST:
        return f"{'more than' if rounded > 0 else 'less than minus'} 1000 trillion"
    for size, word in LARGE:
        if size <= abs(rounded) < 1000 * size:
            return f"{plain(rounded / size, digits)} {word}"
    is_readable = not rounded or 1e-4 <= abs(rounded) < 1e6
    return plain(rounded, digits) if is_readable else f"{rounded:.{digits}g}"


def plain(value: float, digits: int) -> str:
    """Return the number as text, never with a power of ten."""
    if not value:
        return "0"
    decimals = max(digits - 1 - math.floor(math.log10(abs(value))), 0)
    text = f"{value:.{decimals}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def counted(count: float, one: str, many: str = "") -> str:
    """Return the count with its noun: "1 layer", "2 layers"; `many` where the plural takes more than an s."""
    return f"{int(count)} {agree(count, one, many or one + 's')}"


def agree(count: float, one: str, many: str) -> str:
    """Return the word that agrees with the count, such as "is" or "are"."""
    return one if int(count) == 1 else many


def span(secs: float) -> str:
    """Return a time in the unit that suits it: "5.2 min", "340 ms"."""
    for size, unit in ((3600.0, "h"), (60.0, "min"), (1.0, "s")):
        if secs >= size:
            return f"{number(secs / size)} {unit}"
    return f"{number(secs * 1e3)} ms"


def size(value_bytes: float) -> str:
    """Return a number of bytes as text, such as "1.21 GB"."""
    return f"{number(value_bytes / 1e9)} GB" if value_bytes >= 1e9 else f"{number(value_bytes / 1e6)} MB"


def named(name: str) -> str:
    """Return the name as it stands in a sentence: bare digits, which are no name, become "layer 3"."""
    is_digits = name.partition("[")[0].replace(".", "").isdecimal()
    return f"layer {name}" if is_digits else name


def listed(names: Iterable[str], most: int = MOST_NAMED) -> str:
    """Return names as a list in words: "a, b, c, d and 3 more"."""
    words = [named(name) for name in names]
    more = f" and {len(words) - most} more" if len(words) > most else ""
    return f"{', '.join(words[:most])}{more}"
