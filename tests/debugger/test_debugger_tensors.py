"""Tensors as a paused training shows them: slices, matrices, histograms, differences and files."""

from __future__ import annotations

import io
import re
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from numpy.typing import NDArray

from tb_netdebug.debugger.tensors.array_readable import ArrayReadable, readable_of
from tb_netdebug.debugger.tensors.npy import MOST_BYTES, piece_of
from tb_netdebug.debugger.tensors.slices import as_text, boxes, composed, parsed, pieces, shape_of
from tb_netdebug.debugger.trainer import tensor_view
from tb_netdebug.debugger.trainer.tensor_view import MOST_BUCKETS, view
from tb_netdebug.debugger.workbench import TensorEntry, WorkbenchError

Array = NDArray[Any]

SHAPES = arrays.array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=5)
NUMBERS = st.none() | st.integers(-7, 7)
PARTS = st.builds(slice, NUMBERS, NUMBERS, st.none() | st.integers(1, 3))


def shown(array: Array, **wanted: Any) -> dict[str, Any]:
    return view(readable_of(array, "output:fc", "output"), **wanted)


def text_of(part: int | slice) -> str:
    if isinstance(part, int):
        return str(part)
    return ":".join("" if each is None else str(each) for each in (part.start, part.stop, part.step))


def rebuilt(found: dict[str, Any]) -> Array:
    return np.array(found["values"]).reshape(found["shape"])


# ---- slices -----------------------------------------------------------------------------------------------


@given(data=st.data(), shape=SHAPES)
def test_slices_pick_what_numpy_picks(data: st.DataObject, shape: tuple[int, ...]) -> None:
    """Text into an index without negative numbers, and the text of that means the same."""
    array = np.arange(np.prod(shape, dtype=int)).reshape(shape)
    wanted: list[Any] = [
        data.draw(PARTS | st.integers(-length, length - 1) if length else PARTS) for length in shape
    ]
    wanted = wanted[: data.draw(st.integers(0, len(wanted)))]
    index = parsed(f"[{', '.join(map(text_of, wanted))}]", shape)
    np.testing.assert_array_equal(array[tuple(wanted)], array[index])
    assert (index, array[index].shape) == (parsed(as_text(index, shape), shape), shape_of(index))
    assert all(part >= 0 if isinstance(part, int) else part.stop >= part.start >= 0 for part in index)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (None, "[:, :, :]"),
        ("", "[:, :, :]"),
        ("[]", "[:, :, :]"),
        ("[...]", "[:, :, :]"),
        ("0", "[0, :, :]"),
        ("[..., -1]", "[:, :, 4]"),
        ("[0, ..., 3:10]", "[0, :, 3:5]"),
        (" [ -1 , : , ::2 ] ", "[2, :, ::2]"),
        ("[5:, 2:1]", "[3:3, 2:2, :]"),
    ],
)
def test_the_slice_as_it_was_understood(text: str | None, expected: str) -> None:
    """Bounds cut, dots filled in."""
    assert expected == as_text(parsed(text, (3, 4, 5)), (3, 4, 5))


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("[3]", "no index 3 in dimension 0: it has 3 values"),
        ("[0, -5]", "no index -5 in dimension 1"),
        ("[0, 0, 0, 0]", "names 4 dimensions"),
        ("[..., ...]", "only once"),
        ("[::-1]", "must be positive"),
        ("[::0]", "must be positive"),
        ("[None]", "cannot make new dimensions"),
        ("[np.newaxis]", "cannot make new dimensions"),
        ("[x]", "'x' is not part of a slice"),
        ("[0,]", "'' is not part of a slice"),
        ("[1.5]", "is not part"),
        ("[0][1]", "is not part"),
        ("[99999999999999999999]", "is not part"),
        ("[" + "0," * 200 + "]", "too long"),
        ("[__import__('os')]", "is not part"),
    ],
)
def test_slices_that_are_none(text: str, sentence: str) -> None:
    """Sentences that say which part."""
    with pytest.raises(WorkbenchError, match=re.escape(sentence)):
        parsed(text, (3, 4, 5))


@given(text=st.text("[]0123456789:.,- xN", max_size=30))
def test_any_text_as_a_slice(text: str) -> None:
    """An index, or a sentence."""
    try:
        index = parsed(text, (3, 4, 5))
    except WorkbenchError:
        return
    assert np.empty((3, 4, 5))[index].shape == shape_of(index)


