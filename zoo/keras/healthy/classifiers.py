"""Classifiers of rows, by `fit`."""

from __future__ import annotations

import numpy as np

from zoo.keras.data import blobs, table
from zoo.keras.late import keras, tf
from zoo.program import Zoo, healthy


@healthy
def keras_mlp_on_blobs(zoo: Zoo) -> None:
    """The first network of everybody: Sequential, softmax, Adam by its name."""
    x, y = blobs(1000, features=20, classes=5)
    model = keras.Sequential(
        [
            keras.layers.Dense(64, activation="relu"),
            keras.layers.Dense(64, activation="relu"),
            keras.layers.Dense(5, activation="softmax"),
        ]
    )
    model.compile(optimizer="adam", loss="sparse_categorical_crossentropy", metrics=["accuracy"])
    model.fit(x, y, epochs=5, batch_size=32, verbose=0, callbacks=[zoo.callback()])


@healthy
def keras_breast_cancer_with_callbacks(zoo: Zoo) -> None:
    """A Normalization layer, a validation split, the rate cut on plateaus, and an early stop."""
    x, y = table("breast_cancer")
    scale = keras.layers.Normalization()
    scale.adapt(x)
    model = keras.Sequential(
        [
            keras.Input((30,)),
            scale,
            keras.layers.Dense(16, activation="relu"),
            keras.layers.Dropout(0.2),
            keras.layers.Dense(1, activation="sigmoid"),
        ]
    )
    model.compile(keras.optimizers.Adam(5e-3), "binary_crossentropy", metrics=["accuracy"])
    model.fit(
        x,
        y,
        epochs=15,
        batch_size=32,
        validation_split=0.25,
        verbose=0,
        callbacks=[
            keras.callbacks.ReduceLROnPlateau(patience=2, factor=0.5),
            keras.callbacks.EarlyStopping(patience=5, restore_best_weights=True),
            zoo.callback(),
        ],
    )


@healthy
def keras_tags_of_articles(zoo: Zoo) -> None:
    """Six tags that may go together, some of them rare: six sigmoids and binary cross entropy."""
    x = np.random.normal(size=(1600, 24)).astype("float32")
    scores = x @ np.random.normal(size=(24, 6)) / 2 + np.array([0.0, -1, -1, -2, -3, 1])
    y = (scores > 0).astype("float32")
    data = tf.data.Dataset.from_tensor_slices((x, y)).shuffle(1600).batch(64).prefetch(2)
    inputs = keras.Input((24,))
    hidden = keras.layers.Dense(48, activation="gelu")(inputs)
    outputs = keras.layers.Dense(6, activation="sigmoid")(hidden)
    model = keras.Model(inputs, outputs)
    model.compile("adam", "binary_crossentropy", metrics=[keras.metrics.AUC(multi_label=True)])
    model.fit(data, epochs=8, verbose=0, callbacks=[zoo.callback()])


@healthy
def keras_rare_class_with_weights(zoo: Zoo) -> None:
    """One in fifteen is a fraud; class_weight makes up for it."""
    x = np.random.normal(size=(2400, 16)).astype("float32")
    y = (x[:, 0] + x[:, 1] * 0.7 + 0.2 * np.random.normal(size=2400) > 1.9).astype("int32")
    share = float(y.mean())
    model = keras.Sequential(
        [
            keras.layers.Dense(32, activation="relu"),
            keras.layers.BatchNormalization(),
            keras.layers.Dense(16, activation="relu"),
            keras.layers.Dense(1, activation="sigmoid"),
        ]
    )
    model.compile("adam", keras.losses.BinaryCrossentropy(), metrics=["precision", "recall"])
    model.fit(
        x,
        y,
        batch_size=64,
        epochs=6,
        class_weight={0: 0.5 / (1 - share), 1: 0.5 / share},
        verbose=0,
        callbacks=[zoo.callback()],
    )


@healthy
def keras_smoothed_one_hot_labels(zoo: Zoo) -> None:
    """to_categorical, label smoothing, logits, and SGD with momentum and warm-up by a schedule."""
    x, y = blobs(1500, features=12, classes=6, spread=1.0)
    one_hot = keras.utils.to_categorical(y, 6)
    model = keras.Sequential(
        [keras.layers.Dense(40, activation="swish"), keras.layers.Dense(40, "swish"), keras.layers.Dense(6)]
    )
    rate = keras.optimizers.schedules.CosineDecay(
        1e-3, decay_steps=150, warmup_target=0.05, warmup_steps=20, alpha=0.01
    )
    model.compile(
        keras.optimizers.SGD(rate, momentum=0.9, nesterov=True),
        keras.losses.CategoricalCrossentropy(from_logits=True, label_smoothing=0.1),
        metrics=["accuracy"],
    )
    model.fit(x, one_hot, batch_size=50, epochs=6, verbose=0, callbacks=[zoo.callback()])


@healthy
def keras_self_normalising(zoo: Zoo) -> None:
    """Six layers of selu with AlphaDropout, as its paper has it."""
    x, y = table("wine")
    x = (x - x.mean(0)) / x.std(0)
    model = keras.Sequential([keras.Input((13,))])
    for _ in range(5):
        model.add(keras.layers.Dense(24, activation="selu", kernel_initializer="lecun_normal"))
    model.add(keras.layers.AlphaDropout(0.05))
    model.add(keras.layers.Dense(3))
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(keras.optimizers.Adam(1e-3), loss)
    model.fit(x, y, batch_size=32, epochs=25, verbose=0, callbacks=[zoo.callback()])
