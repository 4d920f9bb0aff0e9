"""The layers of a model of Keras, as they are found in it."""

from __future__ import annotations

import keras

from tb_netdebug.frameworks.keras.layers import Network


class Recursive(keras.layers.Layer):  # type: ignore[misc]
    """Holds itself, as a layer does that keeps a list of all layers."""

    def __init__(self) -> None:
        super().__init__(name="recursive")
        self.dense = keras.layers.Dense(2, name="dense")
        self.everything = [self, self.dense]

    def call(self, inputs: keras.KerasTensor) -> keras.KerasTensor:
        return self.dense(inputs)


def test_a_layer_that_contains_itself() -> None:
    layer = Recursive()
    layer.dense.build((1, 3))
    network = Network({"net": layer}, bool)
    network.refresh()
    assert ["net", "net.dense"] == [each.name for each in network.layers.values()]
    assert ["net.dense.kernel", "net.dense.bias"] == [each.name for each in network.weights.values()]
