"""Keras under watch: one argument of `fit`.

python demo/keras_run.py
"""

from __future__ import annotations

import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import keras
from sklearn.datasets import load_digits

import tb_netdebug as nd


def main() -> None:
    """Learns handwritten digits in a few seconds."""
    keras.utils.set_random_seed(0)
    digits = load_digits()
    images, labels = digits.images[..., None] / 16.0, digits.target
    model = keras.Sequential(
        [
            keras.layers.Conv2D(16, 3, padding="same"),
            keras.layers.BatchNormalization(),
            keras.layers.ReLU(),
            keras.layers.Flatten(),
            keras.layers.Dropout(0.2),
            keras.layers.Dense(10),
        ]
    )
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile("adam", loss, metrics=["accuracy"])
    watching = nd.KerasCallback("runs")
    model.fit(images, labels, epochs=5, validation_split=0.2, verbose=2, callbacks=[watching])
    print(f"Recorded in {watching.run_dir}. Look at it with: tensorboard --logdir runs")


if __name__ == "__main__":
    main()
