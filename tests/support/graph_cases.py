"""A graph for the tests."""

from __future__ import annotations

from tb_netdebug.core.records.graph import Edge, Graph, Node, Parameter, TensorType

BATCH = TensorType((32, 784), "float32")
HIDDEN = TensorType((32, 10), "float32")

SMALL_GRAPH = Graph(
    nodes=(
        Node(
            "", "Classifier", parameters=7860, trainable=7850, source_file="train.py", source_line=12,
            inputs=(BATCH,), outputs=(HIDDEN,), calls=1, order=0,
        ),
        Node(
            "linear", "Linear", parent="", parameters=7850, trainable=7850,
            own_parameters=(
                Parameter("weight", TensorType((10, 784), "float32")),
                Parameter("bias", TensorType((10,), "float32")),
            ),
            inputs=(BATCH,), outputs=(HIDDEN,), calls=1, order=1,
        ),
        Node("act\udcff", "ReLU", parent="", inputs=(HIDDEN,), outputs=(HIDDEN,), calls=2, order=2),
        Node(
            "frozen", "Scale", parent="", parameters=10,
            own_parameters=(Parameter("scale", TensorType((), "bfloat16"), trainable=False),),
        ),
    ),
    edges=(
        Edge("linear", "act\udcff", HIDDEN),
        Edge("act\udcff", "act\udcff", HIDDEN, output=0, input=1),
    ),
)  # fmt: skip
