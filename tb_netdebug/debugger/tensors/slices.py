"""Slices of tensors: parses text such as "[0, :, 3:10]", and cuts an index into pieces of bounded size."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from types import EllipsisType

from tb_netdebug.debugger.workbench import Index, WorkbenchError

Item = int | slice | EllipsisType
Shape = tuple[int, ...]

MOST_LETTERS = 300
_NUMBER = r"\s*([+-]?\d{1,18})?\s*"
_ITEM = re.compile(rf"{_NUMBER}(:{_NUMBER}(?::{_NUMBER})?)?")


def parsed(text: str | None, shape: Shape) -> Index:
    """Return one integer or slice per dimension, bounded by the shape; raise WorkbenchError."""
    body = (text or "").strip()
    if len(body) > MOST_LETTERS:
        raise WorkbenchError(f"A slice of {len(body)} characters is too long.")
    if body.startswith("[") and body.endswith("]"):
        body = body[1:-1].strip()
    return resolved([_item(part.strip()) for part in body.split(",")] if body else [], shape)


def resolved(items: Sequence[Item], shape: Shape) -> Index:
    """Return the items as NumPy would; steps must be positive, since not all frameworks go backwards."""
    if sum(item is Ellipsis for item in items) > 1:
        raise WorkbenchError("A slice can have ... only once.")
    spare = len(shape) - sum(item is not Ellipsis for item in items)
    if spare < 0:
        raise WorkbenchError(
            f"The slice names {len(shape) - spare} dimensions, but the tensor of shape {list(shape)} has "
            f"{len(shape)}."
        )
    at = next((place for place, item in enumerate(items) if item is Ellipsis), len(items))
    full = [*items[:at], *[slice(None)] * spare, *items[at + 1 :]]
    return tuple(
        _bounded(item, length, dimension)
        for dimension, (item, length) in enumerate(zip(full, shape, strict=True))
        if not isinstance(item, EllipsisType)
    )


def as_text(index: Index, shape: Shape) -> str:
    """Return the slice as it was understood."""
    return f"[{', '.join(_part_text(each, length) for each, length in zip(index, shape, strict=True))}]"


def shape_of(index: Index) -> Shape:
    """Return the shape of the part: an integer removes its dimension."""
    return tuple(length_of(each) for each in index if isinstance(each, slice))


def length_of(part: slice) -> int:
    return len(range(part.start, part.stop, part.step))


def composed(outer: Index, inner: Index) -> Index:
    """Return `tensor[outer][inner]` as one index."""
    rest = iter(inner)
    return tuple(each if isinstance(each, int) else _nested(each, next(rest)) for each in outer)


def whole(shape: Shape) -> Index:
    return tuple(slice(0, length, 1) for length in shape)


def boxes(shape: Shape, start: int, stop: int) -> Iterator[Index]:
    """Yield parts that, in sequence, hold the values from `start` to `stop` in C order."""
    if start >= stop:
        return
    if not shape:
        yield ()
        return
    inner = math.prod(shape[1:])
    # The range is the rest of one row, then whole rows, then the beginning of another row.
    (first, head), (last, tail) = divmod(start, inner), divmod(stop, inner)
    if first == last:
        yield from ((first, *rest) for rest in boxes(shape[1:], head, tail))
        return
    if head:
        yield from ((first, *rest) for rest in boxes(shape[1:], head, inner))
        first += 1
    if first < last:
        yield (slice(first, last, 1), *whole(shape[1:]))
    yield from ((last, *rest) for rest in boxes(shape[1:], 0, tail))


def pieces(shape: Shape, values: int) -> Iterator[Index]:
    """Yield parts of at most so many values that together are the whole."""
    count = math.prod(shape)
    for start in range(0, count, values):
        yield from boxes(shape, start, min(start + values, count))


def _item(text: str) -> Item:
    if text == "...":
        return Ellipsis
    if text.lower() in ("none", "newaxis", "np.newaxis"):
        raise WorkbenchError("A slice cannot make new dimensions here.")
    found = _ITEM.fullmatch(text)
    if found is None or not text:
        raise WorkbenchError(
            f"{text[:40]!r} is not part of a slice: a slice has numbers, ranges such as 3:10 or ::2, and ..."
        )
    start, colon, stop, step = found.groups()
    if colon is None:
        return int(start)
    return slice(*(int(each) if each else None for each in (start, stop, step)))


def _bounded(item: int | slice, length: int, dimension: int) -> int | slice:
    if isinstance(item, slice):
        if item.step is not None and item.step <= 0:
            raise WorkbenchError(f"The step of a slice must be positive, not {item.step}.")
        start, stop, step = item.indices(length)
        return slice(start, max(start, stop), step)
    if not -length <= item < length:
        raise WorkbenchError(f"There is no index {item} in dimension {dimension}: it has {length} values.")
    return item % length


def _part_text(part: int | slice, length: int) -> str:
    if isinstance(part, int):
        return str(part)
    is_whole = part.start == 0 and part.stop == length
    return (":" if is_whole else f"{part.start}:{part.stop}") + (f":{part.step}" if part.step != 1 else "")


def _nested(outer: slice, inner: int | slice) -> int | slice:
    start: int = outer.start + outer.step * (inner if isinstance(inner, int) else inner.start)
    if isinstance(inner, int):
        return start
    length = length_of(inner)
    step = outer.step * inner.step
    return slice(start, start + (length - 1) * step + 1 if length else start, step)
