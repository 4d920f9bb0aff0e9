"""Decide which tensors of a graph may be shown without changing how TensorFlow computes it.

TensorFlow fuses a chain such as MatMul, BiasAdd, Tanh into one operation when nothing else reads the tensors
between them, and the fused Tanh rounds differently. So a tensor with exactly one reader is not shown when
that reader may be fused with the operation that made the tensor: showing it would change the last bits of the
user's numbers. ReLU is exact either way, but the fused one turns NaN into 0.
"""

from __future__ import annotations

from typing import Any

# Operations that may be fused into the one before them, or reordered together with it.
FUSED = frozenset({
    "Tanh", "Elu", "Selu", "Sigmoid", "Softplus", "Softsign", "Erf", "Erfc", "Exp", "Log", "Square", "Rsqrt",
    "Add", "AddV2", "AddN", "BiasAdd", "Sub", "Mul", "RealDiv", "DivNoNan", "Maximum", "Minimum", "Neg",
    "FusedBatchNorm", "FusedBatchNormV2", "FusedBatchNormV3", "Squeeze",
    "Conv2D", "Conv3D", "DepthwiseConv2dNative", "Transpose", "Pad",
})  # fmt: skip
# These are fused only with a product and its bias; in between, something may be added to a convolution.
CLIPPING = frozenset({"Relu", "Relu6"})
CONVOLUTIONS = frozenset({"Conv2D", "Conv3D"})
PRODUCTS = CONVOLUTIONS | {"MatMul", "DepthwiseConv2dNative"}
ADDING = frozenset({"BiasAdd", "Add", "AddV2", "AddN"})
# TensorFlow reorders chains of these where that makes them cheaper.
ARITHMETIC = frozenset({"Add", "AddV2", "Sub", "Mul", "RealDiv", "DivNoNan", "Neg"})
PASSED = frozenset({"Identity", "IdentityN"})
MOST_READERS = 8


def may_show(tensor: Any) -> bool:
    """Return whether a layer's output may be shown; call it after the whole step has been traced.

    Eager tensors may always be shown.
    """
    readers = readers_of(tensor)
    if readers is None or len(readers) != 1:
        return True
    kind = readers[0].type
    return kind not in FUSED and not (kind in CLIPPING and may_fuse_clipping(tensor))


def may_fuse_clipping(tensor: Any) -> bool:
    """Return whether TensorFlow may fuse a ReLU with the operations that made this tensor."""
    made = maker_of(tensor)
    if is_biased(made, PRODUCTS):
        return True
    return made.type in ADDING and any(is_biased(maker_of(each), CONVOLUTIONS) for each in made.inputs)


def is_biased(made: Any, products: frozenset[str]) -> bool:
    """Return whether this operation adds a bias, a value for each unit, to one of these products."""
    if made.type not in ADDING or len(made.inputs) != 2:
        return False
    product, bias = made.inputs
    sizes = bias.shape
    is_bias = sizes.rank is not None and sum(size != 1 for size in sizes) <= 1
    return is_bias and maker_of(product).type in products


def maker_of(tensor: Any) -> Any:
    """Return the operation that made a tensor, looking through Identity as `readers_of` does."""
    while tensor.op.type in PASSED:
        tensor = tensor.op.inputs[tensor.value_index]
    return tensor.op


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
