"""Data that are not what the network needs."""

from __future__ import annotations

import numpy as np

from zoo.consequences import BLOWS_UP, NOT_FINITE, STANDS_STILL
from zoo.keras.data import blobs, digits, regression, shapes, table
from zoo.keras.late import keras, tf
from zoo.program import Zoo, sick


@sick("input-scale", also=(*BLOWS_UP, *STANDS_STILL, "learning-rate-high", "dead-layer", "dead-units"))
def keras_wine_unscaled(zoo: Zoo) -> None:
    """Columns from 0.1 to 1700 as they stand in the file, and SGD."""
    x, y = table("wine")
    model = keras.Sequential(
        [
            keras.layers.Dense(32, activation="relu"),
            keras.layers.Dense(16, activation="relu"),
            keras.layers.Dense(3, activation="softmax"),
        ]
    )
    model.compile("sgd", "sparse_categorical_crossentropy", metrics=["accuracy"])
    model.fit(x, y, batch_size=16, epochs=15, verbose=0, callbacks=[zoo.callback()])


@sick("input-constant", also=("constant-output", "zero-gradients", "dead-layer", *STANDS_STILL))
def keras_bytes_divided_as_whole_numbers(zoo: Zoo) -> None:
    """pixels // 255 where / was meant: nearly all pictures are black."""
    x, y = digits()
    pixels = (x * 254).astype("uint8")
    model = keras.Sequential(
        [
            keras.layers.Conv2D(8, 3, activation="relu"),
            keras.layers.Flatten(),
            keras.layers.Dense(10, activation="softmax"),
        ]
    )
    model.compile("adam", "sparse_categorical_crossentropy")
    inputs = (pixels // 255).astype("float32")
    model.fit(inputs, y, batch_size=64, epochs=5, verbose=0, callbacks=[zoo.callback()])


@sick(
    "labels-sorted",
    also=("labels-single-class", "loss-oscillating", "loss-spike", "diverging-loss", *STANDS_STILL),
)
def keras_sorted_and_not_shuffled(zoo: Zoo) -> None:
    """Pictures folder by folder, one class each, through a dataset without shuffle()."""
    x, y = digits()
    order = np.argsort(y, kind="stable")
    data = tf.data.Dataset.from_tensor_slices((x[order], y[order])).batch(32)
    model = keras.Sequential(
        [
            keras.layers.Flatten(),
            keras.layers.Dense(48, activation="relu"),
            keras.layers.Dense(10, activation="softmax"),
        ]
    )
    model.compile("adam", "sparse_categorical_crossentropy", metrics=["accuracy"])
    model.fit(data, epochs=4, verbose=0, callbacks=[zoo.callback()])


@sick("nonfinite-input", also=NOT_FINITE, from_step=20)
def keras_missing_value_in_the_table(zoo: Zoo) -> None:
    """One cell of the table is empty, and empty became NaN."""
    x, y = regression(1280, features=8)
    x[32 * 20 + 5, 3] = np.nan
    model = keras.Sequential([keras.layers.Dense(32, activation="relu"), keras.layers.Dense(1)])
    model.compile(keras.optimizers.Adam(3e-3), "mse")
    model.fit(x, y, batch_size=32, epochs=3, shuffle=False, verbose=0, callbacks=[zoo.callback()])


@sick("loss-at-chance", also=("not-learning", "loss-plateau", "overfitting"))
def keras_shuffled_without_its_labels(zoo: Zoo) -> None:
    """np.random.shuffle of the pictures, and not of the labels."""
    x, y = shapes(4000)
    np.random.shuffle(x)
    model = keras.Sequential(
        [
            keras.layers.Conv2D(8, 3, activation="relu"),
            keras.layers.MaxPooling2D(),
            keras.layers.Flatten(),
            keras.layers.Dense(4, activation="softmax"),
        ]
    )
    model.compile("adam", "sparse_categorical_crossentropy", metrics=["accuracy"])
    model.fit(x, y, batch_size=32, epochs=2, verbose=0, callbacks=[zoo.callback()])


@sick("input-repeated-batch", also=("overfitting",))
def keras_always_the_first_batch(zoo: Zoo) -> None:
    """next(iter(dataset)) within the loop."""
    x, y = blobs(1200, features=16, classes=4)
    data = tf.data.Dataset.from_tensor_slices((x, y)).batch(32)
    model = keras.Sequential([keras.layers.Dense(48, activation="relu"), keras.layers.Dense(4)])
    optimizer = keras.optimizers.Adam(1e-3)
    loss_fn = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    monitor = zoo.watch(model, optimizer)
    for _ in range(150):
        inputs, labels = next(iter(data))
        with tf.GradientTape() as tape:
            loss = loss_fn(labels, model(inputs, training=True))
        gradients = tape.gradient(loss, model.trainable_variables)
        optimizer.apply_gradients(zip(gradients, model.trainable_variables, strict=True))
        monitor.step(loss=loss)


@sick("overfitting", from_step=20)
def keras_few_examples_by_heart(zoo: Zoo) -> None:
    """Sixty examples, a third of the labels wrong, a wide network, and validation_data nobody looks at."""
    x, y = blobs(360, features=20, classes=3, spread=0.5)
    wrong = np.random.rand(360) < 0.33
    y[wrong] = np.random.randint(3, size=int(wrong.sum()))
    model = keras.Sequential(
        [
            keras.layers.Dense(128, activation="relu"),
            keras.layers.Dense(128, activation="relu"),
            keras.layers.Dense(3, activation="softmax"),
        ]
    )
    model.compile(keras.optimizers.Adam(2e-3), "sparse_categorical_crossentropy", metrics=["accuracy"])
    model.fit(
        x[:60],
        y[:60],
        validation_data=(x[60:], y[60:]),
        batch_size=12,
        epochs=50,
        verbose=0,
        callbacks=[zoo.callback()],
    )


@sick(
    "labels-single-class",
    also=("constant-output",),
    slowly="Of two classes one may be rare: where it is 1 % of all, every second batch of 64 is without it.",
)
def keras_comparison_that_is_never_true(zoo: Zoo) -> None:
    """Is it a nine? asked as y > 9: all labels are 0."""
    x, y = digits()
    model = keras.Sequential(
        [
            keras.layers.Flatten(),
            keras.layers.Dense(32, activation="relu"),
            keras.layers.Dense(1, activation="sigmoid"),
        ]
    )
    model.compile("adam", "binary_crossentropy", metrics=["accuracy"])
    model.fit(x, (y > 9).astype("int32"), batch_size=64, epochs=5, verbose=0, callbacks=[zoo.callback()])
