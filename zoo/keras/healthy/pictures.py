"""Convolutions: plain, residual, with augmentation, and a base that was trained before."""

# mypy: allow-subclassing-any

from __future__ import annotations

from typing import Any

import numpy as np

from zoo.keras.data import digits, shapes
from zoo.keras.late import keras
from zoo.program import Zoo, healthy


@healthy
def keras_digits_cnn(zoo: Zoo) -> None:
    """The convolutional net of every tutorial, with a validation split."""
    x, y = digits()
    model = keras.Sequential(
        [
            keras.Input((8, 8, 1)),
            keras.layers.Conv2D(16, 3, padding="same", activation="relu"),
            keras.layers.MaxPooling2D(),
            keras.layers.Conv2D(24, 3, padding="same", activation="relu"),
            keras.layers.Flatten(),
            keras.layers.Dropout(0.3),
            keras.layers.Dense(10),
        ]
    )
    model.compile(
        optimizer=keras.optimizers.Adam(3e-3),
        loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        metrics=["accuracy"],
    )
    model.fit(x, y, batch_size=64, epochs=6, validation_split=0.2, verbose=0, callbacks=[zoo.callback()])


@healthy
def keras_residual_network(zoo: Zoo) -> None:
    """Two blocks with batch norm and shortcuts, averaged at the end."""

    def block(x: Any, filters: int) -> Any:
        short = keras.layers.Conv2D(filters, 1, padding="same")(x)
        x = keras.layers.Conv2D(filters, 3, padding="same", use_bias=False)(x)
        x = keras.layers.ReLU()(keras.layers.BatchNormalization()(x))
        x = keras.layers.Conv2D(filters, 3, padding="same", use_bias=False)(x)
        x = keras.layers.BatchNormalization()(x)
        return keras.layers.ReLU()(keras.layers.Add()([x, short]))

    x, y = shapes(800)
    inputs = keras.Input((12, 12, 1))
    hidden = keras.layers.MaxPooling2D()(block(inputs, 8))
    pooled = keras.layers.GlobalAveragePooling2D()(block(hidden, 16))
    model = keras.Model(inputs, keras.layers.Dense(4, activation="softmax")(pooled))
    model.compile(keras.optimizers.Adam(5e-3), "sparse_categorical_crossentropy")
    model.fit(x, y, batch_size=32, epochs=5, verbose=0, callbacks=[zoo.callback()])


@healthy
def keras_augmented_pictures(zoo: Zoo) -> None:
    """A PyDataset that moves each picture at random, and a layer that flips it."""
    pictures, labels = shapes(640)

    class Moved(keras.utils.PyDataset):
        def __len__(self) -> int:
            return 20

        def __getitem__(self, index: int) -> Any:
            rows = slice(index * 32, index * 32 + 32)
            return np.roll(pictures[rows], np.random.randint(-2, 3), axis=1), labels[rows]

    model = keras.Sequential(
        [
            keras.layers.RandomFlip("horizontal"),
            keras.layers.Conv2D(12, 3, activation="leaky_relu"),
            keras.layers.BatchNormalization(),
            keras.layers.Conv2D(12, 3, strides=2, activation="leaky_relu"),
            keras.layers.Flatten(),
            keras.layers.Dense(4, activation="softmax"),
        ]
    )
    model.compile(keras.optimizers.AdamW(3e-3), "sparse_categorical_crossentropy", metrics=["accuracy"])
    model.fit(Moved(), epochs=8, verbose=0, callbacks=[zoo.callback()])


@healthy
def keras_base_frozen_then_fine_tuned(zoo: Zoo) -> None:
    """A base that was trained on other digits: first a new head alone, then all of it at a low rate."""
    x, y = digits()
    x = x.reshape(-1, 64)
    low = y < 5
    base = keras.Sequential(
        [keras.Input((64,)), keras.layers.Dense(48, activation="relu"), keras.layers.Dense(32, "relu")]
    )
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    earlier = keras.Sequential([base, keras.layers.Dense(5)])
    earlier.compile("adam", loss)
    earlier.fit(x[low], y[low], epochs=8, verbose=0)

    base.trainable = False
    model = keras.Sequential([base, keras.layers.Dense(5)])
    watching = zoo.callback()
    model.compile(keras.optimizers.Adam(1e-2), loss)
    model.fit(x[~low], y[~low] - 5, epochs=4, verbose=0, callbacks=[watching])
    base.trainable = True
    model.compile(keras.optimizers.Adam(1e-4), loss)
    model.fit(x[~low], y[~low] - 5, epochs=4, verbose=0, callbacks=[watching])
