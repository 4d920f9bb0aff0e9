"""Damaged and hostile payloads: only DamagedBlock and UnsupportedVersion come out; memory stays bounded."""

from __future__ import annotations

import contextlib
import functools
import tracemalloc
from collections.abc import Callable

import numpy as np
import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from tb_netdebug.core.records import netdebug_pb2 as pb
from tb_netdebug.core.records.block import DamagedBlock, UnsupportedVersion, decode_block, encode_block
from tb_netdebug.core.records.columns import put_deltas, put_names, put_varints
from tb_netdebug.core.records.detail import DetailLevels, decode_detail, encode_detail
from tb_netdebug.core.records.graph import decode_graph, encode_graph
from tests.support.graph_cases import SMALL_GRAPH
from tests.support.record_cases import training

MIB = 1 << 20


def read_block(payload: bytes) -> None:
    block = decode_block(payload)
    block.records()
    block.samples.summaries()
    for series in range(len(block.samples.series)):
        block.samples.packed(series)


def read_detail(payload: bytes) -> None:
    decode_detail(payload).records()


READERS: dict[str, Callable[[bytes], object]] = {
    "block": read_block, "detail": read_detail, "graph": decode_graph,
}  # fmt: skip


@functools.cache
def payload_of(kind: str) -> bytes:
    """A sound one."""
    if kind == "graph":
        return encode_graph(SMALL_GRAPH)
    records, _ = training(3)
    if kind == "block":
        return encode_block(records)
    levels = DetailLevels(factor=2)
    return encode_detail([done for record in records for done in levels.add(record)])


@functools.cache
def unpacked(kind: str) -> bytes:
    """What stands compressed inside the sound one."""
    payload = payload_of(kind)
    if kind == "graph":
        return zstandard.decompress(pb.GraphBlock.FromString(payload).graph)
    if kind == "block":
        return zstandard.decompress(pb.StepBlock.FromString(payload).columns)
    return zstandard.decompress(pb.DetailBlock.FromString(payload).columns)


def repacked(kind: str, inside: bytes) -> bytes:
    """The sound payload with other compressed contents, so that the damage gets past zstd."""
    frame = zstandard.compress(inside)
    if kind == "graph":
        return pb.GraphBlock(version=1, graph=frame).SerializeToString()
    message = pb.StepBlock() if kind == "block" else pb.DetailBlock()
    message.ParseFromString(payload_of(kind))
    message.columns = frame
    return message.SerializeToString()


def read(kind: str, payload: bytes) -> None:
    """Anything but these two exceptions fails the test."""
    with contextlib.suppress(DamagedBlock, UnsupportedVersion):
        READERS[kind](payload)


def changed(data: st.DataObject, payload: bytes) -> bytes:
    """With some bytes overwritten, and perhaps cut short or with a part taken out."""
    result = bytearray(payload)
    for place in data.draw(st.lists(st.integers(0, len(payload) - 1), max_size=6)):
        result[place] = data.draw(st.integers(0, 255))
    start, end = sorted(data.draw(st.tuples(*[st.integers(0, len(payload))] * 2)))
    cut = data.draw(st.sampled_from(["none", "tail", "middle"]))
    return bytes(
        result[:end] if cut == "tail" else result[:start] + result[end:] if cut == "middle" else result
    )


@pytest.mark.parametrize("kind", READERS)
@given(data=st.data())
def test_changed_payload(kind: str, data: st.DataObject) -> None:
    """Flipped, missing and cut bytes anywhere in a payload."""
    read(kind, changed(data, payload_of(kind)))


@pytest.mark.parametrize("kind", READERS)
@given(data=st.data())
def test_changed_columns(kind: str, data: st.DataObject) -> None:
    """The same inside the compressed part."""
    read(kind, repacked(kind, changed(data, unpacked(kind))))


@pytest.mark.parametrize("kind", READERS)
@given(payload=st.binary(max_size=200))
def test_any_bytes(kind: str, payload: bytes) -> None:
    """Bytes that have nothing to do with NetDebug, as payload and as contents."""
    read(kind, payload)
    read(kind, repacked(kind, payload))


@pytest.mark.parametrize("kind", READERS)
def test_every_cut(kind: str) -> None:
    """No payload that ends early is taken for a whole one."""
    payload = payload_of(kind)
    for size in [*range(0, min(len(payload), 300)), *range(300, len(payload), 97), len(payload) - 1]:
        with pytest.raises(DamagedBlock):
            READERS[kind](payload[:size])


def block_of(columns: pb.StepColumns, *, steps: int = 0, samples: int = 0) -> bytes:
    frame = zstandard.compress(columns.SerializeToString())
    return pb.StepBlock(version=1, columns=frame, steps=steps, samples=samples).SerializeToString()


def zeros(count: int) -> bytes:
    return put_deltas(np.zeros(count, np.int64))


SMALL_FRAME_OF_A_GIBIBYTE = b"\x28\xb5\x2f\xfd\xa0\x00\x00\x00\x40\x01\x00\x00"

HOSTILE = {
    "unpacks to a gibibyte": pb.StepBlock(version=1, columns=SMALL_FRAME_OF_A_GIBIBYTE).SerializeToString(),
    "does not say its size": pb.StepBlock(
        version=1, columns=zstandard.ZstdCompressor(write_content_size=False).compress(bytes(99))
    ).SerializeToString(),
    "no version": pb.StepBlock(steps=1).SerializeToString(),
    "billions of steps": block_of(pb.StepColumns(), steps=2**32 - 1),
    "billions of samples": block_of(pb.StepColumns(), samples=2**32 - 1),
    "steps without columns": block_of(pb.StepColumns(), steps=1000),
    "cells": block_of(
        pb.StepColumns(
            steps=zeros(MIB),
            wall_times=zeros(MIB),
            scalars=pb.ScalarColumns(
                names=put_names(map(str, range(60_000))), present=bytes(60_000 * MIB // 800)
            ),
        ),
        steps=MIB,
    ),
    "long names": block_of(
        pb.StepColumns(
            scalars=pb.ScalarColumns(names=pb.NameTable(lengths=put_varints([2**62, 2**62]), text=b"ab"))
        )
    ),
    "equal names": block_of(pb.StepColumns(scalars=pb.ScalarColumns(names=put_names(["a", "a"])))),
    "names that are no text": block_of(
        pb.StepColumns(scalars=pb.ScalarColumns(names=pb.NameTable(lengths=b"\1", text=b"\xff")))
    ),
    "a series without samples": block_of(
        pb.StepColumns(samples=pb.SampleColumns(names=put_names(["a"]), kinds=b"\1", series_names=b"\0"))
    ),
    "an unknown kind": block_of(
        pb.StepColumns(samples=pb.SampleColumns(names=put_names(["a"]), kinds=b"\x63", series_names=b"\0"))
    ),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_block(name: str) -> None:
    """Sizes that are not there are refused before memory is taken for them."""
    tracemalloc.start()
    try:
        with pytest.raises(DamagedBlock):
            decode_block(HOSTILE[name])
        assert tracemalloc.get_traced_memory()[1] < 200 * MIB
    finally:
        tracemalloc.stop()


def test_a_graph_that_is_no_tree() -> None:
    """A module cannot be its own parent or grandparent, so that whoever walks the tree comes to an end."""
    nodes = [pb.GraphNode(name=b"a", parent=2), pb.GraphNode(name=b"b", parent=1)]
    frame = zstandard.compress(pb.Graph(nodes=nodes).SerializeToString())
    with pytest.raises(DamagedBlock, match="after its parent"):
        decode_graph(pb.GraphBlock(version=1, graph=frame).SerializeToString())
