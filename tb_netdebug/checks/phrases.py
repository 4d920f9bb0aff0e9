"""How numbers, times and names are written in sentences: one way for all texts that people read."""

from __future__ import annotations

import math
from collections.abc import Iterable

MOST_NAMED = 4
# Shares below this are told as "less than" it: more zeros than here are counted by nobody.
LEAST_PERCENT = 1e-6
LARGEST = 1e15
LARGE = ((1e12, "trillion"), (1e9, "billion"), (1e6, "million"))


def percent(share: float) -> str:
    """A share as "61 %". Whole above ten; what is small shows the digits that it has, and only all of
    something is 100 %, only nothing 0 %."""
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
    """With so many digits, and without powers of ten where zeros can still be counted: 0.00031, 65500,
    "2.5 million", but 2.3e-09. Nobody can picture what is larger than thousands of trillions."""
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
    """Never with a power of ten."""
    if not value:
        return "0"
    decimals = max(digits - 1 - math.floor(math.log10(abs(value))), 0)
    text = f"{value:.{decimals}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def counted(count: float, one: str, many: str = "") -> str:
    """ "1 layer", "2 layers"; `many` where an s is not all that is different."""
    return f"{int(count)} {agree(count, one, many or one + 's')}"


def agree(count: float, one: str, many: str) -> str:
    """The word that suits the number, such as "is" or "are"."""
    return one if int(count) == 1 else many


def span(secs: float) -> str:
    """A time in the unit that suits it: "5.2 min", "340 ms"."""
    for size, unit in ((3600.0, "h"), (60.0, "min"), (1.0, "s")):
        if secs >= size:
            return f"{number(secs / size)} {unit}"
    return f"{number(secs * 1e3)} ms"


def size(value_bytes: float) -> str:
    """ "1.21 GB"."""
    return f"{number(value_bytes / 1e9)} GB" if value_bytes >= 1e9 else f"{number(value_bytes / 1e6)} MB"


def named(name: str) -> str:
    """A layer, tensor or scalar in a sentence: bare digits are no name, so it is said that they are one."""
    is_digits = name.partition("[")[0].replace(".", "").isdecimal()
    return f"layer {name}" if is_digits else name


def listed(names: Iterable[str], most: int = MOST_NAMED) -> str:
    """ "a, b, c, d and 3 more"."""
    words = [named(name) for name in names]
    more = f" and {len(words) - most} more" if len(words) > most else ""
    return f"{', '.join(words[:most])}{more}"
