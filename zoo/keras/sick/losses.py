"""Losses that are given what they do not expect."""

# mypy: allow-subclassing-any

from __future__ import annotations

from typing import Any

import numpy as np

from zoo.consequences import NOT_FINITE, STANDS_STILL
from zoo.keras.data import blobs, digits, regression, sequences
from zoo.keras.late import keras, tf
from zoo.program import Zoo, sick


@sick("loss-input-softmaxed", also=STANDS_STILL)
def keras_softmax_into_from_logits(zoo: Zoo) -> None:
    """The mean of two heads' probabilities, and a loss that was told from_logits=True."""

    # Of a bare softmax Keras would take the logits by itself, and warn.
    class Classifier(keras.Model):
        def __init__(self) -> None:
            super().__init__()
            self.hidden = keras.layers.Dense(48, activation="relu")
            self.heads = [keras.layers.Dense(10), keras.layers.Dense(10)]

        def call(self, inputs: Any) -> Any:
            hidden = self.hidden(inputs)
            return keras.layers.average([tf.nn.softmax(head(hidden)) for head in self.heads])

    x, y = digits()
    model = Classifier()
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile("adam", loss, metrics=["accuracy"])
    model.fit(x.reshape(-1, 64), y, batch_size=64, epochs=6, verbose=0, callbacks=[zoo.callback()])


@sick("loss-input-softmaxed", also=("loss-input-range", *STANDS_STILL))
def keras_sigmoid_into_from_logits(zoo: Zoo) -> None:
    """The sigmoid is applied in the training loop, and once more in the loss."""
    tokens, labels = sequences(1200, length=9)
    model = keras.Sequential(
        [keras.layers.Embedding(12, 16), keras.layers.GlobalAveragePooling1D(), keras.layers.Dense(1)]
    )
    optimizer = keras.optimizers.Adam(1e-2)
    loss_fn = keras.losses.BinaryCrossentropy(from_logits=True)
    data = tf.data.Dataset.from_tensor_slices((tokens, labels[:, None])).shuffle(1200).batch(48).repeat(5)
    monitor = zoo.watch(model, optimizer)
    for inputs, targets in data:
        with tf.GradientTape() as tape:
            loss = loss_fn(targets, tf.sigmoid(model(inputs, training=True)))
        gradients = tape.gradient(loss, model.trainable_variables)
        optimizer.apply_gradients(zip(gradients, model.trainable_variables, strict=True))
        monitor.step(loss=loss)


CLIPPED = ("loss-input-range", "zero-gradients", "constant-output", "diverging-loss", *STANDS_STILL)


@sick("loss-input-logits", also=CLIPPED)
def keras_scores_without_from_logits(zoo: Zoo) -> None:
    """No softmax in the model, and "sparse_categorical_crossentropy", which wants probabilities."""
    x, y = blobs(1200, features=16, classes=5)
    model = keras.Sequential([keras.layers.Dense(48, activation="relu"), keras.layers.Dense(5)])
    model.compile("adam", "sparse_categorical_crossentropy", metrics=["accuracy"])
    model.fit(x, y, batch_size=40, epochs=5, verbose=0, callbacks=[zoo.callback()])


@sick("loss-input-logits", also=CLIPPED)
def keras_score_into_binary_crossentropy(zoo: Zoo) -> None:
    """Dense(1) without a sigmoid, and loss="binary_crossentropy"."""
    x, y = blobs(1000, features=12, classes=2, spread=1.0)
    inputs = keras.Input((12,))
    hidden = keras.layers.Dense(32, activation="relu")(inputs)
    model = keras.Model(inputs, keras.layers.Dense(1)(hidden))
    model.compile(keras.optimizers.Adam(2e-3), "binary_crossentropy", metrics=["accuracy"])
    model.fit(x, y, batch_size=32, epochs=5, verbose=0, callbacks=[zoo.callback()])


NOTHING_TO_SAY = ("zero-gradients", "frozen-weights", "unchanged-weights", *STANDS_STILL)


@sick("constant-output", also=("loss-input-shape", *NOTHING_TO_SAY))
def keras_softmax_on_one_unit(zoo: Zoo) -> None:
    """Yes or no by Dense(1, activation="softmax"): its output is always 1."""
    x, y = blobs(1000, features=12, classes=2)
    model = keras.Sequential(
        [
            keras.layers.Dense(32, activation="relu"),
            keras.layers.Dense(16, activation="relu"),
            keras.layers.Dense(1, activation="softmax"),
        ]
    )
    model.compile("adam", "binary_crossentropy", metrics=["accuracy"])
    model.fit(x, y, batch_size=32, epochs=5, verbose=0, callbacks=[zoo.callback()])


