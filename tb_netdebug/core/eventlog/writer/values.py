"""The content of an event file: values with a tag and a step, as TensorBoard's protobuf messages."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby
from operator import attrgetter

import numpy as np
from numpy.typing import NDArray

from tb_netdebug.core.records import netdebug_pb2 as pb

PLUGIN = "netdebug"
FORMAT_VERSION = b"1"
_FILE_VERSION = "brain.Event:2"

_FLOAT32_MAX = float(np.finfo(np.float32).max)


@dataclass(frozen=True, slots=True)
class SummaryPoint:
    """One point of one tag; `metadata` goes into the first event of the tag in each file."""

    tag: str
    step: int
    wall_time: float
    tensor: pb.TensorProto
    metadata: pb.SummaryMetadata


def _metadata(plugin: str, data_class: pb.DataClass, content: bytes = b"") -> pb.SummaryMetadata:
    return pb.SummaryMetadata(
        plugin_data=pb.SummaryMetadata.PluginData(plugin_name=plugin, content=content), data_class=data_class
    )


# TensorBoard's plugins are at version 0 of their metadata, whose protobuf is empty.
_SCALAR = _metadata("scalars", pb.DATA_CLASS_SCALAR)
_HISTOGRAM = _metadata("histograms", pb.DATA_CLASS_TENSOR)
_IMAGE = _metadata("images", pb.DATA_CLASS_BLOB_SEQUENCE)
# With a data class, so that TensorBoard keeps it and knows the run as one with NetDebug data.
_DESCRIPTION = _metadata(PLUGIN, pb.DATA_CLASS_BLOB_SEQUENCE, FORMAT_VERSION)
# Without a data class TensorBoard's server drops a payload at once. Otherwise it would keep ten blocks of
# every run in memory, which nobody reads: the NetDebug plugin reads the files itself.
_PAYLOAD = _metadata(PLUGIN, pb.DATA_CLASS_UNKNOWN, FORMAT_VERSION)


def scalar(tag: str, step: int, wall_time: float, number: float) -> SummaryPoint:
    """Return a float32 scalar, the only type that both of TensorBoard's loaders take; NaN and Inf pass."""
    if abs(number) > _FLOAT32_MAX and abs(number) != float("inf"):
        number = float("inf") if number > 0 else float("-inf")
    tensor = pb.TensorProto(dtype=pb.DT_FLOAT, tensor_shape=pb.TensorShapeProto(), float_val=[number])
    return SummaryPoint(tag, step, wall_time, tensor, _SCALAR)


def histogram(tag: str, step: int, wall_time: float, buckets: NDArray[np.float64]) -> SummaryPoint:
    """Return a histogram; `buckets` are rows of left edge, right edge, count."""
    dim = pb.TensorShapeProto.Dim
    shape = pb.TensorShapeProto(dim=[dim(size=len(buckets)), dim(size=3)])
    content = buckets.astype("<f8").tobytes()
    tensor = pb.TensorProto(dtype=pb.DT_DOUBLE, tensor_shape=shape, tensor_content=content)
    return SummaryPoint(tag, step, wall_time, tensor, _HISTOGRAM)


def image(tag: str, step: int, wall_time: float, png: bytes) -> SummaryPoint:
    # The header of a PNG holds its size; TensorBoard wants it in front of the picture.
    width, height = struct.unpack_from(">II", png, 16)
    return SummaryPoint(
        tag, step, wall_time, _strings(str(width).encode(), str(height).encode(), png), _IMAGE
    )


def payload(name: str, step: int, wall_time: float, data: bytes, *, listed: bool = False) -> SummaryPoint:
    """Return a payload of ours, tag `netdebug/<name>`; if `listed`, TensorBoard's server keeps it."""
    return SummaryPoint(
        f"{PLUGIN}/{name}", step, wall_time, _strings(data), _DESCRIPTION if listed else _PAYLOAD
    )


def _strings(*items: bytes) -> pb.TensorProto:
    shape = pb.TensorShapeProto(dim=[pb.TensorShapeProto.Dim(size=len(items))])
    return pb.TensorProto(dtype=pb.DT_STRING, tensor_shape=shape, string_val=items)


def opening(wall_time: float) -> bytes:
    """Return the event that begins every file."""
    return pb.Event(wall_time=wall_time, file_version=_FILE_VERSION).SerializeToString()


def events(values: Sequence[SummaryPoint], known_tags: Iterable[str]) -> tuple[list[bytes], set[str]]:
    """Return serialized events and the tags that were new.

    Neighbouring values of the same step and time share an event.
    """
    known = set(known_tags)
    new: set[str] = set()
    serialized = []
    for (step, wall_time), group in groupby(values, attrgetter("step", "wall_time")):
        event = pb.Event(wall_time=wall_time, step=step)
        for value in group:
            _add(event.summary.value.add(), value, is_first=value.tag not in known and value.tag not in new)
            new.add(value.tag)
        serialized.append(event.SerializeToString())
    return serialized, new - known


def _add(target: pb.Summary.Value, value: SummaryPoint, *, is_first: bool) -> None:
    # A user's name may hold a lone surrogate, which protobuf refuses.
    target.tag = value.tag.encode("utf-8", "replace").decode()
    target.tensor.CopyFrom(value.tensor)
    # Our payloads repeat their metadata, so that they are recognized even if the first record is lost.
    if is_first or value.metadata.plugin_data.plugin_name == PLUGIN:
        target.metadata.CopyFrom(value.metadata)