@given(data=st.data(), shape=SHAPES)
def test_boxes_hold_a_range_of_values(data: st.DataObject, shape: tuple[int, ...]) -> None:
    """One after the other they are the values in the order of C, whatever the slice of the tensor is."""
    array = np.arange(np.prod(shape, dtype=int)).reshape(shape)
    outer = parsed(f"[{', '.join(text_of(data.draw(PARTS)) for _ in shape)}]", shape)
    flat = array[outer].reshape(-1)
    start, stop = sorted((data.draw(st.integers(0, flat.size)), data.draw(st.integers(0, flat.size))))
    found = [array[composed(outer, box)].reshape(-1) for box in boxes(shape_of(outer), start, stop)]
    assert flat[start:stop].tolist() == [value for part in found for value in part.tolist()]


@given(shape=SHAPES, most=st.integers(1, 40))
def test_pieces_are_bounded(shape: tuple[int, ...], most: int) -> None:
    """None has more values than were asked for, and together they are all."""
    array = np.arange(np.prod(shape, dtype=int)).reshape(shape)
    found = [array[index].reshape(-1) for index in pieces(shape, most)]
    assert all(0 < part.size <= most for part in found)
    assert list(range(array.size)) == [value for part in found for value in part.tolist()]


# ---- the view ---------------------------------------------------------------------------------------------


def test_the_whole_in_numbers() -> None:
    """Whatever the slice is: exact statistics and a histogram of all values."""
    array = np.array([[1, -2, np.nan], [np.inf, 0, 4]], np.float32)
    found = shown(array, slice="[0]")
    assert {
        "count": 6, "nan": 1, "pos_inf": 1, "neg_inf": 0, "zeros": 1, "min": -2.0, "max": 4.0, "mean": 0.75,
        "std": pytest.approx(np.std([1, -2, 0, 4])), "norm": pytest.approx(np.sqrt(21)),
    } == found["statistics"]  # fmt: skip
    assert ([2, 3], "float32", 24, "[0, :]") == (
        found["shape"],
        found["dtype"],
        found["bytes"],
        found["slice"],
    )
    assert [1.0, -2.0] == found["cells"]["values"][:2]


@given(values=arrays.arrays(np.float32, st.integers(0, 300), elements=st.floats(-1e6, 1e6, width=32)))
def test_histograms(values: Array) -> None:
    """Few bins that touch and hold all values; none without a value."""
    found = shown(values)["histogram"]
    if not len(values):
        assert found is None
        return
    assert len(values) == sum(found["counts"])
    assert len(found["counts"]) <= MOST_BUCKETS
    assert found["lower"][1:] == found["upper"][:-1]
    assert (values.min(), values.max()) == (found["lower"][0], found["upper"][-1])


