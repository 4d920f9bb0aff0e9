"""Decide which tensors of a graph may be shown without changing how TensorFlow computes it.

TensorFlow fuses a chain such as MatMul, BiasAdd, Tanh into one operation when nothing else reads the tensors
between them, and the fused Tanh rounds differently. So a tensor with exactly one reader is not shown when
that reader may be fused with the operation that made the tensor: showing it would change the last bits of the
user's numbers.
"""

from __future__ import annotations

from typing import Any

# Operations that may be fused into the one before them, or reordered together with it. ReLU and its kin may
# be fused, too, but are exact.
FUSED = frozenset({
    "Tanh", "Elu", "Selu", "Sigmoid", "Softplus", "Softsign", "Erf", "Erfc", "Exp", "Log", "Square", "Rsqrt",
    "Add", "AddV2", "AddN", "BiasAdd", "Sub", "Mul", "RealDiv", "DivNoNan", "Maximum", "Minimum", "Neg",
    "FusedBatchNorm", "FusedBatchNormV2", "FusedBatchNormV3", "Squeeze",
    "Conv2D", "Conv3D", "DepthwiseConv2dNative", "Transpose", "Pad",
})  # fmt: skip
# TensorFlow reorders chains of these where that makes them cheaper.
ARITHMETIC = frozenset({"Add", "AddV2", "Sub", "Mul", "RealDiv", "DivNoNan", "Neg"})
PASSED = frozenset({"Identity", "IdentityN"})
MOST_READERS = 8


def may_show(tensor: Any) -> bool:
    """Return whether a layer's output may be shown; call it after the whole step has been traced.

    Eager tensors may always be shown.
    """
    readers = readers_of(tensor)
    return readers is None or len(readers) != 1 or readers[0].type not in FUSED


def may_show_gradient(tensor: Any) -> bool:
    """Return whether a gradient may be shown.

    Several operations of the optimizer's arithmetic read it. It may not be shown when arithmetic made it,
    too: TensorFlow reorders such chains.
    """
    readers = readers_of(tensor)
    if readers is None or tensor.op.type not in ARITHMETIC:
        return True
    return not any(reader.type in ARITHMETIC for reader in readers)


def readers_of(tensor: Any) -> list[Any] | None:
    """Return the operations that read a tensor; None if it is in no graph.

    An Identity is looked through, because TensorFlow removes it.
    """
    if not hasattr(tensor, "graph"):
        return None
    found: list[Any] = []
    waiting = [tensor]
    while waiting and len(found) < MOST_READERS:
        each = waiting.pop()
        for reader in each.consumers():
            if reader.type not in PASSED:
                found.append(reader)
                continue
            waiting += [
                output for given, output in zip(reader.inputs, reader.outputs, strict=True) if given is each
            ]
    return found