@sick("loss-input-shape", also=("constant-output", *NOTHING_TO_SAY))
def keras_categorical_loss_on_one_output(zoo: Zoo) -> None:
    """One sigmoid and "categorical_crossentropy": the loss of a single class is 0 whatever comes out."""
    x, y = blobs(1000, features=12, classes=2)
    model = keras.Sequential(
        [keras.layers.Dense(32, activation="relu"), keras.layers.Dense(1, activation="sigmoid")]
    )
    model.compile("adam", "categorical_crossentropy")
    model.fit(x, y[:, None].astype("float32"), epochs=4, verbose=0, callbacks=[zoo.callback()])


@sick("loss-input-shape", also=("constant-output", *STANDS_STILL))
def keras_column_against_row(zoo: Zoo) -> None:
    """Predictions (n, 1), targets (n,), and a squared error by hand in train_step."""

    class Regressor(keras.Model):
        def __init__(self) -> None:
            super().__init__()
            self.hidden, self.out = keras.layers.Dense(32, "relu"), keras.layers.Dense(1)

        def call(self, inputs: Any) -> Any:
            return self.out(self.hidden(inputs))

        def train_step(self, data: Any) -> Any:
            x, y = data
            with tf.GradientTape() as tape:
                loss = tf.reduce_mean((y - self(x, training=True)) ** 2)
            gradients = tape.gradient(loss, self.trainable_variables)
            self.optimizer.apply_gradients(zip(gradients, self.trainable_variables, strict=True))
            return {"loss": loss}

    x, y = regression(1000, features=8)
    model = Regressor()
    model.compile(keras.optimizers.Adam(5e-3))
    data = tf.data.Dataset.from_tensor_slices((x, y)).shuffle(1000).batch(50)
    model.fit(data, epochs=8, verbose=0, callbacks=[zoo.callback()])


@sick("loss-input-range", also=("loss-negative", "diverging-loss", "weight-growth", "saturated-units"))
def keras_yes_or_no_loss_for_ten_digits(zoo: Zoo) -> None:
    """binary_crossentropy and one sigmoid, with labels from 0 to 9."""
    x, y = digits()
    model = keras.Sequential(
        [
            keras.layers.Flatten(),
            keras.layers.Dense(32, activation="relu"),
            keras.layers.Dense(1, activation="sigmoid"),
        ]
    )
    model.compile("adam", "binary_crossentropy", metrics=["accuracy"])
    model.fit(x, y, batch_size=64, epochs=6, verbose=0, callbacks=[zoo.callback()])


@sick("nonfinite-loss", also=NOT_FINITE)
def keras_logarithm_of_zero(zoo: Zoo) -> None:
    """A cross entropy by hand behind a hard sigmoid, which does give 0 and 1."""

    def by_hand(y_true: Any, y_pred: Any) -> Any:
        y_true = tf.cast(y_true, y_pred.dtype)
        return -tf.reduce_mean(y_true * tf.math.log(y_pred) + (1 - y_true) * tf.math.log(1 - y_pred))

    x, y = blobs(1000, features=20, classes=2, spread=3.0)
    model = keras.Sequential(
        [keras.layers.Dense(64, activation="relu"), keras.layers.Dense(1, activation="hard_sigmoid")]
    )
    model.compile("adam", by_hand)
    model.fit(x, y[:, None], batch_size=64, epochs=7, verbose=0, callbacks=[zoo.callback()])


@sick("loss-input-range", also=("saturated-units", "loss-at-chance-start", "constant-output", *STANDS_STILL))
def keras_tanh_for_prices(zoo: Zoo) -> None:
    """House prices in tens of thousands, and a model that ends in tanh."""
    x, y = regression(1000, features=8)
    prices = np.maximum(20 + 6 * y, 1.0)
    model = keras.Sequential(
        [keras.layers.Dense(32, activation="relu"), keras.layers.Dense(1, activation="tanh")]
    )
    model.compile("adam", "mse")
    model.fit(x, prices, batch_size=50, epochs=8, verbose=0, callbacks=[zoo.callback()])