@given(data=st.data(), shape=SHAPES, cells=st.integers(1, 30))
def test_cells_are_a_thinned_matrix(data: st.DataObject, shape: tuple[int, ...], cells: int) -> None:
    """No more than asked for, and each where rows and columns say."""
    array = np.arange(np.prod(shape, dtype=int)).reshape(shape).astype(np.float64)
    parts = [data.draw(PARTS) for _ in shape]
    found = shown(array, slice=", ".join(map(text_of, parts)), cells=cells)["cells"]
    picked = array[tuple(parts)]
    while picked.ndim > 2:
        picked = picked[0] if len(picked) else np.empty((0, 0))
    matrix = np.atleast_2d(picked)
    if not array[tuple(parts)].size:
        assert [] == found["values"]
        return
    assert len(found["values"]) <= cells
    row_starts = [part.indices(length) for part, length in zip(parts, shape, strict=True)][-2:]
    steps = [1, 1][: 2 - len(row_starts)] + [step for _, _, step in row_starts]
    thinned = matrix[:: found["rows"][1] // steps[0], :: found["columns"][1] // steps[1]]
    np.testing.assert_array_equal(thinned, rebuilt(found))


@pytest.mark.parametrize(
    ("shape", "expected"),
    [((3, 100_000), [3, 1352]), ((100_000, 3), [1352, 3]), ((1000, 1000), [63, 63]), ((5000,), [1, 2500])],
)
def test_short_sides_stay_whole(shape: tuple[int, ...], expected: list[int]) -> None:
    """A table of few columns is thinned in its rows alone; the notes say what was left out."""
    found = shown(np.zeros(shape, np.float32))
    assert expected == found["cells"]["shape"]
    assert "One in " in found["notes"][0]


@pytest.mark.parametrize("array", [np.array(3.5), np.empty((0, 4)), np.array([[1]]), np.empty((2, 0, 3))])
def test_single_values_and_empty_tensors(array: Array) -> None:
    """They have cells, too, as many as there are."""
    found = shown(array)
    assert array.size == len(found["cells"]["values"]) == found["statistics"]["count"]


@pytest.mark.parametrize(
    ("array", "expected"),
    [
        (np.array([True, False]), [1, 0]),
        (np.array([3 + 4j, 0]), [5.0, 0.0]),
        (np.array([2**60 + 1]), [2**60 + 1]),
        (np.array([0.1], np.float32), [0.1]),
        (np.array([0.1], np.float16), [0.1]),
        (np.array([7], np.uint16), [7]),
        (np.array([1.5], ">f8"), [1.5]),
    ],
)
def test_values_of_any_type(array: Array, expected: list[float]) -> None:
    """As numbers of JSON, without digits that the type does not have; complex ones by their size."""
    found = shown(array)
    assert expected == found["cells"]["values"]
    assert (array.dtype.kind == "c") == any("complex" in note for note in found["notes"])


def with_previous(array: Array, before: Array | None) -> ArrayReadable:
    entry = TensorEntry("weight:w", "weight", "w", array.shape, str(array.dtype), "cpu", array.nbytes)
    return ArrayReadable(entry, array, before)


@given(
    shape=SHAPES, chunk=st.integers(1, 9), data=st.data(),
    dtype=st.sampled_from([np.float32, np.int8, np.bool_, np.complex64]),
)  # fmt: skip
def test_the_difference_to_the_step_before(
    shape: tuple[int, ...], chunk: int, data: st.DataObject, dtype: type
) -> None:
    """Of all values, however many are subtracted at a time; small types do not overflow."""
    values = arrays.arrays(np.int8, shape)
    now, before = (data.draw(values).astype(dtype) for _ in range(2))
    wide = np.complex128 if dtype is np.complex64 else np.float64
    expected = (
        np.abs(now.astype(wide) - before.astype(wide))
        if dtype is np.complex64
        else now.astype(wide) - before.astype(wide)
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tensor_view, "CHUNK_VALUES", chunk)
        found = view(with_previous(now, before), previous=True)
    statistics = found["difference"]["statistics"]
    assert (expected.size, np.sum(expected == 0)) == (statistics["count"], statistics["zeros"])
    if expected.size:
        assert (expected.min(), expected.max()) == (statistics["min"], statistics["max"])
        assert found["previous"]["cells"]["shape"] == found["difference"]["cells"]["shape"]
    if expected.ndim <= 2:
        assert expected.reshape(-1).tolist() == found["difference"]["cells"]["values"]


def test_nothing_before_and_another_shape() -> None:
    """The notes say why there is no difference."""
    now = np.zeros((2, 2))
    without = view(with_previous(now, None), previous=True)
    assert (None, None) == (without["previous"], without["difference"])
    assert "were not kept" in without["notes"][0]
    other = view(with_previous(now, np.zeros(3)), previous=True)
    assert (None, ["In the previous step, it had the shape [3]."]) == (other["difference"], other["notes"])


# ---- files ------------------------------------------------------------------------------------------------


def downloaded(array: Array, *, slice: str | None, most: int) -> bytes:
    data, is_last = b"", False
    while not is_last:
        value, piece = piece_of(readable_of(array, "x", "user"), slice=slice, offset=len(data), most=most)
        assert len(piece) <= most
        assert value["offset"] == len(data)
        data, is_last = data + piece, value["is_last"]
    assert value["size"] == len(data)
    return data


@given(
    shape=SHAPES, most=st.integers(1, 300), data=st.data(),
    dtype=st.sampled_from([np.float32, np.float64, np.int8, np.bool_, np.complex64, np.dtype(">f8")]),
)  # fmt: skip
def test_a_file_in_pieces(shape: tuple[int, ...], most: int, data: st.DataObject, dtype: Any) -> None:
    """NumPy loads what the pieces are together, of a tensor that lies anyhow in memory."""
    array = np.asfortranarray(np.arange(np.prod(shape, dtype=int)).reshape(shape).astype(dtype))
    parts = [data.draw(PARTS) for _ in shape]
    file = downloaded(array, slice=", ".join(map(text_of, parts)), most=most)
    np.testing.assert_array_equal(array[tuple(parts)], np.load(io.BytesIO(file), allow_pickle=False))


def test_a_piece_reads_a_piece() -> None:
    """Of a large tensor no more is copied than is sent, and nothing lies beyond its end."""
    copied = []

    class Counting(ArrayReadable):
        def part(self, index: Any) -> Array:
            part = super().part(index)
            copied.append(part.nbytes)
            return part

    array = np.broadcast_to(np.arange(1000.0), (1_000_000, 1000))
    readable = Counting(readable_of(array, "x", "user").entry, array)
    value, data = piece_of(readable, slice=None, offset=4_000_000_003, most=1 << 30)
    assert (8_000_000_128, MOST_BYTES, False) == (value["size"], len(data), value["is_last"])
    assert sum(copied) <= MOST_BYTES + 16 + 8
    with pytest.raises(WorkbenchError, match="there is nothing at 8000000129"):
        piece_of(readable, slice=None, offset=8_000_000_129, most=1)
    assert b"" == piece_of(readable, slice=None, offset=8_000_000_128, most=1)[1]
