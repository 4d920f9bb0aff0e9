"""Numbers as answers: by `fit`, from tables and time series."""

from __future__ import annotations

import numpy as np

from zoo.keras.data import regression
from zoo.keras.late import keras, tf
from zoo.program import Zoo, healthy


@healthy
def keras_regression_with_l2(zoo: Zoo) -> None:
    """Weight decay in the layers, clipped RMSprop, and an endless dataset with steps_per_epoch."""
    x, y = regression(1200, features=8)
    data = tf.data.Dataset.from_tensor_slices((x, y)).shuffle(1200).repeat().batch(48)
    decay = keras.regularizers.L2(1e-4)
    model = keras.Sequential(
        [
            keras.layers.Dense(48, activation="relu", kernel_regularizer=decay),
            keras.layers.Dense(48, activation="relu", kernel_regularizer=decay),
            keras.layers.Dense(1),
        ]
    )
    model.compile(keras.optimizers.RMSprop(2e-3, clipnorm=1.0), "mse", metrics=["mae"])
    model.fit(data, epochs=8, steps_per_epoch=25, verbose=0, callbacks=[zoo.callback()])


@healthy
def keras_prices_by_standardised_target(zoo: Zoo) -> None:
    """Prices of a hundred thousand, standardised before the training; Huber loss, a rate by epoch."""
    x, y = regression(900, features=10, noise=0.3)
    prices = 120_000 + 40_000 * y
    target = (prices - prices.mean()) / prices.std()
    model = keras.Sequential(
        [keras.layers.Dense(32, "elu"), keras.layers.LayerNormalization(), keras.layers.Dense(1)]
    )
    model.compile(keras.optimizers.Adam(), keras.losses.Huber())

    def rate(epoch: int) -> float:
        return float(0.01 * 0.7**epoch)

    model.fit(
        x,
        target[:, None],
        validation_split=0.2,
        epochs=8,
        batch_size=32,
        verbose=0,
        callbacks=[keras.callbacks.LearningRateScheduler(rate), zoo.callback()],
    )


@healthy
def keras_forecast_of_a_series(zoo: Zoo) -> None:
    """A GRU that reads 24 hours of three sensors and tells the next."""
    hours = np.arange(2000)
    day = np.sin(hours / 24 * 6.28)
    noise = np.random.normal(size=(2000, 3)) * 0.1
    sensors = np.stack([day, np.cos(hours / 24 * 6.28), np.roll(day, 5)], 1) + noise
    sensors = ((sensors - sensors.mean(0)) / sensors.std(0)).astype("float32")
    data = keras.utils.timeseries_dataset_from_array(
        sensors[:-1], targets=sensors[24:, 0], sequence_length=24, batch_size=64, shuffle=True
    )
    model = keras.Sequential([keras.Input((24, 3)), keras.layers.GRU(16), keras.layers.Dense(1)])
    model.compile(keras.optimizers.Adam(5e-3), loss="mae")
    model.fit(data, epochs=5, verbose=0, callbacks=[zoo.callback()])


@healthy
def keras_two_inputs_two_outputs(zoo: Zoo) -> None:
    """Numbers and a category go in; a class and a value come out, with losses of their own by name."""
    numbers = np.random.normal(size=(1200, 6)).astype("float32")
    category = np.random.randint(10, size=1200)
    effect = np.random.normal(size=10)
    value = (numbers[:, 0] + effect[category] + 0.1 * np.random.normal(size=1200)).astype("float32")
    sort = (numbers[:, 1] > 0).astype("int64") + (value > 0)
    first = keras.Input((6,), name="numbers")
    second = keras.Input((), dtype="int32", name="category")
    joined = keras.layers.Concatenate()([first, keras.layers.Embedding(10, 4)(second)])
    hidden = keras.layers.Dense(48, activation="relu")(joined)
    outputs = {
        "sort": keras.layers.Dense(3, activation="softmax", name="sort")(hidden),
        "value": keras.layers.Dense(1, name="value")(hidden),
    }
    model = keras.Model({"numbers": first, "category": second}, outputs)
    model.compile(
        keras.optimizers.Adam(3e-3),
        loss={"sort": "sparse_categorical_crossentropy", "value": "mse"},
        loss_weights={"sort": 1.0, "value": 0.5},
    )
    model.fit(
        {"numbers": numbers, "category": category},
        {"sort": sort, "value": value[:, None]},
        batch_size=40,
        epochs=6,
        verbose=0,
        callbacks=[zoo.callback()],
    )
