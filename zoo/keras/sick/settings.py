"""Rates, initial weights and layers that let nothing through."""

from __future__ import annotations

import numpy as np

from zoo.consequences import BLOWS_UP, NOT_FINITE, STANDS_STILL
from zoo.keras.data import blobs, digits, waves
from zoo.keras.late import keras
from zoo.program import Zoo, sick


@sick("learning-rate-high", also=(*BLOWS_UP, *STANDS_STILL, "dead-layer", "dead-units", "constant-output"))
def keras_adam_at_one(zoo: Zoo) -> None:
    """Adam(1.0) on a small convolutional net."""
    x, y = digits()
    model = keras.Sequential(
        [
            keras.layers.Conv2D(16, 3, activation="relu"),
            keras.layers.Flatten(),
            keras.layers.Dense(32, activation="relu"),
            keras.layers.Dense(10, activation="softmax"),
        ]
    )
    model.compile(keras.optimizers.Adam(1.0), "sparse_categorical_crossentropy", metrics=["accuracy"])
    model.fit(x, y, batch_size=64, epochs=5, verbose=0, callbacks=[zoo.callback()])


@sick("learning-rate-zero", also=("unchanged-weights", *STANDS_STILL))
def keras_schedule_of_whole_numbers(zoo: Zoo) -> None:
    """A warm-up over ten epochs whose epoch // 10 is 0 in all of them."""

    def warm_up(epoch: int) -> float:
        return 1e-2 * min(1, epoch // 10)

    x, y = blobs(900, features=16, classes=4)
    model = keras.Sequential(
        [keras.layers.Dense(48, activation="relu"), keras.layers.Dense(4, activation="softmax")]
    )
    model.compile("adam", "sparse_categorical_crossentropy")
    schedule = keras.callbacks.LearningRateScheduler(warm_up)
    model.fit(x, y, batch_size=50, epochs=9, verbose=0, callbacks=[schedule, zoo.callback()])


@sick(
    "dead-layer",
    also=("dead-units", "zero-gradients", "constant-output", "learning-rate-high", *BLOWS_UP, *STANDS_STILL),
)
def keras_relus_killed_in_the_first_epoch(zoo: Zoo) -> None:
    """A schedule that begins at 3 instead of 0.003: afterwards no unit is above zero any more."""

    def rate(epoch: int) -> float:
        return 3.0 if epoch == 0 else 0.003

    x, y = blobs(800, features=16, classes=4, spread=1.0)
    model = keras.Sequential(
        [
            keras.layers.Dense(48, activation="relu"),
            keras.layers.Dense(48, activation="relu"),
            keras.layers.Dense(4, activation="softmax"),
        ]
    )
    model.compile("adam", "sparse_categorical_crossentropy")
    schedule = keras.callbacks.LearningRateScheduler(rate)
    model.fit(x, y, batch_size=80, epochs=16, verbose=0, callbacks=[schedule, zoo.callback()])


@sick("init-constant", also=("zero-gradients", "constant-output", "frozen-weights", *STANDS_STILL))
def keras_all_weights_zero(zoo: Zoo) -> None:
    """kernel_initializer="zeros" in all layers."""
    x, y = blobs(1000, features=16, classes=4)
    model = keras.Sequential(
        [
            keras.layers.Dense(32, activation="relu", kernel_initializer="zeros"),
            keras.layers.Dense(32, activation="relu", kernel_initializer="zeros"),
            keras.layers.Dense(4, activation="softmax", kernel_initializer="zeros"),
        ]
    )
    model.compile("adam", "sparse_categorical_crossentropy")
    model.fit(x, y, batch_size=40, epochs=6, verbose=0, callbacks=[zoo.callback()])


@sick("vanishing-gradients", also=("constant-output", "update-ratio-low", *STANDS_STILL))
def keras_ten_layers_of_sigmoid(zoo: Zoo) -> None:
    """Ten sigmoid layers and SGD: nothing of the loss comes back to the first ones."""
    x, y = digits()
    model = keras.Sequential([keras.layers.Flatten()])
    for _ in range(10):
        model.add(keras.layers.Dense(32, activation="sigmoid"))
    model.add(keras.layers.Dense(10, activation="softmax"))
    model.compile(keras.optimizers.SGD(0.01), "sparse_categorical_crossentropy", metrics=["accuracy"])
    model.fit(x, y, batch_size=64, epochs=6, verbose=0, callbacks=[zoo.callback()])


@sick("frozen-weights", also=("unchanged-weights", "not-optimized", "no-gradient", *STANDS_STILL))
def keras_nothing_is_trainable(zoo: Zoo) -> None:
    """The loop that freezes the base runs over all layers of the new model."""
    x, y = digits()
    model = keras.Sequential(
        [
            keras.Input((8, 8, 1)),
            keras.layers.Conv2D(12, 3, activation="relu"),
            keras.layers.Flatten(),
            keras.layers.Dense(10, activation="softmax"),
        ]
    )
    for layer in model.layers:
        layer.trainable = False
    model.compile("adam", "sparse_categorical_crossentropy", metrics=["accuracy"])
    model.fit(x, y, batch_size=64, epochs=5, verbose=0, callbacks=[zoo.callback()])


@sick("exploding-gradients", also=(*BLOWS_UP, "learning-rate-high", "init-scale", "loss-at-chance-start"))
def keras_linear_rnn_over_sixty_steps(zoo: Zoo) -> None:
    """A SimpleRNN without activation whose recurrent matrix grows by a third in each of sixty steps."""
    x, y = waves(800, length=60)
    model = keras.Sequential(
        [
            keras.Input((60, 1)),
            keras.layers.SimpleRNN(
                16, activation=None, recurrent_initializer=keras.initializers.Identity(gain=1.3)
            ),
            keras.layers.Dense(3, activation="softmax"),
        ]
    )
    model.compile(keras.optimizers.SGD(0.01), "sparse_categorical_crossentropy")
    model.fit(x, y, batch_size=32, epochs=5, verbose=0, callbacks=[zoo.callback()])


@sick(
    "loss-scale-overflow",
    also=("precision-headroom", "input-scale", "unchanged-weights", *NOT_FINITE, *STANDS_STILL),
)
def keras_float16_overflows_in_each_step(zoo: Zoo) -> None:
    """mixed_float16 on a raw audio signal of 16 bits: the first layer is infinite again and again."""
    keras.mixed_precision.set_global_policy("mixed_float16")
    labels = np.random.randint(3, size=900)
    signal = 30000 * np.random.normal(size=(900, 64)) * (1 + labels[:, None])
    model = keras.Sequential(
        [
            keras.layers.Dense(48, activation="relu"),
            keras.layers.Dense(48, activation="relu"),
            keras.layers.Dense(3, activation="softmax", dtype="float32"),
        ]
    )
    model.compile(keras.optimizers.Adam(1e-3), "sparse_categorical_crossentropy")
    inputs = np.clip(signal, -32768, 32767).astype("float32")
    model.fit(inputs, labels, batch_size=45, epochs=8, verbose=0, callbacks=[zoo.callback()])
