"""Detect TensorFlow operations that keep state inside themselves, where no variable shows it."""

from __future__ import annotations

from typing import Any

# TensorFlow registers these as stateful, yet they hold no state: what they change lies elsewhere.
ELSEWHERE = frozenset({
    "Assert", "Print", "PrintV2", "PyFunc", "EagerPyFunc", "PyFuncStateless", "Timestamp", "NoOp",
    "Placeholder",
    "_Arg", "_Retval", "StatefulPartitionedCall", "PartitionedCall", "If", "While", "StatelessIf",
    "StatelessWhile",
    "Case", "StatelessCase", "VarHandleOp", "OptionalFromValue", "OptionalGetValue", "OptionalHasValue",
    "OptionalNone", "CollectiveReduceV2", "CollectiveGatherV2", "CollectiveBcastSendV2",
    "CollectiveBcastRecvV2",
    "NcclAllReduce", "WriteFile", "ReadFile", "MatchingFiles", "DebugNumericSummaryV2",
    "EmptyTensorList", "TensorArrayV3",
})  # fmt: skip
HANDLES = ("DT_RESOURCE", "DT_VARIANT")


def has_state(graph: Any) -> bool:
    """Return whether a traced function, or one that it calls, has an operation that keeps its own state.

    An operation that takes a resource keeps its state there. An unknown operation counts as stateful.
    """
    operations = list(graph.get_operations())
    if any(keeps_state(each) for each in operations):
        return True
    definition = graph.as_graph_def()
    return any(
        is_stateful(node.op) and not node_is_known(node.op)
        for function in definition.library.function
        for node in function.node_def
    )


def keeps_state(operation: Any) -> bool:
    if operation.type in ELSEWHERE or not operation.op_def.is_stateful:
        return False
    return not any(each.dtype.name in ("resource", "variant") for each in operation.inputs)


def node_is_known(kind: str) -> bool:
    return kind in ELSEWHERE or takes_handle(kind)


def is_stateful(kind: str) -> bool:
    definition = definition_of(kind)
    return definition is not None and bool(definition.is_stateful)


def takes_handle(kind: str) -> bool:
    from tensorflow.core.framework import types_pb2

    definition = definition_of(kind)
    handles = {types_pb2.DT_RESOURCE, types_pb2.DT_VARIANT}
    return definition is not None and any(each.type in handles for each in definition.input_arg)


def definition_of(kind: str) -> Any:
    from tensorflow.python.framework import op_def_registry

    return op_def_registry.get(kind)
