"""Which tensors of a graph may be shown without changing how TensorFlow computes it.

TensorFlow fuses a chain such as MatMul, BiasAdd, Tanh into one operation when nobody else reads what lies
between, and the fused Tanh rounds differently. So a tensor that exactly one operation reads is not shown when
that operation may be fused with what made it: the user's numbers would not be the same to the last bit.
"""

from __future__ import annotations

from typing import Any

# That may disappear into the operation before them, or may be put into another order together with it. ReLU
# and its kin may be fused, too, but are exact.
FUSED = frozenset({
    "Tanh", "Elu", "Selu", "Sigmoid", "Softplus", "Softsign", "Erf", "Erfc", "Exp", "Log", "Square", "Rsqrt",
    "Add", "AddV2", "AddN", "BiasAdd", "Sub", "Mul", "RealDiv", "DivNoNan", "Maximum", "Minimum", "Neg",
    "FusedBatchNorm", "FusedBatchNormV2", "FusedBatchNormV3", "Squeeze",
    "Conv2D", "Conv3D", "DepthwiseConv2dNative", "Transpose", "Pad",
})  # fmt: skip
# Chains of these are put into another order, where that makes them cheaper.
ARITHMETIC = frozenset({"Add", "AddV2", "Sub", "Mul", "RealDiv", "DivNoNan", "Neg"})
PASSED = frozenset({"Identity", "IdentityN"})
MOST_READERS = 8


def may_show(tensor: Any) -> bool:
    """Of an output of a layer; ask when all of the step has been traced. Eager tensors always may."""
    readers = readers_of(tensor)
    return readers is None or len(readers) != 1 or readers[0].type not in FUSED


def may_show_gradient(tensor: Any) -> bool:
    """The same for a gradient; the optimizer's arithmetic goes on with it in several operations."""
    readers = readers_of(tensor)
    if readers is None or tensor.op.type not in ARITHMETIC:
        return True
    return not any(reader.type in ARITHMETIC for reader in readers)


def readers_of(tensor: Any) -> list[Any] | None:
    """The operations that read it, also behind an Identity, which TensorFlow takes out; None of a tensor that
    is in no graph."""
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
