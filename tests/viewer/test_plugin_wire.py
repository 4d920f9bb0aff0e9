"""What goes over the wire: JSON that any browser reads, and columns that lie where the header says."""

from __future__ import annotations

import json
import math
import struct
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tb_netdebug.core.records.graph import Edge, Graph, Node, Parameter, TensorType
from tb_netdebug.viewer.plugin import wire

TEXTS = st.text(st.characters(), max_size=20)  # lone surrogates, too
LEAVES = st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats() | TEXTS
VALUES = st.recursive(
    LEAVES,
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(TEXTS, inner, max_size=5),
    max_leaves=20,
)
ARRAYS = st.sampled_from(["f8", "f4", "f2", "i4", "i2", "i8", "u1", "?", ">f8", "<f4"]).flatmap(
    lambda kind: st.lists(st.integers(0, 100), max_size=40).map(lambda values: np.array(values, kind))
)
KINDS = {"f64": "<f8", "f32": "<f4", "i32": "<i4", "u8": "u1"}


def as_sent(value: Any) -> Any:
    """What a reader gets: numbers that JSON does not have are strings."""
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    if isinstance(value, dict):
        return {key: as_sent(inner) for key, inner in value.items()}
    return [as_sent(inner) for inner in value] if isinstance(value, list) else value


def encoded(value: object) -> bytes:
    return b"".join(wire.json_chunks(value))


def decoded(body: bytes) -> list[dict[str, Any]]:
    """What the page makes of a body: in each answer the columns are arrays."""
    [length] = struct.unpack("<I", body[:4])
    answers = json.loads(body[4 : 4 + length])["answers"]
    for answer in answers:
        for path, [kind, offset, size, *shape] in answer.get("columns", {}).items():
            start = 4 + length + offset
            assert start % 8 == 0
            array = np.frombuffer(body, KINDS[kind], size, start)
            answer["columns"][path] = array.reshape(shape[0]) if shape else array
    return answers  # type: ignore[no-any-return]


def no_constant(name: str) -> None:
    pytest.fail(f"{name} is no JSON")


@given(VALUES)
def test_json_is_plain_and_keeps_every_value(value: Any) -> None:
    """ASCII without NaN and infinities, which come as strings; everything else comes back as it was."""
    text = encoded(value).decode("ascii")
    assert as_sent(value) == json.loads(text, parse_constant=no_constant)


@pytest.mark.parametrize("size", [0, 1, 255, 256, 257, 1000])
@pytest.mark.parametrize("item", [1.5, {"name": "a", "inner": [float("nan")]}, [1, 2], float("inf")])
def test_long_lists_are_the_same_in_pieces(size: int, item: Any) -> None:
    """Encoding piece by piece changes nothing, and no piece has more than 256 of them."""
    value = {"items": [item] * size}
    chunks = list(wire.json_chunks(value))
    assert as_sent(value) == json.loads(b"".join(chunks))
    assert max(len(chunk) for chunk in chunks) <= 256 * (len(json.dumps(as_sent(item))) + 2) + 2


def test_numbers_of_numpy_are_numbers() -> None:
    """Views give NumPy's scalars here and there."""
    value = {"a": np.float32(0.5), "b": np.int64(-3), "c": np.float64("nan"), "d": [np.float32("inf")]}
    assert {"a": 0.5, "b": -3, "c": "NaN", "d": ["Infinity"]} == json.loads(encoded(value))


def test_what_has_no_json_is_refused() -> None:
    """An object that slipped in is a mistake to be found here and not in the browser."""
    with pytest.raises(TypeError, match="object cannot be written as JSON"):
        encoded({"a": object()})


@given(st.lists(st.dictionaries(TEXTS, ARRAYS, max_size=4), max_size=4))
def test_columns_come_back(columns: list[dict[str, Any]]) -> None:
    """Each array is where the header says, aligned, with its values, whatever its type was before."""
    answers = [wire.Answer({"what": "test", "at": at}, dict(found)) for at, found in enumerate(columns)]
    body = wire.columns_body(answers)
    sent = b"".join(body.chunks())
    assert body.size == len(sent)
    for at, (found, answer) in enumerate(zip(columns, decoded(sent), strict=True)):
        assert ("test", at) == (answer["what"], answer["at"])
        assert found.keys() == answer["columns"].keys()
        for path, array in found.items():
            assert array.tolist() == answer["columns"][path].tolist()


def test_shapes_and_layouts_survive() -> None:
    """A matrix says its shape, and a transposed or strided one is sent in the order of its rows."""
    matrix = np.arange(12, dtype=np.float32).reshape(3, 4)
    body = wire.columns_body([wire.Answer({}, {"a": matrix.T, "b": matrix[:, ::2], "c": np.empty((0, 7))})])
    [answer] = decoded(b"".join(body.chunks()))
    assert matrix.T.tolist() == answer["columns"]["a"].tolist()
    assert matrix[:, ::2].tolist() == answer["columns"]["b"].tolist()
    assert (0, 7) == answer["columns"]["c"].shape


def test_big_bodies_are_sent_in_pieces() -> None:
    """No piece is so big that copying it stops the streams."""
    body = wire.columns_body([wire.Answer({}, {"big": np.zeros(1 << 20), "small": np.zeros(3)})])
    chunks = list(body.chunks())
    assert body.size == sum(map(len, chunks))
    assert max(map(len, chunks)) <= 2 << 18


def test_an_error_has_no_columns() -> None:
    """A failed answer is only its sentence."""
    [answer] = decoded(b"".join(wire.columns_body([wire.Answer({"error": "No."})]).chunks()))
    assert {"error": "No."} == answer


def test_an_event_is_three_lines() -> None:
    """Line breaks in names cannot end an event early, because JSON escapes them."""
    event = wire.event("run", {"run": "a\n\ndata: b"}, identity="e-1")
    assert [b"id: e-1", b"event: run", b'data: {"run":"a\\n\\ndata: b"}', b"", b""] == event.split(b"\n")


def test_a_graph_has_all_that_was_recorded() -> None:
    """Nodes and edges by name, shapes as lists."""
    kind = TensorType((8, 3), "float32")
    parameter = Parameter("weight", TensorType((3, 3), "float32"), trainable=False)
    graph = Graph(
        (
            Node("", "Net", order=0),
            Node("a", "Linear", "", 9, 0, (parameter,), "net.py", 7, (kind,), (kind,), 2, 1),
        ),
        (Edge("", "a", kind, 0, 1),),
    )
    tensor = {"shape": [8, 3], "dtype": "float32"}
    sent = json.loads(encoded(wire.graph_json(graph)))
    assert [{"source": "", "target": "a", "output": 0, "input": 1, **tensor}] == sent["edges"]
    assert None is sent["nodes"][0]["parent"]
    assert {
        "name": "a", "class_name": "Linear", "parent": "", "parameters": 9, "trainable": 0,
        "own_parameters": [{"name": "weight", "shape": [3, 3], "dtype": "float32", "trainable": False}],
        "source_file": "net.py", "source_line": 7, "inputs": [tensor], "outputs": [tensor],
        "calls": 2, "order": 1,
    } == sent["nodes"][1]  # fmt: skip
