"""The subset of TensorBoard's messages: same wire format, and no clash with the originals."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tb_netdebug.core.records import netdebug_pb2 as pb

TENSORBOARD = """
from tensorboard.compat.proto import event_pb2, histogram_pb2, summary_pb2
from tensorboard.compat.proto import tensor_pb2, tensor_shape_pb2, types_pb2
"""
COMPARE = (
    TENSORBOARD
    + """
from tb_netdebug.core.records import netdebug_pb2 as ours
theirs = {}
for module in (event_pb2, histogram_pb2, summary_pb2, tensor_pb2, tensor_shape_pb2, types_pb2):
    theirs |= module.DESCRIPTOR.message_types_by_name
    theirs |= module.DESCRIPTOR.enum_types_by_name

def repeated(field):
    return field.is_repeated if hasattr(field, "is_repeated") else field.label == field.LABEL_REPEATED

def walk(own, official):
    for field in own.fields:
        other = official.fields_by_name[field.name]
        assert (field.number, field.type) == (other.number, other.type), field.full_name
        assert repeated(field) == repeated(other), field.full_name
        assert (field.containing_oneof is None) == (other.containing_oneof is None), field.full_name
    for nested in own.nested_types:
        walk(nested, official.nested_types_by_name[nested.name])

for name in (
    "Event", "SourceMetadata", "Summary", "SummaryMetadata",
    "HistogramProto", "TensorProto", "TensorShapeProto",
):
    walk(ours.DESCRIPTOR.message_types_by_name[name], theirs[name])
for name in ("DataClass", "DataType"):
    for value in ours.DESCRIPTOR.enum_types_by_name[name].values:
        assert value.number == theirs[name].values_by_name[value.name].number, value.name
"""
)
READ = (
    TENSORBOARD
    + """
import sys
event = event_pb2.Event.FromString(bytes.fromhex(sys.stdin.read()))
[value] = event.summary.value
print(event.wall_time, event.step, value.tag)
print(value.metadata.plugin_data.plugin_name, value.metadata.data_class)
print(value.tensor.dtype, value.tensor.tensor_shape.dim[0].size, value.tensor.string_val[0])
"""
)


@pytest.mark.parametrize(
    "first", ["tensorboard.compat.proto.event_pb2", "tb_netdebug.core.records.netdebug_pb2"]
)
def test_the_same_fields(run_python: Callable[..., str], first: str) -> None:
    """Every field has the number and type of TensorBoard's own, whichever is loaded first in a process."""
    run_python(f"import {first}\n{COMPARE}")


def test_tensorboard_reads_it(run_python: Callable[..., str]) -> None:
    """An event of ours means the same to TensorBoard."""
    event = pb.Event(wall_time=2.5, step=7)
    value = event.summary.value.add(tag="netdebug/steps")
    value.metadata.plugin_data.plugin_name = "netdebug"
    value.metadata.data_class = pb.DATA_CLASS_TENSOR
    value.tensor.dtype = pb.DT_STRING
    value.tensor.tensor_shape.dim.add(size=1)
    value.tensor.string_val.append(b"payload")
    code = READ.replace("sys.stdin.read()", repr(event.SerializeToString().hex()))
    assert "2.5 7 netdebug/steps\nnetdebug 2\n7 1 b'payload'\n" == run_python(code)


def test_no_tensorboard_is_needed(run_python: Callable[..., str]) -> None:
    """Records are written without TensorBoard, TensorFlow, torch or grpc."""
    code = """
import sys
import tb_netdebug.core.records.block, tb_netdebug.core.records.detail, tb_netdebug.core.records.graph
print([name for name in ("tensorboard", "tensorflow", "torch", "grpc") if name in sys.modules])
"""
    assert "[]\n" == run_python(code)
